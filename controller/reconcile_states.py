"""Every gang with its Gang object and the step that is due. From reconcile to reconcile only changes are processed.

A `ReconcileState` rests if the last reconcile wrote nothing for its gang and the next one would not either. A resting
state is kept until an input of its gang changes. Every other state is rebuilt from the cluster in each reconcile.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from controller.cluster_view import ClusterView
from controller.defaults import MADE_AGAIN_SECONDS
from controller.error_backoff import Activity, ErrorBackoff
from controller.gang_status import Phase, status_patch
from controller.lost_members import LostMembers
from controller.reconcile_state import Effects, ReconcileState
from controller.release.next_step import AllBound, NeedPlan, Situation, next_step
from controller.release.records import record_from
from controller.release.schedule_timeout import timed_out
from controller.status import mirrors
from controller.status.fair_turns import in_turns, turn_of
from controller.status.reporting import phase_of
from controller.telemetry.metrics import GangSample
from controller.times import still_coming
from controller.writes.writer import Writer, Written, gang_path
from gangs.mirrors import MARK, claim_of
from gangs.model import Gang, GangKey, Manifest
from gangs.workloads.later_pods.held_room import BY_SETTING, without_room
from planning.decision import Outcome
from planning.quota.flavors import settled
from timing.backoff import Backoff
from timing.clock import SYSTEM_CLOCK, Clock

_RETRIES = Backoff(first=0.5, longest=30.0)
"""The back-off, in seconds, before a Gang object that the API server rejected is written again."""


class _Refusal(NamedTuple):
    """A gang whose Gang object the API server has rejected.

    `gang`: the gang as it was then. `times`: rejections in a row. `again`: when the object is written again, in
    monotonic seconds.
    """

    gang: Gang | None
    times: int
    again: float


class ReconcileStates:
    """The `ReconcileState` of each gang, and the gangs whose state has changed since the last report to observers."""

    def __init__(
        self, writer: Writer, error_backoff: ErrorBackoff, *, placeholders: bool = True, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Start with no gangs.

        :param placeholders: whether capacity is reserved for pods that do not exist yet.
        """
        self._placeholders = placeholders
        self._lost_members = LostMembers(MADE_AGAIN_SECONDS, clock=clock)
        self._clock = clock
        self._planned_gangs: dict[GangKey, Gang | None] = {}
        """Gangs as they are planned in this reconcile, cached by key; None for a gang that does not exist."""
        self._writer = writer
        self._error_backoff = error_backoff
        self._states: dict[GangKey, ReconcileState] = {}
        self._open: dict[GangKey, None] = {}
        """Gangs for which a step may be due: all except those that run and rest. A dict keeps their order."""
        self._again: set[GangKey] = set()
        """Gangs whose Gang objects could not be written, or whose step could not be computed: the next reconcile
        retries.
        """
        self._gone: set[GangKey] = set()
        """Gangs that were dropped and that `gone` has not returned yet."""
        self._refusals: dict[GangKey, _Refusal] = {}
        """Gangs whose objects the API server rejected at the last write."""
        self._made: dict[GangKey, mirrors.Unmarked] = {}
        """The mirrors that this controller created, by gang, while the gang exists."""
        self._samples: dict[GangKey, GangSample] = {}
        self._mute: dict[GangKey, Manifest] = {}
        """Gangs whose next step could not be computed because of an internal error, with their Gang objects."""
        self._moved: dict[GangKey, None] = {}
        """Gangs whose state differs from the last report, or that no longer exist."""
        self._roomless: dict[GangKey, tuple[Gang, Gang]] = {}
        """If no capacity is reserved for expected pods: gangs that have expected pods, each as read and as planned."""
        self._untold = True

    def update(self, cluster_view: ClusterView) -> list[ReconcileState]:
        """Update all states to this cluster view. Return the states of gangs for which a step may be due."""
        self._planned_gangs = {}
        existing = mirrors.GangObjects(cluster_view.sources.catalog, self._made)
        begun = {key for key in self._open if not self._stays(key)}
        renewed, self._again = cluster_view.concerned | self._again | begun, set()
        self._renew(renewed, cluster_view, existing)
        return [self._states[key] for key in self._open]

    @property
    def made_again(self) -> Mapping[GangKey, Gang]:
        """Gangs with lost members that are being recreated, each with a member for every lost pod, by gang.

        The quotas of their queues are charged for these members. A rejected gang is left out.
        """
        return self._lost_members.charged

    def keys(self) -> Collection[GangKey]:
        """Return the keys of all gangs."""
        return self._states.keys()

    def gone(self) -> Collection[GangKey]:
        """Return the gangs that have ceased to exist since the last call."""
        gone, self._gone = self._gone, set()
        return [key for key in gone if key not in self._states]

    def close(self, gang_states: Iterable[ReconcileState]) -> None:
        """End the reconcile of these gangs: store their states. Gangs that are `resting` and whose members are all
        bound are left out of later reconciles until an input changes.
        """
        for gang_state in gang_states:
            key, stands = gang_state.gang.key, _standing(gang_state)
            self._states[key] = gang_state
            if gang_state.decision is not None and gang_state.decision.outcome is not Outcome.PLACED:
                self._lost_members.refuse(key)
            if self._samples.get(key) != stands:
                self._samples[key] = stands
                self._moved[key] = None
            if gang_state.resting and isinstance(gang_state.step, AllBound) and not gang_state.effects.watched:
                self._open.pop(key, None)
            if not gang_state.failed:
                self._error_backoff.succeeded(key)

    @property
    def moved(self) -> bool:
        """Whether the state of some gang differs from the last call of `moves`, or `moves` was never called."""
        return self._untold or bool(self._moved)

    def moves(self) -> tuple[list[GangSample], list[GangKey] | None]:
        """Return the states that have changed since the last call, and the gangs that no longer exist.

        The first call returns the states of all gangs, and None instead of the gangs that no longer exist.
        """
        moved, first = self._moved, self._untold
        self._moved, self._untold = {}, False
        if first:
            return list(self._samples.values()), None
        changed = [self._samples[key] for key in moved if key in self._samples]
        return changed, [key for key in moved if key not in self._samples]

    @property
    def unfinished(self) -> bool:
        """Whether a gang may need another reconcile without an event, because a pause or timeout may end."""
        return bool(self._again) or any(self._states[key].waits_for_time for key in self._open)

    @property
    def hurried(self) -> bool:
        """Whether another reconcile is due soon: a write makes a gang's next step due, or this reconcile has left
        writes for the next one.
        """
        tried = {key for key in self._again if key in self._refusals or self._error_backoff.any_at(key)}
        return self._again != tried or any(
            gang_state.moved or gang_state.behind for gang_state in map(self._states.__getitem__, self._open)
        )

    def _stays(self, key: GangKey) -> bool:
        """Return whether the gang's `ReconcileState` is kept as long as no input of the gang changes.

        True for a state that is still to be reported, and for a gang whose members are being created. Also True for a
        gang that waits for a plan while no step is due for it.
        """
        gang_state = self._states[key]
        if gang_state.arriving:
            return still_coming(gang_state.gang, self._clock.wall())
        return gang_state.behind or (
            gang_state.resting and isinstance(gang_state.step, NeedPlan) and not gang_state.effects.watched
        )

    def _renew(self, keys: Collection[GangKey], cluster_view: ClusterView, existing: mirrors.GangObjects) -> None:
        """Rebuild the states of these gangs. Create, update and delete their mirrors.

        A reconcile has a time limit for these writes. The mirrors that are not written by then are written in the next
        reconcile.

        :param existing: the present Gang objects.
        """
        writes: dict[GangKey, Callable[[], Manifest | None]] = {}
        left = self._delete_stale(sorted(keys), cluster_view, existing)
        self._again |= left
        for key in sorted(keys):
            gang = self._gang(key, cluster_view)
            if gang is None:
                if key not in left:
                    self._made.pop(key, None)
                self._refusals.pop(key, None)
                self._error_backoff.forget(key)
                self._roomless.pop(key, None)
                self._drop(key)
            elif callable(found := self._object_of(gang, existing, cluster_view.ending)):
                writes[key] = found
            else:
                self._put(gang, found, cluster_view)
        turn, todo = turn_of(map(self._states.__getitem__, self._open)), iter(self._in_order(writes, cluster_view))
        over = self._clock.monotonic() + turn.seconds
        while (batch := list(islice(todo, turn.batch))) and self._clock.monotonic() < over:
            for key, manifest in zip(batch, self._writer.each(writes[key] for key in batch), strict=True):
                self._note(key, self._gang(key, cluster_view), written=manifest is not None)
                self._put(self._gang(key, cluster_view), manifest, cluster_view)
                del writes[key]
        for key in writes:
            self._put(self._gang(key, cluster_view), None, cluster_view)
        self._error_backoff.report(Activity.LOOKING, self._mute.items(), turn.batch)
        self._mute.clear()

    def _gang(self, key: GangKey, cluster_view: ClusterView) -> Gang | None:
        """Return the gang as it is planned; None if it does not exist. Cached for this reconcile.

        With placeholders, it has a member for each lost pod that is being recreated. Without them, no capacity is
        reserved for expected pods.
        """
        if key not in self._planned_gangs:
            if self._placeholders:
                self._planned_gangs[key] = self._lost_members.gang(key, self._states.get(key), cluster_view)
            else:
                self._planned_gangs[key] = self._roomless_gang(key, cluster_view)
        return self._planned_gangs[key]

    def _roomless_gang(self, key: GangKey, cluster_view: ClusterView) -> Gang | None:
        gang = cluster_view.kept.gang(key)
        if gang is None or gang.later is None:
            return gang
        known = self._roomless.get(key)
        if known is None or known[0] is not gang:  # callers compare gangs by identity
            known = self._roomless[key] = gang, without_room(gang, BY_SETTING)
        return known[1]

    def _in_order(self, keys: Iterable[GangKey], cluster_view: ClusterView) -> list[GangKey]:
        """Return the gangs in the order in which their Gang objects are written.

        Gangs with a plan being carried out come first, then gangs in turns of their namespaces. Gangs whose objects
        were rejected before come last, after their back-off, so that they cannot block the writes of other gangs.
        """
        asked = [key for key in keys if not self._waits(key, self._gang(key, cluster_view))]
        again = [key for key in asked if key in self._refusals]
        first = [
            key for key in asked if key not in self._refusals and key in self._states and self._states[key].on_its_way
        ]
        known = {*again, *first}
        others = in_turns((key for key in asked if key not in known), lambda key: key.namespace)
        return [*first, *others, *again]

    def _waits(self, key: GangKey, gang: Gang | None) -> bool:
        """Return whether the gang backs off: the API server rejected its Gang object, and the gang has not changed."""
        refusal = self._refusals.get(key)
        return refusal is not None and refusal.gang == gang and self._clock.monotonic() < refusal.again

    def _note(self, key: GangKey, gang: Gang | None, *, written: bool) -> None:
        """Record whether the API server accepted the Gang object of this gang. A rejection starts its back-off."""
        before = self._refusals.pop(key, None)
        if not written:
            times = before.times + 1 if before is not None and before.gang == gang else 1
            self._refusals[key] = _Refusal(gang, times, self._clock.monotonic() + _RETRIES.delay(times))

    def _drop(self, key: GangKey) -> None:
        if self._samples.pop(key, None) is not None:
            self._moved[key] = None
        self._states.pop(key, None)
        self._open.pop(key, None)
        self._gone.add(key)

    def _put(self, gang: Gang | None, manifest: Manifest | None, cluster_view: ClusterView) -> None:
        """Store the new state of a gang that has a Gang object. A gang without one waits for the next reconcile.

        :param gang: None if the gang does not exist; then nothing is stored.
        :param manifest: the Gang object; None if there is none.
        """
        if gang is None:
            return
        if manifest is None:
            self._drop(gang.key)
            self._again.add(gang.key)
            return
        made, key = partial(_state_of, gang, manifest, cluster_view), gang.key
        pausing = self._error_backoff.message(key, Activity.LOOKING)
        gang_state = None if pausing else self._error_backoff.run(key, Activity.LOOKING, made)
        if gang_state is None:  # its reserved capacity stays until its step can be computed
            self._drop(key)
            self._again.add(key)
            self._mute[key] = manifest
            return
        failed = Effects(failed=self._error_backoff.message(key, Activity.ACTING))
        before = self._states.get(key)
        reported = before.reported if before is not None else gang_state.reported
        self._states[key] = replace(gang_state, effects=failed, reported=reported)
        self._open[key] = None

    def _delete_stale(
        self, keys: Iterable[GangKey], cluster_view: ClusterView, existing: mirrors.GangObjects
    ) -> set[GangKey]:
        """Delete obsolete mirrors of these gangs, in turns of their namespaces, as far as the time allows.

        Return the gangs that still have obsolete mirrors.
        """
        stale = [
            (key, manifest)
            for key in keys
            for manifest in mirrors.stale_mirrors(
                existing, key, self._gang(key, cluster_view), kept=key in cluster_view.unreadable
            )
        ]
        left: set[GangKey] = set()
        turn, todo = turn_of(map(self._states.__getitem__, self._open)), in_turns(stale, lambda each: each[0].namespace)
        over, tried = self._clock.monotonic() + turn.seconds, set[int]()
        while (batch := list(islice(todo, turn.batch))) and self._clock.monotonic() < over:
            written = self._writer.each(partial(self._delete, manifest) for _, manifest in batch)
            left |= {key for (key, _), each in zip(batch, written, strict=True) if not each.over}
            tried |= {id(manifest) for _, manifest in batch}
            for _, manifest in batch:
                existing.delete(manifest)
        return left | {key for key, manifest in stale if id(manifest) not in tried}

    def _delete(self, manifest: Manifest) -> Written:
        meta = manifest["metadata"]
        path = gang_path(meta["namespace"], meta["name"])
        return self._writer.delete(path, meta["uid"], version=meta["resourceVersion"])

    def _object_of(
        self, gang: Gang, existing: mirrors.GangObjects, ending: Collection[str]
    ) -> Manifest | Callable[[], Manifest | None] | None:
        """Return the gang's Gang object if it is as wanted; otherwise a function that creates or updates the mirror.

        That function returns the written object, or None if the write failed. The result is None if the mirror's
        namespace is being deleted.

        :param ending: the namespaces that are being deleted.
        """
        if not mirrors.is_mirrored(gang):
            own = (gang.source.namespace, gang.source.name)
            there = existing.at(own)
            if there is None or claim_of(
                there
            ):  # pods name a Gang that does not exist, or its name is taken by a mirror of another gang
                return {"metadata": {"namespace": own[0], "name": own[1]}}
            return there
        place = mirrors.mirror_name(gang, existing)
        wanted, present = mirrors.mirror_of(gang, place), existing.at(place)
        if present is None:
            existing.add(wanted)
            return None if place[0] in ending else partial(self._make, gang.key, wanted)
        return partial(self._mend, present, wanted) if mirrors.differs(present, wanted) else present

    def _make(self, key: GangKey, wanted: Manifest) -> Manifest | None:
        written = self._writer.create(gang_path(wanted["metadata"]["namespace"]), wanted)
        if not written.done:
            return None
        self._made[key] = mirrors.Unmarked(mirrors.namespaced_name_of(wanted), written.uid)
        metadata = {**wanted["metadata"], "uid": written.uid, "resourceVersion": written.version, "generation": 1}
        return self._marked({**wanted, "metadata": metadata})

    def _marked(self, made: Manifest) -> Manifest:
        """Mark a new mirror as created by Phalanx, and return it.

        A mirror with an owner reference gets the mark with its first status, because it is deleted with its owner.
        """
        if made["metadata"].get("ownerReferences"):
            return made
        status = {MARK: claim_of(made)}
        written = self._writer.merge(f"{gang_path(*mirrors.namespaced_name_of(made))}/status", {"status": status}, made)
        metadata = {**made["metadata"], "resourceVersion": written.version}
        return {**made, "metadata": metadata, "status": status} if written.done else made

    def _mend(self, present: Manifest, wanted: Manifest) -> Manifest | None:
        spec = status_patch(present.get("spec"), wanted["spec"])
        path = gang_path(*mirrors.namespaced_name_of(present))
        written = self._writer.merge(path, {"metadata": wanted["metadata"], "spec": spec}, present)
        metadata = {**present["metadata"], "resourceVersion": written.version}
        return {**present, "metadata": metadata, "spec": wanted["spec"]} if written.done else None


def _state_of(gang: Gang, manifest: Manifest, cluster_view: ClusterView) -> ReconcileState:
    status = manifest.get("status") or {}
    record = record_from(status)
    placeholders = cluster_view.placeholders.get(gang.key, {})
    view = cluster_view
    situation = Situation(
        settled(gang),
        record,
        view.snapshot,
        view.live,
        placeholders,
        view.ungated,
        view.devices,
        view.predecessors(gang),
    )
    step = next_step(situation)
    timeout = timed_out(status)
    return ReconcileState(gang, manifest, record, step, placeholders, view.ungated, timed_out=timeout)


def _standing(gang_state: ReconcileState) -> GangSample:
    uid = gang_state.manifest["metadata"].get("uid", "")
    phase = Phase.shown_by(gang_state.status) if gang_state.deferred else phase_of(gang_state)
    return GangSample(gang_state.gang.key, phase, gang_state.gang.created, gang_state.status, uid)
