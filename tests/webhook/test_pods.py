"""Pods at admission: which pods are gated, and what else admission changes."""

from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import EVIDENCE, SCHEDULERS, Manifest, StillPicture, pod, pod_group

from gangs.dialects.claims import dialect_of
from gangs.manifests import pod_of
from gangs.model import Gang
from webhook.admission import arriving_pods
from webhook.admission.reviews import Admitted, Decision, Refused
from webhook.errors import Unavailable

GROUP = "pod-group.scheduling.sigs.k8s.io"
GATE = {"name": "phalanx.dev/gang"}
EMPTY = StillPicture(synced=False, listed=SCHEDULERS)
JOB_OWNER = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}]


def unforetold(_gang: Gang, _whole: object) -> tuple[str, ...]:
    """No plan is known."""
    return ()


def created(manifest: Manifest, picture: StillPicture) -> Decision:
    """Return the webhook's decision on the CREATE of a pod when no forecast is available."""
    return arriving_pods.created(manifest, picture, unforetold)


def admitted(manifest: Manifest, picture: StillPicture = EMPTY) -> Manifest:
    """Return the pod as it is stored after its admission."""
    decision = created(manifest, picture)
    assert isinstance(decision, Admitted), decision
    result: Manifest = jsonpatch.JsonPatch(decision.patch).apply(manifest)
    return result


@pytest.mark.parametrize(
    ("manifest", "labels"),
    [
        (pod(labels={GROUP: "llm"}), {GROUP: "llm", "phalanx.dev/gang": "llm", "phalanx.dev/dialect": "koordinator"}),
        (pod(labels={"phalanx.dev/gang": "llm"}), {"phalanx.dev/gang": "llm", "phalanx.dev/dialect": "phalanx"}),
        (
            pod(
                annotations={
                    "gang.scheduling.koordinator.sh/name": "llm",
                    "gang.scheduling.koordinator.sh/min-available": "2",
                }
            ),
            {"phalanx.dev/gang": "llm", "phalanx.dev/dialect": "koordinator"},
        ),
    ],
    ids=["PodGroup", "our own label", "annotations alone"],
)
def test_a_pod_that_names_a_gang_is_gated_and_labelled(manifest: Manifest, labels: dict[str, str]) -> None:
    after = admitted(manifest)
    assert after["spec"]["schedulingGates"] == [GATE]
    assert after["metadata"]["labels"] == labels


def test_a_pod_of_a_job_that_is_a_gang_is_gated_under_the_jobs_name() -> None:
    manifest = pod(labels={"phalanx.dev/workload": "Job"})
    manifest["metadata"]["ownerReferences"] = JOB_OWNER
    assert admitted(manifest)["metadata"]["labels"]["phalanx.dev/gang"] == "train"


@pytest.mark.parametrize(
    "manifest",
    [
        pod(),
        pod(labels={"app": "web"}, schedulerName="koord-scheduler"),
        pod(labels={GROUP: "llm"}, nodeName="node-1"),
        pod(labels={GROUP: "llm"}, nodeName="node-1", schedulerName="koord-scheduler"),
    ],
    ids=["no gang", "no gang, foreign scheduler", "has a node", "has a node, foreign scheduler"],
)
def test_any_other_pod_comes_in_as_it_is(manifest: Manifest) -> None:
    assert created(manifest, EMPTY) == Admitted()


@pytest.mark.parametrize(
    ("written", "becomes"),
    [("koord-scheduler", "default-scheduler"), ("default-scheduler", "default-scheduler")],
)
def test_only_a_scheduler_that_stands_for_the_stock_one_is_replaced(written: str, becomes: str) -> None:
    assert admitted(pod(labels={GROUP: "llm"}, schedulerName=written))["spec"]["schedulerName"] == becomes


def test_other_gates_and_labels_stay() -> None:
    manifest = pod(labels={GROUP: "llm", "phalanx.dev/gang": "mine"}, schedulingGates=[{"name": "other/gate"}])
    after = admitted(manifest)
    assert after["spec"]["schedulingGates"] == [{"name": "other/gate"}, GATE]
    assert after["metadata"]["labels"]["phalanx.dev/gang"] == "mine"


def test_a_gang_name_that_cannot_be_a_label_is_still_gated() -> None:
    annotations = {"gang.scheduling.koordinator.sh/name": "a b", "gang.scheduling.koordinator.sh/min-available": "2"}
    decision = created(pod(annotations=annotations), EMPTY)
    if isinstance(decision, Admitted):
        paths = [each["path"] for each in decision.patch]
        assert "/spec/schedulingGates" in paths
        assert "/metadata/labels/phalanx.dev~1gang" not in paths


