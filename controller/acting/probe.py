"""Knowing that the scheduler knows: a tiny pod that can never be scheduled, created after the nominations.

The scheduler works through its events in order. Once it has written the probe's PodScheduled condition it has seen
every nomination written before the probe was created; the echo of our own watch proves nothing of the kind.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controller.writes.writer import Writer
from kube.keys import STOCK_SCHEDULER, SYSTEM_NAMESPACE
from kube.objects import Pod

PROBE = "phalanx.dev/probe"
PROBE_PRIORITY_CLASS = "phalanx-probe"
"""A class that neither waits behind other pods nor preempts any; it comes with the manifests."""

PODS_PATH = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
"""Where the pods are that we make ourselves."""


class Probes:
    """At most one probe at a time. What it knows is derived: a restarted controller simply probes again."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._wanted: set[str] = set()
        self._covered: set[str] = set()
        self._seen: set[str] = set()
        self._probe = ""
        self._over: list[Pod] = []
        """Probes that nobody waits for any more."""

    def seen(self, plan_id: str) -> bool:
        """Whether the scheduler is known to have seen this plan's nominations; asks for a probe if not."""
        if plan_id in self._seen:
            return True
        self.want(plan_id)
        return False

    def want(self, plan_id: str) -> None:
        """Ask for a probe: all that it is to come after has been answered by the API server."""
        if plan_id not in self._covered | self._seen:
            self._wanted.add(plan_id)

    def __len__(self) -> int:
        """How many plans are known."""
        return len(self._wanted | self._covered | self._seen)

    def keep(self, plan_ids: Collection[str]) -> None:
        """Forget all plans but these: they are in force no more."""
        for plans in (self._wanted, self._covered, self._seen):
            plans.intersection_update(plan_ids)

    def forget(self, plan_id: str) -> None:
        """Drop what is known of a plan: its nominations have changed."""
        for plans in (self._wanted, self._covered, self._seen):
            plans.discard(plan_id)

    def read(self, pods: Iterable[Pod]) -> None:
        """Read the answer of the probe under way, and sweep away what is left of others.

        :param pods: those of our own namespace, of the picture on which the round decides. What the scheduler wrote
            before it tried the probe is in that picture, too: it came through the same watch, before the answer.
        """
        probes = [pod for pod in pods if is_probe(pod)]
        own = next((p for p in probes if p.metadata.uid == self._probe), None)
        answered = own is not None and tried_probe(own)
        if answered:
            self._seen |= self._covered
        elif own is None:
            self._wanted |= self._covered  # somebody deleted it before it was answered
        if answered or own is None:
            self._covered.clear()
            self._probe = ""
        self._over = [probe for probe in probes if probe.metadata.uid != self._probe]

    def send(self) -> None:
        """Send the next probe, if one is wanted and none is under way; delete those that are over."""
        if self._wanted and not self._covered:
            self._send()
        over, self._over = self._over, []
        for probe in over:
            self._writer.delete(f"{PODS_PATH}/{probe.metadata.name}", probe.metadata.uid)

    def _send(self) -> None:
        written = self._writer.create(
            PODS_PATH,
            never_run(
                {"generateName": "probe-", "labels": {PROBE: "true"}}, {}, priorityClassName=PROBE_PRIORITY_CLASS
            ),
        )
        if written.done:
            self._probe = written.uid
            self._covered, self._wanted = self._wanted, set()


def is_probe(pod: Pod) -> bool:
    """Whether the pod is a probe, this controller's or another's."""
    return PROBE in pod.metadata.labels


def tried_probe(pod: Pod) -> bool:
    """Whether the scheduler has tried it."""
    return any(condition.type == "PodScheduled" for condition in pod.status.conditions)


def never_run(metadata: Mapping[str, Any], resources: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod of ours that no node takes, whatever becomes of it: the API server lets us make no other
    (`manifests/system/guard.yaml`).
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": dict(metadata),
        "spec": {
            "schedulerName": STOCK_SCHEDULER,
            "nodeSelector": {PROBE: "never"},
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "never-run",
                    "image": "pause",
                    "resources": dict(resources),
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
            **spec,
        },
    }
