"""Admission of user-defined kinds: a workload that comes with its WorkloadKind, and one that outlives it."""

import threading
import time
from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
from pictures import StillPicture
from workload_operators import Object, described, training_run

from webhook.admission import dispatch
from webhook.admission.reviews import AdmissionRequest, Admitted, GroupVersionResource
from webhook.fresh_kinds import EVERY, FreshKinds

KIND = described()
NAMED = "TrainingRun.ml.example.com"


def request(manifest: Object, old: Object | None = None) -> AdmissionRequest:
    """Return the API server's request for a CREATE, or for an UPDATE if `old` is given."""
    return AdmissionRequest(
        uid="u",
        resource=GroupVersionResource("ml.example.com", "v1", "trainingruns"),
        operation="CREATE" if old is None else "UPDATE",
        namespace="default",
        object=manifest,
        old_object=old,
    )


def answered(picture: StillPicture, manifest: Object, old: Object | None = None) -> Admitted:
    """Return the webhook's answer, which must admit the object."""
    answer = dispatch.described(request(manifest, old), picture, lambda _: ())
    assert isinstance(answer, Admitted), answer
    return answer


def after(picture: StillPicture, manifest: Object, old: Object | None = None) -> Object:
    """Return the object as it is stored after its admission."""
    patch: Any = list(answered(picture, manifest, old).patch)
    found: Object = jsonpatch.apply_patch(manifest, patch)
    return found


def marks(manifest: Object) -> list[dict[str, str]]:
    """The labels on its templates."""
    return [each["pods"]["metadata"].get("labels", {}) for each in manifest["spec"]["roles"]]


EXPECTED = [
    {"phalanx.dev/workload": NAMED, "phalanx.dev/pod-set": "chief"},
    {"phalanx.dev/workload": NAMED, "phalanx.dev/pod-set": "worker"},
]


def test_a_workload_that_comes_with_what_describes_it_is_a_gang() -> None:
    manifest = training_run().manifest(gang="true")
    assert marks(after(StillPicture(now=[KIND]), manifest)) == EXPECTED
    assert answered(StillPicture(now=[KIND]), manifest).warnings == ()
    assert "is no kind that Phalanx knows" in " ".join(answered(StillPicture(), manifest).warnings)


def test_a_workload_that_is_written_anew_keeps_its_marks_without_what_describes_it() -> None:
    manifest = training_run().manifest(gang="true")
    stored = after(StillPicture([KIND]), manifest)
    again = deepcopy(manifest)
    again["spec"]["roles"].reverse()
    again["spec"]["roles"][0]["count"] = 5
    assert marks(after(StillPicture(), again, stored)) == EXPECTED[::-1]
    gone = deepcopy(manifest)
    del gone["spec"]["roles"][0]
    assert marks(after(StillPicture(), gone, stored)) == EXPECTED[1:]


def test_a_workload_that_is_written_anew_keeps_its_pod_sets_when_it_is_described_otherwise() -> None:
    one = deepcopy(KIND)
    one["spec"] |= {"podTemplates": [{"path": "spec.pods"}], "minMember": ""}
    two = deepcopy(one)
    two["spec"]["podTemplates"].append({"path": "spec.helpers.pods"})
    manifest = training_run().manifest(gang="true")
    pods = manifest["spec"]["roles"][0]["pods"]
    manifest["spec"] = {"pods": pods}
    stored = after(StillPicture([one]), manifest)
    again = deepcopy(manifest)
    again["spec"]["helpers"] = {"pods": pods}
    found = after(StillPicture([two]), again, stored)["spec"]
    sets = [found[part]["metadata"]["labels"]["phalanx.dev/pod-set"] for part in ("pods",)]
    assert sets == ["main"]
    assert found["helpers"]["pods"]["metadata"]["labels"]["phalanx.dev/pod-set"] == "helpers"


class Counted:
    """An API server that lists its WorkloadKinds and counts the requests."""

    def __init__(self) -> None:
        self.items: list[Object] = []
        self.asked = 0

    def request(self, *_: Any, **__: Any) -> Object:
        """All of them."""
        self.asked += 1
        return {"apiVersion": "phalanx.dev/v1alpha1", "items": list(self.items)}


@pytest.fixture
def api() -> Counted:
    """An API server without any WorkloadKind."""
    return Counted()


def test_kinds_that_nobody_describes_cost_one_list_a_second_whoever_asks(api: Counted) -> None:
    transport: Any = api
    fresh = FreshKinds(transport)
    start = time.monotonic()
    threads = [threading.Thread(target=fresh.describing, args=("ml.example.com", f"Kind{n}")) for n in range(200)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert api.asked <= 2 + (time.monotonic() - start) / EVERY


def test_what_was_described_before_the_request_is_found_though_a_list_was_made_just_before(api: Counted) -> None:
    transport: Any = api
    fresh = FreshKinds(transport)
    assert fresh.describing("ml.example.com", "TrainingRun") is None
    api.items.append(KIND)
    assert fresh.describing("ml.example.com", "TrainingRun") == KIND
    assert fresh.describing("ml.example.com", "TrainingRun") == KIND
    assert api.asked == 2
