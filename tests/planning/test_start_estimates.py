"""Estimated starts of gangs that wait for quota: by the deadlines of the gangs that use it, in planning order.

cohort ml    a: 8 cpu, `large` runs with 12     b: 8 cpu, `first` waits for 8, then `second` for 4
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from test_queue_report import RUNNING, B, gang
from test_quotas import NODES, pod

from cluster.capturing import snapshot_of
from gangs.model import Gang, GangKey, ObjectRef
from gangs.sources import Sources
from planning.queue_report import as_data, queue_reports
from planning.quota.start_estimates import LONGEST, Deadlines, deadlines_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
FIRST = gang("first", B, pod("first-0"), pod("first-1"), created="2026-01-01T00:00:00Z")
SECOND = gang("second", B, pod("second-0"), created="2026-01-02T00:00:00Z")
SMALL = gang("small", B, pod("small-0", on="b1"))


def starts(*gangs: Gang, ends: Mapping[str, timedelta], lasting: Mapping[str, timedelta] | None = None) -> Any:
    """The estimated starts in queue b by the gang's name, from now on."""
    keys = {each.key.name: each.key for each in gangs}
    deadlines = Deadlines(
        {keys[name]: NOW + after for name, after in ends.items()},
        {keys[name]: spent for name, spent in (lasting or {}).items()},
    )
    snapshot = snapshot_of(NODES, [each.pod for gang in gangs for each in gang.members])
    reports = {each.name: each for each in queue_reports(gangs, snapshot, deadlines, NOW)}
    return {each.key.name: each.estimated_start and each.estimated_start - NOW for each in reports["b"].waiting}


def test_a_gang_starts_when_the_gang_that_borrows_its_quota_ends() -> None:
    assert starts(RUNNING, FIRST, ends={"large": HOUR}) == {"first": HOUR}


def test_without_a_known_end_there_is_no_estimate_for_it_and_all_after_it() -> None:
    assert starts(RUNNING, FIRST, SECOND, ends={}) == {"first": None, "second": None}


def test_a_gang_whose_quota_is_free_waits_for_something_else() -> None:
    assert starts(RUNNING, SECOND, ends={"large": HOUR}) == {"second": None}


def test_later_gangs_wait_for_the_ends_of_earlier_ones() -> None:
    """Queue a uses 12 of 16 cpu for two hours more, and `small` 4 of them for one."""
    third = gang("third", B, pod("third-0"), pod("third-1"), created="2026-01-03T00:00:00Z")
    ends = {"large": 2 * HOUR, "small": HOUR}
    found = starts(RUNNING, SMALL, FIRST, third, ends=ends, lasting={"first": 3 * HOUR})
    assert found == {"first": 2 * HOUR, "third": 2 * HOUR}
    both = (replace(each, account=replace(each.account, cohort=(B,))) for each in (FIRST, third) if each.account)
    alone = starts(SMALL, *both, ends={"small": HOUR}, lasting={"first": 3 * HOUR})
    assert alone == {"first": HOUR, "third": 4 * HOUR}


def test_a_deadline_that_is_over_counts_as_now() -> None:
    assert starts(RUNNING, FIRST, ends={"large": -HOUR}) == {"first": None}


def test_programs_get_the_times_by_rfc_3339() -> None:
    deadlines = Deadlines({RUNNING.key: NOW + HOUR})
    snapshot = snapshot_of(NODES, [each.pod for gang in (RUNNING, FIRST) for each in gang.members])
    a, b = map(as_data, queue_reports([RUNNING, FIRST], snapshot, deadlines, NOW))
    assert a["using"][0]["endsBy"] == b["waiting"][0]["estimatedStart"] == "2026-01-01T13:00:00Z"


def asking(kind: str, api_version: str, spec: Any, status: Any) -> tuple[Gang, Sources]:
    """A gang and the workload that asks for it."""
    ref = ObjectRef(api_version, kind, "ns", "w")
    manifest = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"namespace": "ns", "name": "w"},
        "spec": spec,
        "status": status,
    }
    key = (api_version.rpartition("/")[0], kind, "ns", "w")
    return replace(FIRST, source=ref), Sources([], {key: manifest}, {})


STARTED = {"startTime": "2026-01-01T12:00:00Z"}
HOURLY = {"activeDeadlineSeconds": 3600}


@pytest.mark.parametrize(
    ("kind", "api_version", "spec", "status", "ends", "lasts"),
    [
        ("Job", "batch/v1", HOURLY, STARTED, NOW + HOUR, HOUR),
        ("Job", "batch/v1", HOURLY, None, None, HOUR),
        ("PyTorchJob", "kubeflow.org/v1", {"runPolicy": HOURLY}, STARTED, NOW + HOUR, HOUR),
        ("Job", "batch/v1", {}, STARTED, None, None),
        ("Job", "batch/v1", {"activeDeadlineSeconds": True}, STARTED, None, None),
        ("Job", "batch/v1", {"activeDeadlineSeconds": "3600"}, STARTED, None, None),
        ("Job", "batch/v1", {"activeDeadlineSeconds": LONGEST.total_seconds() * 2}, STARTED, None, None),
        ("Job", "batch/v1", {"activeDeadlineSeconds": 10**18}, STARTED, None, None),
        ("Job", "batch/v1", {"runPolicy": "none"}, "none", None, None),
    ],
)
def test_deadlines_are_those_of_the_workloads(
    kind: str, api_version: str, spec: Any, status: Any, ends: datetime | None, lasts: timedelta | None
) -> None:
    asked, sources = asking(kind, api_version, spec, status)
    found = deadlines_of([asked], sources)
    assert (found.ends.get(asked.key), found.durations.get(asked.key)) == (ends, lasts)


def test_a_gang_without_its_workload_has_no_deadline() -> None:
    assert deadlines_of([FIRST], Sources([], {}, {})) == Deadlines()
    assert isinstance(FIRST.key, GangKey)
