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
"""A kind that no topology has. A gang with it gets no topology from `choose`, so its only level is the node."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The result of `choose` if the topology that a gang names does not exist or is invalid. `what`: what the gang
    waits for, for messages.
    """

    what: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The result of `choose` if a gang names no topology although several exist, or if several have the name that it
    gives.

    `names`: unambiguous names of the topologies, for messages.
    """

    names: tuple[str, ...]


Choice = Topology | Missing | Ambiguous | None


def choose(name: str | None, kind: str | None, topologies: Sequence[Topology]) -> Choice:
    """Return the topology that a gang names, or, if it names none, the only one that exists; None if none exists.

    If topologies of two kinds share a name and no kind is given, the one of Phalanx's own kind is returned.

    :param name: the name, possibly with the kind's resource name as in kubectl: `topologies.kueue.x-k8s.io/default`.
        None: the gang names no topology.
    :param kind: the kind of the topology's object; None: any kind.
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
    """Return a distinct name for each topology: its name, or `<resource name>/<name>` if others have the same name."""
    times = Counter(each.name for each in topologies)
    return tuple(sorted(each.name if times[each.name] == 1 else each.full_name for each in topologies))


def _valid(topology: Topology) -> Choice:
    """Return the topology if it is valid; else a `Missing`, so that the gang waits until a user corrects the topology's
    object.
    """
    return Missing(f"{topology.title} to be corrected ({topology.refused})") if topology.refused else topology


@dataclass(frozen=True, slots=True)
class LevelWish:
    """A level that a user's object names, and the field that names it, for messages.

    `of_nodes`: whether the field limits how members spread over nodes, so that the level must not be below the node.
    """

    field: str
    level: str
    of_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A required and a preferred level of the same pods. The preferred level must not be the wider one, unless the
    required level is below the node.
    """

    required: LevelWish | None
    preferred: LevelWish | None


@dataclass(frozen=True, slots=True)
class Request:
    """The topology and levels that the object `ref` names, with the fields that name them, for messages.

    `kind`: the kind of the topology's object; None: any. `levels`: all levels that the object names. `spans`: pairs of
    levels that must agree. `pods`: the pods of the gang, or an example. Their node selectors decide which node pools
    the gang can use.
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
    """The result of looking up the topology that a `Request` names.

    `topology`: None if there is none, or not yet. `waiting_for`: the objects that the gang waits for, as entries of
    `Gang.waiting_for`.
    """

    topology: Topology | None = None
    waiting_for: tuple[str, ...] = ()


def settle(request: Request, topologies: Sequence[Topology], findings: Findings) -> Settled:
    """Choose the topology of a request and check that it has the requested levels. Faults go to `findings`."""
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
    """Return a phrase with the names and labels of a topology's levels, the widest first, for messages."""
    below = [(each.name, each.attributes) for each in topology.below]
    every = [*((each.name, each.label_keys) for each in topology.levels), *below]
    return ", ".join(f"{name} ({' or '.join(keys)})" for name, keys in every)


def unknown_level(ref: ObjectRef, wish: LevelWish, topology: Topology) -> Fault:
    """Return the fault of an object that names a level that the topology lacks."""
    problem = f'"{wish.level}" is not a level of {topology.title}'
    return Fault(ref, wish.field, problem, f"its levels are {describe(topology)}")


def check_levels(ref: ObjectRef, wishes: Sequence[LevelWish], topology: Topology, findings: Findings) -> None:
    """Report each named level that the topology lacks, and levels below the node in rules about members on nodes."""
    findings.take(unknown_level(ref, wish, topology) for wish in wishes if topology.depth(wish.level) is None)
    findings.take(below_the_node(ref, wish) for wish in wishes if wish.of_nodes and topology.find_below(wish.level))


def below_the_node(ref: ObjectRef, wish: LevelWish) -> Fault:
    """Return the fault of an object that names a level below the node in a rule about members on nodes."""
    problem = f'"{wish.level}" is a level of devices, and the rule counts members on nodes'
    return Fault(ref, wish.field, problem, "name a level of nodes; only required and preferred can name this level")


def check_span(ref: ObjectRef, span: Span, topology: Topology, findings: Findings) -> None:
    """Report a preferred level that is wider than the required one. It would have no effect.

    A required level below the node is about the devices of each member, not about the members' nodes. So every
    preferred level has an effect beside it.
    """
    if span.required is None or span.preferred is None or topology.find_below(span.required.level) is not None:
        return
    required, preferred = topology.depth(span.required.level), topology.depth(span.preferred.level)
    if required is not None and preferred is not None and preferred < required:
        problem = f'"{span.preferred.level}" is wider than the required level "{span.required.level}"'
        remedy = f"prefer {span.required.level} or a narrower level, or leave it out"
        findings.fault(ref, span.preferred.field, problem, remedy)


def levels_named(gang: Gang) -> tuple[str, ...]:
    """Return all levels that a gang names: for itself, for its pod sets, and in constraints. Each is returned once."""
    own = [gang.required, gang.preferred, gang.device_level]
    own += [level for pod_set in gang.pod_sets for level in (pod_set.required, pod_set.preferred)]
    return tuple(dict.fromkeys(each for each in (*own, *levels_in_rules(gang)) if each is not None))


def levels_in_rules(gang: Gang) -> tuple[str, ...]:
    """Return the levels that a gang names in rules about members on nodes: slices, multiples, caps, shared domains."""
    named = [rule.level for rule in gang.together]
    named += [rule.level for rule in gang.multiples]
    for pod_set in gang.pod_sets:
        named += [rule.level for rule in pod_set.slices]
        named += [rule.level for rule in pod_set.multiples]
        named += [rule.level for rule in pod_set.max_per_domain]
    return tuple(dict.fromkeys(named))
