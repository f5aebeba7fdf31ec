"""Evaluates taints and tolerations (core/v1 `Toleration.ToleratesTaint`, kube-scheduler's TaintToleration)."""

from collections.abc import Iterator, Sequence

from kube.objects import Taint, Toleration

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""The taint that a cordoned node has. A pod that tolerates the taint may use the node."""

NOT_READY_KEYS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The keys of taints that the node lifecycle controller puts on nodes whose Ready condition is not True."""

_FORBIDDING = ("NoSchedule", "NoExecute")


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Whether one of the tolerations tolerates the taint.

    Tolerations with the operators Lt and Gt tolerate nothing here, because the stock scheduler reads them only behind a
    feature gate that is off by default. If the gate is on, a node may be excluded wrongly, but no pod is sent to a node
    that rejects it.
    """
    return any(_covers(each, taint) for each in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case _:
            return False


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod with these tolerations off the node; None if none does."""
    return next(all_untolerated(taints, tolerations), None)


def all_untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Iterator[Taint]:
    """Yield every taint that keeps a pod with these tolerations off the node."""
    return (t for t in taints if t.effect in _FORBIDDING and not tolerated(t, tolerations))
