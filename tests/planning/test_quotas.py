"""The quota of gangs in queues: flavors in order, and quotas minus usage, with lending and borrowing."""

import random
from collections import Counter
from dataclasses import replace
from itertools import product
from operator import mul
from typing import Any

import msgspec
import pytest

from cluster.capturing import snapshot_of
from cluster.snapshot import Snapshot
from gangs.assembling import GangWorkload, assemble
from gangs.model import RESTART, Gang, GangKey, Member, ObjectRef, PlacementRequest, PodSet
from gangs.quota_model import Account, ClusterQueue, Cohort, Flavor, FlavorQuotas, Quota, ResourceGroup
from kube.keys import PINNED_IN, SYSTEM_NAMESPACE
from kube.objects import (
    Container,
    LabelSelector,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    Toleration,
)
from kube.placeholders import HELD_FOR, HELD_FOR_GANG, PLACEHOLDER, SEAT, seat_uid, to_come
from kube.topology import HOSTNAME_LABEL, Level, Topology
from planning.decision import Decision, Outcome, WaitReason
from planning.planner import plan_all, plan_gang, plan_in_turn
from planning.planning_options import PlanningOptions
from planning.quota.queueing import still_covered
from planning.quota.usage import NO_USAGE, QuotaBalance, usage_of
from planning.whole_again import whole_again
from solver.problem import Limits

RACK = Topology("net", "T", (Level("rack", ("rack",)), Level("node", (HOSTNAME_LABEL,))))
BLUE = Flavor("blue", (("color", "blue"),), topology="net", preferred="rack")
RED = Flavor(
    "red",
    (("color", "red"),),
    taints=(Taint(key="red", effect="NoSchedule"),),
    tolerations=(Toleration(key="red", operator="Exists"),),
)


def node(name: str, color: str, rack: str, *taints: Taint) -> Node:
    """A node of 4 cpu."""
    labels = {"color": color, "rack": rack, HOSTNAME_LABEL: name}
    status = NodeStatus(allocatable={"cpu": "4", "pods": "110"})
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(taints=taints), status=status)


NODES = [
    node("b1", "blue", "r1"),
    node("b2", "blue", "r2"),
    node("b3", "blue", "r2"),
    node("r1", "red", "r3", Taint(key="red", effect="NoSchedule")),
    node("r2", "red", "r3", Taint(key="red", effect="NoSchedule")),
]
"""Blue: r1 of one node, r2 of two. Red: two tainted nodes."""


def pod(name: str, cpu: str = "4", on: str = "") -> Pod:
    """A pod of so many cpus."""
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    spec = PodSpec(containers=(container,), node_name=on, priority=0)
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name), spec=spec)


def pool(name: str = "pool", cohort: str = "", **nominal: str) -> ClusterQueue:
    """A queue with a quota of cpu by flavor."""
    flavors = tuple(FlavorQuotas(flavor, (Quota("cpu", amount),)) for flavor, amount in nominal.items())
    return ClusterQueue(name, (ResourceGroup(("cpu",), flavors),), cohort, LabelSelector())


def gang(name: str, queue: ClusterQueue, *pods: Pod, minimum: int = 0, used: tuple[str, ...] = (), **more: Any) -> Gang:
    """A gang of these pods, all of them needed unless a minimum is given."""
    least = minimum or len(pods)
    ref = ObjectRef("batch/v1", "Job", "ns", name)
    members = tuple(Member(each, "main", None) for each in pods)
    sets = (PodSet("main", len(pods), least),)
    account = Account(queue, (BLUE, RED), (queue,), used, topology_kind="T")
    workload = GangWorkload(ref, members, sets, least, "", expected=len(pods), exact_nodes=False)
    return replace(assemble(GangKey("q", "ns", name), workload, PlacementRequest(account=account)), **more)


def snapshot(*running: Pod) -> Snapshot:
    return snapshot_of(NODES, running)


def nodes_of(decision: Decision) -> list[str]:
    return [each.node for each in decision.assignments]


def decide(asked: Gang, *running: Gang) -> Decision:
    """Return the decision for a gang beside running gangs."""
    there = snapshot(*(member.pod for each in running for member in each.members))
    return plan_gang(asked, there, [RACK], PlanningOptions(usage=usage_of([asked, *running], there)))


