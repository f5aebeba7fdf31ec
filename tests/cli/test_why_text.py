"""The text of `phalanx why` for given objects of a cluster."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import convert, structs

from cli.text.ages import age
from cli.text.why_text import leader_trouble, render
from gangs.model import GangKey
from kube.devices import ResourceClaim
from kube.keys import GATE, PLANNED_NODE
from kube.objects import (
    Condition,
    ObjectMeta,
    Pod,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    SchedulingGate,
)
from planning.stories.facts import GangFacts, StartEstimate, gangs_beside, member_keys, pod_state, restarted

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
LEADER = {"holderIdentity": "controller-0", "leaseDurationSeconds": 15, "renewTime": "2026-11-21T11:59:58.000000Z"}
OWNER = {"kind": "PodGroup", "name": "llm", "uid": "uid-group"}

Json = dict[str, Any]


def mirror(spec: Json | None = None, status: Json | None = None) -> Json:
    return {
        "metadata": {
            "name": "llm",
            "namespace": "default",
            "annotations": {"phalanx.dev/mirrors": "koordinator/default/llm"},
            "ownerReferences": [OWNER],
        },
        "spec": {"minMember": 4, "podSets": [{"name": "main", "count": 4, "minCount": 4}], **(spec or {})},
        "status": status or {},
    }


def pod(name: str, *, node: str = "", gated: bool = True, held: str = "", **status: Any) -> Pod:
    annotations = {PLANNED_NODE: held} if held else {}
    gates = (SchedulingGate(name=GATE),) if gated and not node else ()
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", annotations=annotations),
        spec=PodSpec(node_name=node, scheduling_gates=gates),
        status=PodStatus(nominated_node_name=held, **status),
    )


UNPLACEABLE = {
    "phase": "Unplaceable",
    "reason": "NoRoom",
    "proof": "Infeasible",
    "message": "needs 4 pods in one SpineLayer: spine-0 fits 3 of 4 (2 nodes: Insufficient cpu)",
    "members": {"expected": 4, "existing": 4, "placed": 0, "bound": 0},
    "conditions": [{"type": "Planned", "status": "False", "lastTransitionTime": "2026-11-21T11:55:00Z"}],
    "explanation": {
        "nearest": [
            {
                "level": "SpineLayer",
                "path": ["spine-0"],
                "fits": 3,
                "needed": 4,
                "nodes": 5,
                "excluded": {"Insufficient cpu": 2},
            }
        ],
        "wouldFitIf": ["1 more pod slot in spine-0", "required level SpineLayer dropped"],
    },
}


def test_a_gang_that_fits_nowhere_is_told_with_the_nearest_domains_and_what_would_help() -> None:
    pods = [pod(f"llm-{number}") for number in (10, 2, 0, 1)]
    told = render(GangFacts(mirror({"required": "SpineLayer"}, UNPLACEABLE), pods, leader=LEADER), NOW)
    assert (
        told
        == """\
default/llm  Unplaceable  NoRoom  infeasible
  needs 4 pods in one SpineLayer: spine-0 fits 3 of 4 (2 nodes: Insufficient cpu)

  would fit if: 1 more pod slot in spine-0
  would fit if: required level SpineLayer dropped

  asked by   PodGroup default/llm (koordinator)
  wants      4 pods that start together, in one SpineLayer
  members    4 of 4 exist, 0 bound
  since      2026-11-21T11:55:00Z (5m ago)

  NEAREST   FITS     NODES   EXCLUDED
  spine-0   3 of 4   5       2 Insufficient cpu

  POD      STATE       NODE
  llm-0    held back
  llm-1    held back
  llm-2    held back
  llm-10   held back
"""
    )


def test_forty_pods_fold_into_ranges() -> None:
    pods = [pod(f"llm-{at}", held=f"node-{at}") for at in range(39)] + [pod("llm-39", node="node-39", phase="Running")]
    told = render(GangFacts(mirror(), pods, leader=LEADER), NOW)
    assert told.endswith("""\

  POD         STATE                                       NODE
  llm-0..38   held back, capacity is reserved (39 pods)   node-0..38
  llm-39      Running                                     node-39
