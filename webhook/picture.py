"""The webhook's view of the cluster, read from its watch caches."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from cluster.caches.cache import ClusterCache
from cluster.devices.holdings import DeviceView
from cluster.snapshot import Snapshot
from gangs.dialects.concerned import examples_of, pods_about
from gangs.incremental.dependencies import ReadInput
from gangs.model import GangKey, Manifest
from gangs.sources import Sources
from kube.objects import Node, Pod
from webhook.awaited_objects import Patience
from webhook.following import Follower, following
from webhook.fresh_kinds import FreshKinds
from webhook.rereading import Rereader


class Picture(Protocol):
    """The cluster as the webhook's watch caches show it now. All admission code reads the cluster through it.

    `reread`, `arrived`, `comes` and `describing` may wait a moment, for the API server or for a change of the caches.
    All other methods answer at once from the caches.
    """

    def synced(self) -> bool:
        """Whether the caches are complete: every resource has been listed once."""

    def listed(self, plural: str) -> bool:
        """Whether the objects of this resource have been listed once."""

    def sources(self) -> Sources:
        """All objects: pods, group objects, topologies, workloads and namespaces, as of one instant."""

    def sources_of(self, *names: GangKey) -> Sources:
        """All objects, but only one pod of each equivalence class of one gang.

        Pods are equivalent if a review cannot tell them apart (`gangs.dialects.concerned.places_of`), so one is enough.

        :param names: all names of the gang (`Gang.names`). Without names there are no pods.
        """

    def all_of(self, *names: GangKey) -> Sources:
        """All objects, but only the pods of one gang. `names`: all names of the gang (`Gang.names`)."""

    def alike(self, name: GangKey, pod: Pod) -> int:
        """The number of the gang's pods in the equivalence class of `pod`: a review cannot distinguish these pods
        (`gangs.dialects.concerned.places_of`).
        """

    def sources_about(self, *manifests: Manifest) -> Sources:
        """All objects, but only the pods that a review of these manifests needs, and one pod of each dialect.

        The pod of a dialect shows that the dialect is in use, because some topologies are described only then.
        """

    def reread(self, sources: Sources, inputs: Iterable[ReadInput]) -> Sources:
        """Return the sources with the current versions of the objects in `inputs`, read from the API server."""

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """Return the sources, with the objects added that a gang waits for and that the API server has by now.

        :param awaited: texts of `gangs.model.Gang.waiting_for`, such as `PodGroup team-a/train`.
        """

    def comes(self, awaited: Iterable[str]) -> bool:
        """Wait a moment for an awaited object. Return whether one has reached the caches. Sends no request.

        :param awaited: texts of `gangs.model.Gang.waiting_for`, which name objects that a gang waits for.
        """

    def describing(self, group: str, kind: str) -> Manifest | None:
        """Return the WorkloadKind that describes this kind, from the API server; None if there is none.

        Used if the caches do not have it yet. The API server is asked at most once a second.
        """

    def node(self, name: str) -> Node | None:
        """The node of this name. None if there is none."""

    def snapshot(self) -> Snapshot:
        """The snapshot of nodes, their free capacity, and the pods that use it. It is the same object until the cluster
        changes.
        """

    def devices(self) -> DeviceView:
        """The cluster's ResourceClaims, taint rules and DeviceClasses. `known`: whether the claims have been read."""

    def age(self) -> float:
        """Seconds since the caches last heard from the API server."""

    def following(self) -> AbstractContextManager[Follower]:
        """Return a context manager for a follower of the caches' changes. Use the follower from one thread."""


