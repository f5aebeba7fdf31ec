"""Pods of no gang that name an absent scheduler, where it was chosen that they are handed to the stock one."""

from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from pictures import StillPicture, pod

from webhook.admission.absent_schedulers import created, updated
from webhook.admission.reviews import Admitted
from webhook.errors import Unavailable

FILES = Path(__file__).parents[1] / "faults" / "schedulers"
Manifest = dict[str, Any]
KAI = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "validating-kai-admission"},
}


def after(decision: Any, manifest: Manifest) -> str:
    """The scheduler that the pod has then."""
    assert isinstance(decision, Admitted)
    stored = jsonpatch.JsonPatch(decision.patch).apply(manifest)
    assert "schedulingGates" not in stored["spec"]
    return str(stored["spec"]["schedulerName"])


@pytest.mark.parametrize("file", ["kai-quickstart-pod", "runai-notebook", "lone-koord-pod"])
def test_a_lone_pod_is_handed_over_and_its_user_told(file: str) -> None:
    manifest = yaml.safe_load((FILES / f"{file}.yaml").read_text())
    decision = created(manifest, StillPicture())
    assert after(decision, manifest) == "default-scheduler"
    name = manifest["spec"]["schedulerName"]
    said = f'spec.schedulerName: "{name}" does not run here: default-scheduler starts the pod'
    assert said in " ".join(decision.warnings)


LEFT = {
    "a pod of the stock scheduler": (pod(), StillPicture()),
    "one whose scheduler runs": (pod(schedulerName="kai-scheduler"), StillPicture([KAI])),
    "one of a gang": (pod(labels={"phalanx.dev/gang": "g"}, schedulerName="kai-scheduler"), StillPicture()),
    "one that has its node": (pod(schedulerName="kai-scheduler", nodeName="n1"), StillPicture()),
}


@pytest.mark.parametrize(("manifest", "picture"), LEFT.values(), ids=LEFT)
def test_any_other_comes_in_as_it_is(manifest: Manifest, picture: StillPicture) -> None:
    assert created(manifest, picture) == Admitted()


def test_half_a_gpu_is_not_taken_for_none() -> None:
    manifest = pod(annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler")
    decision = created(manifest, StillPicture())
    assert after(decision, manifest) == "kai-scheduler"
    assert "metadata.annotations[gpu-fraction]: asks for a part of a GPU" in " ".join(decision.warnings)


def test_nobody_is_handed_over_before_it_is_known_who_runs() -> None:
    with pytest.raises(Unavailable, match="whether kai-scheduler runs"):
        created(pod(schedulerName="kai-scheduler"), StillPicture(synced=False))


def test_its_manifest_can_be_applied_again() -> None:
    manifest = pod(schedulerName="kai-scheduler")
    assert after(updated(manifest, pod()), manifest) == "default-scheduler"
    assert updated(manifest, manifest) == Admitted()
