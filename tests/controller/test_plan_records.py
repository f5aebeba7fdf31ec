"""The plan in progress survives in the Gang's status and nowhere else."""

from gang_builders import gang, placed, pod

from controller.gang_status import Phase, gang_status
from controller.release.records import record_from, record_of


def test_a_plan_is_read_back_from_the_status_as_it_was_written() -> None:
    of = gang(pod("w-0"), pod("w-1"))
    decision = placed(of, "n1", "n2", victims=["low"])
    record = record_of(decision)
    status = gang_status(of, Phase.EVICTING, now="2026-01-01T00:00:00Z", decision=decision, plan_id=record.plan_id)
    assert record_from(status) == record


def test_a_bound_member_is_no_part_of_the_plan_to_be_carried_out() -> None:
    of = gang(pod("w-0", node="n1"), pod("w-1"))
    assert [member.name for member in record_of(placed(of, "n1", "n2")).members] == ["w-1"]


def test_equal_plans_have_equal_identities_and_others_differ() -> None:
    of = gang(pod("w-0"), pod("w-1"))
    first = record_of(placed(of, "n1", "n2"))
    assert record_of(placed(of, "n1", "n2")).plan_id == first.plan_id
    assert record_of(placed(of, "n2", "n1")).plan_id != first.plan_id
    assert record_of(placed(of, "n1", "n2", victims=["low"])).plan_id != first.plan_id


def test_a_status_without_a_plan_holds_no_record() -> None:
    assert record_from({}) is None
    assert record_from({"phase": "Waiting", "assignments": []}) is None
