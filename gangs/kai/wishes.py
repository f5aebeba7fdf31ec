"""The placement requests of scopes and policies: levels, and node affinities with their weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gangs.kai import keys
from gangs.kai.settings import NUMA, NVLINK, NVSWITCH, PACK, Policy, Settings
from gangs.model import NodeWish
from kube.node_rules import NodeRule, any_of
from kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, Requirement
from kube.topology import Topology

_NVLINK_NODES = (
    Requirement(key=keys.NVLINK_VERSION, operator="Exists"),
    Requirement(key=keys.INTERCONNECT, operator="In", values=("nvlink", "nvswitch")),
    Requirement(key=keys.NVLINK_DOMAIN, operator="Exists"),
    Requirement(key=keys.NVLINK_DOMAIN_SIZE, operator="Exists"),
)
_NVSWITCH_NODES = (
    Requirement(key=keys.NVSWITCH_PRESENT, operator="In", values=("true",)),
    Requirement(key=keys.INTERCONNECT, operator="In", values=("nvswitch",)),
)
_CONNECTED = Requirement(key=keys.INTERCONNECT, operator="NotIn", values=("pcie", "none"))
_OPPOSITE = {"Exists": "DoesNotExist", "In": "NotIn"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """Levels by name, and requirements and preferences on nodes. `of_size`: preferences that depend on gang size."""

    required: str | None = None
    preferred: str | None = None
    affinity: NodeAffinity | None = None
    rules: tuple[NodeRule, ...] = ()
    """The rules from which the required part of `affinity` is made, each with its reason."""
    of_size: tuple[NodeWish, ...] = ()


def scopes(settings: Settings, topology: Topology) -> tuple[str, ...]:
    """Every scope that a PodGroup may name, narrowest first."""
    return (*sorted(settings.below_the_node), *(level.name for level in reversed(topology.levels)))


def level_of(scope: str, settings: Settings) -> str:
    """Return the level that a scope means; the node level for a scope inside a node."""
    return keys.NODE_LEVEL if scope in settings.below_the_node else scope


@dataclass(frozen=True, slots=True)
class Asked:
    """A gang's request: scope and labels of its PodGroup, the policy of its pods, and the GPUs of its minimum."""

    scope: str | None
    labels: tuple[Requirement, ...]
    policy: str | None
    gpus: int


def wishes_of(asked: Asked, settings: Settings, topology: Topology) -> Wishes:
    """Return the placement request of a gang.

    The preferred level is the one that the named policy packs into. Without a named policy, the policy with the
    greatest weight decides. All policies influence the choice of nodes by their weights.
    """
    if not settings.enabled:
        asked = replace(asked, scope=None)
        return Wishes(affinity=_affinity(_terms(asked, topology), ()), rules=_rules(asked, topology))
    required = None if asked.scope is None else level_of(asked.scope, settings)
    return Wishes(
        required=required,
        preferred=_preferred(asked.policy, required, settings, topology),
        affinity=_affinity(
            _terms(asked, topology),
            [term for each in settings.policies for term in _always(each, topology)],
        ),
        rules=_rules(asked, topology),
        of_size=tuple(wish for each in settings.policies for wish in _by_size(each)),
    )


def packs_into(policy: Policy, settings: Settings) -> str | None:
    """The level that a policy packs into, None for one that only prefers nodes."""
    if policy.strategy != PACK:
        return None
    inside = {NUMA, NVSWITCH} | settings.below_the_node
    return keys.NVLINK_LEVEL if policy.topology == NVLINK else level_of(_node_if(policy.topology, inside), settings)


def _node_if(name: str, inside: frozenset[str] | set[str]) -> str:
    return keys.NODE_LEVEL if name in inside else name


def _preferred(name: str | None, required: str | None, settings: Settings, topology: Topology) -> str | None:
    """Return the level to pack into, if it exists and is narrower than the required one; else None."""
    packing = [each for each in settings.policies if packs_into(each, settings)]
    named = settings.policy(name) if name else max(packing, key=lambda each: each.weight, default=None)
    level = packs_into(named, settings) if named else None
    if level is None or topology.find(level) is None:
        return None
    if required is not None and (topology.find(level) or 0) <= (topology.find(required) or 0):
        return None
    return level


def _terms(asked: Asked, topology: Topology) -> tuple[NodeSelectorTerm, ...]:
    """Return the required terms on nodes: the requested labels, and a label of the scope's level.

    If the level has several labels, one of them suffices. For an NVLink domain, NVLink must connect the GPUs. If the
    domain's size is labelled, it must be large enough.
    """
    choices: list[tuple[Requirement, ...]] = [()]
    if asked.scope == keys.NVLINK_LEVEL:
        choices = [(_CONNECTED, big_enough) for big_enough in _big_enough(asked)]
    elif keys_of_level := _keys_of_level(asked, topology):
        choices = [(Requirement(key=key, operator="Exists"),) for key in keys_of_level]
    terms = (NodeSelectorTerm(match_expressions=(*asked.labels, *choice)) for choice in choices)
    return tuple(term for term in terms if term.match_expressions)


