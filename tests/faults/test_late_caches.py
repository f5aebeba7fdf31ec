"""An object that contradicts another one only as that was a moment ago is admitted: what refuses it is read again.

The webhook's caches are late by a moment: of two objects that are applied one after the other, the second was judged by
the first as it had been, refused once, and accepted when it was applied again.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from webhook.admission.dispatch import validate
from webhook.admission.reviews import AdmissionRequest, Admitted, GroupVersionResource, Refused

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
    # what the caches hold, what is there by now, the object, the object before, what it is refused for
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
