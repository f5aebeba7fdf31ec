"""The annotations of pods by which users of Kueue request levels of a topology, and slices.

The rules are those that Kueue documents for topology-aware scheduling, with two differences. Phalanx refuses requests
for which Kueue defines no result: a level that no topology has, slices that do not cover all pods. Phalanx accepts
required and preferred levels together, which Kueue refuses without need.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gangs.findings import Findings
from gangs.kueue import keys
from gangs.manifests import advise_unknown, integer, json_of
from gangs.model import ObjectRef, SliceRule
from gangs.quota_model import Account
from gangs.topology.levels import LevelWish, Span, check_levels, check_span
from kube.topology import Topology

MOST_LAYERS = 3
_DIVIDE = "choose a size that does"


@dataclass(frozen=True, slots=True)
class Annotated:
    """The annotations of a pod template or a pod, and their path in the object `ref`.

    `count`: the number of pods to which they apply. `several`: whether the gang may have several pod sets, such as a
    leader and workers. It is true for a pod group.
    """

    ref: ObjectRef
    prefix: str
    annotations: Mapping[str, str]
    count: int
    several: bool = False

    def field(self, key: str) -> str:
        """Return the path of an annotation, for messages."""
        return f"{self.prefix}[{key}]"

    def level(self, key: str) -> LevelWish | None:
        """Return the level that an annotation names, with the annotation's path; None if the annotation is absent."""
        return LevelWish(self.field(key), self.annotations[key]) if key in self.annotations else None


@dataclass(frozen=True, slots=True)
class Wish:
    """The levels and slices that the annotations of one pod set request.

    `unconstrained`: whether the pods may run on any nodes. `slice_levels`: the levels of `slices`, with the fields that
    name them.
    """

    required: LevelWish | None = None
    preferred: LevelWish | None = None
    unconstrained: bool = False
    slices: tuple[SliceRule, ...] = ()
    slice_levels: tuple[LevelWish, ...] = ()

    @property
    def levels(self) -> tuple[LevelWish, ...]:
        """All levels that the annotations name, each with the path of the annotation."""
        return tuple(each for each in (self.required, self.preferred, *self.slice_levels) if each is not None)


def asks(annotations: Mapping[str, str]) -> bool:
    """Whether one of the annotations requests a level or slices, or allows any nodes."""
    return any(key in annotations for key in keys.WISHES)


def read_wish(of: Annotated, findings: Findings) -> Wish:
    """Return the levels and slices that the annotations request. Faults go to `findings`."""
    unconstrained = _unconstrained(of, findings)
    if keys.SET_GROUP in of.annotations:
        _check_set_group(of, findings)
    if keys.SPREADING in of.annotations:
        findings.fault(of.ref, of.field(keys.SPREADING), "is not read", "use topologySpreadConstraints")
    slices, levels = _slices(of, findings)
    return Wish(of.level(keys.REQUIRED), of.level(keys.PREFERRED), unconstrained, slices, levels)


def _check_set_group(of: Annotated, findings: Findings) -> None:
    """Report faults of the annotation `podset-group-name`, by which pod sets must share one domain."""
    at = of.field(keys.SET_GROUP)
    if not of.several:
        problem = "needs two pod sets, and there is one"
        remedy = "leave it out: all pods of the gang share a domain of the required level anyway"
        findings.fault(of.ref, at, problem, remedy)
        return
    if integer(of.annotations[keys.SET_GROUP]) is not None:
        findings.fault(of.ref, at, "is a number", "name the group")
    if keys.REQUIRED not in of.annotations and keys.PREFERRED not in of.annotations:
        problem = f"is set without {keys.REQUIRED} or {keys.PREFERRED}"
        findings.fault(of.ref, at, problem, "say in which level the grouped pods are to share a domain")
    if keys.SLICE_CONSTRAINTS in of.annotations:
        findings.fault(of.ref, at, f"contradicts {keys.SLICE_CONSTRAINTS}", "keep one of them")