""")


def claiming(name: str, *, node: str = "", held: str = "") -> Pod:
    """A member whose claim `NAME-gpu` was created from a template."""
    plain = pod(name, node=node, held=held, phase="Running" if node else "Pending")
    own = PodResourceClaimStatus(name="gpu", resource_claim_name=f"{name}-gpu")
    entries = ({"name": "gpu", "resourceClaimTemplateName": "one"},)
    spec, status = structs.replace(plain.spec, resource_claims=entries), plain.status
    return structs.replace(plain, spec=spec, status=structs.replace(status, resource_claim_statuses=(own,)))


def claim(name: str, *devices: str, pool: str = "node-1") -> ResourceClaim:
    """A claim with these devices."""
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": each} for each in devices]
    allocation = {"allocation": {"devices": {"results": results}}} if devices else {}
    return convert({"metadata": {"name": name, "namespace": "default"}, "status": allocation}, ResourceClaim)


def planned(name: str, *devices: str) -> Json:
    """An entry of `status.claims`."""
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": each} for each in devices]
    return {"namespace": "default", "name": f"{name}-gpu", "pods": [name], "node": "node-1", "devices": results}


def test_held_and_planned_devices_of_a_gang_are_told_by_pod() -> None:
    names = [f"llm-{at}" for at in range(4)]
    plan = [planned(name, f"gpu-{2 * at}", f"gpu-{2 * at + 1}") for at, name in enumerate(names)]
    claims = [claim("llm-0-gpu", "gpu-0", "gpu-1"), claim("llm-1-gpu"), claim("llm-2-gpu", "a0", pool="fabric")]
    facts = GangFacts(
        mirror(status={"phase": "Nominated", "claims": plan}),
        [claiming(name, held="node-1") for name in names],
        leader=LEADER,
        claims={each.key: each for each in claims},
    )
    told = render(facts, NOW)
    assert "  devices held   2 of 4 claims, 3 devices\n" in told
    assert told.endswith("""\

  POD     STATE                             NODE     DEVICES
  llm-0   held back, capacity is reserved   node-1   gpu: gpu-0..1
  llm-1   held back, capacity is reserved   node-1   planned: gpu: gpu-2..3
  llm-2   held back, capacity is reserved   node-1   gpu: fabric/a0
  llm-3   held back, capacity is reserved   node-1   planned: gpu: gpu-6..7
