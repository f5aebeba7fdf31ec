"""The Baize guide's example without a cluster."""

from pathlib import Path

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
    assert tune.message.endswith("flavor tas-flavor of ClusterQueue metax-pool has 0 of 72 left")