def _unconstrained(of: Annotated, findings: Findings) -> bool:
    value = of.annotations.get(keys.UNCONSTRAINED)
    if value not in (None, "true", "false"):
        problem = f'"{value}" is neither "true" nor "false"'
        findings.fault(of.ref, of.field(keys.UNCONSTRAINED), problem, 'write "true" or leave it out')
    for key in (keys.REQUIRED, keys.PREFERRED):
        if value == "true" and key in of.annotations:
            findings.fault(of.ref, of.field(keys.UNCONSTRAINED), f"contradicts {key}", "keep one of them")
    return value == "true"


def _slices(of: Annotated, findings: Findings) -> tuple[tuple[SliceRule, ...], tuple[LevelWish, ...]]:
    if keys.SLICE_CONSTRAINTS in of.annotations:
        return _layers(of, findings)
    if keys.SLICE_LEVEL not in of.annotations and keys.SLICE_SIZE not in of.annotations:
        return (), ()
    for key, other in ((keys.SLICE_LEVEL, keys.SLICE_SIZE), (keys.SLICE_SIZE, keys.SLICE_LEVEL)):
        if key not in of.annotations:
            findings.fault(of.ref, of.field(key), f"is missing, but {other} is set", "set both or none")
            return (), ()
    at, size = of.field(keys.SLICE_SIZE), integer(of.annotations[keys.SLICE_SIZE])
    if size is None or size < 1:
        problem = f'"{of.annotations[keys.SLICE_SIZE]}" is not a whole number from 1 up'
        findings.fault(of.ref, at, problem, "write the number of pods in a slice")
        return (), ()
    if of.count % size:
        findings.fault(of.ref, at, f"{size} does not divide the {of.count} pods of the set", _DIVIDE)
    level = LevelWish(of.field(keys.SLICE_LEVEL), of.annotations[keys.SLICE_LEVEL])
    return (SliceRule(level.level, size),), (level,)


def _layers(of: Annotated, findings: Findings) -> tuple[tuple[SliceRule, ...], tuple[LevelWish, ...]]:
    """Return the nested slices that the annotation `podset-slice-required-topology-constraints` requests, and their
    levels, each with the path that names it.

    Its value is a JSON list of entries with `topology` (a level) and `size`, the widest first. Faults go to `findings`.
    """
    at = of.field(keys.SLICE_CONSTRAINTS)
    for key in (keys.SLICE_LEVEL, keys.SLICE_SIZE):
        if key in of.annotations:
            findings.fault(of.ref, at, f"contradicts {key}", "write all slices in one of them")
    value, problem = json_of(of.annotations[keys.SLICE_CONSTRAINTS])
    if problem or not isinstance(value, list) or not 1 <= len(value) <= MOST_LAYERS:
        problem = problem or f"is not a list of 1 to {MOST_LAYERS} entries"
        findings.fault(of.ref, at, problem, 'write [{"topology": "…", "size": …}], widest first')
        return (), ()
    layers = [_layer(each, f"{at}[{i}]", of, findings) for i, each in enumerate(value)]
    known = [each for each in layers if each is not None]
    above, whose = of.count, f"the {of.count} pods of the set"
    for wish, size in known:
        if above % size:
            findings.fault(of.ref, wish.field, f"{size} does not divide {whose}", _DIVIDE)
        above, whose = size, f"the size {size} before it"
    return tuple(SliceRule(wish.level, size) for wish, size in known), tuple(wish for wish, _ in known)


def _layer(entry: Any, at: str, of: Annotated, findings: Findings) -> tuple[LevelWish, int] | None:
    written = entry if isinstance(entry, dict) else {}
    advise_unknown(written, ("topology", "size"), of.ref, at, findings)
    level, size = written.get("topology"), written.get("size")
    if isinstance(level, str) and level and isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return LevelWish(at, level), size
    findings.fault(of.ref, at, "is no pair of a topology and a size from 1 up", "name a level's label and a number")
    return None


