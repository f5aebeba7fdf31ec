"""The choice of a gang's topology, and the check that the topology has the levels that the gang names."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gangs.findings import Findings
from gangs.model import Fault, Gang, ObjectRef
from gangs.topology import node_pools
from kube.objects import Pod
from kube.topology import HOSTNAME_LABEL, Topology

OWN_KIND = "Topology"
NO_TOPOLOGY = "none"
"""A kind that no topology has: every node for itself."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The topology that is meant does not exist, or is not valid, yet; `what` names it as people write it."""

    what: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several topologies exist, and none is named, or by a name that several have. `names`: what to write instead."""

    names: tuple[str, ...]


Choice = Topology | Missing | Ambiguous | None


def choose(name: str | None, kind: str | None, topologies: Sequence[Topology]) -> Choice:
    """Return the topology called `name` of `kind` (None: any kind). Without a name, return the only existing
    topology.

    Return None if there is none. If topologies of two kinds share a name and no kind is given, Phalanx's own kind is
    meant. The name may include the kind, as in kubectl: `topologies.kueue.x-k8s.io/default`.
    """
    candidates = [each for each in topologies if each.kind == kind or (kind is None and not each.implicit)]
    if name is not None:
        named = [each for each in candidates if each.called(name)]
        own = [each for each in named if each.kind == OWN_KIND] or named
        if len(own) > 1:
            return Ambiguous(_distinct_names(own))
        return _valid(own[0]) if own else Missing(name if "/" in name else f"{kind or OWN_KIND} {name}")
    valid = [each for each in candidates if not each.refused]
    if len(valid) > 1:
        return Ambiguous(_distinct_names(valid))
    found = valid or candidates
    return _valid(found[0]) if found else None


def _distinct_names(topologies: Sequence[Topology]) -> tuple[str, ...]:
    """Return a distinct name for each topology: its name, with its kind if another topology has the same name."""
    times = Counter(each.name for each in topologies)
    return tuple(sorted(each.name if times[each.name] == 1 else each.full_name for each in topologies))


def _valid(topology: Topology) -> Choice:
    """Return the topology; if it is refused, the text that the gang waits for its correction."""
    return Missing(f"{topology.title} to be put right ({topology.refused})") if topology.refused else topology


@dataclass(frozen=True, slots=True)
class LevelWish:
    """A level that a request names, and the field that names it."""

    field: str
    level: str


@dataclass(frozen=True, slots=True)
class Span:
    """A required and a preferred level that must agree: the preferred one is not the wider."""

    required: LevelWish | None
    preferred: LevelWish | None


@dataclass(frozen=True, slots=True)
class Request:
    """An object's request for a topology and levels, with the fields that name them.

    `pods`: the pods of the gang, or an example. Their node selectors decide which node pools the gang may use.
    """

    ref: ObjectRef
    topology_field: str
    topology: str | None = None
    kind: str | None = None
    levels: tuple[LevelWish, ...] = ()
    spans: tuple[Span, ...] = ()
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The topology that a request refers to, None if there is none (yet), and what the gang waits for."""

    topology: Topology | None = None
    waiting_for: tuple[str, ...] = ()


def settle(request: Request, topologies: Sequence[Topology], findings: Findings) -> Settled:
    """Choose the topology and check the levels against it; faults go to `findings`."""
    match choose(request.topology, request.kind, node_pools.reachable(request.topology, request.pods, topologies)):
        case Missing(what):
            findings.advise(request.ref, request.topology_field, f"the gang waits for {what}", what)
            return Settled(waiting_for=(what,))
        case Ambiguous(names):
            problem = "is not set, and there are several topologies"
            if request.topology is not None:
                problem = f'"{request.topology}" is the name of several topologies'
            findings.fault(request.ref, request.topology_field, problem, f"name one of {', '.join(names)}")
            return Settled()
        case None:
            unknown = {wish.level: wish.field for wish in reversed(request.levels) if wish.level != HOSTNAME_LABEL}
            kind = request.kind or OWN_KIND
            missing = {level: f'{kind} with a level "{level}"' for level in reversed(unknown)}
            for level, what in missing.items():
                findings.advise(request.ref, unknown[level], f"the gang waits for {what}", what)
            return Settled(waiting_for=tuple(missing.values()))
        case Topology() as topology:
            if problem := node_pools.out_of_reach(topology, request.pods, topologies):
                findings.fault(request.ref, request.topology_field, problem, node_pools.OUT_OF_REACH)
            check_levels(request.ref, request.levels, topology, findings)
            for span in request.spans:
                check_span(request.ref, span, topology, findings)
            return Settled(topology)


def describe(topology: Topology) -> str:
    """The topology's levels, widest first, with their labels, as one phrase."""
    return ", ".join(f"{each.name} ({' or '.join(each.label_keys)})" for each in topology.levels)


def unknown_level(ref: ObjectRef, wish: LevelWish, topology: Topology) -> Fault:
    """The fault of naming a level that the topology lacks."""
    problem = f'"{wish.level}" is not a level of {topology.title}'
    return Fault(ref, wish.field, problem, f"its levels are {describe(topology)}")


def check_levels(ref: ObjectRef, wishes: Sequence[LevelWish], topology: Topology, findings: Findings) -> None:
    """Report every request for a level that the topology lacks."""
    findings.take(unknown_level(ref, wish, topology) for wish in wishes if topology.find(wish.level) is None)


def check_span(ref: ObjectRef, span: Span, topology: Topology, findings: Findings) -> None:
    """Report a preferred level that is wider than the required one."""
    if span.required is None or span.preferred is None:
        return
    required, preferred = topology.find(span.required.level), topology.find(span.preferred.level)
    if required is not None and preferred is not None and preferred < required:
        problem = f'"{span.preferred.level}" is wider than the required level "{span.required.level}"'
        remedy = f"prefer {span.required.level} or a narrower level, or leave it out"
        findings.fault(ref, span.preferred.field, problem, remedy)


def levels_named(gang: Gang) -> tuple[str, ...]:
    """Every level that the gang names, wherever it does."""
    named = [gang.required, gang.preferred, *(rule.level for rule in gang.together)]
    named += [rule.level for rule in gang.multiples]
    for pod_set in gang.pod_sets:
        named += [pod_set.required, pod_set.preferred]
        named += [rule.level for rule in pod_set.slices]
        named += [rule.level for rule in pod_set.multiples]
        named += [rule.level for rule in pod_set.max_per_domain]
    return tuple(dict.fromkeys(each for each in named if each is not None))
