"""Reports in the status of each WorkloadKind whether Phalanx reads the workloads of its kind; if not, why."""

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.caches.cache import ClusterCache
from cluster.caches.trouble import Trouble, TroubleReason
from controller.cluster_view import ClusterView
from controller.writes.writer import Writer
from gangs.findings import Findings
from gangs.model import Fault, Manifest
from gangs.sources import Sources
from gangs.workload_kinds import READY, check
from gangs.workloads.user_defined_kinds import AGGREGATED, KIND, PLURAL
from kube.keys import API_VERSION, GROUP
from timing.clock import SYSTEM_CLOCK, Clock, rfc3339

_Troubles = Mapping[tuple[str, str], Trouble | None]
"""By API group and kind: why objects of this kind cannot be read; None if all can. A kind without an entry has not been
listed yet.
"""


class DescribedKinds:
    """Writes the status of each WorkloadKind whose status is out of date. A new leader checks all of them."""

    def __init__(self, writer: Writer, cache: ClusterCache, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._writer = writer
        self._clock = clock
        self._cache = cache
        self.unfinished = False
        """Whether a status could not be written."""

    def show(self, cluster_view: ClusterView) -> None:
        """Update the statuses of all WorkloadKinds in one call, because a cluster has few of them."""
        sources, left = cluster_view.sources, 0
        troubles = self._cache.troubles()
        for manifest in sources.of_kind(GROUP, KIND):
            wanted = condition(manifest, sources, troubles)
            if wanted is not None and wanted != _shown(manifest, wanted):
                left += not self._write(manifest, wanted)
        self.unfinished = left > 0

    def _write(self, manifest: Manifest, wanted: Mapping[str, Any]) -> bool:
        path = f"/apis/{API_VERSION}/{PLURAL}/{manifest['metadata']['name']}/status"
        before = _present_condition(manifest)
        same = before.get("status") == wanted["status"]
        since = before["lastTransitionTime"] if same and "lastTransitionTime" in before else rfc3339(self._clock.wall())
        patch = {"status": {"conditions": [{**wanted, "lastTransitionTime": since}]}}
        return self._writer.merge(path, patch, manifest).done


def condition(manifest: Manifest, sources: Sources, troubles: _Troubles) -> dict[str, Any] | None:
    """Return the wanted condition Ready of a WorkloadKind; None until its workloads have been listed once."""
    findings = Findings()
    check(manifest, sources, findings)
    generation = {"observedGeneration": manifest["metadata"].get("generation", 0)}
    if findings.faults:
        return {**_condition("False", "Invalid", _text(findings.faults)), **generation}
    spec = manifest["spec"]
    at = spec["group"], spec["kind"]
    if at not in troubles:
        return None
    return {**_of_trouble(troubles[at], spec), **generation}


def _of_trouble(trouble: Trouble | None, spec: Mapping[str, Any]) -> dict[str, Any]:
    what = f"{spec['resource']}.{spec['group']}"
    if trouble is None:
        return _condition("True", "Watched", f"{what} that ask for it are gangs")
    status = "True" if trouble.reason is TroubleReason.SOME_LEFT_OUT else "False"
    return _condition(status, trouble.reason.value, _message(trouble, what, spec["kind"]))


def _message(trouble: Trouble, what: str, kind: str) -> str:
    """Return the message of a WorkloadKind's condition Ready, if objects of the user-defined kind are missing from the
    caches. `what`: `resource.group` of the user-defined kind.
    """
    match trouble.reason:
        case TroubleReason.SOME_LEFT_OUT:
            return f"{what} that ask for it are gangs, {trouble.text}: report that with the log of Phalanx"
        case TroubleReason.FORBIDDEN:
            remedy = f'create a ClusterRole with the label {AGGREGATED}: "true" and the verbs list and watch on {what}'
            return f"Phalanx may not read {what}: {remedy}"
        case TroubleReason.NOT_SERVED:
            return f"{what} {trouble.text}: install its definition, or correct group, resource and versions"
        case TroubleReason.WRONG_KIND:
            return f"{what} {trouble.text}, not {kind}: correct spec.kind"
        case TroubleReason.NOT_NAMESPACED:
            remedy = "label the pod templates of such workloads with a Gang's name"
            return f"{what} {trouble.text}, and a gang has to be in one: {remedy}"
        case TroubleReason.UNREADABLE:
            return f"{what} cannot be read: {trouble.text}"


def _condition(status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": READY, "status": status, "reason": reason, "message": message}


def _text(faults: Sequence[Fault]) -> str:
    return "; ".join(f"{each.field}: {each.problem}; {each.remedy}" for each in faults)


def _present_condition(manifest: Manifest) -> Mapping[str, Any]:
    """Return the condition Ready in the WorkloadKind's status; empty if there is none."""
    written = (manifest.get("status") or {}).get("conditions") or ()
    return next((each for each in written if isinstance(each, Mapping) and each.get("type") == READY), {})


def _shown(manifest: Manifest, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return, for each field of the wanted condition, its value in the present condition; None if it is missing
    there.
    """
    present = _present_condition(manifest)
    return {key: present.get(key) for key in wanted}
