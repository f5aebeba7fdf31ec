"""Simulates the counts of one hard topology spread constraint while pods are bound one after the other.

Rule: when kube-scheduler's plugin PodTopologySpread binds a pod, it compares the pod's domain with the emptiest domain.
"""

from collections import Counter

from cluster.eligibility.pod_affinity import Spread
from kube.objects import Node, Pod


class SpreadCounts:
    """How many matching pods each domain of a spread constraint has. Only `bind` changes the counts."""

    def __init__(self, spread: Spread) -> None:
        self._spread = spread
        self._pods = dict(spread.counts)
        self._domains_with = Counter(self._pods.values())
        self._least = min(self._pods.values(), default=0)

    def copy(self) -> "SpreadCounts":
        """Return a copy of the counts. Changes of the copy do not change the original."""
        new = SpreadCounts(self._spread)
        new._pods, new._domains_with, new._least = dict(self._pods), Counter(self._domains_with), self._least
        return new

    def domain(self, node: Node) -> str | None:
        """Return the node's value of the constraint's topology key; None if the node lacks the label."""
        return node.metadata.labels.get(self._spread.topology_key)

    def counts(self, pod: Pod, node: Node) -> bool:
        """Whether the constraint counts the pod if it runs on this node."""
        on_counted_node = node.metadata.name in self._spread.counted and self.domain(node) in self._pods
        return on_counted_node and self._spread.matches(pod)

    def bind(self, pod: Pod, node: Node) -> int:
        """Bind the pod to the node: add it to the counts if the constraint counts it there.

        Return how many pods the node's domain has then; 0 for a node whose domain does not count.
        """
        domain = self.domain(node)
        if domain is None or domain not in self._pods:
            return 0
        before = self._pods[domain]
        if self.counts(pod, node):
            self._pods[domain] = before + 1
            self._domains_with[before] -= 1
            self._domains_with[before + 1] += 1
            # Only one pod was added. So if no domain has the least count any more, the least count is one more.
            if before == self._least and not self._domains_with[before]:
                self._least += 1
        return self._pods[domain]

    def refuses(self, node: Node, beside: int = 0) -> bool:
        """Whether the scheduler would refuse to bind the constraint's pod to this node now.

        The scheduler refuses a node that lacks the topology key, and a node whose domain would exceed `maxSkew`.

        :param beside: assume that so many more pods count in the node's domain, and none in other domains.
        """
        domain = self.domain(node)
        if domain is None:
            return True
        if domain not in self._pods:
            return False
        least = 0 if self._spread.too_few else self._least
        return self._pods[domain] + beside + int(self._spread.self_matching) - least > self._spread.max_skew

    def refuses_last(self, pod: Pod, node: Node) -> bool:
        """Whether the scheduler would refuse to bind the pod to this node if all other pods were bound before it.

        The pod has the constraint, and an earlier call of `bind` has counted it on this node already.
        """
        domain = self.domain(node)
        if domain is None:
            return True
        if domain not in self._pods:
            return False
        others = self._pods[domain] - int(self.counts(pod, node))
        least = 0 if self._spread.too_few else min(self._least, others)
        return others + int(self._spread.self_matching) - least > self._spread.max_skew
