"""The patches that release members, and their order. One merge patch pins a member and removes its gate.

The affinity of a released pod can never change again, so the pin is as wide as the gang's constraints allow. It is the
domain of the plan, or the exact node (`controller.release.pinning`). An exact pin never causes an eviction on its own
(a result of research).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cluster.snapshot import Snapshot
from controller.release.next_step import Planned
from gangs.model import Gang, Member
from kube.keys import GATE, PINNED_IN, RELEASE_BEGUN, RELEASED, WHOLE_MARK
from kube.objects import Node, Pod
from kube.requests import pod_requests
from kube.scheduling import release_note
from kube.topology import HOSTNAME_LABEL
from planning.framing.ties import Labels, holds_affinity, pin_note, pinned_by_affinity


def in_order(members: "Iterable[Planned]", gang: Gang, snapshot: Snapshot) -> "list[Planned]":
    """Return the members in the order of their release: the ones that are hardest to place come first.

    So if the controller is killed half-way, the members that are left are the easiest to place again. Members beyond
    the minimum come last, because no other member waits for them. Of the others, members with a node selector or an
    affinity come first, then members with larger requests. Ties keep the given order.
    """
    planned = list(members)
    extra = _beyond_minimum(gang)
    asking = {frozenset(pod_requests(each.pod).items()) for each in planned}
    there = _in_all(snapshot, {name for each in asking for name, _ in each}) if len(asking) > 1 else {}

    def hardness(planned: Planned) -> tuple[bool, bool, float]:
        spec, asked = planned.pod.spec, pod_requests(planned.pod)
        share = max((amount / there[name] for name, amount in asked.items() if there.get(name)), default=0.0)
        return planned.pod.metadata.uid in extra, not (spec.node_selector or spec.affinity), -share

    return sorted(planned, key=hardness)


def _in_all(snapshot: Snapshot, resources: Iterable[str]) -> Mapping[str, int]:
    """Return, by resource, the allocatable amount on all nodes together, in base units."""
    return {name: sum(state.allocatable.get(name, 0) for state in snapshot.nodes) for name in resources}


def _beyond_minimum(gang: Gang) -> frozenset[str]:
    """Return the UIDs of the members beyond the gang's minimum: the last of each pod set. Bound members come first."""
    left = {pod_set.name: pod_set.min_count for pod_set in gang.pod_sets}
    needed, others = list[Member](), list[Member]()
    for member in sorted(gang.members, key=lambda each: not each.pod.bound):
        (needed if left.get(member.pod_set, 0) > 0 else others).append(member)
        left[member.pod_set] = left.get(member.pod_set, 0) - 1
    return frozenset(member.pod.metadata.uid for member in others[max(0, gang.still_needed - len(needed)) :])


def release_patch(
    pod: Pod,
    node: Node | None,
    *,
    domain: Labels | None,
    now: str,
    begun: str = "",
    tolerating: bool = False,
) -> Mapping[str, Any]:
    """Return the merge patch that releases `pod`: it writes the pin and removes Phalanx's gate.

    The patch names the resourceVersion, so the API server rejects it with 409 if the pod has changed.

    :param node: the planned node; None if the pod has no plan and gets no pin.
    :param domain: labels of the domain to which the pod is pinned; None or empty pins it to the exact node.
    :param now: the time of the release (RFC 3339), which is written into an annotation (`kube.scheduling`).
    :param begun: when the first member of the gang was released (RFC 3339); "": now.
    :param tolerating: whether to write the tolerations of `pod`, because tolerations of a flavor were added to it. A
        pod may always get more tolerations (core/v1 validation), and a merge patch replaces the whole list.
    """
    gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != GATE]
    spec: dict[str, Any] = {"schedulingGates": gates, **(_pin(pod, node, domain or ()) if node else {})}
    if tolerating:
        spec["tolerations"] = [msgspec.to_builtins(each) for each in pod.spec.tolerations]
    meta = pod.metadata
    # A user may have created the pod from the manifest of a pod that ran, with its mark.
    copied = {WHOLE_MARK: None} if WHOLE_MARK in meta.annotations else {}
    return {
        "metadata": {
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
            # The pin is recorded because a recreated pod comes without it (restarts: docs/decisions/0030; what-if).
            "annotations": {
                RELEASED: release_note(pod, now),
                RELEASE_BEGUN: begun or now,
                PINNED_IN: pin_note(pod, spec),
                **copied,
            },
        },
        "spec": spec,
    }


def _pin(pod: Pod, node: Node, domain: Labels) -> Mapping[str, Any]:
    if holds_affinity(pod):
        labels = dict(domain) or _hostname(node)
        return {"nodeSelector": labels} if labels else {}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _terms(pod, node, domain)}}}


def _hostname(node: Node) -> dict[str, str]:
    value = node.metadata.labels.get(HOSTNAME_LABEL)
    return {HOSTNAME_LABEL: value} if value else {}


def _terms(pod: Pod, node: Node, domain: Labels) -> Mapping[str, Any]:
    """Return the required node affinity that pins the pod: a node selector with one term.

    The term begins with the domain pin that the webhook wrote when the pod was created. The API server allows only
    additions to it. Then the term names the labels of `domain`; if there are none, the node.
    """
    labels = tuple(dict.fromkeys((*pinned_by_affinity(pod), *domain)))
    term: dict[str, Any] = {}
    if labels:
        term["matchExpressions"] = [{"key": k, "operator": "In", "values": [v]} for k, v in labels]
    if not domain:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [node.metadata.name]}]
    return {"nodeSelectorTerms": [term]}