def test_a_pod_with_a_wrong_rank_is_refused_with_field_and_remedy() -> None:
    manifest = pod(
        labels={GROUP: "llm"}, annotations={"gang.scheduling.koordinator.sh/network-topology-index": "first"}
    )
    decision = created(manifest, StillPicture([pod_group()]))
    assert isinstance(decision, Refused)
    assert "Pod default/p0: metadata.annotations[gang.scheduling.koordinator.sh/network-topology-index]" in (
        decision.message
    )


def test_a_pod_whose_group_is_missing_comes_in_with_a_warning() -> None:
    decision = created(pod(labels={GROUP: "llm"}), StillPicture())
    assert isinstance(decision, Admitted)
    assert any("PodGroup default/llm" in each for each in decision.warnings)


LABELS = st.dictionaries(
    st.sampled_from([GROUP, "phalanx.dev/gang", "phalanx.dev/dialect", f"{GROUP}/name", "app"]),
    st.sampled_from(["a", "b", "koordinator", "phalanx"]),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "schedulingGates": st.lists(st.sampled_from([GATE, {"name": "other/gate"}]), max_size=2, unique_by=str),
        "schedulerName": st.sampled_from(["koord-scheduler", "default-scheduler", "mine"]),
        "nodeName": st.sampled_from(["", "node-1"]),
    },
)


@settings(max_examples=100)
@given(labels=st.none() | LABELS, spec=SPECS)
def test_admitting_the_admitted_pod_again_changes_nothing(labels: Any, spec: Any) -> None:
    decision = created(pod(labels=labels, **spec), EMPTY)
    if isinstance(decision, Refused):
        return
    before = pod(labels=labels, **spec)
    after = jsonpatch.JsonPatch(decision.patch).apply(before)
    assert created(after, EMPTY) == Admitted()
    gang = dialect_of(pod_of(before))
    gated = after["spec"].get("schedulingGates", []).count(GATE)
    if gang is not None and not spec.get("nodeName"):
        assert gated == 1
        named = dialect_of(pod_of(after))
        assert named is not None
        assert named[1] == gang[1]
    else:
        assert after == before


def test_an_update_gets_the_old_scheduler_back() -> None:
    old = pod(labels={GROUP: "llm"})
    decision = arriving_pods.updated(pod(labels={GROUP: "llm"}, schedulerName="koord-scheduler"), old, EMPTY)
    assert decision == Admitted(({"op": "add", "path": "/spec/schedulerName", "value": "default-scheduler"},))


@pytest.mark.parametrize("labels", [{}, {"app": "web"}])
def test_an_update_of_a_pod_of_no_gang_is_left_alone(labels: dict[str, str]) -> None:
    assert arriving_pods.updated(pod(labels=labels, schedulerName="mine"), pod(labels=labels), EMPTY) == Admitted()


KOORDINATOR = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "koordinator-mutating-webhook-configuration"},
    "webhooks": [{"name": "mpod-create.koordinator.sh"}],
}


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize("spec", [{}, {"schedulerName": "koord-scheduler"}, {"schedulerName": "mine"}])
def test_a_pod_of_a_system_that_runs_here_comes_in_as_it_is_with_a_warning(
    *, synced: bool, spec: dict[str, Any]
) -> None:
    picture = StillPicture([KOORDINATOR], synced=synced, listed=(*EVIDENCE, "pods"))
    decision = created(pod(labels={GROUP: "llm"}, **spec), picture)
    assert isinstance(decision, Admitted)
    assert decision.patch == ()
    assert "is left to Koordinator, which runs in this cluster" in " ".join(decision.warnings)


OF_OTHERS: dict[str, dict[str, dict[str, str]]] = {
    "koordinator": {"labels": {GROUP: "llm"}},
    "kueue": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
    "kai": {"annotations": {"scheduling.run.ai/pod-group": "llm"}},
    "runai": {"annotations": {"kai.scheduler/topology": "network"}},
    "ack": {"labels": {"network-topology-job-name": "llm", f"{GROUP}/name": "llm", f"{GROUP}/min-available": "1"}},
}


@pytest.mark.parametrize("asked", OF_OTHERS.values(), ids=OF_OTHERS)
@pytest.mark.parametrize("listed", [(), EVIDENCE[:1], EVIDENCE[1:], (EVIDENCE[0], "pods")])
def test_a_pod_that_another_system_may_have_waits_until_it_is_known_who_runs_here(
    listed: tuple[str, ...], asked: dict[str, Any]
) -> None:
    """If the pod got a gate now, its gang would belong to Phalanx for good."""
    with pytest.raises(Unavailable, match="which systems run in this cluster"):
        created(pod(**asked), StillPicture(synced=False, listed=listed))
    decision = created(pod(**asked), StillPicture(synced=False, listed=EVIDENCE))
    assert isinstance(decision, Admitted)
    assert decision.patch


