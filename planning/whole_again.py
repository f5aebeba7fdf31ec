"""The restart of a gang: the gang as it would be if all its members were recreated (docs/decisions/0030).

A gang is restarted if it was complete before, and a lost member cannot be replaced beside the running members. Then the
planner plans all members anew, on a snapshot from which they are removed. The functions are pure.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from cluster.snapshot import Snapshot
from gangs.manifests import group_of
from gangs.model import RESTART, Gang, Manifest, Member
from gangs.sources import Sources
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, controller_of, counted_by_job
from kube.keys import GATE, PINNED_IN
from kube.objects import Pod
from planning.framing.disruption_budgets import overdrawn
from planning.framing.ties import made_new
from planning.pins import left_behind, made_again, untied

_BACKOFF_LIMIT = 6
"""Failed pods that a Job without `backoffLimit` tolerates: the default of batch/v1."""
_RAY, _KUBEFLOW = "ray.io", "kubeflow.org"
"""API groups whose operators recreate a lost pod: KubeRay and the training operator."""


def wants_restart(gang: Gang) -> bool:
    """Whether the gang asks for a restart on failure, and fewer of its members run than its minimum, but not none."""
    bound = [member for member in gang.members if member.pod.bound]
    return gang.on_failure == RESTART and bool(bound) and not gang.suffice(bound)


def let_go(gang: Gang) -> tuple[Member, ...]:
    """Return the members that a restart evicts: all members without Phalanx's gate. A gated member runs nothing yet."""
    return tuple(member for member in gang.members if not member.pod.gated_by(GATE))


def hindrance(gang: Gang, snapshot: Snapshot, sources: Sources) -> str:
    """Return the reason why the gang's members cannot be recreated, regardless of capacity; "" if they can."""
    members = let_go(gang)
    ready = {state.name for state in snapshot.nodes if state.node.ready}
    for pod in (member.pod for member in members):
        if why := _lost_for_good(pod):
            return why
        if pod.bound and pod.spec.node_name not in ready:
            return f"Node {pod.spec.node_name} is not ready, and Pod {pod.key} would not go from there"
        if PINNED_IN not in pod.metadata.annotations:
            return f"Pod {pod.key} was released without a note of its pin"
    for (namespace, name), count in _by_job(members).items():
        if why := _fails(sources.get(JOB_GROUP, JOB_KIND, namespace, name), count):
            return f"Job {namespace}/{name} {why}"
    return overdrawn(frozenset(member.pod.key for member in members), snapshot)


def _lost_for_good(pod: Pod) -> str:
    """Return why the pod may not return after an eviction; "" if its controller is known to recreate it."""
    owner = controller_of(pod)
    if owner is None:
        return f"Pod {pod.key} has no controller that would make it again"
    if made_again(pod) or counted_by_job(pod) or group_of(owner.api_version) in (_RAY, _KUBEFLOW):
        return ""
    return f"{owner.kind} {owner.name}, which controls Pod {pod.key}, is not known to make it again"


def whole_again(gang: Gang) -> Gang:
    """Return the gang as it is after a restart: all members gated and without pins.

    A replacement that arrived after the loss of a member is pinned beside the running members. The restart recreates
    it, too, if that costs its workload nothing (`planning.pins.left_behind`).
    """
    started = {member.pod.key for member in let_go(gang)}
    members = (replace(m, pod=_made_new(m.pod, gang)) if m.pod.key in started else m for m in gang.members)
    free = replace(gang, members=tuple(members))
    return untied(free, [pod for pod in left_behind(free) if made_again(pod)])


def _made_new(pod: Pod, gang: Gang) -> Pod:
    """Return the pod as its controller recreates it: gated, without pins and without the tolerations of its flavors.

    The queue's flavors added these tolerations. The recreated pod may be planned in other flavors.
    """
    again, account = made_new(pod), gang.account
    flavors = () if account is None else [each for each in account.flavors if each.name in account.used]
    added = {toleration for each in flavors for toleration in each.tolerations}
    if added.isdisjoint(again.spec.tolerations):
        return again
    own = tuple(each for each in again.spec.tolerations if each not in added)
    return structs.replace(again, spec=structs.replace(again.spec, tolerations=own))


def without(gang: Gang, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without the members of the gang that were released."""
    gone = {member.pod.key for member in let_go(gang)}
    return snapshot.with_states(
        replace(state, tenants=tuple(tenant for tenant in state.tenants if tenant.pod.key not in gone))
        for state in snapshot.holding_any(gone)
    )


def _by_job(members: tuple[Member, ...]) -> Counter[tuple[str, str]]:
    """Return the number of members that each Job controls, by the Job's namespace and name."""
    owners = ((each.pod, controller_of(each.pod)) for each in members if counted_by_job(each.pod))
    return Counter((pod.metadata.namespace, owner.name) for pod, owner in owners if owner is not None)


def _fails(job: Manifest | None, count: int) -> str:
    """Return why the Job may fail if `count` of its pods are evicted, as the predicate of a sentence; "" if it does not
    fail.
    """
    if job is None:
        return "is not there"
    spec: Mapping[str, Any] = job.get("spec") or {}
    if spec.get("backoffLimitPerIndex") is not None:
        return "counts the failures of each index (spec.backoffLimitPerIndex)"
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    if rules:
        first = rules[0]
        disruption = any(each.get("type") == "DisruptionTarget" for each in first.get("onPodConditions") or ())
        ignored = first.get("action") == "Ignore" and disruption
        return "" if ignored else "has a spec.podFailurePolicy whose first rule does not ignore DisruptionTarget"
    limit = spec.get("backoffLimit")
    failed = (job.get("status") or {}).get("failed") or 0
    if failed + count <= (_BACKOFF_LIMIT if limit is None else limit):
        return ""
    return (
        f"would fail over {count} more evicted pods (spec.backoffLimit): have its spec.podFailurePolicy "
        "ignore pods with the condition DisruptionTarget, or raise the limit"
    )
