"""The levels and the node affinity that result from a PodGroup's scope and from topology policies."""

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
    """The levels and the node affinity that a gang requests. `device_level`: the level that the PodGroup's scope names,
    if it is below the node.

    `rules`: the required terms of `affinity`, each with the message that explains it. `of_size`: preferences for nodes
    that depend on the gang's size.
    """

    required: str | None = None
    preferred: str | None = None
    device_level: str | None = None
    affinity: NodeAffinity | None = None
    rules: tuple[NodeRule, ...] = ()
    of_size: tuple[NodeWish, ...] = ()


def scopes(settings: Settings, topology: Topology) -> tuple[str, ...]:
    """Return all scopes that a PodGroup may name, the narrowest first.

    :param topology: the topology with the levels of KAI Scheduler's ConfigMap.
    """
    return (*sorted(settings.below_the_node), *(level.name for level in reversed(topology.levels)))


def level_of(scope: str, settings: Settings) -> str:
    """Return the level for a scope: the node level for a scope inside a node, else the level with the same name."""
    return keys.NODE_LEVEL if scope in settings.below_the_node else scope


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a gang in KAI Scheduler's keys, before it is translated to levels and node affinity.

    `scope`: the level that the PodGroup requires (`nvlink-domain`, `rack`, …). `labels`: the node labels that the
    PodGroup requires. `policy`: the packing policy that the pods name in an annotation, from KAI Scheduler's ConfigMap.
    `gpus`: the number of GPUs that the gang's minimum of pods requests.
    """

    scope: str | None
    labels: tuple[Requirement, ...]
    policy: str | None
    gpus: int


def wishes_of(asked: Asked, settings: Settings, topology: Topology) -> Wishes:
    """Return the levels and the node affinity of a gang.

    The PodGroup's scope is the required level. The preferred level is the one into which the gang's policy packs pods;
    without a named policy, that of the packing policy with the greatest weight. All policies in KAI Scheduler's
    ConfigMap add preferred node affinity terms with their weights.
    """
    if not settings.enabled:
        asked = replace(asked, scope=None)
        return Wishes(affinity=_affinity(_terms(asked, topology), ()), rules=_rules(asked, topology))
    required = None if asked.scope is None else level_of(asked.scope, settings)
    return Wishes(
        required=required,
        preferred=_preferred(asked.policy, required, settings, topology),
        device_level=asked.scope if asked.scope in {each.name for each in topology.below} else None,
        affinity=_affinity(
            _terms(asked, topology),
            [term for each in settings.policies for term in _always(each, topology)],
        ),
        rules=_rules(asked, topology),
        of_size=tuple(wish for each in settings.policies for wish in _by_size(each)),
    )


def packs_into(policy: Policy, settings: Settings) -> str | None:
    """Return the level into which a topology policy packs pods; None for a policy that only prefers nodes."""
    if policy.strategy != PACK:
        return None
    inside = {NUMA, NVSWITCH} | settings.below_the_node
    return keys.NVLINK_LEVEL if policy.topology == NVLINK else level_of(_node_if(policy.topology, inside), settings)


def _node_if(name: str, inside: frozenset[str] | set[str]) -> str:
    return keys.NODE_LEVEL if name in inside else name


def _preferred(name: str | None, required: str | None, settings: Settings, topology: Topology) -> str | None:
    """Return the level into which the gang's policy packs pods, as the preferred level.

    Return None if there is no such level, or if it is not narrower than the required one.

    :param name: the policy that the pods name; None: the packing policy with the greatest weight.
    """
    packing = [each for each in settings.policies if packs_into(each, settings)]
    named = settings.policy(name) if name else max(packing, key=lambda each: each.weight, default=None)
    level = packs_into(named, settings) if named else None
    if level is None or topology.find(level) is None:
        return None
    if required is not None and (topology.find(level) or 0) <= (topology.find(required) or 0):
        return None
    return level


def _terms(asked: Asked, topology: Topology) -> tuple[NodeSelectorTerm, ...]:
    """Return the required node affinity terms: the requested labels, and a label of the scope's level.

    If the level has several labels, one of them is enough. For the scope of an NVLink domain, a node's GPUs must be
    connected by NVLink, and the domain must be large enough if a label states its size.
    """
    choices: list[tuple[Requirement, ...]] = [()]
    if asked.scope == keys.NVLINK_LEVEL:
        choices = [(_CONNECTED, big_enough) for big_enough in _big_enough(asked)]
    elif keys_of_level := _keys_of_level(asked, topology):
        choices = [(Requirement(key=key, operator="Exists"),) for key in keys_of_level]
    terms = (NodeSelectorTerm(match_expressions=(*asked.labels, *choice)) for choice in choices)
    return tuple(term for term in terms if term.match_expressions)


def _rules(asked: Asked, topology: Topology) -> tuple[NodeRule, ...]:
    """Return the requirements in `_terms` as rules, each with the message that explains an excluded node."""
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
    """Return two requirements on a node, of which one must hold: its NVLink domain is large enough, or has no size."""
    size = keys.NVLINK_DOMAIN_SIZE
    big = Requirement(key=size, operator="Gt", values=(str(asked.gpus - 1),))
    return big, Requirement(key=size, operator="DoesNotExist")


def _keys_of_level(asked: Asked, topology: Topology) -> tuple[str, ...]:
    """Return the node labels of the level that the gang's scope names; empty if the gang has no scope, or if the scope
    is the node level.
    """
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
    """Return the preferred node affinity terms of a topology policy that apply to gangs of any size."""
    if policy.topology == NVLINK:
        return _weighted(policy.weight, _NVLINK_NODES)
    at = None if policy.strategy == PACK else topology.find(policy.topology)
    if at is None:
        return ()
    return _weighted(policy.weight, [Requirement(key=k, operator="Exists") for k in topology.levels[at].label_keys])


def _by_size(policy: Policy) -> tuple[NodeWish, ...]:
    """Return the preferences of an NVSwitch policy; empty for other policies.

    Gangs that need several nodes prefer nodes with NVSwitch. Gangs that fit on one node prefer other nodes.
    """
    if policy.topology != NVSWITCH or policy.strategy == PACK:
        return ()
    without = NodeSelectorTerm(match_expressions=tuple(map(_opposite, _NVSWITCH_NODES)))
    spared = PreferredSchedulingTerm(weight=policy.weight, preference=without)
    wanted = _weighted(policy.weight, _NVSWITCH_NODES)
    return (*(NodeWish(term, several_nodes=True) for term in wanted), NodeWish(spared, several_nodes=False))


def _weighted(weight: int, any_of: Sequence[Requirement]) -> tuple[PreferredSchedulingTerm, ...]:
    """Return preferred terms that give a node the weight once if it fulfils at least one of the requirements.

    Each term excludes the requirements before it, so no node fulfils two terms.
    """
    return tuple(
        PreferredSchedulingTerm(
            weight=weight,
            preference=NodeSelectorTerm(match_expressions=(*map(_opposite, any_of[:position]), each)),
        )
        for position, each in enumerate(any_of)
    )


def _opposite(requirement: Requirement) -> Requirement:
    return Requirement(key=requirement.key, operator=_OPPOSITE[requirement.operator], values=requirement.values)
