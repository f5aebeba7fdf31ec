"""An object is admitted if it contradicts only an outdated version of another object: the webhook reads that one again.

The webhook's caches lag behind the API server. If two objects are applied one after the other, the webhook may review
the second one with an outdated version of the first one. It must not refuse the second object for that.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from manual_clock import ManualClock

from kube.catalog import Catalog
from webhook.admission.dispatch import mutate, validate
from webhook.admission.reviews import AdmissionRequest, Admitted, GroupVersionResource, Refused
from webhook.awaited_objects import SECONDS, Patience

sys.path.insert(0, str(Path(__file__).parents[1] / "webhook"))
from pictures import StillPicture, pod_group, topology

PREFIX = "gang.scheduling.koordinator.sh"
BOTH, ALL = '["default/eldest", "default/llm"]', '["default/eldest", "default/llm", "default/more"]'


def gang(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "llm", "namespace": "default"}
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": metadata,
        "spec": {"minMember": 2, **spec},
    }


def group(name: str, groups: str, created: str) -> dict[str, Any]:
    made = pod_group(name, groups=groups)
    made["metadata"]["creationTimestamp"] = created
    return made


ELDEST = group("eldest", BOTH, "2026-01-01T00:00:00Z")
LISTED_NOW = group("eldest", ALL, "2026-01-01T00:00:00Z")
YOUNGER, YOUNGER_NOW = (group("llm", each, "2026-01-02T00:00:00Z") for each in (BOTH, ALL))

CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any], dict[str, Any] | None, str]] = {
    # objects in the caches, objects on the API server, the object, its version before the change, the fault
    "a level that its topology has got": (
        [topology("rack")],
        [topology("block", "rack")],
        gang(required="block"),
        None,
        "",
    ),
    "one that it has not": (
        [topology("rack")],
        [topology("rack")],
        gang(required="block"),
        None,
        "Gang default/llm: spec.required",
    ),
    "one that it has lost": ([topology("block", "rack")], [topology("rack")], gang(required="rack"), None, ""),
    "the list of a group, after its eldest": ([ELDEST, YOUNGER], [LISTED_NOW], YOUNGER_NOW, YOUNGER, ""),
    "the list of a group, before its eldest": (
        [ELDEST, YOUNGER],
        [ELDEST],
        YOUNGER_NOW,
        YOUNGER,
        "PodGroup default/llm: metadata.annotations[gang.scheduling.koordinator.sh/groups]",
    ),
    "a contradiction of its own": ([], [], gang(minMember=-1), None, "Gang default/llm: spec.minMember"),
}


@pytest.mark.parametrize(("cached", "now", "manifest", "old", "refusal"), CASES.values(), ids=CASES)
def test_a_refusal_rests_on_what_is_there_by_now(
    cached: list[dict[str, Any]],
    now: list[dict[str, Any]],
    manifest: dict[str, Any],
    old: dict[str, Any] | None,
    refusal: str,
) -> None:
    group_, _, version = manifest["apiVersion"].partition("/")
    resource = GroupVersionResource(group=group_, version=version, resource=f"{manifest['kind'].lower()}s")
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(uid="u", operation=operation, resource=resource, object=manifest, old_object=old)
    decision = validate(request, StillPicture(cached, now=now), lambda _: ())
    if refusal:
        assert isinstance(decision, Refused)
        assert decision.message.startswith(refusal)
    else:
        assert isinstance(decision, Admitted), decision


WAITING: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    # objects on the API server that the caches lack; the object; the object that the warning waits for
    "the topology that is named": ([topology("rack")], gang(required="rack", topology="datacenter"), ""),
    "no topology": ([], gang(required="rack", topology="datacenter"), "Topology datacenter"),
    "a topology of another name": ([topology("rack")], gang(required="rack", topology="racks"), "Topology racks"),
    "a topology without the level": ([topology("block")], gang(required="rack"), 'Topology with a level "rack"'),
}


@pytest.mark.parametrize(("now", "manifest", "awaited"), WAITING.values(), ids=WAITING)
def test_who_comes_with_what_it_waits_for_is_not_told_to_wait(
    now: list[dict[str, Any]], manifest: dict[str, Any], awaited: str
) -> None:
    resource = GroupVersionResource(group="phalanx.dev", version="v1alpha1", resource="gangs")
    request = AdmissionRequest(uid="u", operation="CREATE", resource=resource, object=manifest, old_object=None)
    decision = validate(request, StillPicture([], now=now), lambda _: ())
    assert isinstance(decision, Admitted), decision
    told = [each.partition(" waits for ")[2] for each in decision.warnings if "waits for Topology" in each]
    assert told == [awaited] * bool(awaited), decision.warnings


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "w-0", "namespace": "default", "labels": {"pod-group.scheduling.sigs.k8s.io": "llm"}},
    "spec": {"containers": [{"name": "main", "image": "example.com/w"}]},
}
LATE_GROUP: dict[str, tuple[list[dict[str, Any]], bool]] = {
    # objects on the API server that the caches lack; whether the pod gets the warning that it waits for its group
    "the group that it names": ([group("llm", BOTH, "2026-01-01T00:00:00Z")], False),
    "no group": ([], True),
    "another group": ([group("eldest", BOTH, "2026-01-01T00:00:00Z")], True),
}


@pytest.mark.parametrize(("now", "told"), LATE_GROUP.values(), ids=LATE_GROUP)
def test_a_pod_that_comes_with_its_group_is_not_told_to_wait_for_it(now: list[dict[str, Any]], *, told: bool) -> None:
    resource = GroupVersionResource(group="", version="v1", resource="pods")
    request = AdmissionRequest(uid="u", operation="CREATE", resource=resource, object=POD, old_object=None)
    decision = mutate(request, StillPicture([], now=now), lambda _, __: ())
    assert isinstance(decision, Admitted), decision
    assert decision.patch
    assert any("waits for PodGroup default/llm" in each for each in decision.warnings) is told, decision.warnings


def test_a_pod_is_patient_for_a_moment_only_once_and_not_beside_many() -> None:
    key = ("scheduling.sigs.k8s.io", "PodGroup", "default", "llm")
    there: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    patience, awaited = Patience(), ["PodGroup default/llm"]
    assert not patience.comes(["4 more pods"], lambda: Catalog({}))
    with ThreadPoolExecutor(max_workers=3) as others:
        first, second = (others.submit(patience.comes, awaited, lambda: Catalog(there)) for _ in range(2))
        time.sleep(0.05)
        assert not others.submit(patience.comes, awaited, lambda: Catalog(there)).result()
        assert not first.done()
        there[key] = {}
        assert first.result()
        assert second.result()
    clock = ManualClock()
    alone = Patience(clock)
    assert not any(alone.comes(awaited, lambda: Catalog({})) for _ in range(100))
    assert SECONDS <= clock.monotonic() < 2 * SECONDS
