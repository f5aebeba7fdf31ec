"""Restarts gangs whose `onFailure` is Restart, if a lost member cannot be replaced beside the other members.

A restart evicts all running members, so that they are recreated and planned together. A gang is restarted only under
three conditions (docs/decisions/0030). The lost member has had no plan for some time (`--restart-seconds`). The gang's
workload will recreate every evicted pod. All members together fit on capacity that is free now. One gang is restarted
at a time, so that two gangs do not count on the same capacity.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile

from cluster.node_state import NodeState
from cluster.snapshot import Snapshot
from cluster.topology.tree import domains
from controller.acting.withdrawing import PartialGangRollback
from controller.cluster_view import ClusterView
from controller.defaults import RESTART_SECONDS
from controller.error_backoff import ErrorBackoff
from controller.reconcile_state import NO_EFFECTS, Effects, ReconcileState
from controller.release.wholeness import LeftDomain, Withdrawal, WithdrawalReason, bound_when_whole, was_whole
from controller.scheduling.restart_checks import Planned, RestartChecks, Verdict
from gangs.dialects.topologies import topology_of
from gangs.model import Gang, GangKey
from kube.names import natural_key
from kube.topology import Topology
from planning.decision import Outcome
from planning.messages.wording import pods as counted
from planning.whole_again import let_go, wants_restart
from solver.plan import Proof
from timing.clock import SYSTEM_CLOCK, Clock

MOST_CLOSED = 3
"""The most closed nodes (cordoned, tainted or not ready) of the left domain that a gang's status names."""
ON_ITS_WAY_SECONDS = 60.0
"""The most seconds for which other gangs wait until a restarted gang is released."""


