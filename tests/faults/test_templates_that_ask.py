"""A workload whose pods ask for a gang is planned with its expected pods, or `solve` reports why it is not."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from solving import Answer, solved

HERE = Path(__file__).parent / "templates"
CLUSTER = [HERE.parent / "what_a_no_says" / f"{each}.yaml" for each in ("runai-nodes", "topology-zone")]

PLANNED = {
    "solve-deployment-template": """\
default/inf3  Placed  optimal
  4 pods fit in z1/b1/rack-a: gb-a-0..3, proven optimal

  POD      NODE     ZONE   BLOCK   RACK
  inf3-0   gb-a-0   z1     b1      rack-a
  inf3-1   gb-a-1   z1     b1      rack-a
  inf3-2   gb-a-2   z1     b1      rack-a
  inf3-3   gb-a-3   z1     b1      rack-a

  zone > block > rack: 4 pods
  └── z1  4 pods
      └── b1  4 pods
          └── rack-a  4 pods  gb-a-0..3
""",
    "solve-pytorchjob-template": """\
default/ptj  Placed  optimal
  6 pods fit in z1/b1/rack-a: gb-a-0..5, proven optimal

  POD            NODE     ZONE   BLOCK   RACK
  ptj-master-0   gb-a-0   z1     b1      rack-a
  ptj-worker-0   gb-a-1   z1     b1      rack-a
  ptj-worker-1   gb-a-2   z1     b1      rack-a
  ptj-worker-2   gb-a-3   z1     b1      rack-a
  ptj-worker-3   gb-a-4   z1     b1      rack-a
  ptj-worker-4   gb-a-5   z1     b1      rack-a

  zone > block > rack: 6 pods
  └── z1  6 pods
      └── b1  6 pods
          └── rack-a  6 pods  gb-a-0..5
""",
}


@pytest.mark.parametrize("name", PLANNED)
def test_the_pods_to_come_are_planned(name: str) -> None:
    """The answer must not be "nothing to plan: the input asks for no gang"."""
    assert solved(*CLUSTER, HERE / f"{name}.yaml") == Answer(PLANNED[name], "", 0)


TEMPLATES = {
    "DaemonSet": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
}
IN_ORDER: dict[str, tuple[str, dict[str, Any]]] = {
    "JobSet": ("spec.replicatedJobs[1].template.spec.template", {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
    "LeaderWorkerSet": ("spec.leaderWorkerTemplate.workerTemplate", {"startupPolicy": "LeaderReady"}),
}


@pytest.mark.parametrize(("kind", "path"), TEMPLATES.items())
def test_of_pods_that_nobody_can_foresee_it_is_said_what_will_happen(kind: str, path: str) -> None:
    said = (
        f"warning: {kind}.yaml: {kind} default/w: {path}.metadata: names gang default/g, and pods of {kind}s are "
        "not planned before they exist: each is held back when it is made, until as many exist as must start together\n"
    )
    waits = "default/g  Waiting\n  waits for 2 more pods: 0 of 2 exist\n"
    assert solved(*CLUSTER, HERE / "gang.yaml", HERE / f"{kind}.yaml") == Answer(waits, said, 3)
    alone = solved(*CLUSTER, HERE / f"{kind}.yaml")
    assert alone == Answer("", f"nothing to plan; -v: what was left out\n{said}", 0)


IN_TURN = {
    "JobSet": (0, ["default/g  Placed  optimal", "  2 pods fit on gb-b-16, proven optimal"]),
    "LeaderWorkerSet": (3, ["default/g  Waiting", "  waits for 1 more pod: 1 of 2 exist"]),
}
"""The first role of the JobSet has the two pods that the gang needs."""


@pytest.mark.parametrize("kind", IN_ORDER)
def test_pods_of_several_makers_are_planned_unless_some_wait_for_others(kind: str, tmp_path: Path) -> None:
    """The message that pods cannot be foreseen is for pods created in order only."""
    answer = solved(*CLUSTER, HERE / "gang.yaml", HERE / f"{kind}.yaml")
    assert (answer.status, answer.report.splitlines()[0]) == (0, "default/g  Placed  optimal")
    manifest = yaml.safe_load((HERE / f"{kind}.yaml").read_text())
    manifest["spec"] |= IN_ORDER[kind][1]
    if kind == "JobSet":
        manifest["spec"]["replicatedJobs"].insert(0, {**manifest["spec"]["replicatedJobs"][0], "name": "first"})
    in_order = tmp_path / "w.yaml"
    in_order.write_text(yaml.safe_dump(manifest))
    answer = solved(*CLUSTER, HERE / "gang.yaml", in_order)
    assert (answer.status, answer.report.splitlines()[:2]) == IN_TURN[kind]
    assert answer.said.endswith(
        f"it makes others only when the first run: have all made at once, or write annotations of ours on the {kind} "
        "itself\n"
    )
