"""The watches of devices count in the age of the caches, as soon as they are wanted and allowed."""

from collections.abc import Iterator

import pytest
from local_api.direct import DirectTransport
from local_api.resources import Resource
from local_api.server import LocalApi, local_api, refused
from manual_clock import ManualClock

from cluster.caches.cache import ClusterCache

ROOT = "/apis/resource.k8s.io/v1"
KINDS = {
    "resourceclaims": "ResourceClaim",
    "resourceclaimtemplates": "ResourceClaimTemplate",
    "resourceslices": "ResourceSlice",
    "devicetaintrules": "DeviceTaintRule",
}


@pytest.fixture
def api() -> Iterator[LocalApi]:
    """An API server that serves all kinds of devices."""
    with local_api(*(Resource("resource.k8s.io", "v1", plural, kind) for plural, kind in KINDS.items())) as found:
        yield found


def age_without_claims(api: LocalApi) -> float:
    """The age of a cache whose watch of claims is silent for 100 s, while all others hear of the API server."""
    clock = ManualClock()
    cache = ClusterCache(DirectTransport(api), clock=clock)
    for reflector in cache.reflectors:
        if reflector.wanted:
            reflector.list_once()
    clock.now += 100.0
    for reflector in cache.reflectors:
        if reflector.wanted and not reflector.name.endswith("/resourceclaims"):
            reflector.list_once()
    return cache.age()


def test_a_silent_watch_of_claims_makes_the_cache_old(api: LocalApi) -> None:
    api.create(f"{ROOT}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    assert age_without_claims(api) == 100.0


def test_claims_that_are_not_read_do_not_count(api: LocalApi) -> None:
    """No DeviceClass exists, or the installation lacks the rights by choice."""
    assert age_without_claims(api) == 0.0
    api.create(f"{ROOT}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    api.fault(rf"GET {ROOT}/resourceclaims", refused(403, "Forbidden"))
    assert age_without_claims(api) == 0.0