class Restarter:
    """Restarts gangs that ask for it (`onFailure: Restart`) and have lost a member that fits nowhere.

    The only state in memory is the time since which the member fits nowhere. Everything else is read from the cluster.

    :param seconds: how long a lost member must have fitted nowhere before its gang is restarted.
    """

    def __init__(
        self,
        rollback: PartialGangRollback,
        checks: RestartChecks,
        error_backoff: ErrorBackoff,
        *,
        seconds: float = RESTART_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._rollback = rollback
        self._error_backoff = error_backoff
        self._checks = checks
        self._seconds = seconds
        self._since: dict[GangKey, float] = {}
        """By gang: the monotonic time since which it has a lost member that fits nowhere."""
        self._under_way: tuple[GangKey, float] | None = None
        """The gang that is being restarted, and the monotonic time at which its restart began; None if none is."""

    def restart(self, gang_states: Sequence[ReconcileState], cluster_view: ClusterView) -> Mapping[GangKey, Effects]:
        """Begin the restarts that are due. For each other gang, `Effects.stays` says why it is not restarted."""
        effects = self._error_backoff.run_steps(gang_states, self._await)
        able = {key for key, each in effects.items() if not each.stays and not each.failed}
        due = [each for each in gang_states if each.gang.key in able and torn(each)]
        self._since = {key: since for key, since in self._since.items() if cluster_view.kept.gang(key) is not None}
        return effects | (self._begin(due, cluster_view, _planned(gang_states)) if due else {})

    def _await(self, gang_state: ReconcileState) -> Effects:
        """Return the effects of a gang. Their field `stays` has the reason why the gang must not be restarted now.

        If `stays` is empty, a gang that has lost a member which fits nowhere (`torn`) may be restarted now.
        """
        key = gang_state.gang.key
        self._note_end(gang_state)
        if not torn(gang_state):
            self._since.pop(key, None)
        elif why := _used_up(gang_state):
            return Effects(stays=f"is not restarted as a whole: {why}")
        elif self._clock.monotonic() - self._since.setdefault(key, self._clock.monotonic()) < self._seconds:
            stays = f"is restarted as a whole if that stays so for {self._seconds:g} s and all together have a place"
            return Effects(watched=True, stays=stays)
        return NO_EFFECTS

    def _begin(
        self, due: Sequence[ReconcileState], cluster_view: ClusterView, planned: Planned
    ) -> dict[GangKey, Effects]:
        """Restart the first of these gangs that is known to fit as a whole, unless another restart is still running.

        :param planned: the UIDs of the members that plans in force place on each node.
        """
        verdicts = self._checks.verdicts([each.gang for each in due], cluster_view, planned)
        keyed = ((gang_state.gang.key, gang_state) for gang_state in due)
        return {key: self._restart_if_placed(gang_state, verdicts.get(key), cluster_view) for key, gang_state in keyed}

    def _restart_if_placed(
        self, gang_state: ReconcileState, verdict: Verdict | None, cluster_view: ClusterView
    ) -> Effects:
        gang, version = gang_state.gang, cluster_view.snapshot.version
        if verdict is not None and not verdict.placed:
            stays = f"is not restarted as a whole: {verdict.why}" if verdict.why else ""
            return Effects(watched=verdict.version != version, stays=stays)  # check again when the cluster changes
        if verdict is None or not verdict.fresh(gang, self._clock.monotonic()):
            return Effects(watched=True, stays="is restarted as a whole if all its members together have a place")
        if other := self._other(gang.key):
            return Effects(watched=True, stays=f"is not restarted as a whole while gang {other} is")
        restart = partial(self._restart, gang_state, cluster_view)
        return Effects(watched=True).then(self._error_backoff.run_step(gang.key, restart))

    def _restart(self, gang_state: ReconcileState, cluster_view: ClusterView) -> Effects:
        gang = gang_state.gang
        self._since.pop(gang.key, None)
        self._under_way = gang.key, self._clock.monotonic()
        restarts = int(gang_state.status.get("restarts", 0)) + 1
        message = (
            f"restarted as a whole ({restarts} of at most {gang.max_restarts} times): the others have no "
            f"place beside the {counted(len(let_go(gang)))} that had started, and all together have one, so those were "
            "evicted"
        )
        left = left_domain(gang, cluster_view.snapshot, cluster_view.topologies)
        withdrawal = Withdrawal(WithdrawalReason.RESTARTED, message, restarts=restarts, left=left)
        return self._rollback.take_back(gang_state, withdrawal)

    def _note_end(self, gang_state: ReconcileState) -> None:
        """If this gang was being restarted and is whole again, end its restart, so that another gang may follow."""
        if self._under_way is None or self._under_way[0] != gang_state.gang.key:
            return
        if was_whole(gang_state.gang, gang_state.status) and not torn(gang_state):
            self._under_way = None

    def _other(self, key: GangKey) -> GangKey | None:
        """Return the gang that is being restarted; None if none is, or if it is this gang."""
        if self._under_way is None or self._clock.monotonic() - self._under_way[1] > ON_ITS_WAY_SECONDS:
            return None
        return self._under_way[0] if self._under_way[0] != key else None


def _planned(gang_states: Iterable[ReconcileState]) -> Planned:
    """Return, by node, the UIDs of the members that plans in force place there, with the plans of this reconcile."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for gang_state in gang_states:
        for member in gang_state.record.members if gang_state.record is not None else ():
            found[member.node].add(member.uid)
    return found


def left_domain(gang: Gang, snapshot: Snapshot, topologies: Sequence[Topology]) -> LeftDomain:
    """Return the narrowest domain with all members that a restart evicts, and the closed nodes in it.

    At most `MOST_CLOSED` nodes are named, the first ones by name.
    """
    topology = topology_of(gang, topologies)
    if not isinstance(topology, Topology):
        return LeftDomain("", "")
    tree = domains(topology, snapshot.node_objects)
    paths = [tree.path_of.get(member.pod.spec.node_name, ()) for member in let_go(gang) if member.pod.bound]
    common = tuple(names[0] for names in takewhile(lambda each: len(set(each)) == 1, zip(*paths, strict=False)))
    if not common:
        return LeftDomain("", "")
    inside = (snapshot.nodes[snapshot.positions[name]] for name, path in tree.path_of.items() if _lies_in(path, common))
    closed = sorted((state for state in inside if not state.open), key=lambda state: natural_key(state.name))
    return LeftDomain(
        "/".join(common), ", ".join(f"{each.name} is {_closed_by(each)}" for each in closed[:MOST_CLOSED])
    )


def _lies_in(path: Sequence[str], domain: Sequence[str]) -> bool:
    return tuple(path[: len(domain)]) == tuple(domain)


def _closed_by(state: NodeState) -> str:
    """Return why a node takes no new pods, as text."""
    if state.node.spec.unschedulable:
        return "cordoned"
    return "tainted" if state.node.ready else "not ready"


def torn(gang_state: ReconcileState) -> bool:
    """Return whether the gang is torn: it asks for restarts, was whole, and has lost a member that fits nowhere.

    A member fits nowhere if the gang's decision in this reconcile is a proven rejection.
    """
    gang, decision = gang_state.gang, gang_state.decision
    if decision is None or not wants_restart(gang) or not was_whole(gang, gang_state.status):
        return False
    if decision.outcome is not Outcome.UNPLACEABLE or decision.proof != Proof.INFEASIBLE.value:
        return False
    bound = sum(member.pod.bound for member in gang.members)
    return bound < bound_when_whole(gang, gang_state.status)


def _used_up(gang_state: ReconcileState) -> str:
    """Return the reason if the gang has been restarted as often as `maxRestarts` allows; "" if it has not."""
    gang, times = gang_state.gang, int(gang_state.status.get("restarts", 0))
    if times < gang.max_restarts:
        return ""
    return f"spec.maxRestarts allows {gang.max_restarts}, and it has been restarted {times} times"
