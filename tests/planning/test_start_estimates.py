"""Estimated starts of gangs that wait for quota: by the expected ends of the gangs that use it, in planning order.

cohort ml    a: 8 cpu, `large` runs with 12     b: 8 cpu, `first` waits for 8, then `second` for 4
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from test_queue_report import RUNNING, B, gang
from test_quotas import NODES, pod, pool

from cluster.capturing import snapshot_of
from gangs.mirrors import key_text
from gangs.model import Gang, GangKey, ObjectRef
from gangs.sources import Sources
from gangs.workloads.expected_duration import seconds_in
from kube.keys import EXPECTED_DURATION, MIRRORS
from planning.queue_report import GangInQueue, as_data, queue_reports
from planning.quota.start_estimates import LONGEST, ExpectedEnds, expected_ends_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
FIRST = gang("first", B, pod("first-0"), pod("first-1"), created="2026-01-01T00:00:00Z")
SECOND = gang("second", B, pod("second-0"), created="2026-01-02T00:00:00Z")
SMALL = gang("small", B, pod("small-0", on="b1"))


def starts(*gangs: Gang, ends: Mapping[str, timedelta], lasting: Mapping[str, timedelta] | None = None) -> Any:
    """The estimated starts in queue b by the gang's name, from now on."""
    keys = {each.key.name: each.key for each in gangs}
    expected = ExpectedEnds(
        {keys[name]: NOW + after for name, after in ends.items()},
        {keys[name]: spent for name, spent in (lasting or {}).items()},
    )
    return {each.key.name: each.estimated_start and each.estimated_start - NOW for each in waiting(gangs, expected)}


def waiting(gangs: Sequence[Gang], expected: ExpectedEnds) -> Sequence[GangInQueue]:
    """The gangs that wait in queue b, with their estimates."""
    snapshot = snapshot_of(NODES, [each.pod for gang in gangs for each in gang.members])
    reports = {each.name: each for each in queue_reports(gangs, snapshot, expected, NOW)}
    return reports["b"].waiting


def test_an_estimate_names_the_gang_whose_end_decides() -> None:
    """`first` waits for the last end that it needs, and `third` for the end of `first`."""
    third = gang("third", B, pod("third-0"), pod("third-1"), created="2026-01-03T00:00:00Z")
    both = [replace(each, account=replace(each.account, cohort=(B,))) for each in (FIRST, third) if each.account]
    expected = ExpectedEnds({SMALL.key: NOW + HOUR}, {FIRST.key: HOUR})
    assert [each.start_after for each in waiting([SMALL, *both], expected)] == [SMALL.key, FIRST.key]
    later = ExpectedEnds({RUNNING.key: NOW + 2 * HOUR, SMALL.key: NOW + HOUR})
    assert [each.start_after for each in waiting([RUNNING, SMALL, FIRST], later)] == [RUNNING.key]
    assert [each.start_after for each in waiting([RUNNING, FIRST], ExpectedEnds())] == [None]


def test_a_gang_starts_when_the_gang_that_borrows_its_quota_ends() -> None:
    assert starts(RUNNING, FIRST, ends={"large": HOUR}) == {"first": HOUR}


def test_without_a_known_end_there_is_no_estimate_for_it_and_all_after_it() -> None:
    assert starts(RUNNING, FIRST, SECOND, ends={}) == {"first": None, "second": None}


def test_no_gang_waits_for_one_that_can_never_fit() -> None:
    gangs = (RUNNING, FIRST, SECOND)
    snapshot = snapshot_of(NODES, [each.pod for gang in gangs for each in gang.members])
    expected = ExpectedEnds({RUNNING.key: NOW + HOUR}, never=frozenset({FIRST.key}))
    reports = {each.name: each for each in queue_reports(gangs, snapshot, expected, NOW)}
    assert [(each.key.name, each.estimated_start) for each in reports["b"].waiting] == [
        ("second", None),
        ("first", None),
    ]


def test_gangs_that_can_never_fit_are_known_by_their_status() -> None:
    metadata = {"namespace": "ns", "name": "w", "annotations": {MIRRORS: key_text(FIRST.key)}}
    mirror = {"metadata": metadata, "status": {"reason": "NeverFits"}}
    found = expected_ends_of([FIRST], Sources([], {("phalanx.dev", "Gang", "ns", "w"): mirror}, {}), NOW)
    assert found.never == {FIRST.key}


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