def test_the_first_flavor_that_holds_the_gang_is_used_in_its_topology() -> None:
    decision = decide(gang("a", pool(blue="8", red="8"), pod("a-0"), pod("a-1")))
    assert (nodes_of(decision), decision.flavors) == (["b2", "b3"], ("blue",))
    assert decision.message.endswith(", flavor blue of ClusterQueue pool")
    assert [level.mode for level in decision.levels] == ["preferred", "none"]


ONE_BY_ONE = replace(pool(blue="8"), strict=True)


def in_line(*gangs: Gang) -> dict[str, str]:
    """Plan all gangs, and return by name the outcome of each gang with a plan and the message of every other gang."""
    there = snapshot(*(member.pod for each in gangs for member in each.members if member.pod.spec.node_name))
    decisions = plan_all(gangs, there, [RACK], PlanningOptions(usage=usage_of(gangs, there)))
    return {each.key.name: each.outcome.value if each.assignments else each.message for each in decisions}


def account_of(gang: Gang) -> Account:
    assert gang.account is not None
    return gang.account


def test_in_a_strict_queue_none_goes_before_an_older_one_that_has_no_place() -> None:
    """A gang of 12 cpu never fits into a quota of 8 cpu. A gang of 4 cpu would fit."""
    large = gang("large", ONE_BY_ONE, *(pod(f"l-{i}") for i in range(3)), created="2026-01-01T00:00:01Z")
    small = gang("small", ONE_BY_ONE, pod("s-0"), created="2026-01-01T00:00:02Z")
    elsewhere = gang("elsewhere", replace(pool("other", red="4"), strict=True), pod("e-0"))
    assert in_line(large, small, elsewhere) == {
        "large": "needs 12 cpu, and flavor blue of ClusterQueue pool never has more than 8",
        "small": "waits for gang ns/large, which is before it in ClusterQueue pool (StrictFIFO)",
        "elsewhere": "Placed",
    }
    freely = [replace(each, account=replace(account_of(each), queue=pool(blue="8"))) for each in (large, small)]
    assert in_line(*freely)["small"] == "Placed"


def test_in_a_strict_queue_a_higher_priority_goes_first_and_everybody_with_room_goes() -> None:
    plain = pod("f-0")
    urgent = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, priority=5))
    first = gang("first", ONE_BY_ONE, urgent, created="2026-01-01T00:00:02Z")
    older = gang("older", ONE_BY_ONE, pod("o-0"), created="2026-01-01T00:00:01Z")
    last = gang("last", ONE_BY_ONE, pod("l-0"), created="2026-01-01T00:00:03Z")
    told = in_line(last, older, first)
    assert list(told) == ["first", "older", "last"]
    assert (told["first"], told["older"]) == ("Placed", "Placed")
    assert "has 0 of 8 left" in told["last"]


def test_who_cannot_be_planned_or_runs_holds_nobody_up_in_a_strict_queue() -> None:
    """One gang lacks a pod, one is in a namespace that the queue does not accept, and one has lost a member."""
    short = gang("short", ONE_BY_ONE, pod("s-0"), minimum=2, created="2026-01-01T00:00:01Z")
    closed = replace(ONE_BY_ONE, namespaces=LabelSelector(match_labels={"team": "b"}))
    foreign = gang("foreign", closed, pod("o-0"), created="2026-01-01T00:00:02Z")
    running = gang("running", ONE_BY_ONE, pod("r-0", on="b1"), pod("r-1", "9"), created="2026-01-01T00:00:03Z")
    young = gang("young", ONE_BY_ONE, pod("y-0"), created="2026-01-01T00:00:04Z")
    assert in_line(short, foreign, running, young)["young"] == "Placed"


def test_the_next_flavor_is_used_where_the_first_has_no_quota_left_and_its_tolerations_open_its_nodes() -> None:
    queue = pool(blue="4", red="8")
    decision = decide(gang("a", queue, pod("a-0"), pod("a-1")))
    assert (nodes_of(decision), decision.flavors) == (["r1", "r2"], ("red",))
    tolerations = [each.key for each in decision.assignments[0].member.pod.spec.tolerations]
    assert tolerations == ["red"]
    assert decision.gang is not None
    assert decision.gang.members[0].pod.spec.tolerations == ()


