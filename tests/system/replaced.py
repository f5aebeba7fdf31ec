"""Watch recordings of a gang with one deleted pod, and of a gang that is deleted, for workloads of every kind."""

from collections.abc import Callable, Collection, Iterable

from system import Object, Phalanx

from controlplane.recording import WatchEvent, bound
from kube.placeholders import PLACEHOLDER

PODS = "/api/v1/pods"
GANGS = "/apis/phalanx.dev/v1alpha1/gangs"

Kept = Callable[[Object], bool]
"""Whether a pod is the gang's."""


def any_pod(pod: Object) -> bool:
    """Return whether the pod is in the tests' namespace."""
    return bool(pod["metadata"]["namespace"] == "default")


def delete_and_await_successor(phalanx: Phalanx, gone: Object, nodes: Collection[str], member: Kept = any_pod) -> None:
    """Delete a pod of a gang that runs on these nodes: again a pod runs on each, and none was given another one."""
    there = list(filter(member, phalanx.pods()))
    with phalanx.record(PODS) as recorder:
        phalanx.cluster.kubectl("delete", "pod", gone["metadata"]["name"], "--wait=false")

        def replaced(events: Iterable[WatchEvent]) -> bool:
            now = _after(events, there, member)
            places = sorted(each["spec"].get("nodeName", "") for each in now.values())
            return gone["metadata"]["uid"] not in now and places == sorted(nodes)

        events = recorder.wait_for(replaced)
    placed = {bound(each) for each in events if member(each.object)} - {""}
    assert placed <= set(nodes), "all are placed beside their siblings, and in between nobody is elsewhere"


def delete_and_await_nothing(phalanx: Phalanx, delete: Callable[[], object], member: Kept = any_pod) -> None:
    """Delete the workload. Its pods, its mirror and its placeholders are deleted, and no pod starts meanwhile."""

    def ours(pod: Object) -> bool:
        return member(pod) or PLACEHOLDER in pod["metadata"].get("labels", {})

    there = list(filter(ours, phalanx.cluster.request("GET", PODS)["items"]))
    shown = phalanx.cluster.request("GET", GANGS)["items"]
    with phalanx.record(PODS) as pods, phalanx.record(GANGS) as gangs:
        delete()
        events = pods.wait_for(lambda events: not _after(events, there, ours))
        gangs.wait_for(lambda events: not _after(events, shown))
    ran = {each["metadata"]["uid"] for each in there if each["spec"].get("nodeName")}
    started = {each.object["metadata"]["uid"] for each in events if member(each.object) and bound(each)} - ran
    assert not started, "none starts while its workload goes"


def _after(events: Iterable[WatchEvent], there: Iterable[Object], kept: Kept = bool) -> dict[str, Object]:
    """Return by uid the objects that exist after these events. `there`: the objects before."""
    now = {each["metadata"]["uid"]: each for each in there}
    for event in (each for each in events if kept(each.object)):
        now[event.object["metadata"]["uid"]] = event.object
        if event.type == "DELETED":
            del now[event.object["metadata"]["uid"]]
    return now
