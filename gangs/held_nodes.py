"""The node on which a pod of a gang uses or reserves capacity, derived from the pod alone."""

from collections.abc import Iterable

from gangs.quota_model import Account
from kube.keys import GATE, PLANNED_NODE
from kube.objects import Pod


def held_node(pod: Pod) -> str:
    """Return the node to which a member is bound or released; "" for a member that can still be planned.

    A released pod has no gate any more, and has the annotation `phalanx.dev/planned-node`. Its node is the nominated
    node. If the stock scheduler has cleared the nomination, it is the planned node. The stock scheduler itself may
    nominate a pod for preemption. Such a pod lacks the annotation, so it can still be planned.
    """
    if pod.bound:
        return pod.spec.node_name
    planned = pod.metadata.annotations.get(PLANNED_NODE, "")
    if not planned or pod.gated_by(GATE):
        return ""
    return pod.status.nominated_node_name or planned


def holding(pod: Pod) -> str:
    """Return the node whose capacity a pod uses or reserves, because the pod is bound, released or nominated to it; ""
    if there is none.
    """
    return held_node(pod) or pod.status.nominated_node_name


def stays_charged(account: Account | None, pods: Iterable[Pod]) -> bool:
    """Whether a gang with a new fault, such as a level that its topology has lost, still counts as a gang.

    It does if it uses quota: it has an account, and a member has a node (`held_node`). Otherwise the quota in use would
    be given to other gangs.
    """
    return account is not None and any(held_node(pod) for pod in pods)
