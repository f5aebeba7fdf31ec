"""Every gang with its Gang object and the step that is due: from round to round only what has changed is looked at.

A round that has come to rest (nothing was written for it, and nothing will be unless something changes) stays as it is.
Any other is made anew from the cluster in each round, whatever became of it in the last one.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice
from time import monotonic

from controller.cluster_view import ClusterView
from controller.gang_round import GangRound
from controller.gang_status import Phase, status_patch
from controller.release.protocol import AllBound, NeedPlan, Situation, next_step
from controller.release.records import record_from
from controller.release.timeouts import timed_out
from controller.status import mirrors
from controller.status.reporting import BATCH, phase_of, turn_seconds
from controller.telemetry.metrics import GangSample
from controller.writes.writer import Writer, gang_path
from gangs.mirrors import MARK, claim_of
from gangs.model import Gang, GangKey, Manifest
from planning.quota.flavors import settled


class GangRounds:
    """The rounds of all gangs, and how these stand."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._cases: dict[GangKey, GangRound] = {}
        self._open: dict[GangKey, None] = {}
        """Gangs for which something may have to be done: all but those that run and rest."""
        self._again: set[GangKey] = set()
        """Gangs whose objects could not be written as they should be."""
        self._gone: set[GangKey] = set()
        """Gangs that were dropped and have not been told of."""
        self._made: dict[GangKey, mirrors.Unmarked] = {}
        """The mirrors that were made here, of gangs that are there."""
        self._standings: dict[GangKey, GangSample] = {}
        self.moved = True
        """Whether some gang stands otherwise than after the last round."""

    def look(self, picture: ClusterView) -> list[GangRound]:
        """The rounds that are open, each as it is to be decided on now."""
        existing = mirrors.GangObjects(picture.sources.catalog, self._made)
        begun = {key for key in self._open if not self._stays(key)}
        renewed, self._again = picture.concerned | self._again | begun, set()
        self._renew(renewed, picture, existing)
        for key in self._open.keys() - renewed:
            gang_round = self._cases[key]
            gang_round.last, gang_round.decision, gang_round.writing = gang_round.decision, None, False
        return [self._cases[key] for key in self._open]

    def keys(self) -> Collection[GangKey]:
        """All gangs."""
        return self._cases.keys()

    def gone(self) -> Collection[GangKey]:
        """The gangs that are no more, told once."""
        gone, self._gone = self._gone, set()
        return [key for key in gone if key not in self._cases]

    def close(self, gang_rounds: Iterable[GangRound]) -> None:
        """The round is over for these."""
        for gang_round in gang_rounds:
            key, stands = gang_round.gang.key, _standing(gang_round)
            if self._standings.get(key) != stands:
                self._standings[key] = stands
                self.moved = True
            if gang_round.resting and isinstance(gang_round.step, AllBound):
                self._open.pop(key, None)

    def standings(self) -> list[GangSample]:
        """How every gang stands."""
        self.moved = False
        return list(self._standings.values())

    @property
    def unfinished(self) -> bool:
        """Whether there may be something to do though nothing changes."""
        return bool(self._again) or any(self._cases[key].waits_for_time for key in self._open)

    def _stays(self, key: GangKey) -> bool:
        """Whether the round is still what it was, if nothing has changed in the cluster."""
        gang_round = self._cases[key]
        return gang_round.behind or (
            gang_round.resting and isinstance(gang_round.step, NeedPlan) and not gang_round.watched
        )

    def _renew(self, keys: Collection[GangKey], picture: ClusterView, existing: mirrors.GangObjects) -> None:
        """Make the rounds of these gangs anew, and write the objects that show them where these are not as they should.

        Of mirrors no more are written in one round than there is time for.
        """
        writes: dict[GangKey, Callable[[], Manifest | None]] = {}
        for key in sorted(keys):
            gang = picture.kept.gang(key)
            self._delete_stale(key, gang, picture, existing)
            if gang is None:
                self._made.pop(key, None)
                self._drop(key)
            elif callable(found := self._object_of(gang, existing, picture.ending)):
                writes[key] = found
            else:
                self._put(gang, found, picture)
        over, todo = monotonic() + turn_seconds(map(self._cases.__getitem__, self._open)), iter(writes.items())
        while (batch := list(islice(todo, BATCH))) and monotonic() < over:
            for (key, _), manifest in zip(batch, self._writer.each(write for _, write in batch), strict=True):
                self._put(picture.kept.gang(key), manifest, picture)
        for key, _ in (*batch, *todo):
            self._put(picture.kept.gang(key), None, picture)

    def _drop(self, key: GangKey) -> None:
        self.moved |= self._standings.pop(key, None) is not None
        self._cases.pop(key, None)
        self._open.pop(key, None)
        self._gone.add(key)

    def _put(self, gang: Gang | None, manifest: Manifest | None, picture: ClusterView) -> None:
        """Take over a gang with its object; one without has to wait for the next round."""
        if gang is None:
            return
        if manifest is None:
            self._drop(gang.key)
            self._again.add(gang.key)
            return
        self._cases[gang.key] = _case(gang, manifest, picture)
        self._open[gang.key] = None

    def _delete_stale(
        self, key: GangKey, gang: Gang | None, picture: ClusterView, existing: mirrors.GangObjects
    ) -> None:
        """Delete what mirrors the gang and should not."""
        for manifest in mirrors.stale_mirrors(existing, key, gang, kept=key in picture.unreadable):
            meta = manifest["metadata"]
            path = gang_path(meta["namespace"], meta["name"])
            written = self._writer.delete(path, meta["uid"], version=meta["resourceVersion"])
            if not written.over:
                self._again.add(key)
            existing.delete(manifest)

    def _object_of(
        self, gang: Gang, existing: mirrors.GangObjects, ending: Collection[str]
    ) -> Manifest | Callable[[], Manifest | None] | None:
        """The gang's own object; where it mirrors another one and is not as it should be, what makes or mends it."""
        if not mirrors.is_mirrored(gang):
            own = (gang.source.namespace, gang.source.name)
            return existing.at(own) or {"metadata": {"namespace": own[0], "name": own[1]}}
        place = mirrors.mirror_place(gang, existing)
        wanted, present = mirrors.mirror_of(gang, place), existing.at(place)
        if present is None:
            existing.add(wanted)
            return None if place[0] in ending else partial(self._make, gang.key, wanted)
        return partial(self._mend, present, wanted) if mirrors.differs(present, wanted) else present

    def _make(self, key: GangKey, wanted: Manifest) -> Manifest | None:
        written = self._writer.create(gang_path(wanted["metadata"]["namespace"]), wanted)
        if not written.done:
            return None
        self._made[key] = mirrors.Unmarked(mirrors.place_of(wanted), written.uid)
        metadata = {**wanted["metadata"], "uid": written.uid, "resourceVersion": written.version}
        return self._marked({**wanted, "metadata": metadata})

    def _marked(self, made: Manifest) -> Manifest:
        """A mirror with the mark that we made it. One with an owner gets it with its first status: it goes with him."""
        if made["metadata"].get("ownerReferences"):
            return made
        status = {MARK: claim_of(made)}
        written = self._writer.merge(f"{gang_path(*mirrors.place_of(made))}/status", {"status": status}, made)
        metadata = {**made["metadata"], "resourceVersion": written.version}
        return {**made, "metadata": metadata, "status": status} if written.done else made

    def _mend(self, present: Manifest, wanted: Manifest) -> Manifest | None:
        spec = status_patch(present.get("spec"), wanted["spec"])
        path = gang_path(*mirrors.place_of(present))
        written = self._writer.merge(path, {"metadata": wanted["metadata"], "spec": spec}, present)
        metadata = {**present["metadata"], "resourceVersion": written.version}
        return {**present, "metadata": metadata, "spec": wanted["spec"]} if written.done else None


def _case(gang: Gang, manifest: Manifest, picture: ClusterView) -> GangRound:
    status = manifest.get("status") or {}
    record = record_from(status)
    placeholders = picture.placeholders.get(gang.key, {})
    step = next_step(Situation(settled(gang), record, picture.snapshot, picture.live, placeholders))
    return GangRound(gang, manifest, record, step, placeholders, timed_out=timed_out(status))


def _standing(gang_round: GangRound) -> GangSample:
    uid = gang_round.manifest["metadata"].get("uid", "")
    phase = Phase(gang_round.status.get("phase", Phase.WAITING.value)) if gang_round.deferred else phase_of(gang_round)
    return GangSample(gang_round.gang.key, phase, gang_round.gang.created, gang_round.status, uid)
