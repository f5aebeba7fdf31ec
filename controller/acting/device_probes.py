"""Probes for devices: pods with a claim, by which the controller learns what the scheduler has seen of devices.

The scheduler receives pods, claims and taint rules by three watches. A probe without a claim shows that the scheduler
has seen the pods that were written before it, but not that it has seen the claims (docs/decisions/0045).
"""

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cluster.devices.holdings import DeviceView
from controller.acting.probe import PODS_PATH, PROBE, PROBE_PRIORITY_CLASS, Probes, never_run
from controller.release.devices import Wanted
from controller.writes.writer import Writer, Written, claim_path
from kube.devices import ResourceClaim
from kube.keys import SYSTEM_NAMESPACE
from kube.objects import Pod

_UNSCHEDULABLE = "Unschedulable"
_ANY_CLASS: Mapping[str, Any] = {"devices": {"requests": [{"name": "probe", "exactly": {"deviceClassName": "none"}}]}}
"""The spec of a claim that no device can serve. No DeviceClass of this name needs to exist."""


class ClaimProbes(Probes):
    """Probes with a claim that is created after the writes in question, and that can never be scheduled.

    The scheduler holds back a pod until it has seen the claim of the pod (DynamicResources, `PreEnqueue`). Claims come
    by one watch, in order. So a probe that was tried shows that the scheduler has seen all claims written before it.

    The controller, too, receives pods and claims by two watches. So when a probe has been tried, its claim is deleted.
    Once the controller's view of the claims shows the deletion, it also shows all that the scheduler wrote to claims
    before it tried the probe. Only then `seen` is True.
    """

    kind = "claims"

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._claim = ""
        """The name of the present probe's claim; "" if there is none."""
        self._confirming: dict[str, set[str]] = {}
        """By the claim of a probe that has been tried: the plans that wait until the view shows its deletion."""
        self._shown: frozenset[str] = frozenset()
        """Of the claims of the present probe and of tried ones, those that a view has shown."""

    def read_with(self, pods: Iterable[Pod], view: DeviceView) -> None:
        """Check whether the scheduler has tried the present probe, and whether the view of the claims is new enough.

        A view that does not show the claim of the probe yet is too old. Claims are deleted only after a view has shown
        them (`clean`), so a claim that a view has shown and lacks now is deleted.
        """
        own = (each for each in view.of_probes if is_probe_claim(each, self.kind) and not _ends(each))
        there = frozenset(each.metadata.name for each in own)
        for name in (self._confirming.keys() & self._shown) - there:
            self._seen |= self._confirming.pop(name)
        self.read(pods)
        self._shown = frozenset((self._shown | there) & {self._claim, *self._confirming})
        if not self._probe:
            self._claim = ""

    def want(self, plan_id: str) -> None:
        """Ask for a probe for this plan, unless one covers it."""
        if not any(plan_id in plans for plans in self._confirming.values()):
            super().want(plan_id)

    def keep(self, plan_ids: Collection[str]) -> None:
        """Forget all plans except these, because the others are not in force any more."""
        super().keep(plan_ids)
        for plans in self._confirming.values():
            plans.intersection_update(plan_ids)

    def forget(self, plan_id: str) -> None:
        """Forget a plan about whose claims something has been written since."""
        super().forget(plan_id)
        for plans in self._confirming.values():
            plans.discard(plan_id)

    def clean(self, view: DeviceView) -> None:
        """Delete claims of earlier probes, also of a former leader's."""
        for claim in view.of_probes:
            if is_probe_claim(claim, self.kind) and claim.metadata.name != self._claim and not _ends(claim):
                path = claim_path(SYSTEM_NAMESPACE, claim.metadata.name)
                self._writer.delete(path, claim.metadata.uid)

    def _prove(self, plan_ids: frozenset[str]) -> None:
        self._confirming.setdefault(self._claim, set()).update(plan_ids)

    def _create(self) -> Written | None:
        return self._with_claim(_ANY_CLASS)

    def _with_claim(self, spec: Mapping[str, Any], **of_pod: Any) -> Written:
        """Create a claim, then a probe that references it. Return the result of the write that failed, or the last."""
        self._claim, labels = f"probe-{secrets.token_hex(8)}", {PROBE: self.kind}
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": self._claim, "namespace": SYSTEM_NAMESPACE, "labels": labels},
            "spec": dict(spec),
        }
        written = self._writer.create(claim_path(SYSTEM_NAMESPACE), claim)
        if not written.done:
            return written
        named = [{"name": "probe", "resourceClaimName": self._claim}]
        pod = never_run(
            {"generateName": "probe-", "labels": labels},
            {"claims": [{"name": "probe"}]},
            priorityClassName=PROBE_PRIORITY_CLASS,
            resourceClaims=named,
            **of_pod,
        )
        return self._writer.create(PODS_PATH, pod)


class TaintProbes(ClaimProbes):
    """Probes that want a tainted device, to learn whether the scheduler has seen the taint rules (DeviceTaintRules).

    Such a probe could be scheduled if its device were not tainted. The scheduler receives taint rules by one watch, in
    order, so one probe of the last rule answers for all rules. If the scheduler has not seen the rule yet, it chooses
    the device. The API server then refuses the write of this choice to the claim (manifests/devices/guard.yaml). So the
    reason of the probe's condition is not Unschedulable, and another probe is sent.

    The scheduler also refuses a probe whose device another claim has. So a probe proves nothing if its device was free
    when the probe was sent and is allocated when it has been tried. A shared device counts as free while its capacity
    suffices for the probe.
    """

    kind = "taints"

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer)
        self._asked: dict[str, Wanted] = {}
        self._last: Wanted | None = None
        """The device and the claim of the present probe."""
        self._view = DeviceView()
        """The claims at present."""

    def read_with(self, pods: Iterable[Pod], view: DeviceView) -> None:
        """Check whether the scheduler has tried the present probe, and whether its device is still free."""
        self._view = view
        super().read_with(pods, view)

    def ask(self, plan_id: str, wanted: Wanted) -> bool:
        """Return whether the scheduler has seen the taint rules of this plan. If that is not known, ask for a probe."""
        self._asked[plan_id] = wanted
        return self.seen(plan_id)

    def keep(self, plan_ids: Collection[str]) -> None:
        """Forget all plans except these, because the others are not in force any more."""
        super().keep(plan_ids)
        self._asked = {plan_id: wanted for plan_id, wanted in self._asked.items() if plan_id in plan_ids}

    def _create(self) -> Written | None:
        asked = [self._asked[each] for each in self._wanted if each in self._asked]
        if not asked:
            return None
        last = max(asked, key=lambda each: each.version)
        self._last = last
        field = {"key": "metadata.name", "operator": "In", "values": [last.node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        return self._with_claim(last.spec, nodeSelector={}, affinity=affinity, tolerations=[{"operator": "Exists"}])

    def _proves(self, probe: Pod) -> bool:
        if self._last is not None and not self._last.is_free(self._view):
            return False
        return any(each.type == "PodScheduled" and each.reason == _UNSCHEDULABLE for each in probe.status.conditions)


def is_probe_claim(claim: ResourceClaim, kind: str) -> bool:
    """Return whether the controller created the claim for a probe of this kind."""
    return claim.metadata.namespace == SYSTEM_NAMESPACE and claim.metadata.labels.get(PROBE) == kind


def _ends(claim: ResourceClaim) -> bool:
    return claim.metadata.deletion_timestamp is not None
