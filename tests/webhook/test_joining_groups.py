"""Members that join a PodGroup of Phalanx at their CREATE, and pods that lose the PodGroup of another program."""

from typing import Any

import jsonpatch
import pytest
from pictures import EVIDENCE, SCHEDULERS, Manifest, StillPicture, pod

from gangs.model import Gang
from kube.scheduling_groups import release_group
from webhook.admission import arriving_pods
from webhook.admission.reviews import Admitted
from webhook.errors import Unavailable

GANG = {"phalanx.dev/gang": "llm"}
GROUP = {"podGroupName": release_group("phalanx", "default", "llm")}
THEIRS: Manifest = {"schedulingGroup": {"podGroupName": "theirs"}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}


def ours(**annotations: str) -> Manifest:
    """Return Phalanx's own webhook configuration with these settings."""
    named = {f"phalanx.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "zz-phalanx", "annotations": named},
    }


def gang(**spec: Any) -> Manifest:
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {"minMember": 2, **spec},
    }


def picture(*objects: Manifest, pods: tuple[Manifest, ...] = (), atomic: str = "true") -> StillPicture:
    settings = ours(atomic_release=atomic) if atomic else ours()
    return StillPicture([settings, *objects], pods=pods, listed=(*SCHEDULERS, *EVIDENCE))


def spec_of(manifest: Manifest, seen: StillPicture) -> Manifest:
    """Return the spec of the pod as it is stored after its admission."""

    def unforetold(_gang: Gang, _whole: object) -> tuple[str, ...]:
        return ()

    decision = arriving_pods.created(manifest, seen, unforetold)
    assert isinstance(decision, Admitted), decision
    spec: Manifest = jsonpatch.JsonPatch(decision.patch).apply(manifest)["spec"]
    return spec


def sibling(group: Any = GROUP, **spec: Any) -> Manifest:
    """Return a member that exists."""
    joined: Manifest = {"schedulingGroup": group} if group else {}
    joined["schedulingGates"] = [{"name": "phalanx.dev/gang"}]
    return pod("b", labels=GANG, **joined, **spec)


def test_a_member_of_a_gang_that_needs_all_its_members_joins() -> None:
    spec = spec_of(pod(labels=GANG), picture(gang()))
    assert spec["schedulingGroup"] == GROUP
    assert spec["schedulingGates"] == [{"name": "phalanx.dev/gang"}]
    assert spec_of(pod(labels=GANG), picture(gang(), pods=(sibling(),)))["schedulingGroup"] == GROUP


NOT = {
    "the setting is off": (pod(labels=GANG), picture(gang(), atomic="")),
    "the setting says no": (pod(labels=GANG), picture(gang(), atomic="false")),
    "the gang may have extras": (
        pod(labels=GANG),
        picture(gang(podSets=[{"name": "main", "count": 3, "minCount": 2}])),
    ),
    "the gang is not there yet": (pod(labels=GANG), picture()),
    "it is alone": (pod(labels=GANG), picture(gang(minMember=1))),
    "a sibling runs": (pod(labels=GANG), picture(gang(), pods=(pod("b", labels=GANG, nodeName="n1"),))),
    "a sibling has no group": (pod(labels=GANG), picture(gang(), pods=(sibling(group=None),))),
    "more siblings than are needed": (
        pod(labels=GANG),
        picture(gang(), pods=(sibling(), {**sibling(), "metadata": {**sibling()["metadata"], "name": "c"}})),
    ),
    "its siblings must be bound first": (pod(labels=GANG, topologySpreadConstraints=[SPREAD]), picture(gang())),
    "it wants siblings near": (pod(labels=GANG, affinity=NEAR), picture(gang())),
}


@pytest.mark.parametrize(("manifest", "seen"), NOT.values(), ids=NOT)
def test_a_member_stays_by_itself_where(manifest: Manifest, seen: StillPicture) -> None:
    assert "schedulingGroup" not in spec_of(manifest, seen)


def test_a_member_keeps_the_group_that_another_program_gave_it() -> None:
    assert spec_of(pod(labels=GANG, **THEIRS), picture(gang()))["schedulingGroup"] == {"podGroupName": "theirs"}


@pytest.mark.parametrize(("atomic", "joins"), [("true", True), ("", False)])
def test_the_first_pod_of_a_job_waits_for_its_job_if_it_may_join(atomic: str, *, joins: bool) -> None:
    """A controller creates pods some milliseconds after the workload, and their number decides."""
    template = {"metadata": {"labels": {"phalanx.dev/workload": "Job"}}, "spec": {"containers": []}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": "1", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    manifest = pod("train-0-x", labels={"phalanx.dev/workload": "Job"})
    manifest["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}
    ]
    settings = ours(atomic_release=atomic) if atomic else ours()
    seen = StillPicture([settings], listed=(*SCHEDULERS, *EVIDENCE), now=[job])
    assert ("schedulingGroup" in spec_of(manifest, seen)) is joins


def stripping() -> StillPicture:
    return StillPicture([ours(strip="native"), gang()], listed=(*SCHEDULERS, *EVIDENCE))


@pytest.mark.parametrize(("labels", "gated"), [({}, False), (GANG, True)], ids=["no gang", "a gang of ours"])
def test_where_groups_are_stripped_a_pod_loses_its_own(labels: dict[str, str], *, gated: bool) -> None:
    spec = spec_of(pod(labels=labels, **THEIRS), stripping())
    assert "schedulingGroup" not in spec
    assert bool(spec.get("schedulingGates")) is gated


def test_a_group_of_phalanx_is_not_stripped() -> None:
    """The API server may call the webhook twice (reinvocationPolicy)."""
    assert spec_of(pod(labels=GANG, schedulingGroup=GROUP), stripping())["schedulingGroup"] == GROUP


def test_a_pod_with_a_group_waits_until_it_is_known_whether_groups_are_stripped() -> None:
    unknown = StillPicture([gang()], synced=False, listed=("pods",))
    with pytest.raises(Unavailable, match="schedulingGroup"):
        spec_of(pod(**THEIRS), unknown)
    assert "schedulingGates" not in spec_of(pod(), unknown)


@pytest.mark.parametrize(
    ("settings", "gated"), [(ours(), False), (ours(adopt="native"), True)], ids=["left", "adopted"]
)
def test_a_pod_that_only_names_a_group_of_kubernetes(settings: Manifest, *, gated: bool) -> None:
    seen = StillPicture([settings], listed=(*SCHEDULERS, *EVIDENCE))
    spec = spec_of(pod(**THEIRS), seen)
    assert bool(spec.get("schedulingGates")) is gated
    assert spec["schedulingGroup"] == {"podGroupName": "theirs"}