class LivePicture:
    """The `Picture` of a live cluster, read from watch caches. Safe to share between threads.

    The caches must group pods by `gangs.dialects.concerned.places_of`.
    """

    def __init__(
        self,
        cache: ClusterCache,
        rereader: Rereader | None = None,
        fresh_kinds: FreshKinds | None = None,
        *,
        placeholders: bool = True,
    ) -> None:
        """Read from these watch caches.

        :param rereader: reads objects from the API server. None: only the caches are read.
        :param fresh_kinds: reads WorkloadKinds from the API server. None: only the caches are read.
        :param placeholders: whether the controller reserves capacity for expected pods.
        """
        self._cache = cache
        self._rereader = rereader
        self._fresh_kinds = fresh_kinds
        self._patience = Patience()
        self._placeholders = placeholders

    def synced(self) -> bool:
        """Whether the caches are complete: every resource has been listed once."""
        return self._cache.synced()

    def listed(self, plural: str) -> bool:
        """Whether the objects of this resource have been listed once."""
        return self._cache.listed(plural)

    def sources(self) -> Sources:
        """All objects of the caches, as of one instant."""
        with self._cache.still():
            return self._with(self._cache.pods())

    def sources_of(self, *names: GangKey) -> Sources:
        """All objects, but only one pod of each equivalence class of one gang. A review cannot distinguish the pods of
        a class (`gangs.dialects.concerned.places_of`).
        """
        return self._with([pod for name in names for pod in self._cache.each_kind_of(name)])

    def all_of(self, *names: GangKey) -> Sources:
        """All objects, but only the pods of one gang."""
        return self._with([pod for name in names for pod in self._cache.pods_of(name)])

    def alike(self, name: GangKey, pod: Pod) -> int:
        """The number of the gang's pods in the equivalence class of `pod`: a review cannot distinguish these pods
        (`gangs.dialects.concerned.places_of`).
        """
        return self._cache.alike(name, pod.key)

    def sources_about(self, *manifests: Manifest) -> Sources:
        """All objects, but only the pods that a review of these manifests needs, and one pod of each dialect."""
        with self._cache.still():
            sources = self._with(())
            found = examples_of(self._cache.pod_of)
            for each in manifests:
                found += pods_about(each, sources, self._cache.pods_of)
        pods = {pod.key: pod for pod in found}
        return replace(sources, pods=[pods[key] for key in sorted(pods)])

    def reread(self, sources: Sources, inputs: Iterable[ReadInput]) -> Sources:
        """Return the sources with the current versions of the objects in `inputs`, read from the API server."""
        return sources if self._rereader is None else self._rereader.reread(sources, inputs)

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """Return the sources, with the objects added that a gang waits for and that the API server has by now."""
        return sources if self._rereader is None else self._rereader.arrived(sources, awaited)

    def comes(self, awaited: Iterable[str]) -> bool:
        """Wait a moment for an awaited object. Return whether one has reached the caches."""
        return self._patience.comes(awaited, self._cache.objects)

    def describing(self, group: str, kind: str) -> Manifest | None:
        """Return the WorkloadKind that describes this kind, from the API server; None if there is none."""
        return None if self._fresh_kinds is None else self._fresh_kinds.describing(group, kind)

    def node(self, name: str) -> Node | None:
        """The node of this name. None if there is none."""
        return self._cache.node(name)

    def snapshot(self) -> Snapshot:
        """The snapshot of nodes, their free capacity, and the pods that use it."""
        return self._cache.snapshot()

    def devices(self) -> DeviceView:
        """The cluster's ResourceClaims, taint rules and DeviceClasses. `known`: whether the claims have been read."""
        return self._cache.devices()

    def age(self) -> float:
        """Seconds since the last message of the API server, on the watch that has been silent longest."""
        return self._cache.age()

    def following(self) -> AbstractContextManager[Follower]:
        """Return a context manager for a follower of the caches' changes. Use the follower from one thread."""
        return following(self._cache)

    def _with(self, pods: Sequence[Pod]) -> Sources:
        cache = self._cache
        return Sources(
            pods,
            cache.objects(),
            cache.namespaces(),
            cache.found(),
            cache.tried(),
            cache.sharing(),
            placeholders=self._placeholders,
        )
