"""The example of a gang that claims devices (examples/devices), read from its files."""

from pathlib import Path

from planning.decision import Decision
from planning.dry_run import dry_run
from planning.files.documents import Document, parse

FOLDER = Path(__file__).parents[2] / "examples" / "devices"


def decided(*, pods: int = 4) -> Decision:
    """The decision for the example's Job with so many pods."""
    documents: list[Document] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        text = path.read_text().replace("completions: 4", f"completions: {pods}")
        found, mistakes = parse(text.replace("parallelism: 4", f"parallelism: {pods}"), path.name)
        assert not mistakes
        documents += found
    run = dry_run(documents)
    assert (run.mistakes, run.warnings, run.notes) == ((), (), ())
    (decision,) = run.decisions
    return decision


def test_each_pod_gets_a_pair_of_one_nvlink_domain() -> None:
    decision = decided()
    assert decision.message == "4 pods fit in rack-1: node-2..3, proven optimal"
    got = [[one.device.device for claim in each.devices for one in claim.devices] for each in decision.assignments]
    assert got == [["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"]] * 2


def test_a_rack_of_eight_devices_holds_four_pairs() -> None:
    decision = decided(pods=5)
    assert decision.proof == "Infeasible"
    assert [(each.path, each.fits) for each in decision.explanation.nearest] == [(("rack-1",), 4), (("rack-0",), 3)]
    assert [(each[0].matching, each[0].free) for each in decision.explanation.devices] == [(8, 8), (8, 7)]
