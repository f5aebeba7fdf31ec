"""How a member is let go: one merge patch that pins it and takes its gate away.

A released pod's affinity can never change again, so the pin is as wide as the gang's promise allows, unless the exact
node was promised or the stock scheduler could do harm in between (research: exact pins never evict on their own).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kube.keys import GATE
from kube.objects import Node, Pod
from kube.topology import HOSTNAME_LABEL, Topology


def domain_labels(topology: Topology | None, node: Node, depth: int) -> tuple[tuple[str, str], ...] | None:
    """The labels that name the node's domain at each of the first `depth` levels; None where one has no label."""
    found = []
    for level in (topology.levels if topology else ())[:depth]:
        label = next(((k, node.metadata.labels[k]) for k in level.label_keys if node.metadata.labels.get(k)), None)
        if label is None:
            return None
        found.append(label)
    return tuple(found)


def release_patch(
    pod: Pod, node: Node, *, domain: Sequence[tuple[str, str]] | None, tolerating: bool = False
) -> Mapping[str, Any]:
    """The merge patch that releases `pod`, guarded by its resourceVersion (a clean 409 when it changed meanwhile).

    :param node: where the plan puts it.
    :param domain: labels of the solved domain; None or empty pins the exact node.
    :param tolerating: whether `pod` has tolerations that are to be written, beside those that stand. A pod may always
        be given more (core/v1 validation), and a merge patch replaces the whole list.
    """
    gates = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != GATE]
    spec: dict[str, Any] = {"schedulingGates": gates, **_pin(pod, node, domain or ())}
    if tolerating:
        spec["tolerations"] = [msgspec.to_builtins(each) for each in pod.spec.tolerations]
    return {
        "metadata": {"resourceVersion": pod.metadata.resource_version, "uid": pod.metadata.uid},
        "spec": spec,
    }


def has_required_affinity(pod: Pod) -> bool:
    """Whether the user required a node affinity: appending to it would break the next `kubectl apply`."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.required)


def _pin(pod: Pod, node: Node, domain: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
    if has_required_affinity(pod):
        labels = dict(domain) or _hostname(node)
        return {"nodeSelector": labels} if labels else {}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _terms(node, domain)}}}


def _hostname(node: Node) -> dict[str, str]:
    value = node.metadata.labels.get(HOSTNAME_LABEL)
    return {HOSTNAME_LABEL: value} if value else {}


def _terms(node: Node, domain: Sequence[tuple[str, str]]) -> Mapping[str, Any]:
    if domain:
        term = {"matchExpressions": [{"key": k, "operator": "In", "values": [v]} for k, v in domain]}
    else:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.metadata.name]}]}
    return {"nodeSelectorTerms": [term]}
