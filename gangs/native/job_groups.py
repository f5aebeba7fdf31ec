"""The PodGroup that the Job controller creates for a Job with `spec.scheduling` (feature gate WorkloadWithJob).

In a cluster, the Job controller has created the PodGroup and the pods, which name it. In files, neither exists, so
`phalanx solve` derives both from the Job.
"""

from collections.abc import Mapping
from typing import Any

from gangs.manifests import key_of, metadata_of, section
from gangs.model import Manifest
from gangs.native import keys
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, job_of

_POLICY = "schedulingPolicy"
_COPIED = ("schedulingConstraints", "disruptionMode", "resourceClaims")


def with_group(manifest: Manifest) -> tuple[Manifest, Manifest] | None:
    """Return a Job whose pods name their PodGroup, and this PodGroup; None if the Job asks for none.

    A Job whose pod template names a PodGroup itself keeps it. Raises `MalformedError`.
    """
    group, kind, namespace, name = key_of(manifest)
    if (group, kind) != (JOB_GROUP, JOB_KIND):
        return None
    spec = section(manifest, "spec")
    scheduling, template = spec.get("scheduling"), spec.get("template")
    if not isinstance(scheduling, Mapping) or not isinstance(template, Mapping):
        return None
    pod_spec = template.get("spec") or {}
    if not isinstance(pod_spec, Mapping) or "schedulingGroup" in pod_spec:
        return None
    named = {**pod_spec, "schedulingGroup": {"podGroupName": name}}
    job = {**manifest, "spec": {**spec, "template": {**template, "spec": named}}}
    pod_group = {
        "apiVersion": f"{keys.GROUP}/{keys.POD_GROUP_VERSIONS[1]}",
        "kind": keys.POD_GROUP_KIND,
        "metadata": {"name": name, "namespace": namespace, **_time(manifest)},
        "spec": {
            _POLICY: _policy(manifest, scheduling),
            **{key: scheduling[key] for key in _COPIED if scheduling.get(key) is not None},
            **({"priorityClassName": pod_spec["priorityClassName"]} if pod_spec.get("priorityClassName") else {}),
        },
    }
    return job, pod_group


def _policy(manifest: Manifest, scheduling: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `schedulingPolicy` of the PodGroup of a Job.

    The Job controller's defaults are filled in: the policy `basic`, and a `minCount` of all pods of the Job.
    """
    policy = scheduling.get(_POLICY) or {"basic": {}}
    gang = policy.get("gang") if isinstance(policy, Mapping) else None
    if not isinstance(policy, Mapping) or not isinstance(gang, Mapping) or gang.get("minCount") is not None:
        return policy
    return {**policy, "gang": {**gang, "minCount": job_of(manifest).size}}


def _time(manifest: Manifest) -> Mapping[str, str]:
    created = metadata_of(manifest).creation_timestamp
    return {"creationTimestamp": created} if created else {}