class CountedEnds(dict[GangKey, datetime]):
    """Expected ends that count how often all of them are read."""

    reads = 0

    def items(self) -> Any:
        """Return all ends, and count the call."""
        self.reads += 1
        return super().items()


def test_however_many_queues_there_are_all_ends_are_read_once() -> None:
    ends = CountedEnds({RUNNING.key: NOW + HOUR})
    queues = [pool(f"q{number}", "ml", blue="0") for number in range(20)]
    waiting = [gang(f"w{number}", queue, pod(f"w{number}-0")) for number, queue in enumerate(queues)]
    snapshot = snapshot_of(NODES, [member.pod for each in (RUNNING, *waiting) for member in each.members])
    queue_reports([RUNNING, *waiting], snapshot, ExpectedEnds(ends), NOW)
    assert ends.reads == 1


def test_programs_get_the_times_by_rfc_3339() -> None:
    expected = ExpectedEnds({RUNNING.key: NOW + HOUR})
    snapshot = snapshot_of(NODES, [each.pod for gang in (RUNNING, FIRST) for each in gang.members])
    a, b = map(as_data, queue_reports([RUNNING, FIRST], snapshot, expected, NOW))
    assert a["using"][0]["expectedEnd"] == b["waiting"][0]["estimatedStart"] == "2026-01-01T13:00:00Z"
    assert b["waiting"][0]["startAfter"] == {"namespace": "ns", "name": "large", "dialect": RUNNING.key.dialect}


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
    found = expected_ends_of([asked], sources, NOW)
    assert (found.ends.get(asked.key), found.durations.get(asked.key)) == (ends, lasts)


PLACED = {"type": "Placed", "status": "True", "lastTransitionTime": "2026-01-01T11:30:00Z"}


@pytest.mark.parametrize(
    ("text", "condition", "end"),
    [
        ("1h", PLACED, NOW + HOUR / 2),
        ("1h", {**PLACED, "status": "False"}, None),
        ("10m", PLACED, None),
        ("soon", PLACED, None),
        (60, PLACED, None),
        ("999999d", PLACED, None),
    ],
    ids=["runs", "waits", "is over", "no duration", "no text", "too long"],
)
def test_an_expected_duration_counts_from_the_placement(text: Any, condition: Any, end: datetime | None) -> None:
    asked, sources = asking("Job", "batch/v1", {}, {})
    workload = sources.get("batch", "Job", "ns", "w")
    assert workload is not None
    workload["metadata"]["annotations"] = {EXPECTED_DURATION: text}
    metadata = {"namespace": "ns", "name": "w", "annotations": {MIRRORS: key_text(asked.key)}}
    mirror = {"metadata": metadata, "status": {"conditions": [condition]}}
    sources = sources.changed({("phalanx.dev", "Gang", "ns", "w"): mirror})
    assert expected_ends_of([asked], sources, NOW).ends.get(asked.key) == end


def test_a_deadline_counts_if_the_expected_time_is_over() -> None:
    asked, sources = asking("Job", "batch/v1", HOURLY, STARTED)
    workload = sources.get("batch", "Job", "ns", "w")
    assert workload is not None
    workload["metadata"]["annotations"] = {EXPECTED_DURATION: "1m"}
    found = expected_ends_of([asked], sources, NOW)
    assert (found.ends, found.durations) == ({asked.key: NOW + HOUR}, {asked.key: timedelta(minutes=1)})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h30m", 9000),
        ("1d12h", 129_600),
        ("90s", 90),
        ("1d2h3m4s", 93_784),
        ("", None),
        ("0m", None),
        ("2.5h", None),
        ("30m2h", None),
        ("1h ", None),
        ("-1h", None),
        ("1234567s", None),
        ("٣h", None),
    ],
)
def test_durations_are_numbers_with_units_the_largest_first(text: str, seconds: int | None) -> None:
    assert seconds_in(text) == seconds


def test_a_gang_without_its_workload_has_no_deadline() -> None:
    assert expected_ends_of([FIRST], Sources([], {}, {}), NOW) == ExpectedEnds()
    assert isinstance(FIRST.key, GangKey)
