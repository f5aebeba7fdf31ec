"""The controller's loop: look, decide, act, report. Level-triggered; every round starts from the cluster alone."""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from cluster.cache import ClusterCache
from controller import mirrors
from controller.carrying import Carrier
from controller.deciding import Planner
from controller.leaving import Leaver
from controller.metrics import Metrics, Observer, Standing
from controller.picture import Picture, look
from controller.protocol import AwaitBinding, Cause, NeedPlan, Settled, Situation, Step, next_step
from controller.records import PlanRecord, record_from, record_of
from controller.refusing import Refuser
from controller.reporting import Reporter, phase_of
from controller.showing import Shower
from controller.statuses import status_patch
from controller.timeouts import expired, timed_out
from controller.writes import Writer, gang_path
from gangs.model import Gang, Manifest
from planning.decision import Decision, Outcome
from planning.flavors import settled

LOG = logging.getLogger(__name__)

IDLE_SECONDS = 0.5
"""A round is due this long after the last one even if nothing changed: pauses and timeouts end by themselves."""
SETTLE_SECONDS = 0.02
"""Changes come in bursts: a round begins this long after the first one."""
LAST_IN_LINE = "9998"
"""Stands for the age of a gang whose time was over once: it comes after the newer ones of its priority."""


@dataclass(slots=True)
class Case:
    """One gang in one round: what it asks for, the plan in progress, what is done about it, and how it stands then."""

    gang: Gang
    manifest: Manifest
    """Its Gang object, as last seen."""
    record: PlanRecord | None
    step: Step
    decision: Decision | None = None
    timed_out: bool | None = None
    expired_now: bool = False
    """Whether its time ended in this very round."""

    @property
    def name(self) -> str:
        """Name of its Gang object."""
        return str(self.manifest["metadata"]["name"])

    @property
    def path(self) -> str:
        """Where its Gang object is."""
        return gang_path(self.gang.key.namespace, self.name)

    @property
    def status(self) -> Mapping[str, Any]:
        """Its Gang object's status, as last seen."""
        return self.manifest.get("status") or {}