def test_what_running_gangs_hold_is_not_left() -> None:
    queue = pool(blue="8")
    running = gang("old", queue, pod("old-0", on="b1"))
    decision = decide(gang("new", queue, pod("new-0"), pod("new-1")), running)
    assert (decision.outcome, decision.reason) == (Outcome.WAITING, WaitReason.QUOTA_EXHAUSTED)
    assert decision.message == (
        "waits for quota: the gang needs 8 cpu, and flavor blue of ClusterQueue pool has 4 of 8 left, "
        "4 used by gang ns/old"
    )
    assert decision.line.nameless.endswith("has 4 of 8 left, 4 used by another gang")


def test_what_can_be_borrowed_and_who_has_borrowed_it_is_told() -> None:
    """Cohort c: pool has 4 cpu of its own, other lends 4, of which another gang uses 4 and a third one 2."""
    queues = pool("pool", "c", blue="4"), pool("other", "c", blue="4")
    names = {"new": "pool", "old": "other", "third": "pool"}
    made = {
        "new": gang("new", queues[0], pod("new-0")),
        "old": gang("old", queues[1], pod("old-0", on="b1")),
        "third": gang("third", queues[0], pod("third-0", "2", on="b2")),
    }
    gangs = [replace(each, account=replace(each.account, cohort=queues)) for each in made.values() if each.account]
    assert [each.account.queue.name for each in gangs if each.account] == [*names.values()]
    decision = decide(*gangs)
    assert decision.message == (
        "waits for quota: the gang needs 4 cpu, and flavor blue of ClusterQueue pool has 2 of 8 left "
        "(4 nominal, 4 borrowable), 6 used by gangs ns/old and ns/third"
    )


def test_a_running_gang_is_charged_to_the_flavor_of_its_plan_and_not_to_the_one_that_its_node_could_be() -> None:
    anywhere = Flavor("anywhere")
    queue = pool(blue="8", anywhere="4")
    running = gang("old", queue, pod("old-0", on="b1"), used=("anywhere",))
    there = snapshot(running.members[0].pod)
    assert running.account is not None
    assert anywhere.node_labels == ()
    assert usage_of([running], there).of("pool", "anywhere", "cpu") == 4000
    unknown = gang("old", queue, pod("old-0", on="b1"))
    assert usage_of([unknown], there).of("pool", "blue", "cpu") == 4000


def seat(name: str) -> Pod:
    """An expected pod of the gang `old`: its workload will still create it."""
    meta = ObjectMeta(name=name, namespace="ns", uid=seat_uid("w", "main", name))
    return msgspec.structs.replace(pod(name), metadata=meta)


def placeholder(name: str, on: str) -> Pod:
    """Return the placeholder that reserves capacity on a node for the expected pod `name` (`seat`)."""
    held = {HELD_FOR: f"ns/{name}", HELD_FOR_GANG: "q/ns/old", SEAT: seat_uid("w", "main", name)}
    meta = ObjectMeta(
        name=f"p-{name}", namespace=SYSTEM_NAMESPACE, uid=f"p-{name}", labels={PLACEHOLDER: "true"}, annotations=held
    )
    return msgspec.structs.replace(pod(name), metadata=meta, status=PodStatus(nominated_node_name=on))


def nominated(name: str, on: str) -> Pod:
    """A pod with a nomination for a node."""
    return msgspec.structs.replace(pod(name), status=PodStatus(nominated_node_name=on))


FIRST = pod("old-0", on="b1")
HELD = (placeholder("old-1", "b2"), placeholder("old-2", "b3"))
TAKEN_OVER: dict[str, tuple[Pod, Pod, tuple[Pod, ...]]] = {
    "before it comes": (seat("old-1"), seat("old-2"), HELD),
    "when it has come": (pod("old-1"), seat("old-2"), HELD),
    "when it has come by a name of its own": (pod("old-1-x7k2p"), seat("old-2"), HELD),
    "while both hold the room": (nominated("old-1", "b2"), seat("old-2"), HELD),
    "when the placeholder is gone": (nominated("old-1", "b2"), seat("old-2"), HELD[1:]),
    "when it runs": (pod("old-1", on="b2"), seat("old-2"), HELD[1:]),
}


