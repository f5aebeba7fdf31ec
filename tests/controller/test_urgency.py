"""How soon a round is due after a change, depending on the things that gangs wait for.

A gang of two, `llm`, on three nodes; `stranger` is a pod of no gang.
"""

from dataclasses import dataclass, replace

import pytest
from cache_feed import FedCache
from msgspec.structs import replace as with_fields
from protocol_scenes import gang, node, pod, record

from cluster.caches.journal import News
from cluster.snapshot import Snapshot
from controller.acting.probe import PROBE
from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.next_step import AllBound, AwaitBinding, NeedPlan, Release, Step
from controller.release.records import PlanRecord
from controller.urgency import Urgencies, Urgency
from controller.writes.read_your_writes import ReadYourWrites
from gangs.incremental.gang_store import GangStore
from gangs.model import Gang, GangKey, PodSet
from gangs.sources import Sources
from kube.keys import DIALECT, GANG, SYSTEM_NAMESPACE
from kube.objects import Condition, NodeSpec, ObjectMeta, Pod, PodStatus
from kube.topology import Topology
from planning.decision import Decision, Outcome
from planning.message import Message

NEVER, LATER, SOON, NOW = Urgency
PLAN = record([("a", "n1"), ("b", "n2")])


def member(name: str, **fields: object) -> Pod:
    """Return a member as it is stored in the cluster, with the label that names its gang."""
    made = pod(name, **fields)  # type: ignore[arg-type]
    return with_fields(made, metadata=with_fields(made.metadata, labels={GANG: "llm", DIALECT: "phalanx"}))


def of_two(*members: Pod) -> Gang:
    """The gang of two, of which these have come."""
    return replace(gang(*members), pod_sets=(PodSet("main", 2, 2),), expected=2, min_member=2)


def gang_state(of: Gang, step: Step, plan: PlanRecord | None = None, outcome: Outcome | None = None) -> ReconcileState:
    """How the last round left it."""
    decision = None if outcome is None else Decision(of, of.key, outcome, Message())
    return ReconcileState(of, {"metadata": {"name": "llm", "namespace": "default"}}, plan, step, decision=decision)


def probe(*, tried: bool) -> Pod:
    """Return a probe."""
    said = (Condition(type="PodScheduled", status="False"),) if tried else ()
    meta = ObjectMeta(name="probe-1", namespace=SYSTEM_NAMESPACE, uid="uid-probe", labels={PROBE: "true"})
    return Pod(metadata=meta, status=PodStatus(conditions=said))


@dataclass(frozen=True)
class Case:
    """The state that the last round left, the pods now, the pods that changed, and how soon a round is due."""

    left: ReconcileState | None
    there: tuple[Pod, ...]
    news: tuple[str, ...]
    due: Urgency
    before: tuple[Pod, ...] = ()


WAITING = gang_state(of_two(member("a")), NeedPlan(), outcome=Outcome.WAITING)
NO_ROOM = gang_state(of_two(member("a"), member("b")), NeedPlan(), outcome=Outcome.UNPLACEABLE)
HELD = gang_state(of_two(member("a", nominated="n1"), member("b", nominated="n2")), Release(()), PLAN)
BINDING = gang_state(
    of_two(member("a", gated=False, nominated="n1"), member("b", gated=False, nominated="n2")), AwaitBinding(()), PLAN
)
BOUND = gang_state(of_two(member("a", bound="n1"), member("b", bound="n2")), AllBound())
BROKEN = gang_state(of_two(member("b", bound="n2")), AllBound())
A, B, STRANGER = "default/a", "default/b", "default/stranger"
HERE = pod("stranger", gated=False, bound="n3")
HERE_TOO = pod("another", gated=False, bound="n3")

