"""A cluster of three nodes, one gang and two leaders of which one may be outdated, for the protocol's state machine.

A leader reads the cluster, and later makes any of the writes that follow from `next_step` on what it read. A write
counts only if its object has not changed since, as with resource versions. Everything else is the scheduler, the
kubelets and other users. This module computes itself which pod is on which node. Of the protocol it calls nothing but
`next_step`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from protocol_scenes import gang, pod, snapshot

from controller.release.next_step import Evict, NeedPlan, Nominate, Release, Renominate, Situation, Step, next_step
from controller.release.records import PlannedMember, PlannedVictim, PlanRecord
from gangs.model import PodSet
from kube.keys import PLAN, PLANNED_NODE
from kube.objects import Pod

NODES = ("n1", "n2", "n3")
SIZE = 2
LOW, OURS, HIGH = 1, 10, 100


@dataclass(frozen=True, slots=True)
class Thing:
    """A pod. `ours`: it is a member. `let_go`: the node to which its release pinned it."""

    name: str
    ours: bool
    priority: int = OURS
    gated: bool = False
    nominated: str = ""
    plan: str = ""
    bound: str = ""
    let_go: str = ""
    ending: bool = False

    def pod(self) -> Pod:
        """Return the pod as the protocol reads it.

        The planned node stays in its annotation, even if its nomination is taken away.
        """
        made = pod(
            self.name,
            gated=self.gated,
            nominated=self.nominated,
            plan=self.plan,
            bound=self.bound,
            priority=self.priority,
            terminating=self.ending,
        )
        marks = {PLAN: self.plan, PLANNED_NODE: self.let_go} if self.let_go else made.metadata.annotations
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=marks))


@dataclass(frozen=True, slots=True)
class Look:
    """The state that a leader read, and the step that follows from it."""

    things: dict[str, Thing]
    record: PlanRecord | None
    step: Step
    plan: PlanRecord | None = None
    """The new plan, where one was needed and could be made."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a leader: the object as it was read (None: the record), and the object after the write."""

    seen: Thing | None
    wanted: Thing | None = None


@dataclass(slots=True)
class World:
    """Everything there is."""

    things: dict[str, Thing] = field(default_factory=dict)
    record: PlanRecord | None = None
    made: int = 0
    robbed: bool = False
    """Whether a released member lost its reserved capacity to another pod, or was lost itself.

    The protocol can promise nothing about the gang after that.
    """

    def members(self) -> list[Thing]:
        """Return the gang's members that are not ending."""
        return [each for each in self.things.values() if each.ours and not each.ending]

    def add(self, stem: str, **fields: object) -> Thing:
        """A new pod."""
        self.made += 1
        thing = replace(Thing(f"{stem}{self.made}", ours=stem == "m"), **fields)  # type: ignore[arg-type]
        self.things[thing.name] = thing
        return thing

    def on(self, node: str) -> list[Thing]:
        """Return the pods that are bound to the node, ending pods included."""
        return [each for each in self.things.values() if each.bound == node]

    def look(self) -> Look:
        """Return the current state as a leader reads it, and the step that follows from it."""
        things, pods = dict(self.things), {name: each.pod() for name, each in self.things.items()}
        mine = [pods[each.name] for each in self.members()]
        live = {each.metadata.uid: each for each in pods.values()}
        whole = replace(gang(*mine), pod_sets=(PodSet("main", SIZE, SIZE),), expected=SIZE, min_member=SIZE)
        step = next_step(Situation(whole, self.record, snapshot(*pods.values()), live))
        seen = Look(things, self.record, step)
        return replace(seen, plan=self._plan()) if isinstance(step, NeedPlan) else seen

    def _plan(self) -> PlanRecord | None:
        """Return a new plan; None if the gang has too few members or nodes.

        Released members keep their nodes. The others get nodes that are free or become free, else the nodes of victims.
        """
        members = self.members()
        waiting = [each for each in members if not each.bound]
        if len(members) < SIZE:
            return None
        taken = {each.let_go for each in waiting if each.let_go}
        there = {node: [each for each in self.on(node) if not each.ending] for node in NODES}
        free = [node for node in NODES if not there[node] and node not in taken]
        costly = [node for node in NODES if there[node] and all(each.priority < OURS for each in there[node])]
        nodes = iter([*free, *(node for node in costly if node not in taken)])
        places = {each.name: each.let_go or next(nodes, "") for each in waiting}
        if not all(places.values()):
            return None
        victims = [each for node in places.values() for each in there[node] if not each.ours]
        self.made += 1
        return PlanRecord(
            f"plan-{self.made}",
            tuple(PlannedMember(f"uid-{name}", "default", name, node) for name, node in places.items()),
            tuple(PlannedVictim(f"uid-{each.name}", "default", each.name, each.bound) for each in victims),
        )

    def write(self, each: Write) -> bool:
        """Make a write of an object that is as it was seen; whether it was."""
        if each.seen is None or self.things.get(each.seen.name) != each.seen:
            return False
        if each.wanted is None:
            del self.things[each.seen.name]
        else:
            self.things[each.seen.name] = each.wanted
        return True


