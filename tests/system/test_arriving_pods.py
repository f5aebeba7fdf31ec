"""The CREATE of a pod on the real API server: a warning about its gang's plan, and a pin to its siblings' domain."""

import json
from typing import Any

import pytest
import yaml
from system import SPINE, Phalanx, node, numbered, pod, pod_group

from controlplane.recording import WatchEvent

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

MUST_SPINE = ("SpineLayer", "MustGather")
PINNED = "phalanx.dev/pinned-domain"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def dry_run(phalanx: Phalanx, manifest: dict[str, Any]) -> str:
    """Return the warnings that kubectl prints for a dry run of the pod."""
    answer = phalanx.cluster.kubectl_result("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert answer.returncode == 0, answer.stderr
    return answer.stderr


def tried(phalanx: Phalanx, manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod as it would come in now."""
    tried_only = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    found: dict[str, Any] = json.loads(phalanx.cluster.kubectl(*tried_only, stdin=yaml.safe_dump(manifest)))
    return found


def gated(event: WatchEvent) -> bool:
    """Return whether the pod still has its gate."""
    return any(each["name"] == "phalanx.dev/gang" for each in event.object["spec"].get("schedulingGates", ()))


def requirement(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The terms of a pod's required node affinity."""
    required = manifest["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
    terms: list[dict[str, Any]] = required.get("nodeSelectorTerms", [])
    return terms


def replica_set(name: str, pods: int) -> list[dict[str, Any]]:
    """A Gang that has to share a spine, and a ReplicaSet of its pods of 8 cpu."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "8"}}}
    labels = {"app": name, "phalanx.dev/gang": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    metadata = {"name": name, "namespace": "default"}
    gang = {"minMember": pods, "required": SPINE}
    replicas = {"replicas": pods, "selector": {"matchLabels": {"app": name}}, "template": template}
    return [
        {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": gang},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": replicas},
    ]


def test_kubectl_says_at_each_pod_what_becomes_of_its_gang(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    *first, last = [pod(name, "told") for name in numbered("told", 4)]
    phalanx.submit(pod_group("told", 4, MUST_SPINE))
    phalanx.wait(lambda: "3 more pods: 1 of 4 exist" in dry_run(phalanx, first[0]), "the reason to wait")
    assert "gang default/told: waits for" in phalanx.apply(*first)
    plan = "Warning: gang default/told: 4 pods fit in spine-1: node-5..8, proven optimal"
    phalanx.wait(lambda: plan in dry_run(phalanx, last), "the plan")
    assert [each["metadata"]["name"] for each in phalanx.pods()] == numbered("told", 3)
    assert not any(phalanx.nodes_of(numbered("told", 4)).values())
    phalanx.submit(last)
    assert set(phalanx.await_bound(numbered("told", 4)).values()) == {f"node-{i}" for i in (5, 6, 7, 8)}


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(False, id="a plain pod"),
        pytest.param(True, marks=pytest.mark.long, id="a pod with a required affinity of its own"),
    ],
)
def test_a_replacement_carries_its_siblings_domain_while_it_is_gated(phalanx: Phalanx, *, own: bool) -> None:
    phalanx.guide_nodes()
    terms = [{"matchExpressions": [{"key": SPINE, "operator": "Exists"}]}]
    wish: dict[str, Any] = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}} if own else {}
    stem = "own" if own else "team"
    team = numbered(stem, 4)
    phalanx.submit(pod_group(stem, 4, MUST_SPINE), *(pod(name, stem, **wish) for name in team))
    first = phalanx.await_bound(team)
    assert all(PINNED not in each["metadata"]["annotations"] for each in phalanx.pods())
    phalanx.cluster.kubectl("delete", "pod", team[2], "--force", "--grace-period=0")
    phalanx.await_phase(stem, "Waiting")
    manifest = pod(f"{stem}-new", stem, **wish)
    phalanx.wait(lambda: PINNED in tried(phalanx, manifest)["metadata"].get("annotations", {}), "the webhook to see it")
    with phalanx.record() as recorder:
        phalanx.submit(manifest)
        events = recorder.wait_for(lambda seen: any(e.name == f"{stem}-new" and not gated(e) for e in seen))
    arrived = next(event for event in events if event.name == f"{stem}-new")
    assert gated(arrived)
    assert arrived.object["metadata"]["annotations"][PINNED] == f"{SPINE}=spine-1"
    if own:
        assert requirement(arrived.object) == terms
        assert arrived.object["spec"]["nodeSelector"] == {SPINE: "spine-1"}
    else:
        siblings = [{"key": SPINE, "operator": "In", "values": ["spine-1"]}]
        assert requirement(arrived.object) == [{"matchExpressions": siblings}]
    phalanx.await_bound([f"{stem}-new"])
    assert phalanx.nodes_of([f"{stem}-new"])[f"{stem}-new"] == first[team[2]]
    text = yaml.safe_dump(manifest)
    again = phalanx.cluster.kubectl_result("apply", "-f", "-", stdin=text)
    assert (again.returncode, again.stdout) == (0, f"pod/{stem}-new unchanged\n"), again.stderr
    assert phalanx.cluster.kubectl_result("diff", "-f", "-", stdin=text).stdout == ""


def spine_nodes(first: int, spine: str, count: int) -> list[dict[str, Any]]:
    """Nodes of one spine, numbered from `first`."""
    return [node(f"node-{number}", spine, f"{spine}-block") for number in range(first, first + count)]


def test_a_replacement_that_finds_its_room_taken_waits_for_it_and_says_where(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("full", 4, MUST_SPINE), *(pod(name, "full") for name in numbered("full", 4)))
    nodes = phalanx.await_bound(numbered("full", 4))
    phalanx.cluster.kubectl("delete", "pod", "full-0", "--force", "--grace-period=0")
    phalanx.await_phase("full", "Waiting")
    phalanx.submit(pod("squatter", nodeName=nodes["full-0"]))
    phalanx.submit(pod("full-new", "full"))
    phalanx.wait(lambda: "spine-1 fits" in phalanx.status("full").get("message", ""), "the reason")
    assert not phalanx.nodes_of(["full-new"])["full-new"]
    phalanx.cluster.kubectl("delete", "pod", "squatter", "--force", "--grace-period=0")
    assert phalanx.await_bound(["full-new"])["full-new"] == nodes["full-0"]


def test_members_whose_siblings_all_go_are_set_free_and_planned_elsewhere(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(*replica_set("moved", 4))

    def alive() -> dict[str, dict[str, Any]]:
        found = (each["metadata"] for each in phalanx.pods())
        return {each["name"]: each for each in found if "deletionTimestamp" not in each}

    def nodes() -> set[str]:
        return {each for each in phalanx.nodes_of(list(alive())).values() if each}

    def replaced_and_tied() -> bool:
        """Whether the first one's replacement is tied: not, if the webhook had not yet seen its siblings bound."""
        newcomers = {name: it.get("annotations", {}) for name, it in alive().items() if name not in (first, *others)}
        for name in (name for name, annotations in newcomers.items() if PINNED not in annotations):
            phalanx.cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")
        return any(PINNED in annotations for annotations in newcomers.values())

    phalanx.wait(lambda: len(nodes()) == 4, "the pods to be bound")
    before, (first, *others) = nodes(), alive()
    with phalanx.record() as recorder:
        phalanx.cluster.kubectl("cordon", phalanx.nodes_of([first])[first])
        phalanx.cluster.kubectl("delete", "pod", first, "--force", "--grace-period=0")
        phalanx.wait(replaced_and_tied, "a replacement that is tied to its siblings")
        phalanx.cluster.kubectl("cordon", *sorted(before))
        phalanx.cluster.kubectl("delete", "pod", *others, "--force", "--grace-period=0")
        phalanx.wait(lambda: len(nodes()) == 4 and not nodes() & before, "the pods to be bound elsewhere")
        tied = {e.name for e in recorder.events if PINNED in e.object["metadata"].get("annotations", {})}
    assert tied
    assert not tied & set(alive())
    freed = phalanx.cluster.kubectl("get", "events", "--field-selector", "reason=MemberSetFree", "-o", "json")
    assert {each["involvedObject"]["name"] for each in json.loads(freed)["items"]} == tied


def test_a_gated_member_cannot_be_taken_out_of_its_gang_but_let_go(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("loyal", 4, MUST_SPINE), *(pod(name, "loyal") for name in numbered("loyal", 2)))
    label = "pod-group.scheduling.sigs.k8s.io"
    phalanx.cluster.kubectl("label", "pod", "loyal-0", "team=a")
    refused = phalanx.cluster.kubectl_result("label", "pod", "loyal-0", f"{label}-")
    assert f"metadata.labels[{label}]: the pod is held by the gate phalanx.dev/gang" in refused.stderr
    assert "take the gate away in the same change to let it start alone" in refused.stderr
    labels = {label: None, "phalanx.dev/gang": None, "phalanx.dev/dialect": None}
    alone = json.dumps({"metadata": {"labels": labels}, "spec": {"schedulingGates": None}})
    phalanx.cluster.kubectl("patch", "pod", "loyal-0", "--type=merge", "-p", alone)
    phalanx.await_bound(["loyal-0"])
    phalanx.cluster.kubectl("delete", "pod", "loyal-1", "--wait=false")
    phalanx.wait(lambda: [each["metadata"]["name"] for each in phalanx.pods()] == ["loyal-0"], "the other one to go")
