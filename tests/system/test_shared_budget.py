"""Two gangs and one disruption budget on a real control plane: one eviction, whatever the gangs' priorities."""

import pytest
from system import Object, Phalanx, node, pod, pod_group, priority_class
from test_release_protocol import budget, topology

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

LIMITED = "evictions there are limited by PodDisruptionBudget default/web"


def evicted(phalanx: Phalanx) -> list[str]:
    """Guarded pods that are gone or going."""
    staying = {each["metadata"]["name"] for each in phalanx.pods() if "deletionTimestamp" not in each["metadata"]}
    return sorted({"web-0", "web-1"} - staying)


def victims(status: Object) -> set[str]:
    """Return the pods that the status names as victims."""
    return {each["pod"] for each in status.get("victims", [])}


def guarded(name: str, on: str) -> Object:
    made = pod(name, nodeName=on)
    made["metadata"]["labels"] = {"app": "web"}
    return made


@pytest.mark.parametrize(
    "priorities",
    [
        ("high", "middle"),
        pytest.param(("middle", "high"), marks=pytest.mark.long),
        pytest.param(("high", "high"), marks=pytest.mark.long),
    ],
)
def test_two_gangs_spend_a_budget_once(phalanx: Phalanx, priorities: tuple[str, str]) -> None:
    phalanx.cluster.add_nodes(node(f"node-{i}", "spine-0", "block-0") for i in range(2))
    phalanx.submit(topology(), priority_class("high", 100_000), priority_class("middle", 50_000))
    phalanx.submit(*(guarded(f"web-{i}", f"node-{i}") for i in range(2)), budget("web", "web", 1))
    at = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web"
    phalanx.wait(lambda: _allowed(phalanx, at) == 1, "the budget to allow one eviction")
    gangs = dict(zip(("one", "two"), priorities, strict=True))
    with phalanx.record() as recorder:
        # Both are there before either is planned: the lower one alone would rightly have the room first.
        phalanx.cluster.program("controller").freeze()
        try:
            phalanx.submit(
                *(pod_group(name, 1) for name in gangs),
                *(pod(f"{name}-0", name, priorityClassName=priority) for name, priority in gangs.items()),
            )
        finally:
            phalanx.cluster.program("controller").thaw()
        phalanx.wait(lambda: any(phalanx.nodes_of(["one-0", "two-0"]).values()), "one of both to run")
        placed, waiting = ("one", "two") if phalanx.nodes_of(["one-0"])["one-0"] else ("two", "one")
        phalanx.wait(lambda: LIMITED in phalanx.status(waiting).get("message", ""), "the other's message")
        assert placed in {name for name in gangs if gangs[name] == "high"}
        # None of its own where the other's came first: the room of that eviction is the higher priority's.
        assert victims(phalanx.await_phase(placed, "Placed")) <= {*evicted(phalanx)}
        phalanx.wait(lambda: _allowed(phalanx, at) == 0, "the budget to be counted again")
        assert phalanx.await_phase(waiting, "Unplaceable")["proof"] == "Infeasible"
        gone = {
            e.name for e in recorder.events if e.name.startswith("web-") and "deletionTimestamp" in e.object["metadata"]
        }
    assert len(gone) == len(evicted(phalanx)) == 1
    refused = phalanx.cluster.kubectl("get", "events", "--field-selector", "reason=EvictionRefused", "-o", "name")
    assert not refused.strip()


def _allowed(phalanx: Phalanx, path: str) -> int | None:
    found: int | None = phalanx.cluster.request("GET", path).get("status", {}).get("disruptionsAllowed")
    return found
