"""The JobSet that Kubeflow's Trainer creates from a TrainJob and from the runtime that the TrainJob names.

The rules are those of Trainer 2.1 (github.com/kubeflow/trainer, `pkg/runtime`), as far as they decide the number of
pods of each replicated job, their requests, and where they may run. Images, commands, environments and volumes are
copied from the runtime, because the placement does not depend on them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gangs.manifests import MalformedError, ref_of
from gangs.model import Fault, Manifest, ObjectRef
from gangs.resource_kinds import ResourceKind
from kube.catalog import ObjectKey

_GROUP, _VERSION = "trainer.kubeflow.org", "v1alpha1"
_CLUSTER_RUNTIME = "ClusterTrainingRuntime"
RUNTIMES: tuple[ResourceKind, ...] = (
    ResourceKind(_GROUP, (_VERSION,), "TrainingRuntime", "trainingruntimes"),
    ResourceKind(_GROUP, (_VERSION,), _CLUSTER_RUNTIME, "clustertrainingruntimes", namespaced=False),
)
"""Kinds of runtimes, which describe a TrainJob's pods."""
NAMED_AT = "spec.runtimeRef"
"""The field in which a TrainJob names its runtime."""

_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label on a replicated job's template that says which step of the TrainJob it is, such as "trainer"."""
_TRAINER = "trainer"
_ONE_REPLICA = (_TRAINER, "dataset-initializer", "model-initializer")
"""Steps of a TrainJob that always have one Job, because the Trainer overrides the runtime's `replicas` for them."""
_NODE = "node"
"""The name of the training container, and of the replicated job with the worker nodes of an MPI training."""
_PLACING = ("nodeSelector", "affinity", "tolerations")
"""Fields of a pod's spec by which a TrainJob may restrict the placement, besides the containers' requests."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A mapping that is a part of a TrainJob or of its runtime, with its path, so that a message can name a malformed
    field.

    `at`: its path; "" for the whole object. `ref`: the TrainJob. `runtime`: kind and name of the runtime; "" for a part
    of the TrainJob.
    """

    value: Mapping[str, Any]
    ref: ObjectRef
    runtime: str = ""
    at: str = ""

    def part(self, path: str) -> "_Written":
        """Return the mapping at a path below this one; empty if it is absent.

        Raises `MalformedError` for a value of another type.
        """
        found: Any = self.value
        steps = path.split(".")
        for depth, step in enumerate(steps, start=1):
            found = {} if (below := found.get(step)) is None else below
            if not isinstance(found, Mapping):
                raise self._malformed(".".join(steps[:depth]), "is not a mapping", "write a mapping")
        return replace(self, value=found, at=f"{self.at}.{path}".lstrip("."))

    def entries(self, name: str) -> Iterator["_Written"]:
        """Yield the entries of the list in the field `name`; none if it is absent.

        Raises `MalformedError` if it is no list, or if an entry is no mapping.
        """
        found = self.value.get(name) or []
        if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
            raise self._malformed(name, "is not a list of mappings", "write a list of mappings")
        for position, each in enumerate(found):
            yield replace(self, value=each, at=f"{self.at}.{name}[{position}]".lstrip("."))

    def _malformed(self, path: str, problem: str, remedy: str) -> MalformedError:
        """Return the error about the field at `path` below this mapping.

        An error in the runtime is reported on the TrainJob, at the field that names the runtime.
        """
        field = f"{self.at}.{path}".lstrip(".")
        if self.runtime:
            return MalformedError(Fault(self.ref, NAMED_AT, f"{self.runtime}: {field} {problem}", f"{remedy} there"))
        return MalformedError(Fault(self.ref, field, problem, remedy))


def runtime_of(train_job: Manifest) -> ObjectKey:
    """Return the key of the runtime that a TrainJob names. Raises `MalformedError`."""
    ref = ref_of(train_job)
    named = _Written(train_job, ref).part(NAMED_AT).value
    kind = str(named.get("kind") or _CLUSTER_RUNTIME)
    namespace = "" if kind == _CLUSTER_RUNTIME else ref.namespace
    return str(named.get("apiGroup") or _GROUP), kind, namespace, str(named.get("name") or "")


def job_set_of(train_job: Manifest, runtime: Manifest) -> dict[str, Any]:
    """Return the JobSet that the Trainer creates from a TrainJob and its runtime. Raises `MalformedError`.

    :param runtime: the object with the key that `runtime_of` returns.
    """
    ref, (_, kind, _, name) = ref_of(train_job), runtime_of(train_job)
    job_spec, written = _Written(train_job, ref).part("spec"), _Written(runtime, ref, f"{kind} {name}").part("spec")
    template = written.part("template")
    metadata: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace}
    for each in ("labels", "annotations"):
        metadata[each] = {**template.part(f"metadata.{each}").value, **job_spec.part(each).value}
    spec, policy, overrides = template.part("spec"), written.part("mlPolicy"), _overrides(job_spec)
    if written.value.get("mlPolicy") is not None:  # a policy without numNodes means one node
        policy = replace(policy, value={"numNodes": 1, **policy.value})
    jobs = [_job(job_spec, policy, each, overrides) for each in spec.entries("replicatedJobs")]
    made = {**spec.value, "replicatedJobs": jobs}
    if "suspend" in job_spec.value:
        made["suspend"] = job_spec.value["suspend"]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": made}