def writes(look: Look) -> Iterator[Write]:
    """Yield the writes that a leader makes for its step, after the record of a new plan is stored."""
    match look.step:
        case NeedPlan(stale=stale):
            planned = {member.name: member.node for member in look.plan.members} if look.plan else {}
            yield from (_nominated(look, look.plan, name, node) for name, node in planned.items())
            stale_names = [each.metadata.name for each in stale if each.metadata.name not in planned]
            for seen in (look.things[name] for name in stale_names):
                yield Write(seen, replace(seen, nominated="", plan=""))
        case Nominate(members) | Renominate(members):
            yield from (_nominated(look, look.record, each.pod.metadata.name, each.node) for each in members)
        case Evict(victims):
            for seen in (look.things[each.name] for each in victims):
                yield Write(seen, replace(seen, ending=True) if seen.bound else None)
        case Release(members):
            for each in members:
                seen = look.things[each.pod.metadata.name]
                yield Write(seen, replace(seen, gated=False, let_go=each.node))


def _nominated(look: Look, plan: PlanRecord | None, name: str, node: str) -> Write:
    seen = look.things[name]
    return Write(seen, replace(seen, nominated=node, plan=plan.plan_id if plan else ""))


def sound(look: Look) -> str:
    """Return what is wrong with a leader's step; "" if nothing is.

    The rules are older than the protocol and do not use it.
    """
    record, members = look.record, [each for each in look.things.values() if each.ours and not each.ending]
    held = record is not None and all(_held(each, record) for each in members if each.gated)
    match look.step:
        case Evict(victims) if record is None or not held or not set(victims) <= set(record.victims):
            return "evicts whom no plan names, or before the capacity is reserved"
        case Release(going) if record is not None and held and len(members) == SIZE:
            return _released(look, record, members, {each.pod.metadata.name for each in going})
        case Release():
            return "lets go though not all are there and held by a plan"
    return ""


def _released(look: Look, record: PlanRecord, members: Sequence[Thing], going: set[str]) -> str:
    nodes = [record.node_of(f"uid-{each.name}") or "" for each in members if not each.bound]
    if going != {each.name for each in members if each.gated}:
        return "lets go only some"
    if "" in nodes or len(set(nodes)) != len(nodes):
        return "lets go to no node, or two to one"
    first = not any(each.let_go or each.bound for each in members)
    taken = {each.bound for each in look.things.values() if not each.ours}
    return f"lets go while {taken & set(nodes)} is taken" if first and taken & set(nodes) else ""


def _held(thing: Thing, record: PlanRecord) -> bool:
    return (thing.nominated, thing.plan) == (record.node_of(f"uid-{thing.name}"), record.plan_id)