def check_in(wish: Wish, topology: Topology, ref: ObjectRef, findings: Findings) -> None:
    """Report levels of a request that a topology lacks, and levels in a wrong order.

    The preferred level must not be wider than the required one. The level of slices must not be wider than the required
    level or, without a required level, than the preferred one.
    """
    check_levels(ref, wish.levels, topology, findings)
    check_span(ref, Span(wish.required, wish.preferred), topology, findings)
    outer = wish.required or wish.preferred
    for level in wish.slice_levels:
        check_span(ref, Span(outer, level), topology, findings)
        outer = level


@dataclass(frozen=True, slots=True)
class RequestedTopology:
    """The name of the topology in which a gang is placed, None if there is none, and what the gang waits for."""

    topology: str | None = None
    waiting_for: tuple[str, ...] = ()


def place_in_queue(
    asked: Sequence[Wish], account: Account, topologies: Sequence[Topology], ref: ObjectRef, findings: Findings
) -> None:
    """Report the levels that a gang in a queue requests, if no topology of the queue's flavors has all of them.

    If a flavor or its topology does not exist yet, nothing is reported, because it may have the levels.

    :param asked: the request of each pod set.
    """
    flavors = {each.flavor for group in account.queue.groups for each in group.flavors}
    named = {each.topology for each in account.flavors if each.topology}
    known = [each for each in topologies if each.kind == account.topology_kind and each.name in named]
    levels = levels_of(asked)
    if not levels or len(known) < len(named) or flavors - {each.name for each in account.flavors}:
        return
    if not known:
        problem = f"asks for a level, but no flavor of {keys.CLUSTER_QUEUE} {account.queue.name} has a topology"
        remedy = f"set topologyName on one of its flavors ({', '.join(each.name for each in account.flavors)})"
        findings.fault(ref, levels[0].field, problem, remedy)
        return
    _check_in_one(asked, known, ref, findings)


def place_alone(
    asked: Sequence[Wish], topologies: Sequence[Topology], ref: ObjectRef, findings: Findings
) -> RequestedTopology:
    """Return the topology of a gang without a queue: the only one that has all levels that the gang requests.

    If several topologies have these levels, the gang gets no topology, which is a fault if it requests a level. If no
    topology exists, the gang waits for one with its levels.

    :param asked: the request of each pod set.
    """
    known, levels = [each for each in topologies if each.kind == keys.TOPOLOGY_KIND], levels_of(asked)
    if not known:
        unknown = dict.fromkeys(each.level for each in levels)
        return RequestedTopology(waiting_for=tuple(f'{keys.TOPOLOGY} with a level "{level}"' for level in unknown))
    fitting = [each for each in known if all(each.find(level.level) is not None for level in levels)]
    if not fitting:
        _check_in_one(asked, known, ref, findings)
        return RequestedTopology()
    if len(fitting) > 1:
        if levels:
            names = ", ".join(each.name for each in fitting)
            problem = f'"{levels[0].level}" is a level of several topologies ({names})'
            remedy = "make the queues and flavors that say which is meant"
            findings.fault(ref, levels[0].field, problem, remedy)
        return RequestedTopology()
    (topology,) = fitting
    _check_all(asked, topology, ref, findings)
    return RequestedTopology(topology.name)


def levels_of(asked: Sequence[Wish]) -> tuple[LevelWish, ...]:
    """Return all levels that the requests of a gang's pod sets name, each with the path of the annotation."""
    return tuple(level for wish in asked for level in wish.levels)


def _check_all(asked: Sequence[Wish], topology: Topology, ref: ObjectRef, findings: Findings) -> None:
    for wish in asked:
        check_in(wish, topology, ref, findings)


def _check_in_one(asked: Sequence[Wish], known: Sequence[Topology], ref: ObjectRef, findings: Findings) -> None:
    """Report faults with the requested levels if no topology is without such faults. Only the faults of the topology
    with the fewest are reported.
    """
    tried = []
    for topology in known:
        found = Findings()
        _check_all(asked, topology, ref, found)
        tried.append(found)
    if all(each.faults for each in tried):
        findings.take(min(tried, key=lambda each: len(each.faults)).faults)
