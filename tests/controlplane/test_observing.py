"""The observer of the system tests reports each violation that it is for, and nothing on a correct run."""

import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.recording import WatchEvent
from kube.keys import GANG, GATE, PLAN, RELEASED

sys.path.insert(0, str(Path(__file__).parents[1] / "system"))
from observer import EVERY_POD, Invariant, Violation, forced_by_kubectl, forced_by_request, requests, violations

Object = dict[str, Any]
ALLOWED = 4.0
"""Seconds that a gang may be bound in part here."""


class Story:
    """Watch events of a cluster with the nodes n0 and n1, of 8 cpu and 10 pods each."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[WatchEvent] = []
        self._pods: dict[str, Object] = {}
        for name in ("n0", "n1"):
            node = {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "8", "pods": "10"}}}
            self._tell("ADDED", node)

    def _tell(self, kind: str, manifest: Object) -> None:
        self.events.append(WatchEvent(kind, manifest, self.now))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def pod(
        self, name: str, *, cpu: int = 4, gated: bool = True, node: str = "", namespace: str = "default", **labels: str
    ) -> None:
        """A pod is created, by default a member of the gang llm."""
        metadata = {"namespace": namespace, "name": name, "labels": labels or {GANG: "llm"}, "annotations": {}}
        spec: Object = {"containers": [{"resources": {"requests": {"cpu": str(cpu)}}}]}
        spec |= {"schedulingGates": [{"name": GATE}]} if gated else {}
        spec |= {"nodeName": node} if node else {}
        self._pods[name] = {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        self._tell("ADDED", self._pods[name])

    def change(self, name: str, *, spec: Object | None = None, status: Object | None = None, **metadata: Any) -> None:
        """A pod changes."""
        old = self._pods[name]
        annotations = old["metadata"]["annotations"] | metadata.pop("annotations", {})
        self._pods[name] = {
            **old,
            "metadata": {**old["metadata"], **metadata, "annotations": annotations},
            "spec": {**old["spec"], **(spec or {})},
            "status": {**old["status"], **(status or {})},
        }
        self._tell("MODIFIED", self._pods[name])

    def plan(self, *names: str, plan: str = "p1") -> None:
        """A plan nominates pods."""
        for name in names:
            self.change(name, annotations={PLAN: plan})

    def gang(self, minimum: int, plan: str = "p1", name: str = "llm") -> None:
        """A Gang records a plan."""
        metadata = {"namespace": "default", "name": name}
        spec, status = {"minMember": minimum}, {"planId": plan}
        self._tell("MODIFIED", {"kind": "Gang", "metadata": metadata, "spec": spec, "status": status})

    def release(self, *names: str) -> None:
        """Pods lose their gate, as the controller takes it."""
        for name in names:
            self.change(name, spec={"schedulingGates": []}, annotations={RELEASED: "now"})

    def bind(self, name: str, node: str) -> None:
        """The scheduler binds a pod."""
        self.change(name, spec={"nodeName": node})

    def delete(self, name: str, *, graceful: bool = True) -> None:
        """Delete a pod; with `graceful`, it terminates first."""
        if graceful:
            self.change(name, deletionTimestamp="2026-01-01T00:00:00Z")
        self._tell("DELETED", self._pods.pop(name))

    def started(self) -> None:
        """A gang of two starts as it should."""
        self.pod("a")
        self.pod("b")
        self.gang(2)
        self.plan("a", "b")
        self.release("a", "b")
        self.bind("a", "n0")
        self.wait(1)
        self.bind("b", "n1")

    def found(self, *forced: str) -> list[Invariant]:
        """The violated invariants."""
        return [each.invariant for each in self.seen(*forced)]

    def seen(self, *forced: str) -> list[Violation]:
        """The violations."""
        return list(violations(self.events, ALLOWED, self.now, forced))


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_gang_that_starts_runs_and_goes_violates_nothing(story: Story) -> None:
    story.started()
    story.wait(100)
    story.delete("a")
    story.wait(100)
    story.delete("b")
    assert story.found() == []


@pytest.mark.parametrize("ends", [True, False], ids=["bound later", "never bound"])
@pytest.mark.parametrize("recorded", [True, False], ids=["plan recorded in the Gang", "plan known from pods"])
def test_a_gang_bound_in_part_for_too_long_is_reported_once(story: Story, *, ends: bool, recorded: bool) -> None:
    story.pod("a")
    story.pod("b")
    if recorded:
        story.gang(2)
    story.plan("a", "b")
    story.release("a", "b")
    story.bind("a", "n0")
    story.wait(ALLOWED + 0.5)
    if ends:
        story.bind("b", "n1")
    (violation,) = story.seen()
    assert violation.invariant is Invariant.PARTLY_BOUND
    assert (violation.name, violation.detail) == ("default/llm" if recorded else "p1", "4.5 s, and 4 s are allowed")


def test_a_gang_that_another_plan_takes_up_is_still_the_same_gang(story: Story) -> None:
    story.pod("a")
    story.pod("b")
    story.gang(2)
    story.plan("a", "b")
    story.release("a")
    story.bind("a", "n0")
    story.wait(3)
    story.gang(2, "p2")
    story.plan("b", plan="p2")
    story.wait(3)
    story.release("b")
    story.bind("b", "n1")
    assert story.found() == [Invariant.PARTLY_BOUND]


def test_members_beyond_the_minimum_may_wait(story: Story) -> None:
    story.started()
    story.pod("c")
    story.plan("c")
    story.release("c")
    story.wait(100)
    assert story.found() == []


def test_a_withdrawn_gang_and_one_whose_other_pods_do_not_exist_yet_are_not_reported(story: Story) -> None:
    story.pod("a")
    story.gang(2)
    story.plan("a")
    story.release("a")
    story.bind("a", "n0")
    story.wait(100)
    story.pod("b")
    story.plan("b")
    story.wait(3)
    story.delete("a")
    story.wait(100)
    assert story.found() == []


def test_a_gang_that_was_whole_may_wait_for_the_replacement_of_a_member(story: Story) -> None:
    story.started()
    story.delete("b")
    story.pod("b2")
    story.gang(2, "p2")
    story.plan("b2", plan="p2")
    story.wait(100)
    assert story.found() == []


def test_a_member_bound_to_a_full_node_is_reported(story: Story) -> None:
    story.pod("other", cpu=6, gated=False, app="other")
    story.bind("other", "n1")
    story.started()
    (violation,) = story.seen()
    assert violation.invariant is Invariant.OVERCOMMITTED
    assert (violation.name, violation.detail) == ("n1", "cpu: 10000 requested with default/b, 8000 allocatable")


def test_pods_that_have_ended_or_gone_take_no_capacity(story: Story) -> None:
    story.pod("done", cpu=8, gated=False, app="other")
    story.bind("done", "n1")
    story.change("done", status={"phase": "Succeeded"})
    story.pod("gone", cpu=8, gated=False, app="other")
    story.bind("gone", "n1")
    story.delete("gone")
    story.started()
    assert story.found() == []


@pytest.mark.parametrize("gated", [True, False], ids=["not released", "never gated"])
def test_a_member_that_we_have_not_gated_and_released_is_reported(story: Story, *, gated: bool) -> None:
    story.pod("a", gated=gated)
    story.change("a", spec={"schedulingGates": []})
    story.bind("a", "n0")
    assert story.found() == [Invariant.NOT_RELEASED]


def test_pods_of_no_gang_and_pods_that_are_created_on_a_node_need_no_release(story: Story) -> None:
    story.pod("plain", gated=False, app="other")
    story.bind("plain", "n0")
    story.pod("placed", gated=False, node="n1")
    assert story.found() == []


def test_a_running_pod_that_disappears_is_reported(story: Story) -> None:
    story.started()
    story.delete("a", graceful=False)
    assert story.found() == [Invariant.VANISHED]
    assert story.found("a") == story.found(EVERY_POD) == []


def test_pods_that_go_at_once_by_the_rules_of_kubernetes_are_not_reported(story: Story) -> None:
    """Kubernetes deletes a pod at once if it has no node, has ended, or has a grace period of 0."""
    story.pod("gated")
    story.delete("gated", graceful=False)
    story.started()
    story.change("a", status={"phase": "Failed"})
    story.delete("a", graceful=False)
    story.change("b", spec={"terminationGracePeriodSeconds": 0})
    story.delete("b", graceful=False)
    assert story.found() == []


def test_a_placeholder_is_no_member(story: Story) -> None:
    story.pod("a")
    story.pod("held", namespace="phalanx-system")
    story.gang(2)
    story.plan("a", "held")
    story.release("a")
    story.bind("a", "n0")
    story.wait(100)
    assert story.found() == []


def test_pods_from_before_the_recording_are_not_judged(story: Story) -> None:
    story.started()
    story.delete("a", graceful=False)
    first = next(number for number, each in enumerate(story.events) if each.name == "a")
    del story.events[first]
    assert story.found() == []


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        (
            {"containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m"}}}]},
            1500,
        ),
        ({"initContainers": [{"resources": {"requests": {"cpu": "3"}}}], "containers": [{}]}, 3000),
        (
            {
                "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    {"resources": {"requests": {"cpu": "3"}}},
                ],
                "containers": [{"resources": {"requests": {"cpu": "2"}}}],
                "overhead": {"cpu": "250m"},
            },
            4250,
        ),
    ],
    ids=["containers", "an init container", "a sidecar, an init container and overhead"],
)
def test_what_a_pod_requests(spec: Object, cpu: int) -> None:
    assert requests({"spec": spec}) == {"cpu": cpu, "pods": 1}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("delete", "pod", "a", "b", "--force", "--grace-period=0"), {"a", "b"}),
        (("-n", "x", "delete", "pod/a", "--now"), {"a"}),
        (("delete", "pods", "--all", "--force"), {EVERY_POD}),
        (("delete", "pod", "a"), set()),
        (("get", "pod", "a"), set()),
    ],
)
def test_which_pods_kubectl_deletes_at_once(arguments: tuple[str, ...], names: set[str]) -> None:
    assert forced_by_kubectl(arguments) == names


def test_which_pods_a_request_deletes_at_once() -> None:
    now = {"kind": "DeleteOptions", "gracePeriodSeconds": 0}
    assert forced_by_request("DELETE", "/api/v1/namespaces/default/pods/a?x=y", now) == {"a"}
    assert forced_by_request("DELETE", "/api/v1/namespaces/default/pods", now) == {EVERY_POD}
    assert forced_by_request("DELETE", "/api/v1/namespaces/default/pods/a", None) == set()
    assert forced_by_request("GET", "/api/v1/namespaces/default/pods/a", now) == set()
