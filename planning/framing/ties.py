"""What was written on a member at its CREATE to keep it beside its siblings, read back from the pod alone; and at its
release, where its gang may be restarted.

The annotation names the labels; they stand in the pod's required node affinity or, beside one of the user's, in its
node selector (`planning.pins` says when). Everybody can write the annotation: it counts only with what stands there.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kube import keys
from kube.node_rules import NodeRule, labelled
from kube.objects import Pod, SchedulingGate

Labels = tuple[tuple[str, str], ...]
"""Node labels with their values, that of the widest level first."""
_AFFINITY = "affinity"


def noted(labels: Labels) -> str:
    """The labels as the member's annotation notes them."""
    return ",".join(f"{key}={value}" for key, value in labels)


def pinned_domain(pod: Pod) -> Labels:
    """The labels that the member got at its CREATE, where they still stand in its spec; empty for one that came free.

    The annotation alone says nothing: anybody can write it.
    """
    return _noted(pod) if _in_selector(pod) or _is_ours(pod) else ()


def pinned_by_affinity(pod: Pod) -> Labels:
    """The same, where they stand in the required node affinity."""
    return _noted(pod) if _is_ours(pod) else ()


def holds_affinity(pod: Pod) -> bool:
    """Whether the user required a node affinity himself: appending to it would break his next `kubectl apply`."""
    affinity = pod.spec.affinity
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.required) and not _is_ours(pod)


def tie_rules(pod: Pod) -> tuple[NodeRule, ...]:
    """Why the pod is kept off nodes outside the domain that it is tied to: its user has not written that."""
    return tuple(
        labelled(key, value, f"node(s) were outside {key}={value}, where the gang's running members are")
        for key, value in pinned_domain(pod)
    )


def _noted(pod: Pod) -> Labels:
    text = pod.metadata.annotations.get(keys.PINNED_DOMAIN, "")
    pairs = (each.partition("=") for each in text.split(",") if each)
    return tuple((key, value) for key, _, value in pairs)


def _in_selector(pod: Pod) -> bool:
    """Whether the labels stand in the node selector, where they go beside an affinity of the user's."""
    labels = _noted(pod)
    return bool(labels) and all(pod.spec.node_selector.get(key) == value for key, value in labels)


def _is_ours(pod: Pod) -> bool:
    """Whether the pod's required node affinity is the one term that was written at its CREATE, and nothing else."""
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
    """The pod as its user wrote it, free of what ties it to its siblings."""
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
    """Which part of its spec the release pins a member by, for `made_new`; "" where by none.

    :param spec: what the release writes.
    """
    if "affinity" in spec:
        return _AFFINITY
    return ",".join(key for key in spec.get("nodeSelector", ()) if key not in pod.spec.node_selector)


def made_new(pod: Pod) -> Pod:
    """A member that was let go as its controller would make it again: gated, and free of what we pinned it by.

    One whose release noted nothing stays pinned as it is.
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
