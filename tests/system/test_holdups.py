"""A gang with a member that can never bind stays gated. A gang whose request goes away gives its capacity back."""

from typing import Any

import msgspec
import pytest
from system import Object, Phalanx, numbered, pod, scheduled_message

from kube.keys import SYSTEM_NAMESPACE
from kube.objects import Pod
from kube.placeholders import is_placeholder

pytestmark = [pytest.mark.controlplane, pytest.mark.long]


def gang(name: str, minimum: int) -> Object:
    """Return a Gang object."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": {"minMember": minimum}}


def member(name: str, of: str, **spec: Any) -> Object:
    """A pod of the gang."""
    made = pod(name, cpu=1, **spec)
    made["metadata"]["labels"] = {"phalanx.dev/gang": of}
    return made


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"schedulingGates": [{"name": "example.com/quota"}]}, "gate example.com/quota to be taken from pod pair-1"),
        (
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]},
            "PersistentVolumeClaim default/missing",
        ),
    ],
)
def test_no_member_starts_while_one_could_not_bind(phalanx: Phalanx, spec: dict[str, object], said: str) -> None:
    phalanx.guide_nodes()
    phalanx.submit(gang("pair", 2), member("pair-0", "pair"), member("pair-1", "pair", **spec))
    phalanx.wait(lambda: said in phalanx.status("pair").get("message", ""), "the gang to say what it waits for")
    assert phalanx.status("pair")["phase"] == "Waiting"
    assert not any(phalanx.nodes_of(numbered("pair", 2)).values())
    if "schedulingGates" in spec:
        patch = '[{"op": "replace", "path": "/spec/schedulingGates", "value": [{"name": "phalanx.dev/gang"}]}]'
        phalanx.cluster.kubectl("patch", "pod", "pair-1", "--type=json", "-p", patch)
        phalanx.await_bound(numbered("pair", 2))


def test_a_gang_that_is_deleted_while_it_holds_room_gives_it_back(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.cluster.program("kube-scheduler").freeze()
    try:
        phalanx.submit(gang("gone", 2), *(member(name, "gone") for name in numbered("gone", 2)))
        phalanx.wait(lambda: all(nominated(phalanx)), "the room to be held")
        phalanx.cluster.kubectl("delete", "gang", "gone")
        phalanx.wait(lambda: not any(nominated(phalanx)), "the room to be given back")
    finally:
        phalanx.cluster.program("kube-scheduler").thaw()
    phalanx.wait(
        lambda: "waits for Gang default/gone" in scheduled_message(phalanx.pod("gone-0")), "the pods to say so"
    )
    phalanx.submit(gang("gone", 2))
    phalanx.await_bound(numbered("gone", 2))


def nominated(phalanx: Phalanx) -> list[str]:
    """The nominations of all pods of the default namespace. Before 1.37 also the names of their placeholders, which are
    nominated only after the scheduler has tried them.
    """
    items = phalanx.cluster.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")["items"]
    if phalanx.forgets:
        return [each["metadata"]["name"] for each in items if is_placeholder(msgspec.convert(each, Pod))]
    return [each["status"].get("nominatedNodeName", "") for each in phalanx.pods()] or [""]
