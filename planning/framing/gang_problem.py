"""Turns a gang, a snapshot and a topology into the solver's problem, and maps its positions back to pods and nodes.

Amounts are in units of the problem (`planning.framing.amounts`). Resources: cpu and memory first, then the other
requested resources by name, "pods" last. Nodes outside the topology are not in the problem. The only exceptions are
nodes of bound members and of victims' siblings: they are guests, without free capacity and in domains of their own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from cluster.eligibility.pod_affinity import nobody_goes
from cluster.evictable_pods import EvictablePods
from cluster.node_state import Amounts, NodeState, Tenant
from cluster.snapshot import Snapshot
from cluster.topology.tree import domains
from gangs.held_nodes import held_node
from gangs.model import Gang, GangKey, Member, PodSet
from kube.names import natural_key
from kube.requests import PODS
from kube.topology import HOSTNAME_LABEL, Level, Topology
from planning.devices.columns import NO_DEVICES, NOTHING_FREED, DeviceColumns, Freed, device_columns
from planning.devices.counts import devices_of_each
from planning.devices.implied_claims import unused_devices
from planning.framing.amounts import Amounts as _Amounts
from planning.framing.amounts import Units
from planning.framing.evicted_together import evicted_together
from planning.framing.member_rules import LabelsOf, affinities, apart, conflicts, spread_exclusions, spread_rules
from planning.framing.member_traits import GangTraits
from planning.framing.nearness import nearness
from planning.framing.places import Places, gone
from planning.framing.preferences import affinity_of
from planning.framing.priorities import may_preempt
from planning.framing.promised_neighbours import kept_near
from planning.framing.running_gangs import RunningGangs
from planning.framing.shapes import NodeTerms, ShapeTable, watched_labels
from planning.framing.stranded import Stranded, stranded
from planning.framing.victims import Evictable, Victims, candidates, victims_of
from solver import problem as solving
from solver.nodes import NodeTable, node_layout_of

NODE_ONLY = Topology(name="", kind="", levels=(Level("node", (HOSTNAME_LABEL,)),))
"""The topology of a cluster without one: the node is the only level."""

_FIRST = ("cpu", "memory")


class UnknownLevelError(Exception):
    """The gang names a level that its topology does not have. `name`: the level as the user wrote it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


_EVICTIONS = "some evictions of pods with devices"
"""The note of a plan if the amounts that evictions free are not all known (`planning.devices.columns`)."""
_ROUNDED = "the last digits of very large amounts"
"""The note of a plan if amounts are rounded (`planning.framing.amounts`)."""


@dataclass(frozen=True, slots=True)
class Framing:
    """The solver's problem, and the meaning of the positions in it.

    `members[s][m]` is the gang's member at position m of set s, `nodes[i]` the name of node i, and `victims[i]` the pod
    of victim i. `units`: the size of one unit of each resource. `exact`: whether no amount is rounded
    (`planning.framing.amounts`). `guests`: positions of the problem's nodes that are outside the topology. `outside`:
    all nodes outside the topology, with the label that each lacks. `unmodelled`: members' constraints that planning
    does not read. `among_members`: constraints between members that are not in the problem; `spread_limits` returns
    exclusions that enforce a part of them (`planning.scheduler_rules.member_affinity`). `stranded`: members whose nodes
    cannot take them any more. `overruled`: by node, the disruption budgets that overlap on a pod there. A pod under two
    budgets cannot be evicted. `devices`: the devices among the problem's resources.
    """

    problem: solving.Problem
    topology: Topology
    members: tuple[tuple[Member, ...], ...]
    nodes: tuple[str, ...]
    victims: tuple[Tenant, ...]
    units: tuple[int, ...]
    exact: bool
    guests: frozenset[int]
    outside: Mapping[str, str]
    unmodelled: tuple[str, ...] = ()
    among_members: tuple[str, ...] = ()
    spread_limits: Callable[[], tuple[solving.Exclusion, ...]] = tuple
    stranded: tuple[Stranded, ...] = ()
    overruled: Mapping[str, frozenset[str]] = field(default_factory=dict)
    devices: DeviceColumns = NO_DEVICES
    groups: frozenset[str] = frozenset()
    """The names of `problem.victim_gangs` that are no gangs, but pods that are evicted together for their devices."""


