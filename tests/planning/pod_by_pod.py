"""The best that can be had for a gang, by trying every way to place its pods, judged pod by pod from the manifests.

A reading of its own of what kube-scheduler's filters say (NodeResourcesFit, NodeAffinity, NodePorts, InterPodAffinity,
PodTopologySpread): nothing of the rooms of the project is used.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

Manifest = Mapping[str, Any]
Place = tuple[Manifest, Manifest]
"""A pod and its node."""


class Best(NamedTuple):
    """The first goals of the best plan: victims and what they hold of the scarcest resource, and of racks and nodes how
    few hold the gang.
    """

    victims: int
    evicted: int
    racks: int
    nodes: int


class Cluster(NamedTuple):
    """Nodes, pods that run (with `spec.nodeName`), and the pods of the gang, all of which have to be placed."""

    nodes: Sequence[Manifest]
    running: Sequence[Manifest]
    members: Sequence[Manifest]


def best(cluster: Cluster) -> Best | None:
    """The goals of the best plan; None where there is none."""
    low = [pod for pod in cluster.running if priority(pod) < priority(cluster.members[0])]
    for count in range(len(low) + 1):
        found = [
            goals(cluster, gone, nodes)
            for gone in combinations([name(pod) for pod in low], count)
            for nodes in plans(cluster, gone)
        ]
        if found:
            return min(found)
    return None


def goals(cluster: Cluster, gone: Sequence[str], nodes: Sequence[Manifest]) -> Best:
    """What a plan comes to. Pods have plenty of places: cpu is the scarcest resource where anybody asks for it."""
    held = sum(cpu(pod) for pod in cluster.running if name(pod) in gone)
    evicted = held if any(map(cpu, cluster.members)) else len(gone)
    return Best(len(gone), evicted, len({label(node, "rack") for node in nodes}), len({name(node) for node in nodes}))


def plans(cluster: Cluster, gone: Sequence[str]) -> Iterator[tuple[Manifest, ...]]:
    """Every allowed way to place the members once some pods have gone."""
    for nodes in product(cluster.nodes, repeat=len(cluster.members)):
        if allowed(cluster, gone, nodes):
            yield nodes


def allowed(cluster: Cluster, gone: Sequence[str], nodes: Sequence[Manifest]) -> bool:
    """Whether every member passes all filters beside all others, and the scheduler accepts each one in some order."""
    there = [(pod, at(cluster, pod)) for pod in cluster.running if name(pod) not in gone]
    new = list(zip(cluster.members, nodes, strict=True))
    everybody = there + new
    return (
        all(has_room(node, [pod for pod, where in everybody if where is node], new) for node in cluster.nodes)
        and all(
            fits(pod, node, [other for other in everybody if other[0] is not pod], cluster.nodes) for pod, node in new
        )
        and bound_in_any_order(there, new)
        and bound_in_some_order(there, new, cluster.nodes)
    )


def at(cluster: Cluster, pod: Manifest) -> Manifest:
    """The node of a pod that runs."""
    return next(node for node in cluster.nodes if name(node) == pod["spec"]["nodeName"])


def has_room(node: Manifest, pods: Sequence[Manifest], new: Sequence[Place]) -> bool:
    """Whether the pods of a node that gets somebody fit there; who asks for nothing does not mind others."""
    asked = [cpu(pod) for pod, where in new if where is node]
    offered = node["status"]["allocatable"]
    return not asked or (
        (not any(asked) or sum(map(cpu, pods)) <= int(offered["cpu"])) and len(pods) <= int(offered["pods"])
    )


def fits(pod: Manifest, node: Manifest, others: Sequence[Place], nodes: Sequence[Manifest]) -> bool:
    """Whether the filters let the pod onto the node, the last of all to come."""
    wanted = pod["spec"].get("nodeSelector", {})
    return (
        all(label(node, key) == value for key, value in wanted.items())
        and not any(clash(pod, other) for other, where in others if where is node)
        and not any(
            keeps_off(one, another, node, where)
            for other, where in others
            for one, another in ((pod, other), (other, pod))
        )
        and is_near(pod, node, others)
        and is_even(pod, node, [*others, (pod, node)], nodes)
    )


def clash(one: Manifest, other: Manifest) -> bool:
    """Whether both want one port of a node."""
    return any(
        mine["hostPort"] == its["hostPort"]
        and mine.get("protocol", "TCP") == its.get("protocol", "TCP")
        and (not mine.get("hostIP") or not its.get("hostIP") or mine["hostIP"] == its["hostIP"])
        for mine in ports(one)
        for its in ports(other)
    )


def keeps_off(one: Manifest, other: Manifest, node: Manifest, where: Manifest) -> bool:
    """Whether a pod's anti-affinity is about another, and their nodes are in one domain of it."""
    return any(means(term, other) and same(node, where, term["topologyKey"]) for term in terms(one, "podAntiAffinity"))


