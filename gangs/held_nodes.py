"""The node whose room a pod of a gang holds, as the pod itself says."""

from collections.abc import Iterable

from gangs.quota_model import Account
from kube.keys import GATE, PLANNED_NODE
from kube.objects import Pod


def held_node(pod: Pod) -> str:
    """The node of a member that has been bound or released there; "" for one that can still be planned.

    A released pod has lost its gate for good, and a plan of ours stands on it. Its node is the one it is nominated to
    or, where the stock scheduler has cleared that, the one that its plan names. A pod that only the stock scheduler has
    nominated (for its own preemption) has never been planned, and may still be.
    """
    if pod.bound:
        return pod.spec.node_name
    planned = pod.metadata.annotations.get(PLANNED_NODE, "")
    if not planned or pod.gated_by(GATE):
        return ""
    return pod.status.nominated_node_name or planned


def holding(pod: Pod) -> str:
    """The node whose room a pod holds, released or only nominated; "" for one that holds none."""
    return held_node(pod) or pod.status.nominated_node_name


def stays_charged(account: Account | None, pods: Iterable[Pod]) -> bool:
    """Whether a gang goes on being one though something is wrong with it by now, such as a level that its topology has
    lost: some of it runs on a quota, which others would be given as well if nobody counted that.
    """
    return account is not None and any(held_node(pod) for pod in pods)
