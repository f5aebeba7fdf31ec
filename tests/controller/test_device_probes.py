"""When a probe with a claim counts as tried: the controller receives pods and claims by two watches."""

from collections.abc import Iterator

import msgspec
import pytest
from local_api.direct import DirectTransport
from local_api.resources import Resource
from local_api.server import LocalApi, local_api

from cluster.devices.allocation import DeviceId
from cluster.devices.holdings import DeviceView
from controller.acting.device_probes import ClaimProbes, TaintProbes
from controller.release.devices import Wanted
from controller.writes.writer import Writer
from kube.devices import ResourceClaim
from kube.objects import Pod

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/phalanx-system/resourceclaims"
PODS = "/api/v1/namespaces/phalanx-system/pods"
TRIED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


@pytest.fixture
def api() -> Iterator[LocalApi]:
    """An API server that serves claims."""
    with local_api(Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", status=True)) as found:
        found.create("/api/v1/namespaces", {"metadata": {"name": "phalanx-system"}})
        found.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "phalanx-probe"}, "value": -1})
        yield found


def pods(api: LocalApi, *, tried: bool) -> list[Pod]:
    """The pods of Phalanx's own namespace, as its watch shows them."""
    items = api.ask("GET", PODS)["items"]
    status = {"conditions": TRIED} if tried else {}
    return [msgspec.convert({**each, "status": status}, Pod, strict=False) for each in items]


def view(api: LocalApi, *others: ResourceClaim) -> DeviceView:
    """The claims, as their watch shows them when it lags behind nothing. `others`: further claims."""
    items = api.ask("GET", CLAIMS)["items"]
    own = (msgspec.convert(each, ResourceClaim, strict=False) for each in items)
    return DeviceView((*own, *others), known=True)


def test_a_refused_probe_proves_nothing_if_its_device_is_allocated_by_then(api: LocalApi) -> None:
    """The scheduler refuses the probe then, whether it has seen the rule of the plan or not."""
    device = DeviceId("gpu.example.com", "n1", "gpu-0")
    results = [{"request": "gpu", **device._asdict()}]
    status = {"allocation": {"devices": {"results": results}}}
    rival = msgspec.convert({"metadata": {"name": "rival"}, "status": status}, ResourceClaim)
    writer = Writer(DirectTransport(api))
    probes = TaintProbes(writer)

    def tried(*claims: ResourceClaim) -> bool:
        """Let the scheduler refuse a probe while these claims exist. Return whether that proves the rules."""
        probes.ask("plan", Wanted(7, "n1", {}, device))
        probes.send()
        for _ in range(2):  # the view must show the claim of the probe, and then its deletion
            probes.read_with(pods(api, tried=True), view(api, *claims))
            probes.clean(view(api))
        return probes.seen("plan")

    probes.read_with([], view(api))
    assert not tried(rival)
    assert tried()
    writer.close()


def test_a_view_that_does_not_show_the_claim_of_the_probe_yet_proves_nothing(api: LocalApi) -> None:
    """Pods and claims come by two watches. While the one of claims lags, an allocation of a rival may be missing."""
    writer = Writer(DirectTransport(api))
    probes, lagging = ClaimProbes(writer), DeviceView(known=True)
    probes.want("plan")
    probes.read_with([], lagging)
    probes.send()
    for _ in range(3):
        probes.read_with(pods(api, tried=True), lagging)
        probes.send()
        probes.clean(lagging)
        assert not probes.seen("plan")
    shown = view(api)
    probes.read_with(pods(api, tried=True), shown)
    assert not probes.seen("plan")
    probes.clean(shown)
    probes.read_with(pods(api, tried=True), view(api))
    assert probes.seen("plan")
    writer.close()
