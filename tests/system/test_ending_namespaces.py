"""A namespace is deleted with its gangs, and members of gangs come and go: neither causes a flood of writes."""

import json
import uuid
from functools import partial
from typing import Any

import pytest
from system import Phalanx, numbered, pod, pod_group

pytestmark = pytest.mark.controlplane


def events_of(phalanx: Phalanx, name: str, reason: str) -> list[str]:
    """The notes of the events on a gang."""
    selector = f"reason={reason},involvedObject.kind=Gang,involvedObject.name={name}"
    found: list[dict[str, Any]] = json.loads(
        phalanx.cluster.kubectl("get", "events", "--field-selector", selector, "-o", "json")
    )["items"]
    return [each["message"] for each in found]


@pytest.mark.long
def test_a_gang_that_waits_for_members_says_so_once(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("slow", 6))

    def says(message: str) -> bool:
        return bool(phalanx.status("slow").get("message") == message)

    for existing, name in enumerate(numbered("slow", 5), start=1):
        phalanx.submit(pod(name, "slow"))
        waits = f"waits for {6 - existing} more pod{'s' * (existing < 5)}: {existing} of 6 exist"
        phalanx.wait(partial(says, waits), waits)
    phalanx.wait(lambda: bool(events_of(phalanx, "slow", "GangWaiting")), "the event")
    phalanx.submit(pod("slow-5", "slow"))
    phalanx.await_bound(numbered("slow", 6))
    phalanx.wait(lambda: bool(events_of(phalanx, "slow", "GangPlaced")), "the last event")
    notes = events_of(phalanx, "slow", "GangWaiting")
    assert len(notes) == 1, notes


@pytest.mark.long
def test_the_end_of_a_namespace_is_not_fought(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    name = f"ending-{uuid.uuid4().hex[:8]}"
    phalanx.cluster.kubectl("create", "namespace", name)
    lonely = [{**each, "metadata": {**each["metadata"], "namespace": name}} for each in (pod("a", "x"), pod("b", "x"))]
    group = pod_group("x", 4)
    group["metadata"] |= {"namespace": name, "finalizers": ["test.phalanx.dev/held"]}
    phalanx.submit(group, *lonely)
    gangs = f"/apis/phalanx.dev/v1alpha1/namespaces/{name}/gangs"
    phalanx.wait(lambda: len(phalanx.cluster.request("GET", gangs)["items"]) == 1, "the gang's mirror")
    before = len(phalanx.cluster.program("controller").tail())
    phalanx.cluster.kubectl("delete", "namespace", name, "--wait=false")
    phalanx.wait(lambda: not phalanx.cluster.request("GET", gangs)["items"], "the mirror to go")
    phalanx.submit(pod_group("others", 2), pod("elsewhere", "others"))
    phalanx.wait(lambda: bool(phalanx.gang("others")), "other gangs to be seen meanwhile")
    assert "event not written" not in phalanx.cluster.program("controller").tail()[before:]
    free = '{"metadata":{"finalizers":null}}'
    phalanx.cluster.kubectl("patch", "podgroups.scheduling.sigs.k8s.io", "x", "-n", name, "--type=merge", "-p", free)
    phalanx.wait(
        lambda: phalanx.cluster.kubectl_result("get", "namespace", name).returncode != 0, "the namespace to be gone"
    )
