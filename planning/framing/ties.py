"""Reads and removes the pins that Phalanx has written on a member: its domain pin, and the pin of its release.

The webhook writes the domain pin when the pod is created, to keep the member beside its siblings (`planning.pins`). An
annotation names the pin's labels. The labels themselves are in the pod's required node affinity or, if the user has
written such an affinity, in its node selector. Any user can write the annotation, so it counts only if the spec has the
labels, too. A release writes its own pin. `made_new` removes it from a pod that its controller would recreate.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kube import keys
from kube.node_rules import NodeRule, labelled
from kube.objects import Pod, SchedulingGate

Labels = tuple[tuple[str, str], ...]
"""Node labels with their values, from the widest level to the narrowest."""
_AFFINITY = "affinity"


def noted(labels: Labels) -> str:
    """Return the labels of a domain pin as the value of the member's annotation: `key=value`, separated by commas."""
    return ",".join(f"{key}={value}" for key, value in labels)


def pinned_domain(pod: Pod) -> Labels:
    """Return the labels of the member's domain pin if they are in its spec; empty if the member has no pin.

    The annotation alone proves nothing, because any user can write it.
    """
    return _noted(pod) if _in_selector(pod) or _is_ours(pod) else ()


def pinned_by_affinity(pod: Pod) -> Labels:
    """Return the labels of the member's domain pin if it is in the required node affinity; otherwise empty."""
    return _noted(pod) if _is_ours(pod) else ()


def holds_affinity(pod: Pod) -> bool:
    """Whether the user has written a required node affinity.

    Phalanx must not append to it, because the next `kubectl apply` would then fail.
    """
    affinity = pod.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.required) and not _is_ours(pod)


def tie_rules(pod: Pod) -> tuple[NodeRule, ...]:
    """Return the labels of the pod's domain pin as node rules. If no node meets them, the message says that the member
    must run beside its siblings.

    Without these rules, the message would name labels that the user did not write.
    """
    return tuple(
        labelled(key, value, f"node(s) were outside {key}={value}, where the gang's running members are")
        for key, value in pinned_domain(pod)
    )


def _noted(pod: Pod) -> Labels:
    text = pod.metadata.annotations.get(keys.PINNED_DOMAIN, "")
    pairs = (each.partition("=") for each in text.split(",") if each)
    return tuple((key, value) for key, _, value in pairs)


def _in_selector(pod: Pod) -> bool:
    """Whether the domain pin's labels are in the node selector, where they go if the user has a required node
    affinity.
    """
    labels = _noted(pod)
    return bool(labels) and all(pod.spec.node_selector.get(key) == value for key, value in labels)


def _is_ours(pod: Pod) -> bool:
    """Whether the pod's required node affinity is exactly the domain pin that the webhook wrote when the pod was
    created.
    """
    labels = _noted(pod)
    affinity = pod.spec.affinity
    if not labels or affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return False
    if _in_selector(pod):
        return False
    terms = affinity.node_affinity.required.node_selector_terms
    written = [(each.key, each.operator, each.values) for term in terms for each in term.match_expressions]
    ours = [(key, "In", (value,)) for key, value in labels]
    return len(terms) == 1 and not terms[0].match_fields and written == ours


def as_written(pod: Pod) -> Pod:
    """Return the pod as its user wrote it, without the domain pin."""
    labels, affinity = _noted(pod), pod.spec.affinity
    if _in_selector(pod):
        rest = {key: value for key, value in pod.spec.node_selector.items() if (key, value) not in labels}
        spec = msgspec.structs.replace(pod.spec, node_selector=rest)
    elif _is_ours(pod) and affinity is not None and affinity.node_affinity is not None:
        free = msgspec.structs.replace(affinity.node_affinity, required=None)
        spec = msgspec.structs.replace(pod.spec, affinity=msgspec.structs.replace(affinity, node_affinity=free))
    else:
        return pod
    return msgspec.structs.replace(pod, spec=spec)


def pin_note(pod: Pod, spec: Mapping[str, Any]) -> str:
    """Return the annotation value that records where the release writes its pin, for `made_new`; "" if there is no pin.

    It is "affinity", or the added keys of the node selector. `spec`: the part of the pod's spec that the release
    writes.
    """
    if "affinity" in spec:
        return _AFFINITY
    return ",".join(key for key in spec.get("nodeSelector", ()) if key not in pod.spec.node_selector)


def made_new(pod: Pod) -> Pod:
    """Return a released member as its controller would recreate it: gated, without a node and without the pins of
    Phalanx.

    If the release left no note about its pin, the pin stays: it looks like a rule of the user.
    """
    spec, note = pod.spec, pod.metadata.annotations.get(keys.PINNED_IN, "")
    affinity = spec.affinity
    if note == _AFFINITY and affinity is not None and affinity.node_affinity is not None:
        free = msgspec.structs.replace(affinity.node_affinity, required=None)
        spec = msgspec.structs.replace(spec, affinity=msgspec.structs.replace(affinity, node_affinity=free))
    elif note:
        pins = note.split(",")
        rest = {key: value for key, value in spec.node_selector.items() if key not in pins}
        spec = msgspec.structs.replace(spec, node_selector=rest)
    spec = msgspec.structs.replace(spec, node_name="", scheduling_gates=(SchedulingGate(keys.GATE),))
    status = msgspec.structs.replace(pod.status, nominated_node_name="")
    return as_written(msgspec.structs.replace(pod, spec=spec, status=status))
