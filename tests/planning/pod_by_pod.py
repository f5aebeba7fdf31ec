"""Brute-force search for the best plan of a gang: it tries every placement and checks it pod by pod on the manifests.

It implements kube-scheduler's filters NodeResourcesFit, NodeAffinity, NodePorts, InterPodAffinity and PodTopologySpread
independently of Phalanx: it imports none of the packages under test.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

Manifest = Mapping[str, Any]
Place = tuple[Manifest, Manifest]
"""A pod and its node."""


class Best(NamedTuple):
    """The first goals of the best plan.

    `victims` counts the victims, and `evicted` is their amount of the scarcest resource. `racks` and `nodes` count the
    domains that the gang uses.
    """

    victims: int
    evicted: int
    racks: int
    nodes: int


class Cluster(NamedTuple):
    """Nodes, running pods (with `spec.nodeName`), and the pods of the gang. A plan must place all pods of the gang."""

    nodes: Sequence[Manifest]
    running: Sequence[Manifest]
    members: Sequence[Manifest]


def best(cluster: Cluster) -> Best | None:
    """Return the goals of the best plan; None if the gang has no plan."""
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
    """Return the goal values of a plan.

    The instances have many free places for pods. So cpu is the scarcest resource if any member requests it.
    """
    held = sum(cpu(pod) for pod in cluster.running if name(pod) in gone)
    evicted = held if any(map(cpu, cluster.members)) else len(gone)
    return Best(len(gone), evicted, len({label(node, "rack") for node in nodes}), len({name(node) for node in nodes}))


def plans(cluster: Cluster, gone: Sequence[str]) -> Iterator[tuple[Manifest, ...]]:
    """Yield every allowed placement of the members after the eviction of the pods in `gone`."""
    for nodes in product(cluster.nodes, repeat=len(cluster.members)):
        if allowed(cluster, gone, nodes):
            yield nodes


def allowed(cluster: Cluster, gone: Sequence[str], nodes: Sequence[Manifest]) -> bool:
    """Whether each member passes all filters beside all others, and the scheduler accepts the members in some order."""
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
    """Return the node of a running pod."""
    return next(node for node in cluster.nodes if name(node) == pod["spec"]["nodeName"])


def has_room(node: Manifest, pods: Sequence[Manifest], new: Sequence[Place]) -> bool:
    """Whether all pods of a node fit on it; a node that gets no new member always passes.

    If no new member on the node requests cpu, only the number of pods counts.
    """
    asked = [cpu(pod) for pod, where in new if where is node]
    offered = node["status"]["allocatable"]
    return not asked or (
        (not any(asked) or sum(map(cpu, pods)) <= int(offered["cpu"])) and len(pods) <= int(offered["pods"])
    )


def fits(pod: Manifest, node: Manifest, others: Sequence[Place], nodes: Sequence[Manifest]) -> bool:
    """Whether the pod passes all filters on the node if it is the last pod to be bound."""
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
    """Whether two pods request the same host port of a node."""
    return any(
        mine["hostPort"] == its["hostPort"]
        and mine.get("protocol", "TCP") == its.get("protocol", "TCP")
        and (not mine.get("hostIP") or not its.get("hostIP") or mine["hostIP"] == its["hostIP"])
        for mine in ports(one)
        for its in ports(other)
    )


def keeps_off(one: Manifest, other: Manifest, node: Manifest, where: Manifest) -> bool:
    """Whether a pod's anti-affinity term matches another pod, and both nodes are in one domain of the term."""
    return any(means(term, other) and same(node, where, term["topologyKey"]) for term in terms(one, "podAntiAffinity"))


def is_near(pod: Manifest, node: Manifest, others: Sequence[Place]) -> bool:
    """Whether the pod's required affinity holds on the node.

    Each term needs a pod in the node's domain that matches all terms. If no such pod exists anywhere and the pod
    matches its own terms, it passes alone: it is the first pod of its group.
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
    """Whether every binding order binds all waiting pods in the end. Pods that wait for each other are never bound."""
    can = [each for each in waiting if is_near(*each, bound)]
    rest = [(each, [other for other in waiting if other is not each]) for each in can]
    return not waiting or (bool(can) and all(bound_in_any_order([*bound, each], left) for each, left in rest))


def bound_in_some_order(bound: Sequence[Place], waiting: Sequence[Place], nodes: Sequence[Manifest]) -> bool:
    """Whether some binding order satisfies spread and affinity of each waiting pod at the time of its binding."""
    return not waiting or any(
        is_near(*each, bound)
        and is_even(*each, [*bound, each], nodes)
        and bound_in_some_order([*bound, each], [other for other in waiting if other is not each], nodes)
        for each in waiting
    )


def is_even(pod: Manifest, node: Manifest, everybody: Sequence[Place], nodes: Sequence[Manifest]) -> bool:
    """Whether the node's domain has at most `maxSkew` more pods than the emptiest domain, for each hard constraint."""
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
    """Whether a label selector matches the pod. All pods are in one namespace."""
    labels = pod["metadata"].get("labels", {})
    wanted: Mapping[str, str] = term["labelSelector"]["matchLabels"]
    return all(labels.get(key) == value for key, value in wanted.items())


def same(one: Manifest, other: Manifest, key: str) -> bool:
    """Whether two nodes have the same value of the label `key`, and so are in one domain."""
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
    """Return the cpu request of the pod's container."""
    return int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def ports(pod: Manifest) -> Sequence[Manifest]:
    """Return the ports of the pod's container."""
    found: Sequence[Manifest] = pod["spec"]["containers"][0].get("ports", [])
    return found


def terms(pod: Manifest, kind: str) -> Sequence[Manifest]:
    """Return the pod's required terms of `podAffinity` or `podAntiAffinity`."""
    found: Sequence[Manifest] = (
        pod["spec"].get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )
    return found