def is_near(pod: Manifest, node: Manifest, others: Sequence[Place]) -> bool:
    """Whether each affinity term has a pod in the node's domain that all terms mean; the first of pods that mean
    themselves needs nobody.
    """
    wanted = terms(pod, "podAffinity")
    if any(label(node, term["topologyKey"]) is None for term in wanted):
        return False
    meant = [where for other, where in others if all(means(term, other) for term in wanted)]
    anywhere = [where for where in meant if any(label(where, term["topologyKey"]) is not None for term in wanted)]
    if not anywhere and all(means(term, pod) for term in wanted):
        return True
    return all(any(same(node, where, term["topologyKey"]) for where in meant) for term in wanted)


def bound_in_any_order(bound: Sequence[Place], waiting: Sequence[Place]) -> bool:
    """Whether every member is bound in the end, whoever comes first: of pods that wait for each other none is."""
    can = [each for each in waiting if is_near(*each, bound)]
    rest = [(each, [other for other in waiting if other is not each]) for each in can]
    return not waiting or (bool(can) and all(bound_in_any_order([*bound, each], left) for each, left in rest))


def bound_in_some_order(bound: Sequence[Place], waiting: Sequence[Place], nodes: Sequence[Manifest]) -> bool:
    """Whether there is an order in which spread and affinity hold for each member when it is bound."""
    return not waiting or any(
        is_near(*each, bound)
        and is_even(*each, [*bound, each], nodes)
        and bound_in_some_order([*bound, each], [other for other in waiting if other is not each], nodes)
        for each in waiting
    )


def is_even(pod: Manifest, node: Manifest, everybody: Sequence[Place], nodes: Sequence[Manifest]) -> bool:
    """Whether no hard spread constraint has too many pods more in the node's domain than in the emptiest."""
    constraints = pod["spec"].get("topologySpreadConstraints", [])
    keys = [each["topologyKey"] for each in constraints]
    selector = pod["spec"].get("nodeSelector", {})
    counting = [
        each
        for each in nodes
        if all(label(each, key) is not None for key in keys)
        and all(label(each, key) == value for key, value in selector.items())
    ]
    for each in constraints:
        key = each["topologyKey"]
        if label(node, key) is None:
            return False
        counts = {label(one, key): 0 for one in counting}
        for other, where in everybody:
            if any(where is one for one in counting) and means(each, other):
                counts[label(where, key)] += 1
        if counts.get(label(node, key), 0) - min(counts.values(), default=0) > each["maxSkew"]:
            return False
    return True


def means(term: Manifest, pod: Manifest) -> bool:
    """Whether a label selector chooses the pod; all pods are of one namespace."""
    labels = pod["metadata"].get("labels", {})
    wanted: Mapping[str, str] = term["labelSelector"]["matchLabels"]
    return all(labels.get(key) == value for key, value in wanted.items())


def same(one: Manifest, other: Manifest, key: str) -> bool:
    """Whether two nodes are in one domain."""
    return label(one, key) is not None and label(one, key) == label(other, key)


def label(node: Manifest, key: str) -> str | None:
    """A node's label."""
    value: str | None = node["metadata"]["labels"].get(key)
    return value


def name(thing: Manifest) -> str:
    """The name of an object."""
    text: str = thing["metadata"]["name"]
    return text


def priority(pod: Manifest) -> int:
    """The pod's priority."""
    number: int = pod["spec"]["priority"]
    return number


def cpu(pod: Manifest) -> int:
    """What the pod asks for."""
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def ports(pod: Manifest) -> Sequence[Manifest]:
    """The pod's ports of the node."""
    found: Sequence[Manifest] = pod["spec"]["containers"][0].get("ports", [])
    return found


def terms(pod: Manifest, kind: str) -> Sequence[Manifest]:
    """The pod's required terms of a kind."""
    found: Sequence[Manifest] = (
        pod["spec"].get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )
    return found
