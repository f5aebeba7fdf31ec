"""`phalanx uninstall` opens the gates of pods while a real API server seems to call the removed webhook still."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from cli import uninstall
from cli.uninstall import SETTLE_SECONDS, Released, open_gates
from cluster.api.connecting import connect
from controlplane.control_plane import ControlPlane
from kube.keys import GATE

pytestmark = pytest.mark.controlplane


def gated(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingGates": [{"name": GATE}], "containers": [{"name": "main", "image": "pause"}]},
    }


@pytest.mark.parametrize(
    ("what", "at_once", "late", "looks"),
    [
        ("nobody waits", [], {}, 2),
        ("one waits", ["a"], {}, 3),
        ("one is gated after an empty look", [], {1: "a"}, 4),
        ("and another after the second", ["a"], {2: "b"}, 5),
    ],
)
def test_gates_are_opened_until_two_looks_in_a_row_find_none(
    what: str,
    at_once: list[str],
    late: dict[int, str],
    looks: int,
    cluster: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`late`: pods that are gated between two looks, by the number of the look before."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        """No time passes, but what an API server that lags behind does in it is done."""
        pauses.append(seconds)
        if name := late.get(len(pauses)):
            cluster.create("/api/v1/namespaces/default/pods", [gated(name)])

    monkeypatch.setattr(uninstall, "time", SimpleNamespace(sleep=pause, monotonic=time.monotonic))
    cluster.create("/api/v1/namespaces/default/pods", [gated(name) for name in at_once])
    names = [*at_once, *late.values()]
    assert open_gates(connect(str(cluster.kubeconfig))) == Released(unplanned=len(names)), what
    assert pauses == [SETTLE_SECONDS] * (looks - 1)
    pods = cluster.request("GET", "/api/v1/namespaces/default/pods")["items"]
    assert {each["metadata"]["name"]: each["spec"].get("schedulingGates") for each in pods} == dict.fromkeys(names)