""")


def test_devices_of_many_pods_are_counted() -> None:
    names = [f"llm-{at}" for at in range(20)]
    claims = [claim(f"{name}-gpu", "gpu-0", "gpu-1") for name in names]
    running = [claiming(name, node="node-1") for name in names]
    told = render(GangFacts(mirror(), running, leader=LEADER, claims={each.key: each for each in claims}), NOW)
    assert "devices held" not in told, "nothing is held for running pods"
    assert told.endswith("  llm-0..19   Running (20 pods)   node-1   40 devices\n")


def test_missing_devices_are_told_by_domain_and_request() -> None:
    status: Json = deepcopy(UNPLACEABLE)
    near = status["explanation"]["nearest"][0]
    near["devices"] = [
        {
            "devices": "devices of gpu.example.com",
            "requests": ["gpu"],
            "constraints": ["equal gpu.example.com/link"],
            "matching": 8,
            "free": 5,
            "needed": 8,
        }
    ]
    told = render(GangFacts(mirror(status=status), leader=LEADER), NOW)
    assert (
        "  DOMAIN    REQUEST   DEVICES                                        MATCH   FREE   NEEDED   MISSING\n"
        "  spine-0   gpu       gpu.example.com (equal gpu.example.com/link)   8       5      8        3\n"
    ) in told


EVICTING = {
    "phase": "Evicting",
    "reason": "VictimsLeaving",
    "proof": "Optimal",
    "message": "waits for default/low-5 to go",
    "members": {"expected": 2, "existing": 2, "placed": 2, "bound": 0},
    "levels": [
        {"level": "SpineLayer", "mode": "required", "domains": [{"path": ["spine-1"], "pods": 2}]},
        {
            "level": "BlockLayer",
            "mode": "none",
            "domains": [{"path": ["spine-1", "block-2"], "pods": 1}, {"path": ["spine-1", "block-3"], "pods": 1}],
        },
        {"level": "NodeTopologyLayer", "mode": "none", "domains": []},
    ],
    "victims": [{"namespace": "default", "pod": "low-5", "node": "node-5", "priority": 100}],
}
HISTORY: list[dict[str, Any]] = [
    {
        "type": "Normal",
        "reason": "VictimEvicted",
        "message": "evicted default/low-5 from node-5",
        "eventTime": "2026-11-21T11:59:50.000000Z",
    },
    {
        "type": "Warning",
        "reason": "GangUnplaceable",
        "message": "needs 2 pods",
        "eventTime": "2026-11-21T11:00:00.000000Z",
        "series": {"count": 7, "lastObservedTime": "2026-11-21T11:30:00.000000Z"},
    },
]


def test_a_placed_gang_says_how_long_it_waited_and_how_often_it_was_restarted() -> None:
    placed = {"type": "Placed", "status": "True", "lastTransitionTime": "2026-11-21T11:58:00Z"}
    gang = mirror(status={"phase": "Placed", "conditions": [placed], "restarts": 2})
    gang["metadata"]["creationTimestamp"] = "2026-11-21T11:20:00Z"
    facts = [line.split(maxsplit=1) for line in render(GangFacts(gang), NOW).splitlines()]
    assert ["waited", "38m from its creation to its last placement"] in facts
    assert ["restarts", "2"] in facts
    assert "waited" not in render(GangFacts(mirror()), NOW)


def test_a_restart_is_told_in_one_line_at_the_top() -> None:
    last = {"at": "2026-11-21T11:40:00Z", "from": "s0/r4", "closedNodes": "gpu-104 is cordoned"}
    status = {"phase": "Placed", "message": "8 pods are bound", "restarts": 1, "lastRestart": last}
    gang = mirror(status={**status, "summary": {"pods": "8/8", "domain": "s0/r7"}})
    told = "a lost pod had no place beside the others in s0/r4 (gpu-104 is cordoned); now in s0/r7"
    lines = render(GangFacts(gang), NOW).splitlines()
    assert lines[1:3] == ["  8 pods are bound", f"  restarted once, at 2026-11-21T11:40:00Z: {told}"]
    assert restarted({"restarts": 2}) == "restarted 2 times: a lost pod had no place beside the others"
    assert restarted({"restarts": 1, "lastRestart": {"from": "r4"}, "summary": {"domain": "r4"}}).endswith("in r4")
    assert restarted({"phase": "Placed"}) == ""


def test_the_gangs_in_the_only_domain_are_named_to_a_user_who_may_list_them() -> None:
    nearest = [{"path": ["s0", "r1"], "fits": 0, "needed": 6, "nodes": 8}]
    only = "s0/r1 (node selector gpu=h200); in use there: 6 pods"
    status: Json = {"phase": "Unplaceable", "explanation": {"onlyIn": only, "nearest": nearest}}
    others: list[Json] = [
        {"metadata": {"namespace": "team-b", "name": name}, "status": {"summary": {"domain": where}}}
        for name, where in (("hotfix", "s0/r1"), ("near", "s0/r10"), ("wide", "s0"), ("node", "s0/r1/n7"))
    ]
    beside = gangs_beside(status, [*others, {"metadata": {"namespace": "a", "name": "new"}}])
    assert beside == ["team-b/hotfix", "team-b/node"]
    assert gangs_beside({**status, "explanation": {"nearest": nearest}}, others) == []
    told = render(GangFacts(mirror(status=status), beside=beside), NOW)
    assert (
        "  may run only in s0/r1 (node selector gpu=h200); in use there: 6 pods, by team-b/hotfix, team-b/node\n"
        in told
    )


def test_a_sentence_that_events_repeat_is_printed_once() -> None:
    why = "restarted as a whole (1 of at most 6 times): the others have no place"
    times = [f"2026-11-21T11:0{minute}:00.000000Z" for minute in range(3)]
    notes = (why, f"evicted: with all of gang default/llm; {why}", f"waits for 1 pod; {why}; {why}")
    events = [
        {"type": "Normal", "reason": "GangRestarted", "message": note, "eventTime": at}
        for note, at in zip(notes, times, strict=True)
    ]
    shown = [
        line.partition("GangRestarted")[2].strip() for line in render(GangFacts(mirror(), (), events), NOW).splitlines()
    ]
    assert shown[-3:] == [why, "evicted: with all of gang default/llm; as above", "waits for 1 pod; as above"]


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (
            StartEstimate(NOW + timedelta(hours=2, minutes=13), after="team-a/llm"),
            "in 2h13m, at 14:13 UTC (an estimate: the quota is free when team-a/llm ends as expected)",
        ),
        (
            StartEstimate(NOW + timedelta(hours=13)),
            "in 13h, at 2026-11-22 01:00 UTC (an estimate: when the quota is free)",
        ),
        (StartEstimate(None, "no right"), "unknown: no right"),
        (None, ""),
    ],
)
def test_an_estimated_start_says_that_it_is_an_estimate(start: StartEstimate | None, told: str) -> None:
    lines = render(GangFacts(mirror(status={"phase": "Waiting"}), start=start), NOW).splitlines()
    found = [line.partition("estimated start")[2].strip() for line in lines if "estimated start" in line]
    assert [each[: len(told)] for each in found] == [told] * bool(told)


def test_a_gang_on_its_way_is_told_with_its_domains_victims_and_history() -> None:
    spec = {"minMember": 2, "podSets": [{"name": "main", "count": 2}], "preferred": "BlockLayer"}
    pods = [pod("llm-0", held="node-5"), pod("llm-1", held="node-6")]
    told = render(GangFacts(mirror(spec, EVICTING), pods, HISTORY, LEADER), NOW)
    assert (
        told
        == """\
