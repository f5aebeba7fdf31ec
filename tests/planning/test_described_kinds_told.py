"""The condition of a WorkloadKind about the objects of its kind, and the doctor's findings from it."""

from typing import Any

from workload_operators import described

from cluster.caches.trouble import Trouble, TroubleReason
from cluster.snapshot import Snapshot
from controller.status.described_kinds import condition
from gangs.manifests import key_of
from gangs.sources import Sources
from planning.doctor.checkup import check_up
from planning.doctor.finding import Finding, Severity

WHAT = "trainingruns.ml.example.com"
AT = ("ml.example.com", "TrainingRun")


def told(trouble: Trouble | None) -> tuple[dict[str, Any], Finding]:
    """Return the condition of the WorkloadKind, and the doctor's findings about it."""
    kind = described()
    said = condition(kind, Sources(objects={key_of(kind): kind}), {AT: trouble})
    assert said is not None
    shown = {**kind, "status": {"conditions": [said]}}
    (found,) = check_up(Snapshot(), Sources(objects={key_of(shown): shown}))[-1:]
    return said, found


def test_all_is_well() -> None:
    said, found = told(None)
    assert (said["status"], said["reason"]) == ("True", "Watched")
    assert (found.severity, found.text) == (Severity.OK, f"{WHAT} that ask for it are gangs")


def test_a_workload_that_we_fail_to_read_is_told_and_the_others_are_gangs() -> None:
    said, found = told(
        Trouble(TroubleReason.SOME_LEFT_OUT, "except default/w, which Phalanx fails to read (TypeError)")
    )
    assert (said["status"], said["reason"]) == ("True", "SomeLeftOut")
    text = f"{WHAT} that ask for it are gangs, except default/w, which Phalanx fails to read (TypeError)"
    assert (found.severity, found.text) == (Severity.WARNING, text)
    assert found.remedy == "report that with the log of Phalanx"


def test_a_fault_of_ours_that_keeps_the_whole_kind_out_is_told() -> None:
    said, found = told(Trouble(TroubleReason.UNREADABLE, "failed in Phalanx itself (TypeError); its log says where"))
    assert (said["status"], said["reason"]) == ("False", "Unreadable")
    assert found.severity is Severity.ERROR
    assert "failed in Phalanx itself" in f"{found.text} {found.remedy}"
