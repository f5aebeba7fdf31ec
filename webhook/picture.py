"""What the webhook knows while it answers: the live picture, read from memory."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from cluster.caches.cache import ClusterCache
from cluster.snapshot import Snapshot
from gangs.dialects.concerned import examples_of, pods_about
from gangs.incremental.dependencies import Look
from gangs.model import GangKey, Manifest
from gangs.sources import Sources
from kube.objects import Node, Pod
from webhook.awaited_objects import Patience
from webhook.following import Follower, following
from webhook.fresh_kinds import FreshKinds
from webhook.rereading import Rereader


class Picture(Protocol):
    """The cluster as the watch caches hold it now. `reread`, `arrived`, `comes` and `describing` take a
    moment, all others answer at once.
    """

    def synced(self) -> bool:
        """Whether everything has been listed once."""

    def listed(self, plural: str) -> bool:
        """Whether the objects of this resource have been listed once."""

    def sources(self) -> Sources:
        """What is asked for: pods, group objects, topologies, workloads, namespaces."""

    def sources_of(self, *names: GangKey) -> Sources:
        """The same with the pods of one gang only, given by all the names that it goes by (`Gang.names`); of those that
        are of one kind (`gangs.dialects.concerned`) one.
        """

    def all_of(self, *names: GangKey) -> Sources:
        """The same with all pods of the gang."""

    def alike(self, name: GangKey, pod: Pod) -> int:
        """How many pods of this name there are of the kind of this one."""

    def sources_about(self, *manifests: Manifest) -> Sources:
        """The same with the pods that the review of these objects may look at, and one pod of each dialect."""

    def reread(self, sources: Sources, looks: Iterable[Look]) -> Sources:
        """The sources with what was looked at as it is now, which another server is asked for."""

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """The sources with what gangs wait for (`gangs.model.Gang.waiting_for`), as far as it is there by now; asked of
        another server, too.
        """

    def comes(self, awaited: Iterable[str]) -> bool:
        """Whether something that a gang waits for comes to the caches within a moment; nobody is asked for it."""

    def describing(self, group: str, kind: str) -> Manifest | None:
        """What describes a kind of workloads that the caches know nothing of, as far as it is there by now; asked of
        another server, too, once a second at most.
        """

    def node(self, name: str) -> Node | None:
        """One node, None where it is not there."""

    def snapshot(self) -> Snapshot:
        """What there is: nodes, their room, and who holds it."""

    def age(self) -> float:
        """Seconds since the caches last heard from the API server."""

    def following(self) -> AbstractContextManager[Follower]:
        """One look after the other at what changes, by one thread of the caller's own."""


class LivePicture:
    """A `Picture` over watch caches that group pods by `places_of` (`gangs.dialects.concerned`).

    Safe to share between threads.
    """

    def __init__(
        self,
        cache: ClusterCache,
        rereader: Rereader | None = None,
        fresh_kinds: FreshKinds | None = None,
        *,
        placeholders: bool = True,
    ) -> None:
        """`rereader`, `fresh_kinds`: None where nothing is to be read but what the caches hold. `placeholders`: whether
        the controller holds room for pods that their workload makes later.
        """
        self._cache = cache
        self._rereader = rereader
        self._fresh_kinds = fresh_kinds
        self._patience = Patience()
        self._placeholders = placeholders

    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return self._cache.synced()

    def listed(self, plural: str) -> bool:
        """Whether the objects of this resource have been listed once."""
        return self._cache.listed(plural)

    def sources(self) -> Sources:
        """What is asked for, as of one instant."""
        with self._cache.still():
            return self._with(self._cache.pods())

    def sources_of(self, *names: GangKey) -> Sources:
        """What is asked for, with one pod of each kind of one gang."""
        return self._with([pod for name in names for pod in self._cache.each_kind_of(name)])

    def all_of(self, *names: GangKey) -> Sources:
        """What is asked for, with the pods of one gang only."""
        return self._with([pod for name in names for pod in self._cache.pods_of(name)])

    def alike(self, name: GangKey, pod: Pod) -> int:
        """How many pods of this name there are of the kind of this one."""
        return self._cache.alike(name, pod.key)

    def sources_about(self, *manifests: Manifest) -> Sources:
        """What is asked for, with the pods that have to do with these objects, and one of each dialect."""
        with self._cache.still():
            sources = self._with(())
            found = examples_of(self._cache.pod_of)
            for each in manifests:
                found += pods_about(each, sources, self._cache.pods_of)
        pods = {pod.key: pod for pod in found}
        return replace(sources, pods=[pods[key] for key in sorted(pods)])

    def reread(self, sources: Sources, looks: Iterable[Look]) -> Sources:
        """The sources with what was looked at as it is now."""
        return sources if self._rereader is None else self._rereader.reread(sources, looks)

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """The sources with what gangs wait for, as far as it is there by now."""
        return sources if self._rereader is None else self._rereader.arrived(sources, awaited)

    def comes(self, awaited: Iterable[str]) -> bool:
        """Whether something that is awaited comes within a moment."""
        return self._patience.comes(awaited, self._cache.objects)

    def describing(self, group: str, kind: str) -> Manifest | None:
        """What describes a kind of workloads by now."""
        return None if self._fresh_kinds is None else self._fresh_kinds.describing(group, kind)

    def node(self, name: str) -> Node | None:
        """One node."""
        return self._cache.node(name)

    def snapshot(self) -> Snapshot:
        """What there is."""
        return self._cache.snapshot()

    def age(self) -> float:
        """Seconds since the API server was last heard of, on the watch that has been silent longest."""
        return self._cache.age()

    def following(self) -> AbstractContextManager[Follower]:
        """One look after the other at what changes."""
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