@pytest.mark.parametrize("when", TAKEN_OVER)
def test_a_pod_to_come_is_charged_once_from_the_moment_that_room_is_held_for_it(when: str) -> None:
    *later, held = TAKEN_OVER[when]
    running = gang("old", pool(blue="12"), FIRST, *later)
    there = snapshot(*(each for each in (FIRST, *later) if not to_come(each)), *held)
    assert usage_of([running], there).of("pool", "blue", "cpu") == 12_000


def test_a_pod_for_which_no_room_is_held_yet_is_not_charged() -> None:
    running = gang("old", pool(blue="12"), FIRST, seat("old-1"), seat("old-2"))
    assert usage_of([running], snapshot(FIRST)).of("pool", "blue", "cpu") == 4_000
    assert usage_of([running], snapshot(FIRST, HELD[0])).of("pool", "blue", "cpu") == 8_000
    grown = gang("old", pool(blue="12"), FIRST, pod("old-1", on="b2"), pod("old-2"))
    assert usage_of([grown], snapshot(FIRST, pod("old-1", on="b2"))).of("pool", "blue", "cpu") == 8_000


def test_more_than_the_whole_quota_never_fits() -> None:
    decision = decide(gang("a", pool(blue="6"), pod("a-0"), pod("a-1")))
    assert (decision.outcome, decision.proof) == (Outcome.UNPLACEABLE, "Infeasible")
    assert decision.message == "needs 8 cpu, and flavor blue of ClusterQueue pool never has more than 6"


def test_extra_members_are_left_out_where_the_quota_ends() -> None:
    asked = gang("a", pool(blue="9"), pod("a-0"), pod("a-1"), pod("a-2"), minimum=1)
    decision = decide(asked)
    assert [each.member.pod.metadata.name for each in decision.assignments] == ["a-0", "a-1"]
    assert decision.gang is not None
    assert len(decision.gang.members) == 3


def test_of_two_gangs_in_one_round_the_first_takes_the_quota() -> None:
    queue = pool(blue="8")
    first, second = (gang(name, queue, pod(f"{name}-0"), pod(f"{name}-1")) for name in ("a", "b"))
    decisions = plan_all([second, first], snapshot(), [RACK])
    assert [(each.key.name, each.outcome) for each in decisions] == [("a", Outcome.PLACED), ("b", Outcome.WAITING)]


def test_a_plan_that_was_found_before_keeps_its_quota_and_its_room() -> None:
    queue = pool(blue="8")
    first, second = (gang(name, queue, pod(f"{name}-0"), pod(f"{name}-1")) for name in ("a", "b"))
    ((found,),) = plan_in_turn([first], snapshot(), [RACK])
    ((after,),) = plan_in_turn([second], snapshot(), [RACK], standing=[found])
    assert after.message.startswith("waits for quota")
    elsewhere = gang("c", pool("other", blue="8"), pod("c-0"), pod("c-1"))
    ((beside,),) = plan_in_turn([elsewhere], snapshot(), [RACK], standing=[found])
    assert (nodes_of(found), beside.outcome) == (["b2", "b3"], Outcome.UNPLACEABLE)


@pytest.mark.parametrize(("cpu", "covered"), [("4", True), ("8", False)])
def test_whether_quotas_still_cover_a_plan(cpu: str, *, covered: bool) -> None:
    queue = pool(blue="12")
    asked = gang("a", queue, pod("a-0"), pod("a-1"))
    decision = decide(asked)
    other = gang("other", queue, pod("other-0", cpu=cpu, on="b1"))
    there = snapshot(other.members[0].pod)
    assert still_covered(decision, usage_of([asked, other], there)) is covered
    assert still_covered(decision, usage_of([asked], there))