def test_a_gang_of_our_own_waits_for_nothing() -> None:
    decision = created(pod(labels={"phalanx.dev/gang": "llm"}), StillPicture(synced=False))
    assert isinstance(decision, Admitted)
    assert decision.patch


def test_a_pod_of_a_system_that_runs_here_waits_until_it_is_known_whether_its_gang_began_with_us() -> None:
    mine = {GROUP: "llm", "phalanx.dev/dialect": "koordinator", "phalanx.dev/gang": "llm"}
    begun, arriving = pod("first", labels=mine), pod(labels={GROUP: "llm"})
    with pytest.raises(Unavailable, match="which pods there are"):
        created(arriving, StillPicture([KOORDINATOR], synced=False, listed=EVIDENCE))
    decision = created(arriving, StillPicture([KOORDINATOR], pods=[begun], synced=False, listed=(*EVIDENCE, "pods")))
    assert isinstance(decision, Admitted)
    assert decision.patch


def test_the_scheduler_of_such_a_pod_is_not_put_back() -> None:
    old = pod(labels={GROUP: "llm"}, schedulerName="default-scheduler")
    new = pod(labels={GROUP: "llm"}, schedulerName="koord-scheduler")
    assert arriving_pods.updated(new, old, StillPicture([KOORDINATOR])) == Admitted()
    mine = {GROUP: "llm", "phalanx.dev/dialect": "koordinator", "phalanx.dev/gang": "llm"}
    begun = StillPicture([KOORDINATOR], pods=[pod(labels=mine)])
    assert arriving_pods.updated(new, pod(labels=mine), begun) != Admitted()


def test_the_members_still_missing_of_a_gang_that_has_begun_are_gated() -> None:
    mine = {GROUP: "llm", "phalanx.dev/dialect": "koordinator", "phalanx.dev/gang": "llm"}
    begun = StillPicture([KOORDINATOR, pod_group()], pods=[pod("p1", labels=mine)])
    assert admitted(pod("p2", labels={GROUP: "llm"}), begun)["spec"]["schedulingGates"] == [GATE]


def gated(labels: dict[str, str], *, annotations: dict[str, str] | None = None, gates: Any = (GATE,)) -> Manifest:
    """Return a pod as it is after its admission."""
    return pod(labels=labels, annotations=annotations, schedulingGates=list(gates))


ADMITTED = {GROUP: "llm", "phalanx.dev/gang": "llm", "phalanx.dev/dialect": "koordinator"}
OWN = {"phalanx.dev/gang": "llm", "phalanx.dev/dialect": "phalanx"}


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (ADMITTED, {}, f"metadata.labels[{GROUP}]"),
        (ADMITTED, {**ADMITTED, GROUP: "other"}, f"metadata.labels[{GROUP}]"),
        (ADMITTED, OWN, f"metadata.labels[{GROUP}]"),
        (OWN, {"app": "web"}, "metadata.labels[phalanx.dev/gang]"),
    ],
    ids=["all labels go", "another gang", "another system's gang of the name", "our own label goes"],
)
def test_a_gated_member_stays_in_its_gang(old: dict[str, str], new: dict[str, str], field: str) -> None:
    decision = arriving_pods.kept(gated(new), gated(old), StillPicture())
    assert decision == Refused(
        f"Pod default/p0: {field}: the pod is held by the gate phalanx.dev/gang until its gang default/llm starts, "
        "and would leave the gang; put it back, delete the pod, or take the gate away in the same change to let it "
        "start alone"
    )


def test_a_pod_of_a_job_keeps_the_label_by_which_the_job_has_it() -> None:
    labels = {"phalanx.dev/gang": "train", "phalanx.dev/dialect": "phalanx"}
    old, new = gated({**labels, "phalanx.dev/workload": "Job"}), gated(labels)
    for each in (old, new):
        each["metadata"]["ownerReferences"] = JOB_OWNER
    decision = arriving_pods.kept(new, old, StillPicture())
    assert isinstance(decision, Refused)
    assert decision.message.startswith("Pod default/p0: metadata.labels[phalanx.dev/workload]: the pod is held")


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [
        ("any other label", gated(ADMITTED), gated({**ADMITTED, "app": "web"})),
        ("an annotation", gated(ADMITTED), gated(ADMITTED, annotations={"phalanx.dev/plan": "1"})),
        ("it is released in the same change", gated(ADMITTED), gated({}, gates=())),
        ("it was no member before", gated({"app": "web"}), gated({"app": "other"})),
        ("it becomes a member", gated({"app": "web"}), gated(OWN)),
    ],
)
def test_any_other_change_of_a_gated_pod_passes(what: str, old: Manifest, new: Manifest) -> None:
    assert arriving_pods.kept(new, old, StillPicture()) == Admitted(), what