def _overrides(job_spec: _Written) -> dict[str, list[_Written]]:
    """Return, by name of a replicated job, the entries of the TrainJob's `podTemplateOverrides` that apply to it.

    They are indexed once, because a TrainJob may have thousands of overrides and of replicated jobs.

    :param job_spec: the `spec` of the TrainJob.
    """
    found: defaultdict[str, list[_Written]] = defaultdict(list)
    for override in job_spec.entries("podTemplateOverrides"):
        for target in override.entries("targetJobs"):
            found[str(target.value.get("name"))].append(override)
    return found


def _job(
    job_spec: _Written, policy: _Written, written: _Written, overrides: dict[str, list[_Written]]
) -> dict[str, Any]:
    """Return a replicated job of the JobSet: that of the runtime, with the TrainJob's changes.

    The job's entry is removed from `overrides`, because names of replicated jobs are unique.

    :param job_spec: the `spec` of the TrainJob.
    :param policy: the `mlPolicy` of the runtime.
    :param written: the replicated job in the runtime.
    """
    template, name = written.part("template"), written.value.get("name")
    step, spec = template.part("metadata.labels").value.get(_STEP), template.part("spec")
    pods = dict(spec.part("template").value)
    for override in overrides.pop(str(name), ()):
        pods = _overridden(pods, override)
    if step == _TRAINER or (name == _NODE and policy.part("mpi").value.get("runLauncherAsNode")):
        pods = _asking(job_spec, replace(spec, value=pods, at=f"{spec.at}.template"))
    count = _count(job_spec, policy, written, step)
    made = {**spec.value, "parallelism": count, "completions": count, "template": pods}
    one = {"replicas": 1} if step in _ONE_REPLICA else {}
    return {**written.value, **one, "template": {**template.value, "spec": made}}


def _count(job_spec: _Written, policy: _Written, written: _Written, step: object) -> Any:
    """Return the number of pods in each Job of a replicated job: the TrainJob's `numNodes`, else the runtime's number.

    :param job_spec: the `spec` of the TrainJob.
    :param policy: the `mlPolicy` of the runtime.
    :param written: the replicated job in the runtime.
    :param step: the step of the TrainJob that the replicated job is; None if it has no label with it.
    """
    wanted = job_spec.part("trainer").value.get("numNodes")
    by_mpi = policy.value.get("mpi") is not None
    if wanted is not None and by_mpi and written.value.get("name") == _NODE:
        trains = policy.part("mpi").value.get("runLauncherAsNode") and isinstance(wanted, int)
        return max(wanted - 1, 1) if trains else wanted
    if step == _TRAINER and wanted is not None and not by_mpi:
        return wanted
    ruled = step == _TRAINER and bool(policy.value)
    count = policy.value.get("numNodes") if ruled else written.part("template.spec").value.get("parallelism")
    return 1 if count is None else count


def _asking(job_spec: _Written, pods: _Written) -> dict[str, Any]:
    """Return a pod template in which the training container has the requests and limits of the TrainJob.

    :param job_spec: the `spec` of the TrainJob.
    :param pods: the pod template.
    """
    asked = job_spec.part("trainer.resourcesPerNode").value
    resources = {each: asked[each] for each in ("limits", "requests") if asked.get(each) is not None}
    spec = pods.part("spec")
    containers = [
        {**each.value, "resources": resources} if resources and each.value.get("name") == _NODE else each.value
        for each in spec.entries("containers")
    ]
    return {**pods.value, "spec": {**spec.value, "containers": containers}}


def _overridden(pods: Mapping[str, Any], override: _Written) -> dict[str, Any]:
    """Return a pod template with the labels, annotations and placement fields of one of the TrainJob's overrides."""
    spec, metadata = override.part("spec").value, override.part("metadata").value
    placing = {each: spec[each] for each in _PLACING if spec.get(each) is not None}
    marks = {each: metadata[each] for each in ("labels", "annotations") if metadata.get(each) is not None}
    return _merged(pods, {"metadata": marks, "spec": placing})


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `under` with the values of `over`. Nested mappings are merged, and all other values replaced.

    For the fields of an override, a strategic merge patch, which the Trainer uses, has the same result.
    """
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        under_it = below if isinstance(below, Mapping) else {}
        found[key] = _merged(under_it, value) if isinstance(value, Mapping) else value
    return found