def test_a_gang_that_runs_in_part_stays_in_its_flavor() -> None:
    queue = pool(blue="12", red="8")
    asked = gang("a", queue, pod("a-0", on="r1"), pod("a-1"), used=("red",))
    there = snapshot(asked.members[0].pod)
    decision = plan_gang(asked, there, [RACK], PlanningOptions(usage=usage_of([asked], there)))
    assert (nodes_of(decision), decision.flavors) == (["r1", "r2"], ("red",))


def test_a_level_needs_a_flavor_with_a_topology() -> None:
    decision = decide(gang("a", pool(red="8"), pod("a-0"), required="rack"))
    assert decision.outcome is Outcome.UNPLACEABLE
    assert decision.message == "flavor red has no topology, and the gang names a level"


@pytest.mark.parametrize("wish", [{"required": "rack"}, {"preferred": "rack"}])
def test_pods_that_request_nothing_of_a_quota_have_no_flavor_whose_topology_a_level_could_be_of(
    wish: dict[str, Any],
) -> None:
    member = Pod(metadata=ObjectMeta(name="a-0", namespace="ns", uid="a-0"), spec=PodSpec(priority=0))
    decision = decide(gang("a", pool(blue="8"), member, **wish))
    assert decision.outcome is Outcome.UNPLACEABLE
    assert decision.message == (
        "pods that request none of cpu are given no flavor, thus no topology, and the gang names a level"
    )


def test_a_taint_of_a_flavor_must_be_tolerated() -> None:
    closed = Flavor("closed", (("color", "red"),), taints=(Taint(key="red", effect="NoSchedule"),))
    asked = gang("a", pool(closed="8"), pod("a-0"))
    assert asked.account is not None
    account = Account(asked.account.queue, (closed,), asked.account.cohort)
    decision = decide(Gang(**{**_fields(asked), "account": account}))
    assert decision.message == "flavor closed has the taint {red: }, which no member tolerates"


def _fields(of: Gang) -> dict[str, Any]:
    return {name: getattr(of, name) for name in Gang.__dataclass_fields__}


def test_a_queue_is_closed_to_namespaces_that_it_does_not_select() -> None:
    queue = ClusterQueue("pool", pool(blue="8").groups)
    decision = decide(gang("a", queue, pod("a-0")))
    assert decision.message == "waits for namespace ns to be admitted by ClusterQueue pool (spec.namespaceSelector)"


def test_a_resource_without_a_quota_is_named() -> None:
    queue = ClusterQueue(
        "pool", (ResourceGroup(("gpu",), (FlavorQuotas("blue", (Quota("gpu", "8"),)),)),), "", LabelSelector()
    )
    decision = decide(gang("a", queue, pod("a-0")))
    assert decision.message == "waits for ClusterQueue pool to have a quota for cpu"


#   own nominal quota: mine 8, other 6
LENT = {
    "the whole pot": (Quota("cpu", "8"), Quota("cpu", "6"), 0, 0, 14),
    "what the other uses is gone": (Quota("cpu", "8"), Quota("cpu", "6"), 0, 6, 8),
    "no more than may be borrowed": (Quota("cpu", "8", "2"), Quota("cpu", "6"), 0, 0, 10),
    "not what the other keeps": (Quota("cpu", "8"), Quota("cpu", "6", None, "1"), 0, 0, 9),
    "what I keep is mine although the other has borrowed": (Quota("cpu", "8", None, "3"), Quota("cpu", "6"), 0, 9, 5),
    "what the other borrowed is not left": (Quota("cpu", "8"), Quota("cpu", "6"), 0, 9, 5),
    "what I use is gone": (Quota("cpu", "8", "2"), Quota("cpu", "6"), 3, 0, 7),
    "nothing to borrow, nothing lent": (Quota("cpu", "8", "0", "0"), Quota("cpu", "6", None, "0"), 3, 0, 5),
}


@pytest.mark.parametrize(("mine", "other", "used", "others", "left"), LENT.values(), ids=LENT)
def test_what_a_queue_may_take_of_its_cohort(mine: Quota, other: Quota, used: int, others: int, left: int) -> None:
    queues = [
        ClusterQueue(name, (ResourceGroup(("cpu",), (FlavorQuotas("blue", (quota,)),)),), "all", LabelSelector())
        for name, quota in (("mine", mine), ("other", other))
    ]
    usage = NO_USAGE.having(GangKey("q", "ns", "a"), {("mine", "blue", "cpu"): used * 1000})
    usage = usage.having(GangKey("q", "ns", "b"), {("other", "blue", "cpu"): others * 1000})
    assert QuotaBalance(queues[0], "blue", "cpu", queues).left(usage) == left * 1000