class _Asked(NamedTuple):
    """The requests of several pods for one resource, in base units.

    `by_pod`: one amount for each pod. `different`: the set of all amounts in it.
    """

    by_pod: list[int]
    different: set[int]


def frame(
    gang: Gang,
    snapshot: Snapshot,
    topology: Topology | None,
    *,
    running: RunningGangs,
    preemption: bool = True,
    together: bool = False,
) -> Framing:
    """Return the problem of placing `gang`. Expects a gang whose pods have their priorities (`with_priorities`).

    `running`: the gangs of the pods that run already. `preemption` False: no pod is evicted. `together`: pods whose
    evictions free devices only together are evicted together or not at all (`evicted_together`). Raises
    `UnknownLevelError` if the gang names a level that the topology lacks.
    """
    return _Framer((gang,), snapshot, topology or NODE_ONLY, running).frame(preemption=preemption, together=together)


def frame_together(
    gangs: Sequence[Gang],
    snapshot: Snapshot,
    topology: Topology | None,
    *,
    running: RunningGangs,
    preemption: bool = True,
) -> Framing:
    """Return the joint problem of placing several gangs of one priority, including the rules between their members.

    Its pod sets are the sets of all gangs, in their order; `Problem.gangs` says which sets belong to which gang. The
    pods of each gang must have their priorities (`with_priorities`). `preemption` False: no pod is evicted. True: pods
    may be evicted if one of the gangs may evict. Raises `UnknownLevelError` if a gang names a level that the topology
    lacks.
    """
    return _Framer(gangs, snapshot, topology or NODE_ONLY, running).frame(preemption=preemption)


def level_at(topology: Topology, name: str) -> int:
    """Return the position of the topology's level with this name. Raises `UnknownLevelError`."""
    found = topology.find(name)
    if found is None:
        raise UnknownLevelError(name)
    return found


