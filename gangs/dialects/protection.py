"""Pods that are exempt from eviction: by a rule of a dialect, or because they belong to another scheduling system."""

from collections.abc import Mapping
from dataclasses import dataclass

from gangs.coexistence.ownership import ceded_beside_kubernetes, exemptions_count
from gangs.coexistence.systems import SYSTEMS
from gangs.dialects.claims import dialect_of, protected
from gangs.model import Manifest
from gangs.sources import Sources
from kube import keys
from kube.catalog import ObjectKey
from kube.objects import Pod


@dataclass(frozen=True, slots=True)
class Protection:
    """A callable that returns why a pod must not be evicted; "" if it may be a victim.

    `left`: names of the dialects that are ceded to other systems. `exempting`: whether users may exempt their own pods
    by a label or an annotation.
    """

    left: frozenset[str] = frozenset()
    exempting: bool = True

    def __call__(self, pod: Pod) -> str:
        """Return why the pod must not be evicted; "" if it may be a victim."""
        exempted = protected(pod) if self.exempting else ""
        return exempted or (self._anothers(pod) if self.left else "")

    def _anothers(self, pod: Pod) -> str:
        """Return the reason if the pod belongs to another scheduling system that runs in the cluster; "" otherwise.

        Only the system that started a pod may evict it. A pod that Phalanx's webhook admitted belongs to Phalanx.
        """
        if keys.DIALECT in pod.metadata.labels:
            return ""
        claim = dialect_of(pod)
        named = claim is not None and claim[0].name in self.left
        if named or any(pod.metadata.labels.get(mark) or pod.metadata.annotations.get(mark) for mark in self._marks()):
            return "it belongs to a system that runs in this cluster itself"
        return ""

    def _marks(self) -> tuple[str, ...]:
        return tuple(mark for each in SYSTEMS if self.left & set(each.dialects) for mark in each.marks)


def protection(objects: Mapping[ObjectKey, Manifest]) -> Protection:
    """Return the predicate that protects pods from eviction in a cluster with these objects: it returns why a pod must
    not be evicted.

    `objects`: all objects of the cluster that show which scheduling systems run, the webhook configurations included.
    Two results are equal if they protect the same pods, so a caller can compare them to detect a change.
    """
    sources = Sources(objects=objects)
    return Protection(frozenset(ceded_beside_kubernetes(sources)), exemptions_count(sources))