class Controller:
    """Leads: carries every gang of the cluster through the protocol."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        writer: Writer,
        planner: Planner,
        carrier: Carrier,
        reporter: Reporter,
        refuser: Refuser,
        shower: Shower,
        leaver: Leaver,
        metrics: Metrics,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._cache = cache
        self._writer = writer
        self._planner = planner
        self._carrier = carrier
        self._reporter = reporter
        self._refuser = refuser
        self._shower = shower
        self._leaver = leaver
        self._metrics = metrics
        self._observers = (metrics, *observers)

    def lead(self, lost: threading.Event) -> None:
        """Work until leadership is lost."""
        version = -1
        while not lost.is_set():
            version = self._cache.wait_for_change(version, IDLE_SECONDS)
            if not lost.wait(SETTLE_SECONDS):
                self._round_safely()

    def round(self) -> None:
        """Look once and do what is due."""
        if not self._writer.echo.wait(self._cache):
            LOG.warning("the watch caches are late; this round is left out")
            return
        picture = look(self._cache)
        self._leaver.tell(picture)
        cases = self._cases(picture)
        self._decide(cases, picture)
        self._carrier.carry(cases, picture)
        self._reporter.report(cases, picture)
        invalid = self._refuser.tell(picture)
        self._shower.show(picture)
        standings = [_standing(case) for case in cases]
        for each in self._observers:
            each.stand(standings, invalid)

    def _round_safely(self) -> None:
        started, outcome = monotonic(), "done"
        try:
            self.round()
        except Exception:
            # Whatever went wrong, the next round starts from the cluster again; nothing half-done is remembered.
            LOG.exception("round failed")
            outcome = "failed"
        self._metrics.round_seconds.labels(outcome).observe(monotonic() - started)

    def _cases(self, picture: Picture) -> list[Case]:
        gangs = picture.reading.gangs
        self._planner.forget_others([gang.key for gang in gangs])
        manifests = self._shown(gangs, picture)
        return [_case(gang, manifest, picture) for gang, manifest in zip(gangs, manifests, strict=True) if manifest]

    def _shown(self, gangs: Sequence[Gang], picture: Picture) -> list[Manifest | None]:
        """The Gang object of every gang, made or mended where it mirrors another one; None where that failed."""
        existing = dict(picture.gang_objects)
        for manifest in mirrors.stale_mirrors(existing, gangs, picture.unreadable):
            meta = manifest["metadata"]
            self._writer.delete(gang_path(meta["namespace"], meta["name"]), meta["uid"])
            del existing[meta["namespace"], meta["name"]]
        return [self._object_of(gang, existing, picture.ending) for gang in gangs]

    def _object_of(
        self, gang: Gang, existing: dict[tuple[str, str], Manifest], ending: Collection[str]
    ) -> Manifest | None:
        if not mirrors.is_mirrored(gang):
            own = (gang.source.namespace, gang.source.name)
            return existing.get(own) or {"metadata": {"namespace": own[0], "name": own[1]}}
        wanted = mirrors.mirror_of(gang, mirrors.mirror_name(gang, existing))
        key = (wanted["metadata"]["namespace"], wanted["metadata"]["name"])
        present = existing.get(key)
        existing[key] = present or wanted
        if present is not None and not mirrors.differs(present, wanted):
            return present
        if present is not None:
            spec = status_patch(present.get("spec"), wanted["spec"])
            written = self._writer.merge(gang_path(*key), {"metadata": wanted["metadata"], "spec": spec})
            return {**present, "spec": wanted["spec"]} if written.done else None
        if key[0] in ending:
            return None
        written = self._writer.create(gang_path(key[0]), wanted)
        metadata = {**wanted["metadata"], "uid": written.uid, "resourceVersion": written.version}
        return {**wanted, "metadata": metadata} if written.done else None

    def _decide(self, cases: Sequence[Case], picture: Picture) -> None:
        for case in cases:
            if case.timed_out is None and expired(case.gang, case.status) and not _let_go(case):
                self._expire(case, picture)
        needy = {case.gang.key: case for case in cases if isinstance(case.step, NeedPlan) and case.decision is None}
        answers = self._planner.decide([_in_line(case) for case in needy.values()], picture)
        for key, case in needy.items():
            case.decision = answers[key]
            record = record_of(case.decision) if case.decision.outcome is Outcome.PLACED else None
            case.record = record if record and record.members else None

    def _expire(self, case: Case, picture: Picture) -> None:
        """The gang's time is over: what it holds is given back, and it goes to the end of its line."""
        message = f"was not placed within {case.gang.schedule_timeout_seconds} s: its room is given back for others"
        held = tuple(m.pod for m in case.gang.members if m.pod.status.nominated_node_name and not m.pod.bound)
        cause = Cause.TIMED_OUT if case.record is not None else None
        case.step, case.record, case.timed_out, case.expired_now = NeedPlan("", held, cause), None, True, True
        case.decision = self._planner.hold_off(case.gang, message, picture)


def _case(gang: Gang, manifest: Manifest, picture: Picture) -> Case:
    status = manifest.get("status") or {}
    record = record_from(status)
    step = next_step(Situation(settled(gang), record, picture.snapshot, picture.live))
    return Case(gang, manifest, record, step, timed_out=timed_out(status))


def _standing(case: Case) -> Standing:
    uid = case.manifest["metadata"].get("uid", "")
    return Standing(case.gang.key, phase_of(case), case.gang.created, case.status, uid)


def _let_go(case: Case) -> bool:
    return isinstance(case.step, AwaitBinding | Settled)


def _in_line(case: Case) -> Gang:
    return replace(case.gang, created=LAST_IN_LINE) if case.timed_out else case.gang
