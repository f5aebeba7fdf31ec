"""Reports on queues: the figures of each quota, the gangs that use it, and the gangs that wait, in planning order.

cohort ml    a: 8 cpu, runs 12, borrows 4     b: 8 cpu, runs nothing, two gangs wait
"""

from dataclasses import replace

import msgspec
from test_quotas import NODES, pod, pool

from cluster.capturing import snapshot_of
from gangs.model import Gang, GangKey, Member, ObjectRef, PodSet
from gangs.quota_model import Account, ClusterQueue, FlavorQuotas
from kube.objects import Pod
from planning.queue_report import QueueReport, QuotaFigures, as_data, queue_reports

A, B = pool("a", "ml", blue="8"), pool("b", "ml", blue="8")


def gang(name: str, queue: ClusterQueue, *pods: Pod, created: str = "", priority: int = 0) -> Gang:
    """A gang of these pods, charged to the queue."""
    members = tuple(
        Member(msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, priority=priority)), "main", None)
        for each in pods
    )
    return Gang(
        key=GangKey("kueue", "ns", name),
        source=ObjectRef("batch/v1", "Job", "ns", name),
        members=members,
        pod_sets=(PodSet("main", len(pods), len(pods)),),
        expected=len(pods),
        min_member=len(pods),
        queue=queue.name,
        account=Account(queue, cohort=(A, B), used=("blue",)),
        created=created,
    )


RUNNING = gang("large", A, *(pod(f"large-{at}", on=f"b{at}") for at in (1, 2, 3)))
LATE = gang("late", B, pod("late-0"), created="2026-01-02T00:00:00Z")
EARLY = gang("early", B, pod("early-0"), created="2026-01-01T00:00:00Z")
URGENT = gang("urgent", B, pod("urgent-0"), created="2026-01-03T00:00:00Z", priority=5)
GANGS = (RUNNING, LATE, EARLY, URGENT)


def reports() -> list[QueueReport]:
    """The reports on both queues."""
    return queue_reports(GANGS, snapshot_of(NODES, [each.pod for gang in GANGS for each in gang.members]))


def test_a_queue_shows_what_it_borrows_and_what_is_free() -> None:
    a, b = reports()
    assert a.quotas == (QuotaFigures("blue", "cpu", nominal=8000, used=12000, free=4000),)
    assert a.quotas[0].borrowed == 4000
    assert b.quotas == (QuotaFigures("blue", "cpu", nominal=8000, used=0, free=4000),)
    assert (a.quotas[0].lent, b.quotas[0].lent) == (0, 4000)
    assert [(each.key.name, each.amounts) for each in a.using] == [("large", {"cpu": 12000})]
    assert (a.waiting, b.using) == ((), ())


def test_gangs_wait_in_the_order_in_which_they_are_planned() -> None:
    _, b = reports()
    assert [each.key.name for each in b.waiting] == ["urgent", "early", "late"]
    assert b.local_queues == {"ns/b"}


def test_a_gang_that_runs_does_not_wait() -> None:
    a, _ = queue_reports([replace(RUNNING, expected=4)], snapshot_of(NODES, [each.pod for each in RUNNING.members]))
    assert [each.key.name for each in a.using] == ["large"]
    assert a.waiting == ()


def test_limits_of_borrowing_and_lending_are_amounts() -> None:
    quota = replace(A.groups[0].flavors[0].quotas[0], borrowing_limit="2", lending_limit="500m")
    limited = replace(A, groups=(replace(A.groups[0], flavors=(FlavorQuotas("blue", (quota,)),)),))
    (report,) = queue_reports([gang("g", limited)], snapshot_of(NODES, []))[:1]
    assert (report.quotas[0].borrowing_limit, report.quotas[0].lending_limit) == (2000, 500)


def test_the_data_of_a_report_names_gangs_with_their_dialect() -> None:
    a, b = map(as_data, reports())
    assert (a["name"], a["cohort"], b["quotas"][0]["lent"]) == ("a", "ml", 4000)
    (using,) = a["using"]
    assert using == {
        "namespace": "ns",
        "name": "large",
        "dialect": "kueue",
        "localQueue": "ns/a",
        "amounts": {"cpu": 12000},
        "expectedEnd": None,
    }
    assert [each["name"] for each in b["waiting"]] == ["urgent", "early", "late"]