def _rules(asked: Asked, topology: Topology) -> tuple[NodeRule, ...]:
    """Return the required terms on nodes as rules, each with its reason."""
    rules = []
    if asked.labels:
        where = f"{keys.POD_GROUP_KIND}'s topologyPolicy.affinity"
        rules.append(NodeRule(any_of([asked.labels]), f"node(s) didn't match the {where}", f"{where} dropped"))
    if asked.scope == keys.NVLINK_LEVEL:
        reason = f"node(s) had GPUs that NVLink does not connect ({keys.INTERCONNECT})"
        rules.append(NodeRule(any_of([[_CONNECTED]]), reason, f"label {keys.INTERCONNECT} of another value"))
        reason = f"node(s) were in an NVLink domain of less than {asked.gpus} GPUs ({keys.NVLINK_DOMAIN_SIZE})"
        lift = f"label {keys.NVLINK_DOMAIN_SIZE} of {asked.gpus} or more"
        rules.append(NodeRule(any_of([[each] for each in _big_enough(asked)]), reason, lift))
    elif labels := _keys_of_level(asked, topology):
        exists = [[Requirement(key=key, operator="Exists")] for key in labels]
        reason = f"node(s) had no label {' or '.join(labels)}"
        rules.append(NodeRule(any_of(exists), reason, f"label {labels[0]} on the nodes, one value on all of them"))
    return tuple(rules)


def _big_enough(asked: Asked) -> tuple[Requirement, Requirement]:
    """Return two requirements; a node must meet one of them to be in an NVLink domain that can hold the gang."""
    size = keys.NVLINK_DOMAIN_SIZE
    big = Requirement(key=size, operator="Gt", values=(str(asked.gpus - 1),))
    return big, Requirement(key=size, operator="DoesNotExist")


def _keys_of_level(asked: Asked, topology: Topology) -> tuple[str, ...]:
    """The labels that name the domains of the scope, where that is a level above the node."""
    at = topology.find(asked.scope) if asked.scope is not None else None
    return () if at is None or asked.scope == keys.NODE_LEVEL else topology.levels[at].label_keys


def _affinity(
    required: Sequence[NodeSelectorTerm], preferred: Sequence[PreferredSchedulingTerm]
) -> NodeAffinity | None:
    if not required and not preferred:
        return None
    selector = NodeSelector(node_selector_terms=tuple(required)) if required else None
    return NodeAffinity(required=selector, preferred=tuple(preferred))


def _always(policy: Policy, topology: Topology) -> tuple[PreferredSchedulingTerm, ...]:
    """Return the terms for nodes that a policy prefers, independent of the gang's size."""
    if policy.topology == NVLINK:
        return _weighted(policy.weight, _NVLINK_NODES)
    at = None if policy.strategy == PACK else topology.find(policy.topology)
    if at is None:
        return ()
    return _weighted(policy.weight, [Requirement(key=k, operator="Exists") for k in topology.levels[at].label_keys])


def _by_size(policy: Policy) -> tuple[NodeWish, ...]:
    """Return the preferences of an NVSwitch policy: gangs that need several nodes prefer NVSwitch nodes, others avoid
    them.
    """
    if policy.topology != NVSWITCH or policy.strategy == PACK:
        return ()
    without = NodeSelectorTerm(match_expressions=tuple(map(_opposite, _NVSWITCH_NODES)))
    spared = PreferredSchedulingTerm(weight=policy.weight, preference=without)
    wanted = _weighted(policy.weight, _NVSWITCH_NODES)
    return (*(NodeWish(term, several_nodes=True) for term in wanted), NodeWish(spared, several_nodes=False))


def _weighted(weight: int, any_of: Sequence[Requirement]) -> tuple[PreferredSchedulingTerm, ...]:
    """Return terms of which a node meets exactly one if it meets any of the requirements, so no weight counts twice."""
    return tuple(
        PreferredSchedulingTerm(
            weight=weight,
            preference=NodeSelectorTerm(match_expressions=(*map(_opposite, any_of[:position]), each)),
        )
        for position, each in enumerate(any_of)
    )


def _opposite(requirement: Requirement) -> Requirement:
    return Requirement(key=requirement.key, operator=_OPPOSITE[requirement.operator], values=requirement.values)
