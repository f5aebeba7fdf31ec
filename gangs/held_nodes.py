"""The node on which a pod of a gang holds capacity, derived from the pod alone."""

from collections.abc import Iterable

from gangs.quota_model import Account
from kube.keys import GATE, PLANNED_NODE
from kube.objects import Pod


def held_node(pod: Pod) -> str:
    """Return the node to which a member is bound or released; "" for a member that can still be planned.

    A released pod has lost its gate and carries the annotation of its plan. Its node is its nominated node. If the
    stock scheduler has cleared the nomination, it is the node of the plan. A pod that only the stock scheduler has
    nominated (for its own preemption) has never been planned, and can still be planned.
    """
    if pod.bound:
        return pod.spec.node_name
    planned = pod.metadata.annotations.get(PLANNED_NODE, "")
    if not planned or pod.gated_by(GATE):
        return ""
    return pod.status.nominated_node_name or planned


def holding(pod: Pod) -> str:
    """Return the node on which a pod holds capacity, released or only nominated; "" if it holds none."""
    return held_node(pod) or pod.status.nominated_node_name


def stays_charged(account: Account | None, pods: Iterable[Pod]) -> bool:
    """Whether a gang stays a gang in spite of new faults, such as a level that its topology has lost.

    This is so if a member with a node is charged to a quota. Otherwise the quota in use would be given to other gangs.
    """
    return account is not None and any(held_node(pod) for pod in pods)
