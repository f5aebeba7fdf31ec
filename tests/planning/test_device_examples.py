"""The examples of gangs that claim devices (examples/devices) and shares of devices (examples/device-shares), read from
their files.
"""

import re
from pathlib import Path

from planning.decision import Decision, Outcome
from planning.dry_run import dry_run
from planning.files.documents import Document, parse

EXAMPLES = Path(__file__).parents[2] / "examples"


def decided(folder: str = "devices", *, pods: int | None = None) -> Decision:
    """The decision for the example's Job. `pods`: how many pods the Job has; None: as many as in the file."""
    documents: list[Document] = []
    for path in sorted((EXAMPLES / folder).glob("*.yaml")):
        text = path.read_text()
        if pods is not None:
            text = re.sub(r"(completions|parallelism): \d+", rf"\1: {pods}", text)
        found, mistakes = parse(text, path.name)
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


def test_six_shares_of_a_third_are_on_two_devices() -> None:
    decision = decided("device-shares")
    assert decision.message == "6 pods fit on node-1, proven optimal"
    every = [one for each in decision.assignments for claim in each.devices for one in claim.devices]
    assert [(each.device.device, dict(each.consumed)) for each in every] == [
        (device, {"memory": "24Gi"}) for device in ("gpu-0", "gpu-1") for _ in range(3)
    ]


def test_the_share_of_a_running_pod_leaves_eleven_shares() -> None:
    """gpu-0 of node-0 has 50Gi left for two shares of 24Gi, and each of the other three devices holds three."""
    assert decided("device-shares", pods=11).outcome is Outcome.PLACED
    refused = decided("device-shares", pods=12)
    assert (refused.proof, refused.message) == ("Infeasible", "needs 12 pods: the cluster holds 11 of 12")