CASES = {
    "a member of a gang that lacks two": Case(
        gang_state(of_two(), NeedPlan(), outcome=Outcome.WAITING), (member("a"),), (A,), LATER
    ),
    "the last member": Case(WAITING, (member("a"), member("b")), (B,), NOW),
    "a member that is known, once more": Case(WAITING, (member("a"),), (A,), LATER),
    "the first pod of a gang that nobody knows": Case(None, (member("a"),), (A,), SOON),
    "nominations that come back": Case(HELD, (member("a", nominated="n1"),), (A,), LATER),
    "a nomination that is lost": Case(HELD, (member("a"),), (A,), SOON),
    "a member that is deleted": Case(HELD, (member("a", nominated="n1", terminating=True),), (A,), SOON),
    "a member that is gone": Case(HELD, (), (A,), SOON, before=(member("a", nominated="n1"),)),
    "one that comes beside a plan": Case(HELD, (member("c"),), ("default/c",), SOON),
    "a member that is bound, not the last": Case(BINDING, (member("a", bound="n1"),), (A,), LATER),
    "the last that is bound": Case(BINDING, (member("a", bound="n1"), member("b", bound="n2")), (A, B), NOW),
    "a member for which the scheduler found no room": Case(BINDING, (member("a", gated=False),), (A,), SOON),
    "one that runs says more": Case(BOUND, (member("a", bound="n1"),), (A,), LATER),
    "one that ran is gone": Case(BOUND, (), (A,), SOON, before=(member("a", bound="n1"),)),
    "one of which another one has gone before": Case(BROKEN, (), (B,), LATER, before=(member("b", bound="n2"),)),
    "the one that comes in its place": Case(BROKEN, (member("c"),), ("default/c",), NOW),
    "a stranger comes": Case(NO_ROOM, (HERE,), (STRANGER,), LATER),
    "a stranger leaves, and somebody waits for room": Case(NO_ROOM, (), (STRANGER,), SOON, before=(HERE,)),
    "a stranger leaves, and nobody does": Case(BOUND, (), (STRANGER,), LATER, before=(HERE,)),
    "a probe that was not tried": Case(HELD, (probe(tried=False),), (f"{SYSTEM_NAMESPACE}/probe-1",), NEVER),
    "a probe that was tried": Case(HELD, (probe(tried=True),), (f"{SYSTEM_NAMESPACE}/probe-1",), NOW),
    "something that has no name, as a node": Case(HELD, (), (), SOON),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_how_soon(case: Case) -> None:
    cache = FedCache()
    urgencies = Urgencies(cache, ReadYourWrites())
    kept = GangStore(Sources(case.before))
    left = [] if case.left is None else [case.left]
    urgencies.note(left, (), view(kept))
    for each in case.there:
        cache.put(each)
    news = News(pods=tuple(_at(each) for each in case.news))
    assert urgencies.of(news) is case.due


def test_what_is_not_told_by_name_is_looked_at_soon_whatever_comes_with_it() -> None:
    """A node arrives together with a pod that alone would only be gathered."""
    cache = FedCache()
    urgencies = Urgencies(cache, ReadYourWrites())
    urgencies.note([NO_ROOM], (), view(GangStore(Sources())))
    cache.put(HERE)
    with cache.journal() as journal:
        journal.take()
        cache.put(HERE_TOO)
        assert urgencies.of(journal.news()) is LATER
        cache.put_node(with_fields(node("n3"), spec=NodeSpec(unschedulable=True)))
        cache.put(pod("third", gated=False, bound="n3"))
        assert urgencies.of(journal.news()) is SOON
        cache.put(pod("fourth", gated=False, bound="n3"))
        assert urgencies.of(journal.news()) is LATER, "it is told once"


def test_what_we_wrote_on_a_gang_comes_back_later_and_what_others_write_soon() -> None:
    cache, read_your_writes = FedCache(), ReadYourWrites()
    urgencies = Urgencies(cache, read_your_writes)
    key = ("phalanx.dev", "Gang", "default", "llm")
    for version, due in (("7", LATER), ("8", SOON)):
        cache.put_gang({"metadata": {"name": "llm", "namespace": "default", "resourceVersion": version}})
        read_your_writes.expect("/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/llm/status", "7")
        assert urgencies.of(News(objects=(key,))) is due


@pytest.mark.parametrize(
    ("change", "due"),
    [
        ({"status": {"active": 2}}, LATER),
        ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, SOON),
        ({"spec": {"parallelism": 3}}, SOON),
    ],
)
def test_counts_in_the_status_of_a_job_are_gathered(change: dict[str, object], due: Urgency) -> None:
    """The status of a Job changes with nearly every pod, and no dialect reads how many pods are active."""
    cache, key = FedCache(), ("batch", "Job", "default", "j")
    urgencies = Urgencies(cache, ReadYourWrites())
    metadata = {"name": "j", "namespace": "default", "resourceVersion": "1"}
    job: dict[str, object] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}, "status": {}}
    cache.put_job(job)
    assert urgencies.of(News(objects=(key,))) is SOON, "no reconcile has read it"
    before = replace(view(GangStore(Sources())), sources=Sources(objects=cache.objects()))
    urgencies.note([], (), before)
    cache.put_job({**job, "metadata": {**metadata, "resourceVersion": "2"}, **change})
    assert urgencies.of(News(objects=(key,))) is due


def test_a_gang_that_is_gone_is_waited_for_no_more() -> None:
    cache = FedCache()
    urgencies = Urgencies(cache, ReadYourWrites())
    urgencies.note([NO_ROOM], (), view(GangStore(Sources((HERE,)))))
    urgencies.note([], (GangKey("phalanx", "default", "llm"),), view(GangStore(Sources((HERE,)))))
    assert urgencies.of(News(pods=(_at(STRANGER),))) is LATER


def view(kept: GangStore) -> ClusterView:
    """Return a cluster view of which only the readings matter."""
    topologies: tuple[Topology, ...] = ()
    return ClusterView(Sources(), kept.reading(), topologies, (), Snapshot(), {}, kept=kept)


def _at(key: str) -> tuple[str, str]:
    namespace, _, name = key.partition("/")
    return namespace, name