default/llm  Evicting  VictimsLeaving  optimal
  waits for default/low-5 to go

  asked by               PodGroup default/llm (koordinator)
  wants                  2 pods that start together, if possible in one BlockLayer
  members                2 of 2 exist, 0 bound
  SpineLayer, required   spine-1 (2)
  BlockLayer             spine-1/block-2 (1), spine-1/block-3 (1)

  VICTIM          NODE     PRIORITY   GANG
  default/low-5   node-5   100

  POD     STATE                             NODE
  llm-0   held back, capacity is reserved   node-5
  llm-1   held back, capacity is reserved   node-6

  SEEN       TYPE      REASON            NOTE
  30m (x7)   Warning   GangUnplaceable   needs 2 pods
  10s        Normal    VictimEvicted     evicted default/low-5 from node-5
"""
    )


def test_a_member_beyond_the_minimum_says_why_it_waits() -> None:
    text = "3 pods stay in r1: n-0..2, 1 more finds no room (3 nodes: Insufficient cpu)"
    waits = (Condition(type="PodScheduled", status="False", message=f"gang default/llm: {text}"),)
    pods = [*(pod(f"llm-{i}", node=f"n-{i}", phase="Running") for i in range(3)), pod("llm-3", conditions=waits)]
    placed = {"phase": "Placed", "message": "3 pods are bound on n-0..2"}
    told = render(GangFacts(mirror({"minMember": 3}, placed), pods, leader=LEADER), NOW)
    assert f"  3 pods are bound on n-0..2\n\n  held back: {text}\n" in told
    assert told.endswith("  llm-3   held back\n")
    assert "held back:" not in render(GangFacts(mirror(status=UNPLACEABLE), pods, leader=LEADER), NOW)


def test_a_gang_that_nobody_has_looked_at_says_why() -> None:
    own = {"metadata": {"name": "llm", "namespace": "default"}}
    assert (
        render(GangFacts(own, leader=None), NOW)
        == """\
