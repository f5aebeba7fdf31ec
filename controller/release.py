"""How a member is let go: one merge patch that pins it and takes its gate away.

A released pod's affinity can never change again, so the pin is as wide as the gang's promise allows, unless the exact
node was promised or the stock scheduler could do harm in between (research: exact pins never evict on their own).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kube.keys import GATE, RELEASED
from kube.objects import Node, Pod
from kube.scheduling import release_note
from kube.topology import HOSTNAME_LABEL
from planning.ties import Labels, holds_affinity, pinned_by_affinity


def release_patch(
    pod: Pod, node: Node | None, *, domain: Labels | None, now: str, tolerating: bool = False
) -> Mapping[str, Any]:
    """The merge patch that releases `pod`, guarded by its resourceVersion (a clean 409 when it changed meanwhile).

    :param node: where the plan puts it; None where it has no plan, and is tied to nothing.
    :param domain: labels of the solved domain; None or empty pins the exact node.
    :param now: RFC 3339; with it the pod's last words before its release are noted (`kube.scheduling`).
    :param tolerating: whether `pod` has tolerations that are to be written, beside those that stand. A pod may always
        be given more (core/v1 validation), and a merge patch replaces the whole list.
    """
    gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != GATE]
    spec: dict[str, Any] = {"schedulingGates": gates, **(_pin(pod, node, domain or ()) if node else {})}
    if tolerating:
        spec["tolerations"] = [msgspec.to_builtins(each) for each in pod.spec.tolerations]
    meta = pod.metadata
    return {
        "metadata": {
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
            "annotations": {RELEASED: release_note(pod, now)},
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
    """One term. What the pod got at its CREATE stays in front: the API server lets it only be added to."""
    labels = tuple(dict.fromkeys((*pinned_by_affinity(pod), *domain)))
    term: dict[str, Any] = {}
    if labels:
        term["matchExpressions"] = [{"key": k, "operator": "In", "values": [v]} for k, v in labels]
    if not domain:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [node.metadata.name]}]
    return {"nodeSelectorTerms": [term]}