TREE = (
    Cohort("all"),
    Cohort("lab", "all", (ResourceGroup(("cpu",), (FlavorQuotas("blue", (Quota("cpu", "10", None, "4"),)),)),)),
    Cohort("shop", "all", (ResourceGroup(("cpu",), (FlavorQuotas("blue", (Quota("cpu", "0", "3"),)),)),)),
)
"""all > lab: 10 cpu of its own, of which with its queues' 4 are lent; shop: nothing of its own, borrows 3 at most."""


@pytest.mark.parametrize(
    ("used", "left"),
    [
        ({}, {"ai": 14, "web": 5}),
        ({"ai": 3}, {"ai": 11, "web": 5}),
        ({"ai": 12}, {"ai": 2, "web": 2}),
        ({"web": 5}, {"ai": 9, "web": 0}),
        ({"ai": 11, "web": 2}, {"ai": 1, "web": 1}),
        ({"ai": 12, "web": 2}, {"ai": 0, "web": 0}),
    ],
)
def test_cohorts_lend_to_each_other_up_the_tree_within_their_limits(used: dict[str, int], left: dict[str, int]) -> None:
    queues = (pool("ai", "lab", blue="2"), pool("web", "shop", blue="2"))
    usage = NO_USAGE
    for name, amount in used.items():
        usage = usage.having(GangKey("q", "ns", name), {(name, "blue", "cpu"): amount * 1000})
    balances = {queue.name: QuotaBalance(queue, "blue", "cpu", queues, TREE) for queue in queues}
    assert {name: purse.left(usage) for name, purse in balances.items()} == {k: v * 1000 for k, v in left.items()}


def test_a_cohort_without_an_object_is_as_good_as_one_without_a_quota() -> None:
    queues = (pool("a", "c", blue="2"), pool("b", "c", blue="3"))
    for cohorts in ((), (Cohort("c"),), (Cohort("c", "above"),), (Cohort("c", "above"), Cohort("above"))):
        assert QuotaBalance(queues[0], "blue", "cpu", queues, cohorts).left(NO_USAGE) == 5000


def of_sets(name: str, queue: ClusterQueue, minimum: int, **sets: tuple[int, int, str]) -> Gang:
    """A gang of several sets: by name how many members each has, how many must start, and what each of them asks."""
    members = tuple(
        Member(pod(f"{name}-{each}-{i}", cpu), each, None)
        for each, (count, _, cpu) in sets.items()
        for i in range(count)
    )
    pod_sets = tuple(PodSet(each, count, least) for each, (count, least, _) in sets.items())
    whole = gang(name, queue, *(member.pod for member in members), minimum=minimum)
    return replace(whole, members=members, pod_sets=pod_sets)


SETS = {
    "every set has its minimum": ("3", 3, {"a": (3, 1, "1"), "b": (2, 2, "1")}, ["a-0", "b-0", "b-1"]),
    "beyond that those that take the least": ("4", 3, {"a": (3, 1, "2"), "b": (2, 1, "1")}, ["a-0", "b-0", "b-1"]),
    "a set that is too large for what is left stops no other": (
        "5",
        2,
        {"a": (3, 1, "3"), "b": (3, 1, "1")},
        ["a-0", "b-0", "b-1"],
    ),
}


@pytest.mark.parametrize(("cpu", "minimum", "sets", "placed"), SETS.values(), ids=SETS)
def test_where_the_quota_ends_each_pod_set_has_its_minimum(
    cpu: str, minimum: int, sets: dict[str, tuple[int, int, str]], placed: list[str]
) -> None:
    decision = decide(of_sets("g", pool(blue=cpu), minimum, **sets))
    assert [each.member.pod.metadata.name for each in decision.assignments] == [f"g-{each}" for each in placed]


