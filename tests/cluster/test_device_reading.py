"""When the cache counts the kinds of devices as read: on the local API server, list by list."""

import logging
from collections.abc import Iterator

import pytest
from local_api.direct import DirectTransport
from local_api.resources import Resource
from local_api.server import LocalApi, local_api, refused

from cluster.caches.cache import ClusterCache
from cluster.caches.reflector_timing import DEFAULT_TIMING

GROUP = "resource.k8s.io"
RESOURCES = (
    Resource(GROUP, "v1", "resourceclaims", "ResourceClaim", status=True),
    Resource(GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource(GROUP, "v1", "resourceslices", "ResourceSlice", namespaced=False),
    Resource(GROUP, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False),
)
PLURALS = tuple(each.plural for each in RESOURCES)


@pytest.fixture
def api() -> Iterator[LocalApi]:
    """An API server that serves all kinds of devices."""
    with local_api(*RESOURCES) as found:
        yield found


def listing(cache: ClusterCache, *plurals: str) -> None:
    """List these resources, as their threads would."""
    for each in cache.reflectors:
        if each.name.rpartition("/")[2] in plurals:
            each.list_once()


@pytest.mark.parametrize("last", PLURALS)
def test_devices_are_planned_as_soon_as_the_last_of_their_kinds_is_read(api: LocalApi, last: str) -> None:
    """A thread may take a snapshot after the objects are there, but before the kind counts as served."""
    cache = ClusterCache(DirectTransport(api))
    versions = list[str]()
    cache.on_change(lambda: versions.append(cache.snapshot().version))
    listing(cache, *(each for each in PLURALS if each != last))
    assert cache.snapshot().devices is None
    listing(cache, last)
    assert cache.snapshot().devices is not None
    assert len(set(versions)) == len(versions) > 0


def test_nothing_is_known_of_claims_before_it_is_known_whether_devices_are_tainted(api: LocalApi) -> None:
    """Otherwise claims would be allocated without rules, as before Kubernetes 1.37."""
    cache = ClusterCache(DirectTransport(api))
    listing(cache, "resourceclaims")
    assert not cache.devices().known
    listing(cache, "devicetaintrules")
    assert (cache.devices().known, cache.devices().taints) == (True, True)


def test_an_api_server_without_rules_is_known_to_lack_them() -> None:
    with local_api(*RESOURCES[:3]) as api:
        cache = ClusterCache(DirectTransport(api))
        listing(cache, *PLURALS)
        assert (cache.devices().known, cache.devices().taints) == (True, False)
        assert cache.snapshot().devices is not None


def test_an_installation_without_the_rights_asks_rarely_and_logs_the_denial_once(
    api: LocalApi, caplog: pytest.LogCaptureFixture
) -> None:
    """The rights for devices are left out by default, also in clusters with DeviceClasses."""
    cache = ClusterCache(DirectTransport(api))
    api.fault("GET .*/resourceslices", *[refused(403, "Forbidden")] * 10)
    (slices,) = (each for each in cache.reflectors if each.name.endswith("/resourceslices"))
    with caplog.at_level(logging.WARNING):
        pauses = [slices.list_once().seconds for _ in range(10)]
    assert pauses[-1] >= 0.8 * DEFAULT_TIMING.last_missing
    assert len(caplog.records) == 1
    assert not slices.served
    slices.list_once()
    assert slices.served


def test_a_cache_is_complete_only_with_the_devices_of_its_classes(api: LocalApi) -> None:
    """Otherwise a command that reads the cluster once would find that claims are not planned, or not, by chance."""
    cache = ClusterCache(DirectTransport(api))
    plain = [each for each in cache.reflectors if each.name.rpartition("/")[2] not in PLURALS]
    for each in plain:
        each.list_once()
    assert cache.synced()
    api.create(f"/apis/{GROUP}/v1/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    cache = ClusterCache(DirectTransport(api))
    for each in cache.reflectors:
        if each.name.rpartition("/")[2] not in PLURALS:
            each.list_once()
    assert [path.rpartition("/")[2] for path in cache.unsynced()] == [
        "resourceclaims",
        "devicetaintrules",
        "resourceslices",
        "resourceclaimtemplates",
    ]
    assert not cache.wait_synced(0.0)
    api.fault("GET .*/resourceslices", refused(403, "Forbidden"))
    listing(cache, *PLURALS)
    assert cache.synced()
    assert cache.wait_synced(0.0)