default/llm  Unknown
  nothing has been decided yet

  wants        all its pods together
  members      0 of 0 exist, 0 bound
  controller   none is running: nothing will change until one does
"""
    )


def test_the_sets_that_lack_members_are_named() -> None:
    spec = {"podSets": [{"name": "prefill", "count": 2}, {"name": "decode", "count": 4, "minCount": 2}]}
    labelled = [
        Pod(metadata=ObjectMeta(name=f"p-{i}", namespace="default", labels={"phalanx.dev/pod-set": "decode"}))
        for i in range(3)
    ]
    told = render(
        GangFacts(mirror({**spec, "minMember": 4}, {"members": {"expected": 6}}), labelled, leader=LEADER), NOW
    )
    assert "wants      at least 4 of 6 pods together" in told
    assert "members    3 of 6 exist, 0 bound; missing: 2 of prefill and 1 of decode" in told


STATES = [
    (pod("p"), "held back"),
    (pod("p", held="n"), "held back, capacity is reserved"),
    (pod("p", gated=False), "released, not bound yet"),
    (
        pod("p", gated=False, conditions=(Condition(type="PodScheduled", status="False", message="0/3 nodes"),)),
        "released, not bound yet: 0/3 nodes",
    ),
    (pod("p", node="n"), "bound, starting"),
    (pod("p", node="n", phase="Running"), "Running"),
    (pod("p", node="n", phase="Succeeded"), "Succeeded"),
    (Pod(metadata=ObjectMeta(name="p", deletion_timestamp="2026-11-21T11:55:00Z")), "terminating"),
]


@pytest.mark.parametrize(("member", "state"), STATES, ids=[state for _, state in STATES])
def test_each_member_says_how_it_stands(member: Pod, state: str) -> None:
    assert pod_state(member) == state


LEADERS = [
    (None, "none is running: nothing will change until one does"),
    ({}, ""),
    (LEADER, ""),
    ({**LEADER, "holderIdentity": ""}, "none is running: nothing will change until one does"),
    ({**LEADER, "renewTime": "2026-11-21T11:58:50.000000Z"}, ""),
    (
        {**LEADER, "renewTime": "2026-11-21T11:50:00.000000Z"},
        "controller-0 has been silent since 2026-11-21T11:50:00.000000Z: nothing will change until one runs",
    ),
]


@pytest.mark.parametrize(("lease", "said"), LEADERS)
def test_a_cluster_whose_controllers_are_silent_is_told(lease: Json | None, said: str) -> None:
    assert leader_trouble(lease, NOW) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (3 * 3600, "3h"), (47 * 3600, "47h"), (49 * 3600, "2d")],
)
def test_ages_are_short(seconds: int, said: str) -> None:
    assert age((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == said


KEYS = [
    (mirror(), {GangKey("koordinator", "default", "llm")}),
    (
        mirror({"podSets": [{"name": "llm", "count": 1}, {"name": "other/decode", "count": 1}]}),
        {GangKey("koordinator", "default", "llm"), GangKey("koordinator", "other", "decode")},
    ),
    ({"metadata": {"name": "llm", "namespace": "default"}}, {GangKey("phalanx", "default", "llm")}),
]


@pytest.mark.parametrize(("manifest", "keys"), KEYS)
def test_members_are_known_by_the_gang_or_by_its_groups(manifest: Json, keys: set[GangKey]) -> None:
    assert member_keys(manifest) == keys


def test_a_gang_with_a_plan_is_told_why_it_is_here() -> None:
    placed = {**UNPLACEABLE, "phase": "Placed", "explanation": {"whyHere": "no other SpineLayer can hold it"}}
    told = render(GangFacts(mirror({"required": "SpineLayer"}, placed), [], leader=LEADER), NOW)
    assert "\n  why here: no other SpineLayer can hold it\n" in told