def test_a_minimum_over_several_sets_that_the_quota_does_not_cover_is_waited_for_with_what_it_takes() -> None:
    running = gang("old", pool(blue="5"), pod("old-0", "2", on="b1"))
    asked = of_sets("g", pool(blue="5"), 4, a=(3, 1, "2"), b=(2, 1, "1"))
    assert decide(asked, running).message == ("needs 6 cpu, and flavor blue of ClusterQueue pool never has more than 5")
    asked = of_sets("g", pool(blue="5"), 3, a=(3, 1, "2"), b=(2, 1, "1"))
    assert decide(asked, running).message == (
        "waits for quota: the gang needs 4 cpu, and flavor blue of ClusterQueue pool has 3 of 5 left, "
        "2 used by gang ns/old"
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_of_sets_starts_whenever_some_choice_of_its_members_is_covered(seed: int) -> None:
    """Against brute force: up to three of each of two sets, of which each asks for 1 or 2 cpu."""
    rng = random.Random(seed)  # noqa: S311 -- instances, no secrets
    counts = [rng.randint(1, 3) for _ in range(2)]
    least, cpus = [rng.randint(0, each) for each in counts], [rng.randint(1, 2) for _ in counts]
    minimum, quota = rng.randint(max(1, sum(least) - 1), sum(counts)), rng.randint(1, 8)
    asked = of_sets(
        "g",
        pool(blue=str(quota)),
        minimum,
        **{name: (counts[i], least[i], str(cpus[i])) for i, name in enumerate("ab")},
    )
    possible = [
        chosen
        for chosen in product(*(range(least[i], counts[i] + 1) for i in range(2)))
        if sum(chosen) >= minimum and sum(map(mul, chosen, cpus)) <= quota
    ]
    decision = decide(asked)
    assert (decision.outcome is Outcome.PLACED) == bool(possible), decision.message
    placed = Counter(each.member.pod_set for each in decision.assignments)
    assert not possible or (placed["a"], placed["b"]) in possible


def needing(name: str, **requests: str | float) -> Pod:
    """A pod of so much of each resource."""
    container = Container(name="c", resources=ResourceRequirements(requests=requests))
    spec = PodSpec(containers=(container,), priority=0)
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name), spec=spec)


def test_members_that_differ_start_where_the_quota_covers_some_of_them() -> None:
    """First, the larger member comes first by rank. Then each of two resources suffices for one member only."""
    decision = decide(gang("g", pool(blue="2"), pod("g-0", "3"), pod("g-1", "1"), minimum=1))
    assert [each.member.pod.metadata.name for each in decision.assignments] == ["g-1"]
    quotas = FlavorQuotas("blue", (Quota("cpu", "4"), Quota("pods", "9"), Quota("memory", "4")))
    both = replace(pool(), groups=(ResourceGroup(("cpu", "memory", "pods"), (quotas,)),))
    members = (needing("g-0", cpu="3"), needing("g-1", cpu="3"), needing("g-2", memory="3"))
    labels = {"color": "blue", "rack": "r1", HOSTNAME_LABEL: "n"}
    status = NodeStatus(allocatable={"cpu": "8", "memory": "8", "pods": "9"})
    there = snapshot_of([Node(metadata=ObjectMeta(name="n", labels=labels), status=status)], ())
    decision = plan_gang(gang("g", both, *members, minimum=2), there, [RACK])
    assert [each.member.pod.metadata.name for each in decision.assignments] == ["g-0", "g-2"]


def ours(asked: Gang, *, only_theirs: bool = False, **more: Any) -> Gang:
    """Return the gang as read from a Gang object: its levels may differ from those of its flavors' topologies."""
    assert asked.account is not None
    account = replace(asked.account, only_theirs=only_theirs, nearby=False)
    return replace(asked, account=account, **more)


OWN = Topology("own", "Topology", (Level("zone", ("rack",)), Level("node", (HOSTNAME_LABEL,))))


def test_a_gang_that_names_a_topology_is_placed_in_that_on_the_nodes_of_its_flavor() -> None:
    asked = ours(gang("a", pool(blue="8"), pod("a-0"), pod("a-1")), topology="own", required="zone")
    decision = plan_gang(asked, snapshot(), [RACK, OWN])
    assert (nodes_of(decision), decision.flavors) == (["b2", "b3"], ("blue",))
    assert [level.level for level in decision.levels] == ["zone", "node"]


