"""The Baize guide's example without a cluster."""

from pathlib import Path
from textwrap import dedent

import yaml
from click.testing import CliRunner
from contract_report import report_of

from cli.main import group

EXAMPLE = Path(__file__).parents[2] / "examples" / "kueue"


def test_the_guides_jobs_have_the_places_that_they_have_in_a_cluster() -> None:
    result = CliRunner().invoke(group, ["solve", "-f", str(EXAMPLE), "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 3
    pretrain, sft, tune = report_of(result.stdout).gangs
    assert (pretrain.name, pretrain.dialect, pretrain.proof) == ("llm-pretrain", "kueue", "Optimal")
    assert [each.node for each in pretrain.assignments] == ["node-0", "node-1", "node-2", "node-3"]
    assert (pretrain.levels[0].level, pretrain.levels[0].mode) == ("shanghai-cube/super-node", "preferred")
    assert [each.node for each in sft.assignments] == ["node-4", "node-5", "node-6", "node-8", "node-9"]
    assert (tune.outcome, tune.placed) == ("Waiting", 0)
    users = "gangs default/llm-sft and default/llm-pretrain"
    assert tune.message.endswith(f"flavor tas-flavor of ClusterQueue metax-pool has 0 of 72 left, 72 used by {users}")


def test_a_wrong_job_is_named_with_its_dialect_and_the_rest_is_planned(tmp_path: Path) -> None:
    job = yaml.safe_load((EXAMPLE / "llm-pretrain.yaml").read_text(encoding="utf-8"))
    job["metadata"]["name"] = "wrong"
    job["spec"]["template"]["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(yaml.safe_dump(job), encoding="utf-8")
    arguments = ["solve", "-f", str(EXAMPLE), "-f", str(wrong), "-o", "json"]
    result = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert result.exit_code == 2
    found = {gang.name: (gang.dialect, gang.outcome) for gang in report_of(result.stdout).gangs}
    assert found["wrong"] == ("kueue", "Invalid")
    assert found["llm-pretrain"] == ("kueue", "Placed")
    assert '"rack" is not a level of Topology.kueue.x-k8s.io default' in result.stderr


def in_the_queue(name: str, size: int, gpus: int) -> str:
    """A Gang in the guide's queue, and its pods."""
    pods = (
        f"""
        ---
        apiVersion: v1
        kind: Pod
        metadata: {{name: {name}-{i}, labels: {{phalanx.dev/gang: {name}, kueue.x-k8s.io/queue-name: training}}}}
        spec: {{containers: [{{name: c, image: busybox, resources: {{limits: {{metax-tech.com/gpu: {gpus}}}}}}}]}}"""
        for i in range(size)
    )
    return dedent(f"""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {{name: {name}}}
        spec: {{minMember: {size}, queue: training}}{"".join(pods)}
    """)


def test_a_gang_object_draws_on_the_quota_of_its_queue(tmp_path: Path) -> None:
    """The guide's two larger Jobs use all of the 72 GPUs; without the second 40 are left."""
    (tmp_path / "gang.yaml").write_text(in_the_queue("train", 1, 8))
    arguments = ["solve", "-f", str(EXAMPLE), "-f", str(tmp_path), "-o", "json"]
    train = next(each for each in report_of(CliRunner().invoke(group, arguments).stdout).gangs if each.name == "train")
    assert (train.dialect, train.outcome) == ("phalanx", "Waiting")
    assert "flavor tas-flavor of ClusterQueue metax-pool has 0 of 72 left, 72 used by gangs " in train.message
    files = [EXAMPLE / f"{name}.yaml" for name in ("nodes", "topology-and-flavor", "pool-and-queue", "llm-pretrain")]
    (tmp_path / "gang.yaml").write_text(in_the_queue("five", 5, 8) + "---" + in_the_queue("six", 6, 8))
    arguments = ["solve", "-o", "json", *(part for file in (*files, tmp_path) for part in ("-f", str(file)))]
    found = {each.name: each for each in report_of(CliRunner().invoke(group, arguments).stdout).gangs}
    assert {name: each.outcome for name, each in found.items()} == {
        "llm-pretrain": "Placed",
        "five": "Placed",
        "six": "Waiting",
    }
    assert {each.node for each in found["five"].assignments} == {f"node-{i}" for i in (4, 5, 6, 8, 9)}
