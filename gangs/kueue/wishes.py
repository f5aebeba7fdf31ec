"""The annotations of a pod template that ask for a place: which levels, and slices of which size.

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
    """The annotations of one object, and their path in it.

    `count`: the number of pods in the set to which they apply. `several`: whether the pods may be of several kinds,
    such as a leader and workers. This is so for a group of plain pods.
    """

    ref: ObjectRef
    prefix: str
    annotations: Mapping[str, str]
    count: int
    several: bool = False

    def field(self, key: str) -> str:
        """The field path of an annotation."""
        return f"{self.prefix}[{key}]"

    def level(self, key: str) -> LevelWish | None:
        """The level that an annotation names."""
        return LevelWish(self.field(key), self.annotations[key]) if key in self.annotations else None


@dataclass(frozen=True, slots=True)
class Wish:
    """Where the pods of a set would like to be."""

    required: LevelWish | None = None
    preferred: LevelWish | None = None
    unconstrained: bool = False
    slices: tuple[SliceRule, ...] = ()
    slice_levels: tuple[LevelWish, ...] = ()

    @property
    def levels(self) -> tuple[LevelWish, ...]:
        """Every level that is named."""
        return tuple(each for each in (self.required, self.preferred, *self.slice_levels) if each is not None)


def asks(annotations: Mapping[str, str]) -> bool:
    """Whether any annotation asks for a place."""
    return any(key in annotations for key in keys.WISHES)


def read_wish(of: Annotated, findings: Findings) -> Wish:
    """Return the placement request of the annotations. Faults go to `findings`."""
    unconstrained = _unconstrained(of, findings)
    if keys.SET_GROUP in of.annotations:
        _check_set_group(of, findings)
    if keys.SPREADING in of.annotations:
        findings.fault(of.ref, of.field(keys.SPREADING), "is not read", "use topologySpreadConstraints")
    slices, levels = _slices(of, findings)
    return Wish(of.level(keys.REQUIRED), of.level(keys.PREFERRED), unconstrained, slices, levels)


def _check_set_group(of: Annotated, findings: Findings) -> None:
    """Grouped sets share a flavor and a domain. All pods of a group of plain pods do: they are placed as one."""
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
    """Nested slices: a JSON list of topology and size, widest first."""
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
    """Report contradictions between the request and a topology: missing levels, and narrower levels in place of wider
    ones.
    """
    check_levels(ref, wish.levels, topology, findings)
    check_span(ref, Span(wish.required, wish.preferred), topology, findings)
    outer = wish.required or wish.preferred
    for level in wish.slice_levels:
        check_span(ref, Span(outer, level), topology, findings)
        outer = level


@dataclass(frozen=True, slots=True)
class RequestedTopology:
    """The topology to which a request applies, None if there is none, and what the gang waits for."""

    topology: str | None = None
    waiting_for: tuple[str, ...] = ()


def place_in_queue(
    asked: Sequence[Wish], account: Account, topologies: Sequence[Topology], ref: ObjectRef, findings: Findings
) -> None:
    """Check the requests of a gang's sets against the topologies of a queue's flavors. One topology with all levels
    suffices.

    While a flavor does not exist yet, nothing is checked, because its topology may have the levels.
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
    """Return the topology of a gang without a queue: the topology that has the levels of all its sets, or the only
    one.

    With several topologies and no named level, the topology is ambiguous, and none applies.
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
    """Every level that the sets of a gang name."""
    return tuple(level for wish in asked for level in wish.levels)


def _check_all(asked: Sequence[Wish], topology: Topology, ref: ObjectRef, findings: Findings) -> None:
    for wish in asked:
        check_in(wish, topology, ref, findings)


def _check_in_one(asked: Sequence[Wish], known: Sequence[Topology], ref: ObjectRef, findings: Findings) -> None:
    """Report faults if the requests have faults in every topology: the faults in the topology with the fewest."""
    tried = []
    for topology in known:
        found = Findings()
        _check_all(asked, topology, ref, found)
        tried.append(found)
    if all(each.faults for each in tried):
        findings.take(min(tried, key=lambda each: len(each.faults)).faults)
