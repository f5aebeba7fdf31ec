"""Which gangs that have lost a member are restarted as a whole, and why the others are not.

r1: n1 (a, and two cpu of others), n2 (full)      r2: n3      a and b take two of a node's four cpu, both in one rack
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest
from inline_executors import HeldExecutor, InlineExecutor
from protocol_scenes import RACK, TOPOLOGY, gang, node, pod, record, snapshot

from cluster.capturing import snapshot_of
from cluster.snapshot import Snapshot
from controller.acting.restarting import Restarter, left_domain, torn
from controller.acting.withdrawing import PartialGangRollback
from controller.cluster_view import ClusterView
from controller.error_backoff import ErrorBackoff
from controller.gang_status import Notes, Phase, PresentObject, gang_status
from controller.reconcile_state import Effects, ReconcileState
from controller.release.next_step import NeedPlan
from controller.release.patches import release_patch
from controller.release.wholeness import Withdrawal, WithdrawalReason
from controller.scheduling import planning_requests, restart_checks
from controller.scheduling.restart_checks import RestartChecks, Verdict
from controller.telemetry.metrics import Metrics
from controller.writes.writer import Writer
from gangs.model import RESTART, Gang, GangKey, Reading
from gangs.sources import Sources
from kube.keys import GATE, PINNED_IN, WHOLE_MARK
from kube.objects import (
    Affinity,
    Condition,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    Requirement,
)
from planning.decision import Decision, Outcome
from planning.framing.ties import made_new
from planning.message import Message
from planning.whole_again import hindrance
from solver.plan import Proof
from solver.problem import Limits
from timing.duty_cycle import DutyCycle

NOON = "2026-01-01T12:00:00Z"
OTHERS = (pod("half", bound="n1", cpu="2", priority=100), pod("full", bound="n2", priority=100))
USERS_OWN = Affinity(
    node_affinity=NodeAffinity(
        required=NodeSelector(
            node_selector_terms=(
                NodeSelectorTerm(match_expressions=(Requirement(key=RACK, operator="In", values=("r1", "r2")),)),
            )
        )
    )
)
DOMAINS: Mapping[str, tuple[tuple[str, str], ...]] = {"the exact node": (), "its rack": ((RACK, "r1"),)}


def let_go(gated: Pod, to: str, *, domain: tuple[tuple[str, str], ...] = ()) -> Pod:
    """Return the pod as it is after its release, bound to its node."""
    patch = release_patch(gated, node(to), domain=domain, now=NOON)
    annotations = {**gated.metadata.annotations, **patch["metadata"]["annotations"]}
    builtin = msgspec.to_builtins(gated.spec)
    affinity = {**(builtin.get("affinity") or {}), **patch["spec"].get("affinity", {})}
    selector = {**(builtin.get("nodeSelector") or {}), **patch["spec"].get("nodeSelector", {})}
    spec = {**builtin, "affinity": affinity or None, "nodeSelector": selector, "schedulingGates": [], "nodeName": to}
    metadata = msgspec.structs.replace(gated.metadata, annotations=annotations)
    return msgspec.structs.replace(gated, metadata=metadata, spec=msgspec.convert(spec, type(gated.spec)))


def owned(made: Pod, kind: str = "StatefulSet", version: str = "apps/v1") -> Pod:
    """The pod of a controller."""
    owner = OwnerReference(api_version=version, kind=kind, name="w", controller=True)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, owner_references=(owner,)))


def member(name: str, **fields: Any) -> Pod:
    """A gated pod of two cpu."""
    return owned(pod(name, cpu="2", **fields))


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
@pytest.mark.parametrize("affinity", [None, USERS_OWN], ids=["of no affinity", "beside one of the user's"])
def test_a_member_made_new_is_as_it_was_before_its_release(domain: Any, affinity: Affinity | None) -> None:
    before = member("a", affinity=affinity)
    again = made_new(let_go(before, "n1", domain=domain))
    assert (again.spec.node_name, again.spec.node_selector) == ("", {})
    assert again.spec.scheduling_gates == before.spec.scheduling_gates
    required = again.spec.affinity and again.spec.affinity.node_affinity and again.spec.affinity.node_affinity.required
    assert required == (USERS_OWN.node_affinity.required if affinity and USERS_OWN.node_affinity else None)


def without_note(released: Pod) -> Pod:
    """The pod without the note of its pin."""
    annotations = {key: value for key, value in released.metadata.annotations.items() if key != PINNED_IN}
    return msgspec.structs.replace(
        released, metadata=msgspec.structs.replace(released.metadata, annotations=annotations)
    )


def test_a_member_whose_release_noted_nothing_stays_pinned() -> None:
    placed = without_note(let_go(member("a"), "n1"))
    assert made_new(placed).spec.affinity == placed.spec.affinity


A, B = let_go(member("a"), "n1"), member("b")


def asked(*members: Pod, **fields: Any) -> Gang:
    """A gang of two in one rack that is to be restarted."""
    return replace(gang(*members), required=RACK, on_failure=RESTART, max_restarts=6, **fields)


def picture(there: Snapshot, *objects: Mapping[str, Any]) -> ClusterView:
    """The cluster, with the objects that gangs are read from."""
    held = {("batch", "Job", "default", each["metadata"]["name"]): each for each in objects}
    return ClusterView(Sources(objects=held), Reading(), [TOPOLOGY], (), there, {})


_MARKS = {**A.metadata.annotations, WHOLE_MARK: "2"}
MARKED_A = msgspec.structs.replace(A, metadata=msgspec.structs.replace(A.metadata, annotations=_MARKS))
WAS_WHOLE = {"conditions": [{"type": "Whole", "status": "True"}], "boundWhenWhole": 2}


@pytest.mark.parametrize(
    ("of", "status", "proof", "found"),
    [
        (asked(A, B), WAS_WHOLE, Proof.INFEASIBLE, True),
        (replace(asked(A, B), on_failure="Wait"), WAS_WHOLE, Proof.INFEASIBLE, False),
        (asked(member("a"), B), WAS_WHOLE, Proof.INFEASIBLE, False),
        (asked(A, B), WAS_WHOLE, Proof.UNPROVEN, False),
        (asked(A, B), {**WAS_WHOLE, "boundWhenWhole": 1}, Proof.INFEASIBLE, False),
        (asked(A, B), {"conditions": WAS_WHOLE["conditions"]}, Proof.INFEASIBLE, False),
        (asked(A, B), {**WAS_WHOLE, "conditions": []}, Proof.INFEASIBLE, False),
        (asked(MARKED_A, B), {}, Proof.INFEASIBLE, True),
    ],
    ids=[
        "a member was lost",
        "it does not ask for it",
        "none of it runs",
        "it is not proven that there is no place",
        "none was lost: more are wanted than before",
        "nobody knows how many ran",
        "it never was whole",
        "its status was wiped, and a mark says how many ran",
    ],
)
def test_which_gangs_are_torn(of: Gang, status: dict[str, Any], proof: Proof, found: bool) -> None:  # noqa: FBT001
    decision = Decision(of, of.key, Outcome.UNPLACEABLE, Message.of("no"), proof=proof.value)
    step = NeedPlan()
    assert torn(ReconcileState(of, {"metadata": {}, "status": status}, None, step, decision=decision)) is found


def test_a_restart_notes_the_domain_that_the_gang_leaves_and_its_closed_nodes() -> None:
    of = asked(A, B)
    cordoned = replace_spec(node("n2"), NodeSpec(unschedulable=True))
    there = snapshot_of([node("n1"), cordoned, node("n3")], [A, B], gate=GATE)
    left = left_domain(of, there, [TOPOLOGY])
    assert (left.path, left.closed) == ("r1", "n2 is cordoned")
    restart = Withdrawal(WithdrawalReason.RESTARTED, "restarted", restarts=1, left=left)
    status = gang_status(of, Phase.WAITING, now=NOON, present=PresentObject(WAS_WHOLE), notes=Notes(withdrawal=restart))
    noted = {"at": NOON, "from": "r1", "closedNodes": "n2 is cordoned"}
    assert (status["restarts"], status["lastRestart"]) == (1, noted)
    later = gang_status(of, Phase.WAITING, now="2026-01-01T13:00:00Z", present=PresentObject(status))
    assert (later["restarts"], later["lastRestart"]) == (1, noted)


def replace_spec(changed: Node, spec: NodeSpec) -> Node:
    """The node with another spec."""
    return msgspec.structs.replace(changed, spec=spec)


def test_the_status_notes_how_many_ran_when_it_was_whole() -> None:
    whole, half, status = asked(A, let_go(member("b"), "n1")), asked(A, B), dict[str, Any]()
    noted = []
    for of, phase in ((half, Phase.WAITING), (whole, Phase.PLACED), (half, Phase.UNPLACEABLE)):
        status = gang_status(of, phase, now=NOON, plan_id="p", present=PresentObject(status))
        noted.append(status.get("boundWhenWhole"))
    assert noted == [None, 2, 2]


OF_A_JOB = owned(A, "Job", "batch/v1")
DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget"}]}
IGNORE, COUNT = {"action": "Ignore", **DISRUPTED}, {"action": "Count", **DISRUPTED}
FAIL_ON_CODES = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
POLICY = "Job default/w has a spec.podFailurePolicy whose first rule does not ignore DisruptionTarget"


def job(**spec: Any) -> Mapping[str, Any]:
    """The Job of a."""
    metadata = {"name": "w", "namespace": "default", "uid": "w"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": {"failed": 1}}


def policy(*rules: Mapping[str, Any], **spec: Any) -> Mapping[str, Any]:
    """The Job of a, with these rules for pods that fail."""
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


@pytest.mark.parametrize(
    ("of", "objects", "why"),
    [
        (asked(A, B), (), ""),
        (asked(let_go(pod("a", cpu="2"), "n1"), B), (), "Pod default/a has no controller that would make it again"),
        (
            asked(owned(A, "Workflow", "argoproj.io/v1alpha1"), B),
            (),
            "Workflow w, which controls Pod default/a, is not known to make it again",
        ),
        (asked(owned(A, "PyTorchJob", "kubeflow.org/v1"), B), (), ""),
        (
            asked(without_note(let_go(member("a"), "n1")), B),
            (),
            "Pod default/a was released without a note of its pin",
        ),
        (asked(OF_A_JOB, B), (), "Job default/w is not there"),
        (asked(OF_A_JOB, B), (job(backoffLimit=1),), "Job default/w would fail over 1 more evicted pods"),
        (asked(OF_A_JOB, B), (job(),), ""),
        (asked(OF_A_JOB, B), (policy(IGNORE, backoffLimit=0),), ""),
        (asked(OF_A_JOB, B), (policy(COUNT),), POLICY),
        (asked(OF_A_JOB, B), (policy(FAIL_ON_CODES, IGNORE),), POLICY),
        (
            asked(OF_A_JOB, B),
            (job(backoffLimitPerIndex=0, backoffLimit=2147483647),),
            "Job default/w counts the failures of each index (spec.backoffLimitPerIndex)",
        ),
    ],
    ids=[
        "nothing",
        "one that runs would not come again",
        "its controller may not make it again",
        "its operator does",
        "where its pin stands is not known",
        "its Job is not known",
        "its Job would fail",
        "its Job bears as many as it does by default",
        "its Job ignores disruptions",
        "its Job counts disruptions",
        "its Job fails over exit codes first",
        "its Job counts by index",
    ],
)
def test_what_keeps_a_gang_from_being_made_again(of: Gang, objects: tuple[Mapping[str, Any], ...], why: str) -> None:
    there = picture(snapshot(*(each.pod for each in of.members), *OTHERS), *objects)
    found = hindrance(of, there.snapshot, there.sources)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_a_member_on_a_node_that_does_not_answer_would_not_go() -> None:
    there = snapshot(A, B, *OTHERS)
    silent = msgspec.structs.replace(
        there.nodes[0].node,
        status=msgspec.structs.replace(
            there.nodes[0].node.status, conditions=(Condition(type="Ready", status="Unknown"),)
        ),
    )
    nodes = (replace(there.nodes[0], node=silent), *there.nodes[1:])
    said = "Node n1 is not ready, and Pod default/a would not go from there"
    assert hindrance(asked(A, B), replace(there, nodes=nodes), Sources()) == said


def test_a_budget_over_the_members_that_run_is_kept() -> None:
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="w", namespace="default"),
        spec=DisruptionBudgetSpec(selector=LabelSelector()),
        status=DisruptionBudgetStatus(disruptions_allowed=0),
    )
    there = replace(snapshot(A, B, *OTHERS), budgets=(budget,))
    said = "PodDisruptionBudget default/w allows 0 more evictions, and 1 are planned"
    assert hindrance(asked(A, B), there, Sources()) == said


VICTIM = pod("low", bound="n3", priority=0)
TAKEN = pod("other", bound="n3", priority=100)


@pytest.mark.parametrize(
    ("others", "placed"),
    [(OTHERS, True), ((*OTHERS, TAKEN), False), ((*OTHERS, VICTIM), False)],
    ids=["r2 is free", "r2 is full", "r2 is free once somebody is evicted"],
)
def test_whether_a_gang_has_a_place_as_a_whole(others: tuple[Pod, ...], placed: bool) -> None:  # noqa: FBT001
    of, checks = asked(A, B), RestartChecks(InlineExecutor(), Limits())
    verdict = checks.verdicts([of], picture(snapshot(A, B, *others)))[of.key]
    assert verdict.placed is placed
    assert verdict.fresh(of, verdict.at) is placed
    assert verdict.why == ("" if placed else "all its members together have no free place either")


WANTED = pod("first", cpu="2", priority=100, nominated="n3")
CORDONED = replace(
    snapshot(A, B, *OTHERS).nodes[2], node=msgspec.structs.replace(node("n3"), spec=NodeSpec(unschedulable=True))
)


@pytest.mark.parametrize(
    ("later", "known"),
    [
        (snapshot(A, B, *OTHERS), True),
        (snapshot(A, B, *OTHERS[:1]), True),
        (snapshot(A, B, *OTHERS, pod("other", cpu="1", bound="n3")), False),
        (snapshot(A, B, *OTHERS, WANTED), False),
        (replace(snapshot(A, B, *OTHERS), nodes=(*snapshot(A, B, *OTHERS).nodes[:2], CORDONED)), False),
        (replace(snapshot(A, B, *OTHERS), nodes=snapshot(A, B, *OTHERS).nodes[:2]), False),
    ],
    ids=[
        "nothing has happened",
        "somebody left",
        "somebody came",
        "capacity is reserved for another gang",
        "its node was cordoned",
        "its node went",
    ],
)
def test_a_yes_is_forgotten_once_its_place_is_another_ones(later: Snapshot, known: bool) -> None:  # noqa: FBT001
    of, lane = asked(A, B), HeldExecutor()
    checks = RestartChecks(lane, Limits())
    checks.verdicts([of], picture(snapshot(A, B, *OTHERS)))
    lane.run()
    assert (of.key in checks.verdicts([of], picture(later))) is known


class Told:
    """Takes down who would be taken back."""

    def __init__(self) -> None:
        self.gangs: list[str] = []

    def take_back(self, gang_state: ReconcileState, _withdrawal: object) -> Effects:
        """In the place of evictions."""
        self.gangs.append(gang_state.gang.key.name)
        return Effects()


@pytest.mark.parametrize(("node", "restarted"), [("n1", True), ("n3", False)])
def test_nobody_is_restarted_for_a_place_that_another_one_is_given_in_this_very_round(
    node: str,
    restarted: bool,  # noqa: FBT001 -- one word in a table
) -> None:
    """A cluster view shows nothing of a plan before its gang is nominated."""
    of, lane, told, there = asked(A, B), HeldExecutor(), Told(), picture(snapshot(A, B, *OTHERS))
    checks = RestartChecks(lane, Limits())
    restarter = Restarter(
        cast("PartialGangRollback", told), checks, ErrorBackoff(cast("Writer", None), Metrics()), seconds=-1.0
    )
    no = Decision(of, of.key, Outcome.UNPLACEABLE, Message.of("?"), proof=Proof.INFEASIBLE.value)
    manifest = {"metadata": {"name": "llm", "namespace": "default"}, "status": WAS_WHOLE}
    torn_one = ReconcileState(of, manifest, None, NeedPlan(), decision=no)
    first = ReconcileState(gang(pod("first")), manifest, record([("first", node)]), NeedPlan())
    restarter.restart([torn_one], there)
    lane.run()
    restarter.restart([torn_one, first], there)
    assert bool(told.gangs) is restarted


def test_a_gang_that_can_be_mended_by_now_is_not_restarted() -> None:
    of, checks = asked(A, B), RestartChecks(InlineExecutor(), Limits())
    verdict = checks.verdicts([of], picture(snapshot(A, B, OTHERS[0])))[of.key]
    assert (verdict.placed, verdict.why) == (False, "")


def test_what_is_in_the_way_is_looked_at_in_the_lane_on_the_same_picture() -> None:
    of, checks = asked(OF_A_JOB, B), RestartChecks(InlineExecutor(), Limits())
    verdict = checks.verdicts([of], picture(snapshot(OF_A_JOB, B, *OTHERS)))[of.key]
    assert (verdict.placed, verdict.why) == (False, "Job default/w is not there")


@pytest.mark.parametrize("fails", [True, False], ids=["planning fails", "nothing is proven"])
def test_nobody_is_restarted_where_it_is_not_proven_anew_that_there_is_no_place(
    fails: bool,  # noqa: FBT001 -- one word in a table
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsure(gangs: Sequence[Gang], *_: object, **__: object) -> list[list[Decision]]:
        """The first answer of two is none."""
        monkeypatch.undo()
        if fails:
            raise ArithmeticError
        return [
            [
                Decision(each, each.key, Outcome.UNPLACEABLE, Message.of("?"), proof=Proof.UNPROVEN.value)
                for each in gangs
            ]
        ]

    monkeypatch.setattr(planning_requests, "plan_in_turn", unsure)
    of, checks = asked(A, B), RestartChecks(InlineExecutor(), Limits())
    verdict = checks.verdicts([of], picture(snapshot(A, B, *OTHERS)))[of.key]
    assert (verdict.placed, verdict.why) == (False, "")


def test_a_yes_is_of_use_for_a_moment_and_a_no_for_longer() -> None:
    of = asked(A, B)
    yes, no = Verdict(of, at=100.0, place=snapshot(A, B).nodes), Verdict(of, at=100.0)
    assert (yes.fresh(of, 101.0), yes.fresh(of, 103.0), yes.stands(103.0)) == (True, False, False)
    assert (no.fresh(of, 101.0), no.stands(103.0), no.stands(111.0)) == (False, True, False)
    assert not yes.fresh(asked(A, member("c")), 101.0)


def test_gangs_are_looked_at_one_at_a_time_in_turns_of_their_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten gangs of one namespace came first: the one of another is second."""
    monkeypatch.setattr(restart_checks, "_REST", DutyCycle(rest=0))
    lane = HeldExecutor()
    checks = RestartChecks(lane, Limits())
    many = [replace(asked(A, B), key=GangKey("phalanx", "a", f"g{number}")) for number in range(10)]
    all_of_them = [*many, replace(asked(A, B), key=GangKey("phalanx", "b", "g"))]
    seen = list[str]()
    for _ in range(2):
        known = set(checks.verdicts(all_of_them, picture(snapshot(A, B, *OTHERS))))
        assert len(lane.works) == 1
        lane.run()
        seen += [key.namespace for key in set(checks.verdicts([], picture(snapshot(A, B, *OTHERS)))) - known]
    assert seen == ["a", "b"]
