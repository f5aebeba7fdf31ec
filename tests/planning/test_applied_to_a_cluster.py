"""Documents that contain requests only, planned on an existing cluster."""

from typing import Any

import device_scenes
import scenes

from cluster.capturing import snapshot_of
from gangs.sources import Sources
from planning.dry_run import DryRun, Live, dry_run
from planning.files.objects import read_objects


def live(*parts: Any) -> Live:
    """A cluster that holds these objects."""
    objects = read_objects(scenes.documents(*parts))
    assert not objects.mistakes
    pods = objects.pods()
    devices = objects.devices() if objects.device_classes() else None
    snapshot = snapshot_of(objects.nodes(), pods, priority_classes=objects.priority_classes(), devices=devices)
    return Live(snapshot, Sources(pods, objects.manifests))


def outcomes(run: DryRun) -> dict[str, str]:
    """Gang by gang: nodes, or the outcome."""
    return {each.key.name: ",".join(a.node for a in each.assignments) or each.outcome.value for each in run.decisions}


CLUSTER = [scenes.topology(), *scenes.nodes("s/b: node-0 node-1")]


def test_only_what_the_documents_ask_for_is_planned() -> None:
    there = live(CLUSTER, scenes.gang("other", minMember=2), scenes.members(2, "other"))
    run = dry_run(scenes.documents(scenes.gang(minMember=2), scenes.members(2)), live=there)
    assert outcomes(run) == {"llm": "node-0,node-1"}


def test_the_cluster_in_the_documents_is_left_out_and_named() -> None:
    documents = scenes.documents(
        scenes.nodes("s/b: big-0 big-1 big-2"),
        scenes.running("ghost", "node-0"),
        scenes.topology(name="other"),
        scenes.gang(minMember=2),
        scenes.members(2),
    )
    run = dry_run(documents, live=live(CLUSTER))
    assert outcomes(run) == {"llm": "node-0,node-1"}
    assert run.notes == (
        "left out with the live cluster: 3 Node",
        "left out with the live cluster: 1 Pod",
        "left out with the live cluster: 1 Topology",
    )


def test_a_pod_that_is_there_already_stays_as_it_is() -> None:
    bound = scenes.running("llm-0", "node-1", gang="llm")
    run = dry_run(scenes.documents(scenes.members(2)), live=live(CLUSTER, scenes.gang(minMember=2), bound))
    (decision,) = run.decisions
    assert [(each.node, each.held) for each in decision.assignments] == [("node-1", True), ("node-0", False)]


def test_a_group_is_changed_by_its_document_and_keeps_its_age() -> None:
    old = scenes.gang(minMember=2)
    old["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "1"}
    run = dry_run(scenes.documents(scenes.gang(minMember=3)), live=live(CLUSTER, old, scenes.members(2)))
    (decision,) = run.decisions
    assert decision.message == "waits for 1 more pod: 2 of 3 exist"
    assert decision.gang is not None
    assert decision.gang.created == "2026-01-01T00:00:00Z"


def test_a_job_in_a_document_makes_its_pods() -> None:
    container = {"name": "m", "image": "i", "resources": {"requests": {"cpu": 8}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    run = dry_run(scenes.documents(job), live=live(CLUSTER))
    assert outcomes(run) == {"train": "node-0,node-1"}


def test_faults_of_others_are_not_the_documents_mistakes() -> None:
    there = live(CLUSTER, scenes.gang("bad", minMember=0))
    run = dry_run(scenes.documents(scenes.gang(minMember=1), scenes.members(1)), live=there)
    assert outcomes(run) == {"llm": "node-0"}
    assert not run.mistakes


def test_claims_and_templates_in_the_documents_count_with_the_devices_of_the_cluster() -> None:
    there = live(CLUSTER, device_scenes.device_class(), device_scenes.resource_slice("node-1", 2))
    container = {"name": "m", "image": "i", "resources": {"requests": {"cpu": 1}, "claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "resourceClaims": claims}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    run = dry_run(scenes.documents(job, device_scenes.template()), live=there)
    assert outcomes(run) == {"train": "node-1,node-1"}