class _Framer:
    """Builds one problem. `all_members`: the members of all gangs; `members`: the members of each pod set."""

    def __init__(self, gangs: Sequence[Gang], snapshot: Snapshot, topology: Topology, running: RunningGangs) -> None:
        self.gangs, self.snapshot, self.topology, self.running = tuple(gangs), snapshot, topology, running
        self.all_members = [member for gang in gangs for member in gang.members]
        self.own = frozenset(member.pod.key for member in self.all_members)
        self.members = tuple(
            tuple(m for m in gang.members if m.pod_set == each.name) for gang in gangs for each in gang.pod_sets
        )
        self.priority = min(gang.priority for gang in gangs)
        self.devices = device_columns(gangs, snapshot, topology, priority=self.priority)
        requests = [snapshot.node_requests(member.pod) for member in self.all_members]
        for member, amounts in zip(self.all_members, requests, strict=True) if self.devices.names else ():
            amounts.update(self.devices.asked.get(member.pod.key, {}))
            if member.pod.key in self.devices.followed:
                amounts[PODS] += 1
        self.resources = _resources(requests)
        self.exact = True
        """Whether nothing is rounded or left out of the amounts that evictions free."""
        self.groups = frozenset[GangKey]()
        """The groups of pods that count as running gangs, because they are evicted together (`evicted_together`)."""
        self.nothing = (0,) * len(self.resources)
        self.largest = {**snapshot.largest_allocatable, **self.devices.largest}
        self.requests = dict(zip(map(id, self.all_members), map(self._parallel, requests), strict=True))
        self.stranded = tuple(each for gang in gangs for each in stranded(gang, snapshot))
        elsewhere = {id(each.member) for each in self.stranded}
        self.node_of = {id(m): "" if id(m) in elsewhere else held_node(m.pod) for m in self.all_members}
        self.tree = domains(topology, snapshot.node_objects)
        self.inside = [snapshot.positions[name] for name in self.tree.path_of]
        for gang in gangs:
            for preferred in (gang.preferred, *(each.preferred for each in gang.pod_sets)):
                self._level(preferred)

    def frame(self, *, preemption: bool, together: bool = False) -> Framing:
        preempting = preemption and any(map(may_preempt, self.gangs))
        table = self._shape_table([self.snapshot.nodes[each] for each in self.inside], preempting=preempting)
        shapes = {id(each.member): self._tied_shape(table, each) for each in self.stranded}
        node_terms = [self._node_terms(gang, table) for gang in self.gangs]
        for gang, terms in zip(self.gangs, node_terms, strict=True):
            planned = (m for m in gang.members if not self.node_of[id(m)] and id(m) not in shapes)
            shapes |= {id(member): table.add(member.pod, self.requests[id(member)], terms) for member in planned}
        evictable = self._candidates(table) if preempting else EvictablePods()
        places = self._places(table.nodes)
        self._add_guests(places, evictable)
        positions = {name: position for position, name in enumerate(self._names(places))}
        self._take_held_room(places, positions)
        shapes |= self._held_shapes(table, positions)
        asked = self._asked(evictable, self._freed_together(evictable) if together else self._freed(evictable))
        units = self._units(places, asked)
        unused = unused_devices(self.all_members, self.snapshot)
        requests = units.offered([each.by_pod for each in asked])
        victims = victims_of(evictable, self.snapshot, self.running, self._in_problem(places), requests)
        sets = tuple(
            self._set(gang, pod_set, members, shapes, positions)
            for (gang, pod_set), members in zip(self._pod_sets(), self.members, strict=True)
        )
        return Framing(
            problem=self._problem(places, table, sets, victims, units),
            topology=self.topology,
            members=self.members,
            nodes=tuple(positions),
            victims=victims.tenants,
            units=units.sizes,
            exact=units.exact and self.exact and not unused,
            guests=frozenset(range(len(table.nodes), len(places.states))),
            outside=self.tree.outside,
            unmodelled=(
                *(*table.unmodelled, *self.devices.notes, *unused),
                *(() if self.exact else (_EVICTIONS,)),
                *(() if units.exact else (_ROUNDED,)),
            ),
            among_members=table.among_members,
            spread_limits=partial(spread_exclusions, table.spreads, table.pods, places.states),
            stranded=self.stranded,
            overruled=Evictable(self.snapshot, self.priority).overruled(table.nodes) if preempting else {},
            devices=self.devices,
            groups=frozenset(map(str, self.groups)),
        )

    def _problem(
        self,
        places: Places,
        table: ShapeTable,
        sets: tuple[solving.PodSet, ...],
        victims: Victims,
        units: Units,
    ) -> solving.Problem:
        states = places.states
        traits = [each.traits for each in table.pod_rules]
        exclusions, separations = apart(traits, table.traits.terms, states)
        # Victim positions are looked up only for pods in `concerned`, so without such pods no mapping is needed.
        positions = {key: position for position, key in enumerate(victims.victims.keys)} if table.concerned else {}
        alone = self.gangs[0] if len(self.gangs) == 1 else None
        return solving.Problem(
            levels=tuple(level.name for level in self.topology.levels),
            resources=self.resources,
            nodes=self._nodes(places, units),
            shapes=tuple(
                replace(shape, requests=units.asked(shape.requests), fills_node=self._fills_node(shape.requests))
                for shape in table.shapes
            ),
            sets=sets,
            minimum=sum(gang.still_needed for gang in self.gangs),
            required=self._level(alone.required) if alone is not None else None,
            together=self._together(),
            multiples=self._multiples(alone) if alone is not None else (),
            exclusions=exclusions,
            separations=separations,
            victims=victims.victims,
            victim_gangs=victims.gangs,
            budgets=victims.budgets + kept_near(victims.tenants, self.snapshot, self.priority, self.own),
            spreads=spread_rules(table.spreads, table.pods, self._labels(states), positions),
            conflicts=conflicts([each.obstacles for each in table.pod_rules], positions),
            affinities=affinities(traits, [each.near for each in table.pod_rules], states, positions),
            gangs=() if alone is not None else tuple(self._rules()),
            slot_contents=devices_of_each(self.devices, sum(not each.pod.bound for each in self.all_members)),
        )

    def _pod_sets(self) -> Iterator[tuple[Gang, PodSet]]:
        """Yield the pod sets of all gangs of the problem, each with its gang."""
        return ((gang, each) for gang in self.gangs for each in gang.pod_sets)

    def _rules(self) -> Iterator[solving.GangRules]:
        """Yield for each gang the positions of its pod sets, and the constraints for all its sets together."""
        first = 0
        for gang in self.gangs:
            sets = tuple(range(first, first + len(gang.pod_sets)))
            yield solving.GangRules(sets, gang.still_needed, self._multiples(gang))
            first += len(sets)

    def _multiples(self, gang: Gang) -> tuple[solving.Multiple, ...]:
        return tuple(solving.Multiple(level_at(self.topology, each.level), each.of) for each in gang.multiples)

    def _nodes(self, places: Places, units: Units) -> NodeTable:
        layout = node_layout_of(self._names(places), tuple(places.paths))
        return NodeTable(layout, units.offered(places.free), units.offered(places.terminating))

    def _names(self, places: Places) -> tuple[str, ...]:
        """Return the names of the problem's nodes, in order of position."""
        return (*self.tree.path_of, *[state.name for state in places.states[len(self.inside) :]])

    def _in_problem(self, places: Places) -> solving.IntColumn:
        """Return for each node of the snapshot its position in the problem; -1 if the node is not in the problem."""
        found = np.full(len(self.snapshot.nodes), -1, dtype=np.int64)
        found[self.inside] = np.arange(len(self.inside))
        for position, state in enumerate(places.states[len(self.inside) :], len(self.inside)):
            if (at := self.snapshot.positions.get(state.name)) is not None:
                found[at] = position
        return found

    def _labels(self, states: Sequence[NodeState]) -> LabelsOf:
        """Return a function that yields, for a label key, the name of each node and its value of that label.

        Nodes are in the order of the problem: first the topology's nodes, then the nodes outside it.
        """
        guests = states[len(self.inside) :]

        def of(key: str) -> Iterator[tuple[str, str | None]]:
            values = self.snapshot.label_values[key]
            yield from zip(self.tree.path_of, [values[place] for place in self.inside], strict=True)
            yield from ((state.name, state.node.metadata.labels.get(key)) for state in guests)

        return of

    def _shape_table(self, inside: Sequence[NodeState], *, preempting: bool) -> ShapeTable:
        traits = GangTraits((member.pod for member in self.all_members), self.snapshot.namespaces)
        return ShapeTable(
            nodes=inside,
            snapshot=self.snapshot,
            siblings=[member.pod for member in self.all_members],
            own=self.own,
            label_keys=watched_labels(self.snapshot) | traits.label_keys,
            traits=traits,
            demands=self.devices.demands,
            may_go=Evictable(self.snapshot, self.priority) if preempting else nobody_goes,
        )

    def _fills_node(self, requests: _Amounts) -> bool:
        """Return whether no node of the cluster could hold two pods with these requests, even if it were empty."""
        largest = self.largest
        return any(2 * each > largest.get(name, 0) for name, each in zip(self.resources, requests, strict=True))

    def _parallel(self, amounts: Amounts) -> _Amounts:
        if not amounts:
            return self.nothing
        return tuple([amounts.get(each, 0) for each in self.resources])

    def _freed(self, pods: EvictablePods) -> Freed:
        """Return what the eviction of each pod frees of the device resources."""
        found = self.devices.freed_by(pods, tuple(self.snapshot.positions)) if self.devices.names else NOTHING_FREED
        self.exact &= found.exact
        return found

    def _freed_together(self, pods: EvictablePods) -> Freed:
        """Return what the evictions of groups of pods free of the device resources. Each group becomes a running gang
        that needs all its pods.
        """
        found = evicted_together(self.devices, pods, tuple(self.snapshot.positions), self.running)
        self.running, self.groups, self.exact = found.running, found.groups, False
        return Freed(found.amounts, exact=False)

    def _asked(self, pods: EvictablePods, freed: Freed) -> list[_Asked]:
        """Return, for each resource of the problem, the requests of the evictable pods. `freed`: what their evictions
        free of device resources.
        """
        asks = pods.asks.tolist()
        kinds, found = {*asks}, []
        for resource in self.resources:
            if resource in freed.amounts:
                found.append(_Asked(freed.amounts[resource], {*freed.amounts[resource]}))
                continue
            column = [asked.get(resource, 0) for asked in pods.asked]
            found.append(_Asked([*map(column.__getitem__, asks)], {column[kind] for kind in kinds}))
        return found

    def _node_terms(self, gang: Gang, table: ShapeTable) -> NodeTerms:
        """Return the node affinity, node rules and preferences that the gang itself states, and that hold for all its
        members.
        """
        return NodeTerms(
            affinity_of(gang, self.snapshot.nodes),
            gang.node_rules,
            nearness(self.tree, [state.name for state in table.nodes], gang.near),
        )

    def _held_shapes(self, table: ShapeTable, positions: Mapping[str, int]) -> dict[int, int]:
        """Return the shape of each member that has a node already. The shape has the member's requests, and no node is
        eligible except the member's node.

        The result maps the `id` of each such member to the position of its shape.
        """
        held = [member for member in self.all_members if self.node_of[id(member)]]
        nodes = frozenset(positions[self.node_of[id(member)]] for member in held)
        return {id(member): table.add_held(member.pod, self.requests[id(member)], nodes) for member in held}

    def _tied_shape(self, table: ShapeTable, tied: Stranded) -> int:
        """Return the position of a stranded member's shape: its only eligible node is the node to which the member was
        released.
        """
        return table.add_tied(tied.member.pod, self.requests[id(tied.member)], tied.node, tied.why, room=tied.room)

    def _candidates(self, table: ShapeTable) -> EvictablePods:
        useful = frozenset[int]().union(*(shape.nodes for shape in table.shapes))
        return candidates(
            self.snapshot,
            self.priority,
            [self.inside[position] for position in useful],
            self.running,
            table.concerned,
        )

    def _places(self, states: Sequence[NodeState]) -> Places:
        """Return the nodes of the topology. Their free capacity is computed as if no member of the planned gangs were
        bound or reserved there.
        """
        by_node = [each for each in self.resources if each not in self.devices.room]
        rooms = zip(by_node, self.snapshot.room(by_node, priority=self.priority, ignoring=self.own), strict=True)
        room = {**dict(rooms), **self.devices.room}
        columns = [room[each] for each in self.resources]
        return Places(
            list(states),
            list(self.tree.path_of.values()),
            [[*map(column.free.__getitem__, self.inside)] for column in columns],
            [[*map(column.terminating.__getitem__, self.inside)] for column in columns],
        )

    def _add_guests(self, places: Places, evictable: EvictablePods) -> None:
        """Add the nodes outside the topology, and the missing nodes, that hold a member or a victim.

        They get no free capacity, so that no further member is placed there.
        """
        outside = {*np.unique(evictable.node).tolist()}.difference(self.inside)
        names = {self.snapshot.nodes[node].name for node in outside} | {*self.node_of.values()}
        depth = len(self.topology.levels) - 1
        for name in sorted(names - {""} - self.tree.path_of.keys(), key=natural_key):
            places.add(self.snapshot.state(name) or gone(name), (f"outside ({name})",) * depth)

    def _take_held_room(self, places: Places, positions: Mapping[str, int]) -> None:
        """Subtract the requests of members that keep their nodes from the free capacity of these nodes."""
        for member in self.all_members:
            if (node := self.node_of[id(member)]) in self.tree.path_of:
                places.take(positions[node], self.requests[id(member)])

    def _units(self, places: Places, asked: Sequence[_Asked]) -> Units:
        columns = zip(places.free, places.terminating, asked, strict=True)
        offered = [each.different.union(free, leaving) for free, leaving, each in columns]
        return Units.of(list(self.requests.values()), offered, len(places.states) + len(asked[0].by_pod))

    def _level(self, name: str | None) -> int | None:
        """Return the position of a level of nodes; None for a level below the node, which only binds devices."""
        return None if name is None or self.topology.find_below(name) is not None else level_at(self.topology, name)

    def _set(
        self,
        gang: Gang,
        pod_set: PodSet,
        members: Sequence[Member],
        shapes: Mapping[int, int],
        positions: Mapping[str, int],
    ) -> solving.PodSet:
        at = self.topology
        least = min(pod_set.min_count, len(members)) if gang.succeeded else pod_set.min_count
        if len(self.gangs) > 1 and sum(member.pod_set == pod_set.name for member in gang.members) == len(gang.members):
            # All members are in this set, so the set needs as many as the gang. This stronger bound makes proofs
            # faster.
            least = max(least, gang.still_needed)
        return solving.PodSet(
            name=pod_set.name,
            members=tuple(
                solving.Member(member.pod.key, shapes[id(member)], positions.get(self.node_of[id(member)]))
                for member in members
            ),
            minimum=least,
            required=len(self.topology.levels) - 1
            if self._on_one_node(gang, pod_set)
            else self._level(pod_set.required),
            slices=tuple(solving.Slice(level_at(at, each.level), each.size) for each in pod_set.slices),
            multiples=tuple(solving.Multiple(level_at(at, each.level), each.of) for each in pod_set.multiples),
            caps=tuple(solving.Cap(level_at(at, each.level), each.count) for each in pod_set.max_per_domain),
        )

    def _on_one_node(self, gang: Gang, pod_set: PodSet) -> bool:
        """Whether all members of the pod set must run on one node, because they share a claim and a claim's devices are
        on one node.
        """
        return any(gang.key == each.gang and pod_set.name in each.pod_sets for each in self.devices.one_node)

    def _together(self) -> tuple[solving.Together, ...]:
        return tuple(rule for place in range(len(self.gangs)) for rule in self._together_of(place))

    def _together_of(self, place: int) -> Iterator[solving.Together]:
        """Yield the rules about pod sets of the gang at position `place` that must share a domain.

        In a problem of several gangs, this includes the gang's required level, which covers all its sets.
        """
        gang, first = self.gangs[place], sum(len(each.pod_sets) for each in self.gangs[:place])
        order = {each.name: position for position, each in enumerate(gang.pod_sets, first)}
        for rule in gang.together:
            yield solving.Together(tuple(order[name] for name in rule.pod_sets), level_at(self.topology, rule.level))
        for tied in self.devices.one_node:
            if tied.gang == gang.key and len(tied.pod_sets) > 1:
                sets = tuple(position for name, position in order.items() if name in tied.pod_sets)
                yield solving.Together(sets, len(self.topology.levels) - 1)
        required = self._level(gang.required)
        if required is not None and len(self.gangs) > 1:
            yield solving.Together(tuple(order.values()), required)


def _resources(requests: Iterable[Amounts]) -> tuple[str, ...]:
    """Return the requested resources in the problem's order: cpu, memory, others by name, pods.

    This order breaks ties between equally scarce resources.
    """
    asked = {name for each in requests for name, value in each.items() if value}
    first = [name for name in _FIRST if name in asked]
    return (*first, *sorted(asked - {*_FIRST, PODS}), PODS)
