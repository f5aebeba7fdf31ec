"""Detects a gang that would not fit even if no other workload ran, and gives it a message that never changes."""

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from cluster.snapshot import Snapshot
from gangs.dialects.topologies import topology_of
from gangs.held_nodes import held_node
from gangs.model import Gang
from kube.objects import Pod
from kube.topology import Topology
from planning.decision import Decision, Outcome, Refusal
from planning.devices.demands import NotPlannedError
from planning.framing.empty_cluster import emptied
from planning.framing.gang_problem import frame
from planning.message import Message
from planning.messages import wording
from planning.messages.shortfalls import devices_near
from planning.pins import left_behind
from solver.explain.largest_domain import too_small_for
from solver.plan import Proof


def with_never_fits(decision: Decision, gang: Gang, snapshot: Snapshot, topologies: Sequence[Topology]) -> Decision:
    """Return the decision, changed to `Refusal.NEVER_FITS` if the gang would not fit in the empty cluster either
    (`framing.empty_cluster`: only DaemonSet and mirror pods run, and all nodes are ready).

    Hard spread and pod affinity are left out, because other pods may satisfy them. A gang with members on nodes is not
    checked, because it fitted once. A gang pinned beside lost siblings is not checked either, because its recreated
    members lose the pin.
    """
    topology = topology_of(gang, topologies)
    held = any(held_node(member.pod) for member in gang.members) or left_behind(gang)
    if decision.outcome is not Outcome.UNPLACEABLE or held or not (topology is None or isinstance(topology, Topology)):
        return decision
    empty = emptied(snapshot)
    try:
        framing = frame(_regardless_of_others(gang), empty, topology, running={}, preemption=False)
    except NotPlannedError:  # its claims are planned with the devices that are free, but not with all devices
        return decision
    near = too_small_for(framing.problem) if framing.exact else None
    if near is None:
        return decision
    never = replace(decision, refusal=Refusal.NEVER_FITS, proof=Proof.INFEASIBLE.value)
    if empty is snapshot:
        return never  # the message is about the empty cluster already
    required = near.level if gang.required is not None else ""
    lacking = wording.short_of_devices([near], [devices_near(framing, near)]) if framing.devices.names else ""
    line = Message.of(wording.never_fits(near, required), f"; {lacking}" if lacking else "")
    return replace(never, line=Message.of(line, wording.unmodelled(decision.notes)))


def _regardless_of_others(gang: Gang) -> Gang:
    """Return the gang with pods that have no hard topology spread and no pod affinity."""
    return replace(gang, members=tuple(replace(each, pod=_unattached(each.pod)) for each in gang.members))


def _unattached(pod: Pod) -> Pod:
    affinity = pod.spec.affinity
    if affinity is not None:
        affinity = structs.replace(affinity, pod_affinity=None)
    return structs.replace(pod, spec=structs.replace(pod.spec, affinity=affinity, topology_spread_constraints=()))