def test_where_a_flavor_has_no_topology_the_gang_has_one_of_its_own() -> None:
    asked = ours(gang("a", pool(red="8"), pod("a-0"), pod("a-1")), required="zone")
    decision = plan_gang(asked, snapshot(), [OWN])
    assert (nodes_of(decision), decision.flavors) == (["r1", "r2"], ("red",))
    theirs = ours(asked, only_theirs=True)
    assert plan_gang(theirs, snapshot(), [OWN]).message == "flavor red has no topology, and the gang names a level"


def test_pods_that_request_nothing_of_a_quota_may_have_a_topology_of_their_own() -> None:
    member = Pod(metadata=ObjectMeta(name="a-0", namespace="ns", uid="a-0"), spec=PodSpec(priority=0))
    decision = plan_gang(ours(gang("a", pool(blue="8"), member), required="zone"), snapshot(), [OWN])
    assert (decision.outcome, decision.flavors) == (Outcome.PLACED, ())


def test_a_gang_that_is_restarted_may_have_any_flavor_and_tolerates_only_what_that_one_opens() -> None:
    """The pod ran in flavor red, and its release added a toleration of red's taint. Blue needs the original spec."""
    ran = pod("a-0", on="r1")
    spec = msgspec.structs.replace(ran.spec, tolerations=RED.tolerations)
    metadata = msgspec.structs.replace(ran.metadata, annotations={PINNED_IN: ""})
    ran = msgspec.structs.replace(ran, spec=spec, metadata=metadata)
    again = whole_again(gang("a", pool(blue="8", red="8"), ran, used=("red",), on_failure=RESTART))
    assert again.members[0].pod.spec.tolerations == ()
    decision = plan_gang(again, snapshot(), [RACK])
    assert decision.flavors == ("blue",)
    assert decision.assignments[0].member.pod.spec.tolerations == ()


def test_an_older_gang_takes_its_second_flavor_where_a_younger_one_needs_the_first() -> None:
    """4 cpu of each flavor. The younger gang runs on blue nodes only; the older one may run on either."""
    queue = pool(blue="4", red="4")
    red = replace(RED, topology="net")
    older = gang("older", queue, pod("o-0"), created="2026-01-01T00:00:01Z")
    picky = pod("y-0")
    picky = msgspec.structs.replace(picky, spec=msgspec.structs.replace(picky.spec, node_selector={"color": "blue"}))
    younger = gang("younger", queue, picky, created="2026-01-01T00:00:02Z")
    account = Account(queue, (BLUE, red), (queue,), topology_kind="T")
    gangs = [replace(each, account=account) for each in (older, younger)]
    found = plan_all(gangs, snapshot(), [RACK], PlanningOptions(limits=Limits(seconds=600.0)))
    assert [(each.key.name, each.flavors, each.proof) for each in found] == [
        ("older", ("red",), "Optimal"),
        ("younger", ("blue",), "Optimal"),
    ]


def test_the_minimum_of_a_gang_in_the_cohort_comes_before_the_extras_of_an_older_one() -> None:
    """The younger gang's queue has lent 4 of its 8 cpu to a gang that runs. The rest is the younger gang's."""
    lender, borrower = pool("lender", "all", blue="8"), pool("borrower", "all", blue="4")
    both = lender, borrower
    running = gang("running", borrower, pod("r-0", "8", on="b1"))
    older = gang("older", borrower, pod("o-0", "1"), pod("o-1", "1"), minimum=1, created="2026-01-01T00:00:01Z")
    younger = gang("younger", lender, *(pod(f"y-{i}", "1") for i in range(3)), created="2026-01-01T00:00:02Z")
    gangs = [
        replace(each, account=replace(each.account, cohort=both)) if each.account else each
        for each in (running, older, younger)
    ]
    there = snapshot(*(member.pod for member in running.members))
    found = plan_all(gangs[1:], there, [RACK], PlanningOptions(usage=usage_of(gangs, there)))
    assert [(each.key.name, len(each.assignments)) for each in found] == [("older", 1), ("younger", 3)]
