"""The probe: a pod that can never be scheduled, created after the nominations. It shows that the scheduler saw them.

The scheduler processes its events in order. When it has written the probe's PodScheduled condition, it has seen every
nomination that was written before the probe was created. The events of the controller's own watch do not prove that.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controller.writes.writer import Result, Writer, Written
from kube.keys import STOCK_SCHEDULER, SYSTEM_NAMESPACE
from kube.objects import Pod

PROBE = "phalanx.dev/probe"
PLAIN = "true"
"""The value of the label `PROBE` of a probe that references no claim."""
PROBE_PRIORITY_CLASS = "phalanx-probe"
"""A priority class whose pods neither wait behind other pods nor preempt any. The manifests contain it."""

PODS_PATH = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
"""The API path of the pods in Phalanx's own namespace, where it creates probes and placeholders."""


class Probes:
    """Sends at most one probe at a time, and remembers of which plans the scheduler has seen the nominations.

    A probe covers all plans that were waiting when it was created. The memory is not durable: a restarted controller
    probes again. `controller.acting.device_probes` has the probes for devices.
    """

    kind = PLAIN
    """The value of the label `PROBE` of the probes."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._wanted: set[str] = set()
        """Plans that wait for the next probe, by ID."""
        self._covered: set[str] = set()
        """Plans that the present probe covers."""
        self._seen: set[str] = set()
        """Plans whose nominations the scheduler has seen."""
        self._probe = ""
        """The UID of the present probe; "" if there is none."""
        self.refusal = ""
        """Why the API server refused the last probe, so that it would refuse another one, too; "" if it did not."""
        self._over: list[Pod] = []
        """Obsolete probes, which the next `send` deletes."""

    def seen(self, plan_id: str) -> bool:
        """Return whether the scheduler has seen this plan's nominations. If it is not known, ask for a probe."""
        if plan_id in self._seen:
            return True
        self.want(plan_id)
        return False

    def want(self, plan_id: str) -> None:
        """Ask for a probe for this plan, unless one covers it. All nominations of the plan must have been accepted."""
        if plan_id not in self._covered | self._seen:
            self._wanted.add(plan_id)

    def __len__(self) -> int:
        """Return the number of plans that are wanted, covered by the present probe, or seen."""
        return len(self._wanted | self._covered | self._seen)

    def keep(self, plan_ids: Collection[str]) -> None:
        """Forget all plans except these, because the others are not in force any more."""
        for plans in (self._wanted, self._covered, self._seen):
            plans.intersection_update(plan_ids)

    def forget(self, plan_id: str) -> None:
        """Drop the proof for a plan whose nominations have changed, so that a new probe must show that the scheduler
        has seen the new ones.
        """
        for plans in (self._wanted, self._covered, self._seen):
            plans.discard(plan_id)

    def read(self, pods: Iterable[Pod]) -> None:
        """Check whether the scheduler has tried the present probe, and collect obsolete probes for deletion.

        If the scheduler has tried the probe, the snapshot of this reconcile also shows everything that the scheduler
        wrote before. One watch delivers all writes in order.

        :param pods: the pods of Phalanx's own namespace in that snapshot.
        """
        probes = [pod for pod in pods if pod.metadata.labels.get(PROBE) == self.kind]
        own = next((p for p in probes if p.metadata.uid == self._probe), None)
        answered = own is not None and tried_probe(own)
        if own is not None and answered and self._proves(own):
            self._prove(frozenset(self._covered))
        elif answered:
            self._wanted |= self._covered
        elif own is None:
            self._wanted |= self._covered  # another client deleted the probe before the scheduler tried it
        if answered or own is None:
            self._covered.clear()
            self._probe = ""
        self._over = [probe for probe in probes if probe.metadata.uid != self._probe]

    def send(self) -> None:
        """Create the next probe, if one is wanted and none is pending, and delete the obsolete probes."""
        if self._wanted and not self._covered:
            self._send()
        over, self._over = self._over, []
        for probe in over:
            self._writer.delete(f"{PODS_PATH}/{probe.metadata.name}", probe.metadata.uid)

    def _proves(self, probe: Pod) -> bool:  # noqa: ARG002 - other probes read it
        """Return whether a probe that the scheduler has tried shows that the scheduler has seen the earlier writes."""
        return True

    def _prove(self, plan_ids: frozenset[str]) -> None:
        """Record that the scheduler has tried the probe of these plans, so that it has seen their nominations."""
        self._seen |= plan_ids

    def _create(self) -> Written | None:
        """Create a probe. Return the result; None if no probe can be created now."""
        metadata = {"generateName": "probe-", "labels": {PROBE: self.kind}}
        return self._writer.create(PODS_PATH, never_run(metadata, {}, priorityClassName=PROBE_PRIORITY_CLASS))

    def _send(self) -> None:
        written = self._create()
        if written is None:
            return
        self.refusal = written.message if written.result is Result.FAILED else ""
        if written.done:
            self._probe = written.uid
            self._covered, self._wanted = self._wanted, set()


def is_probe(pod: Pod) -> bool:
    """Return whether the pod is a probe, of this controller or of another replica."""
    return PROBE in pod.metadata.labels


def tried_probe(pod: Pod) -> bool:
    """Return whether the scheduler has tried the probe: it has written a PodScheduled condition."""
    return any(condition.type == "PodScheduled" for condition in pod.status.conditions)


def never_run(metadata: Mapping[str, Any], resources: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the manifest of a pod that can never run, because its node selector matches no node.

    The API server lets Phalanx create no other pods (`manifests/system/guard.yaml`), except pods with a claim that is
    never allocated (`controller.acting.device_probes`).

    :param resources: the resources of its only container.
    :param spec: other fields of the pod's spec. `nodeSelector` replaces the one that matches no node.
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
