"""The ResourceClaimTemplates of members whose requests for extended resources became claims (docs/decisions/0046).

The webhook names a template in the pod, and the controller creates the template. It belongs to the workload of the pod,
so the garbage collector deletes it with the workload. If another gang needs the template then, it is created again.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from cluster.devices.extended_resources import template_of
from controller.cluster_view import ClusterView
from controller.reconcile_state import NO_EFFECTS, Effects, ReconcileState
from controller.writes.writer import Result, Writer
from kube.devices import GROUP, ResourceClaimTemplate
from kube.keys import CONVERTED, GATE
from kube.objects import OwnerReference, Pod
from kube.placeholders import to_come
from timing.clock import SYSTEM_CLOCK, Clock

APPEARS_WITHIN_SECONDS = 30.0
"""Seconds after which a created template that the caches do not show is created again.

The garbage collector may have deleted it together with the workload of another gang, before the caches showed it.
"""


class ClaimTemplates:
    """Creates the missing ResourceClaimTemplates of gated members.

    `_created`: since when templates exist that the caches do not show yet, on the monotonic clock.
    """

    def __init__(self, writer: Writer, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._created = dict[str, float]()

    def provide(self, gang_state: ReconcileState, cluster_view: ClusterView) -> Effects:
        """Create the ResourceClaimTemplates that gated members of the gang name and that do not exist.

        The gang's status names a template that the API server refuses.
        """
        devices = cluster_view.snapshot.devices
        named = list(_named(gang_state))
        if devices is None or not named:
            return NO_EFFECTS
        now = self._clock.monotonic()
        self._created = {
            key: since
            for key, since in self._created.items()
            if key not in devices.templates and now - since < APPEARS_WITHIN_SECONDS
        }
        missing = {
            template.key: (template, pod)
            for template, pod in named
            if template.key not in devices.templates and template.key not in self._created
        }
        if not missing:
            return NO_EFFECTS
        written = self._writer.all(
            partial(self._writer.create, templates_path(pod.metadata.namespace), template_manifest(template, pod))
            for template, pod in missing.values()
        )
        # A conflict: the template exists, but the caches do not show it yet.
        existing = [each.done or each.result is Result.CONFLICT for each in written]
        self._created |= {key: now for key, exists in zip(missing, existing, strict=True) if exists}
        refused = next((key for key, each in zip(missing, written, strict=True) if each.result is Result.FAILED), "")
        message = next((each.message for each in written if each.result is Result.FAILED), "")
        awaited = f"cannot create ResourceClaimTemplate {refused}: {message}" if refused else ""
        return Effects(written=True, watched=not all(existing), awaited=awaited)


def _named(gang_state: ReconcileState) -> Iterator[tuple[ResourceClaimTemplate, Pod]]:
    """Yield the ResourceClaimTemplates of gated members whose requests became a claim, each with its pod."""
    for member in gang_state.gang.members:
        pod = member.pod
        if CONVERTED in pod.metadata.annotations and pod.gated_by(GATE) and not to_come(pod):
            template = template_of(pod)
            if template is not None:
                yield template, pod


def templates_path(namespace: str) -> str:
    """Return the API path of the ResourceClaimTemplates of a namespace."""
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/resourceclaimtemplates"


def template_manifest(template: ResourceClaimTemplate, pod: Pod) -> dict[str, Any]:
    """Return the manifest of the template. Its owner is the controller of the pod, or the pod if it has none."""
    own = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    owner = next((each for each in pod.metadata.owner_references if each.controller), own)
    reference: Mapping[str, str] = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": template.metadata.name,
            "namespace": pod.metadata.namespace,
            "labels": {CONVERTED: "true"},
            "ownerReferences": [reference],
        },
        "spec": msgspec.to_builtins(template.spec),
    }
