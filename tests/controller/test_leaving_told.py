"""The events that the controller writes when another system arrives in the cluster, and when it leaves."""

from collections.abc import Mapping
from typing import cast

from cluster.snapshot import Snapshot
from controller.cluster_view import ClusterView
from controller.coexistence import CoexistenceReporter
from controller.telemetry import events
from controller.telemetry.events import Reason
from controller.telemetry.recorder import Recorder
from gangs.coexistence.ownership import CededToOthers, Neighbour
from gangs.model import ObjectRef, Reading
from gangs.sources import Sources

EVIDENCE = ObjectRef("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "mutating-kai-admission")
KAI = Neighbour("kai", "KAI Scheduler", EVIDENCE)


class Notes:
    """Takes events as they are recorded."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, Reason, str]] = []

    def record(self, ref: ObjectRef, reason: Reason, note: str, *, related: ObjectRef | None = None) -> None:
        """Keep it."""
        del related
        self.taken.append((ref.name, reason, note))


def picture(left: Mapping[str, Neighbour]) -> ClusterView:
    """Return a cluster view that is empty but for the dialects ceded to other systems."""
    return ClusterView(Sources(), Reading(), (), (), Snapshot(), {}, left=CededToOthers(left))


def test_each_system_is_told_of_once_when_it_comes_and_once_when_it_goes() -> None:
    notes = Notes()
    coexistence = CoexistenceReporter(cast("Recorder", notes))
    for left in ({}, {"kai": KAI, "runai": KAI}, {"kai": KAI, "runai": KAI}, {}):
        coexistence.tell(picture(left))
    assert [(name, reason) for name, reason, _ in notes.taken] == [
        ("mutating-kai-admission", events.SYSTEM_LEFT),
        ("zz-phalanx", events.SYSTEM_TAKEN),
    ]
    assert notes.taken[0][2].startswith("gangs asked for in the keys of kai, runai are left to KAI Scheduler")
    assert notes.taken[0][2].endswith("zz-phalanx with phalanx.dev/adopt: kai")


def test_what_an_annotation_leaves_is_told_on_our_own_configuration() -> None:
    notes = Notes()
    CoexistenceReporter(cast("Recorder", notes)).tell(picture({"ack": Neighbour("ack", "ack")}))
    assert notes.taken[0][:2] == ("zz-phalanx", events.SYSTEM_LEFT)
    assert "annotation phalanx.dev/leave" in notes.taken[0][2]
