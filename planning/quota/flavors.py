"""A gang in one choice of flavors: restricted to the flavors' nodes, with their tolerations and their topology."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import msgspec

from cluster.eligibility.taints import untolerated
from gangs.model import Gang, Member
from gangs.quota_model import Account, ClusterQueue, Flavor
from kube.node_rules import NodeRule, labelled
from kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, Requirement, Toleration
from planning.messages.wording import listed

Choice = Mapping[str, str]
"""For each resource, the flavor from whose quota it is taken."""


def choices(queue: ClusterQueue, resources: Iterable[str]) -> Iterator[Choice]:
    """Yield every choice of flavors for these resources of a queue, the queue's preferred choice first.

    Choices with the same flavor of the first resource group follow one another. Resources that no group covers are in
    no choice.
    """
    wanted = set(resources)
    groups = [(wanted & set(group.resources), group) for group in queue.groups if wanted & set(group.resources)]
    for flavors in product(*(group.flavors for _, group in groups)):
        yield {name: each.flavor for (covered, _), each in zip(groups, flavors, strict=True) for name in covered}


def names_of(choice: Choice) -> tuple[str, ...]:
    """Return the names of the flavors of a choice, each once, sorted."""
    return tuple(sorted(set(choice.values())))


def obstacle(gang: Gang, flavors: Sequence[Flavor]) -> str:
    """Return the reason why the gang can never use these flavors, regardless of free capacity; "" if it can."""
    named = {each.topology for each in flavors if each.topology and not gang.topology}
    if len(named) > 1:
        return f"flavors {' and '.join(each.name for each in flavors)} have different topologies"
    if not named and _only_theirs(gang) and (gang.required or gang.preferred or any(s.slices for s in gang.pod_sets)):
        whose = f"flavor {flavors[0].name} has no topology" if flavors else _without_flavor(gang)
        return f"{whose}, and the gang names a level"
    for flavor in flavors:
        for member in gang.members:
            taint = untolerated(flavor.taints, (*member.pod.spec.tolerations, *flavor.tolerations))
            if taint is not None:
                return f"flavor {flavor.name} has the taint {{{taint.key}: {taint.value}}}, which no member tolerates"
    return ""


def _only_theirs(gang: Gang) -> bool:
    return gang.account is not None and gang.account.only_theirs


def _without_flavor(gang: Gang) -> str:
    groups = gang.account.queue.groups if gang.account is not None else ()
    covered = listed([name for group in groups for name in group.resources] or ["anything"])
    return f"pods that request none of {covered} are given no flavor, thus no topology"


def in_flavors(gang: Gang, flavors: Sequence[Flavor]) -> Gang:
    """Return the gang as it is planned and released in these flavors: with their node labels, tolerations and topology.

    The result has no account, so the planner treats it like a gang without a queue. A gang that names no level prefers
    the narrowest of the topology's own levels, if its account says so. A gang that names a topology itself is placed in
    that topology.
    """
    account = gang.account
    topology = next((each for each in flavors if each.topology and not gang.topology), None)
    preferred = gang.preferred
    if topology is not None and account is not None and account.nearby and not (gang.required or preferred):
        preferred = topology.preferred
    return replace(
        gang,
        account=None,
        members=tuple(_tolerating(member, flavors) for member in gang.members),
        node_affinity=_affinity(gang.node_affinity, node_labels(flavors)),
        node_rules=(*gang.node_rules, *(rule for each in flavors for rule in _rules(each))),
        topology=topology.topology if topology else gang.topology,
        topology_kind=account.topology_kind if topology and account else gang.topology_kind,
        preferred=preferred,
    )


def node_labels(flavors: Iterable[Flavor]) -> tuple[tuple[str, str], ...]:
    """Return the node labels that a node must carry to belong to all these flavors."""
    return tuple(dict.fromkeys(label for each in flavors for label in each.node_labels))


def _rules(flavor: Flavor) -> Iterator[NodeRule]:
    """Yield a node rule for each label of the flavor, with the message for nodes that lack the label."""
    for key, value in flavor.node_labels:
        reason = f"node(s) were not of flavor {flavor.name} ({key}={value})"
        yield labelled(key, value, reason, f"label {key}={value} on the nodes")


def flavors_in_use(gang: Gang) -> tuple[Flavor, ...]:
    """Return the flavors of the gang's plan in force, as far as they still exist; empty without a queue."""
    account = gang.account
    return () if account is None else tuple(each for each in account.flavors if each.name in account.used)


def settled(gang: Gang, planned: Sequence[str] = ()) -> Gang:
    """Return the gang restricted to the flavors of its plan in force, or to the flavors `planned`; unchanged without
    flavors.
    """
    if gang.account is not None and planned:
        gang = replace(gang, account=replace(gang.account, used=tuple(planned)))
    used = flavors_in_use(gang)
    return in_flavors(gang, used) if used else gang


def choice_in_use(account: Account, resources: Iterable[str]) -> Choice | None:
    """Return the choice of flavors that the plan in force has made for these resources; None if it is not known."""
    used = set(account.used)
    return next((each for each in choices(account.queue, resources) if set(each.values()) <= used), None)


def choice_on(account: Account, labels: Mapping[str, str], resources: Iterable[str]) -> Choice | None:
    """Return the first choice of flavors that fits the labels of a node; None if no choice fits.

    A pod that runs on the node is assumed to use the quota of this choice.
    """
    known = {each.name: each for each in account.flavors}
    for choice in choices(account.queue, resources):
        flavors = [known[name] for name in names_of(choice) if name in known]
        if all(labels.get(key) == value for key, value in node_labels(flavors)):
            return choice
    return None


def _tolerating(member: Member, flavors: Sequence[Flavor]) -> Member:
    pod = member.pod
    added = tuple(dict.fromkeys(each for flavor in flavors for each in flavor.tolerations))
    return replace(member, pod=_with_tolerations(pod, added))


def _with_tolerations(pod: Pod, added: Sequence[Toleration]) -> Pod:
    new = tuple(each for each in added if each not in pod.spec.tolerations)
    if not new:
        return pod
    spec = msgspec.structs.replace(pod.spec, tolerations=(*pod.spec.tolerations, *new))
    return msgspec.structs.replace(pod, spec=spec)


def _affinity(affinity: NodeAffinity | None, labels: Sequence[tuple[str, str]]) -> NodeAffinity | None:
    if not labels:
        return affinity
    own = tuple(Requirement(key=key, operator="In", values=(value,)) for key, value in labels)
    terms = affinity.required.node_selector_terms if affinity and affinity.required else (NodeSelectorTerm(),)
    required = NodeSelector(
        node_selector_terms=tuple(
            msgspec.structs.replace(term, match_expressions=(*term.match_expressions, *own)) for term in terms
        )
    )
    return NodeAffinity(required=required, preferred=affinity.preferred if affinity else ())
