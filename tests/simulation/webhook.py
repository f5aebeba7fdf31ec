"""One webhook process: it admits new pods by what its own watch caches show, which may be long past."""

from collections.abc import Iterable
from typing import Any

import jsonpatch
from local_api.resources import address
from local_api.store import Object

from cluster.caches.cache import ClusterCache
from gangs.dialects.concerned import places_of
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from simulation.choices import Choices
from simulation.clock import MachineClock
from simulation.engine import Engine
from simulation.network import Network, Process
from simulation.transport import SimulatedTransport
from simulation.watches import Feed, WatchHub
from webhook.admission.dispatch import CREATE, mutate
from webhook.admission.reviews import AdmissionRequest, Admitted, GroupVersionResource
from webhook.errors import Unavailable
from webhook.picture import LivePicture

_PODS = GroupVersionResource("", "v1", "pods")
_KINDS = all_kinds()
REVIEW_SECONDS = (0.01, 0.0, 0.3, 2.0)
"""How long a new pod is under way from the webhook's decision to the store: other admission follows."""


class _Picture(LivePicture):
    """A view that waits for no object: the simulation moves no time within a review."""

    def comes(self, awaited: Iterable[str]) -> bool:  # noqa: ARG002 - the signature of the base class
        """Return False."""
        return False


class Webhook:
    """A webhook process from its start on. It never ends."""

    def __init__(
        self, name: str, engine: Engine, network: Network, hub: WatchHub, choices: Choices, clock: MachineClock
    ) -> None:
        self.process = Process(name, engine)
        self.review_weights: tuple[int, ...] = (1, 0, 0, 0)
        """Weights of `REVIEW_SECONDS`."""
        self.answers = True
        """Whether a replica answers. If not, the API server refuses members of gangs (`failurePolicy: Fail`)."""
        self._choices, self._hub = choices, hub
        transport = SimulatedTransport(network, self.process)
        self._cache = ClusterCache(transport, _KINDS, protecting=protection, groups_of=places_of, clock=clock)
        self._picture = _Picture(self._cache)

    def start(self) -> None:
        """List and watch everything."""
        for reflector in self._cache.reflectors:
            if address(reflector.name, self._hub.api.served) is None:
                while not reflector.synced:
                    reflector.list_once()
                continue
            feed = Feed(self._hub, self.process, reflector, lambda: None)
            self._hub.add(feed)
            self.process.later(0.0, feed.begin)

    def admitted(self, pod: Object) -> Object | None:
        """Return a new pod as `/mutate` changes it; None if it is refused, or cannot be admitted yet."""
        request = AdmissionRequest("uid", CREATE, _PODS, namespace=pod["metadata"]["namespace"], object=pod)
        try:
            decision = mutate(request, self._picture, lambda _gang, _all_members: ())
        except Unavailable:
            return None
        if not isinstance(decision, Admitted):
            return None
        changed: Any = jsonpatch.apply_patch(pod, list(decision.patch))
        return dict(changed)

    def review_seconds(self) -> float:
        """Return how long the pod of a review is under way to the store."""
        return self._choices.one_of(f"{self.process.name}/review", REVIEW_SECONDS, self.review_weights)
