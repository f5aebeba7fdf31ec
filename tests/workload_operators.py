"""Workloads of every kind whose annotations make gangs, and the objects that their operators create for them.

The rules come from the operators' sources:

- Kubeflow's training operator v1.8 (pkg/core, pkg/controller.v1)
- the StatefulSet and Deployment controllers
- the MPI operator v0.5, JobSet v0.8, KubeRay v1.4 and LeaderWorkerSet v0.9
- Spark's operator v2 with Spark 4

No operator runs here. Tests create the objects that an operator would create, in its order, with its labels and owner
references. For Jobs, the real Job controller creates the pods. The real operators run in
`tests/system/test_real_operators.py`, `test_ray_kinds.py`, `test_training_operator.py` and `test_train_jobs.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from controlplane.running.stages import GOES_ON

Object = dict[str, Any]

NAME = "w"


def template(cpu: str = "1", container_name: str = "c") -> Object:
    """A pod template without labels; the work of its pods has no end."""
    container = {"name": container_name, "image": "b", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"annotations": {GOES_ON: "true"}}, "spec": {"containers": [container]}}


def owned(manifest: Object, **more: object) -> Object:
    """Return an owner reference to the object of this manifest."""
    metadata = manifest["metadata"]
    found = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "name": metadata["name"]}
    return {**found, "uid": metadata.get("uid", "u"), "controller": True, **more}


def made(manifest: Object, of: Object, name: str, labels: Mapping[str, str]) -> Object:
    """Return a pod from a template, as an operator creates it for one of its objects."""
    pod = {"apiVersion": "v1", "kind": "Pod", **deepcopy(of)}
    pod["metadata"] = {
        **pod.get("metadata", {}),
        "name": name,
        "namespace": "default",
        "labels": {**(pod.get("metadata", {}).get("labels") or {}), **labels},
        "ownerReferences": [owned(manifest)],
    }
    return pod


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of workload, with four pods. `sets`: pods by role; `pods`: the operator's pods for a manifest."""

    api_version: str
    kind: str
    spec: Callable[[], Object]
    sets: Mapping[str, int]
    pods: Callable[[Object], Iterator[Object]]
    names: tuple[str, ...]
    ended: str = ""
    """The condition type that reports that the workload has ended; empty: none."""
    suspend: tuple[str, ...] = ()
    """The path of the spec field that suspends the workload; empty: it cannot be suspended."""
    minimum: Mapping[str, Any] = field(default_factory=dict)
    """The spec fields that set the gang's minimum to three pods."""
    jobs: Callable[[Object], Iterator[Object]] | None = None
    """The Jobs that the operator creates after its own pods; None: it creates pods only."""
    makers: Callable[[Object], Iterator[Object]] | None = None
    """The objects other than Jobs through which the workload creates its pods; None: there are none."""
    gang: str = NAME
    """The name of the gang that the workload forms."""

    @property
    def group(self) -> str:
        """The API group of the kind."""
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        """The API version of the kind, without its group."""
        return self.api_version.partition("/")[2]

    def manifest(self, **annotations: str) -> Object:
        """Return a workload with `phalanx.dev/` annotations. Underscores in their names become dashes."""
        said = {f"phalanx.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        metadata = {"name": NAME, "namespace": "default", "annotations": said}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, "spec": self.spec()}


_CONTAINERS = {"TFJob": "tensorflow"}
"""By kind: the container name that the training operator requires. Other kinds use their own name without `Job`."""


def of_replicas(kind: str, field_name: str, *, leader: str = "Master", minimum: Object | None = None) -> Row:
    """A kind of the training operator: a leader and three workers, or four workers if `leader` is empty."""
    container = _CONTAINERS.get(kind, kind.removesuffix("Job").lower())
    roles = {leader: 1, "Worker": 3} if leader else {"Worker": 4}

    def spec() -> Object:
        parts = roles.items()
        return {field_name: {role: {"replicas": n, "template": template("1", container)} for role, n in parts}}

    def pods(manifest: Object) -> Iterator[Object]:
        for role, part in manifest["spec"][field_name].items():
            for index in range(part.get("replicas", 1)):
                labels = {
                    "training.kubeflow.org/job-name": manifest["metadata"]["name"],
                    "training.kubeflow.org/operator-name": f"{kind.lower()}-controller",
                    "training.kubeflow.org/replica-type": role.lower(),
                    "training.kubeflow.org/replica-index": str(index),
                }
                name = f"{manifest['metadata']['name']}-{role.lower()}-{index}"
                yield made(manifest, part["template"], name, labels)

    return Row(
        api_version="kubeflow.org/v1",
        kind=kind,
        spec=spec,
        sets={role.lower(): count for role, count in roles.items()},
        pods=pods,
        names=tuple(f"w-{role.lower()}-{index}" for role, count in roles.items() for index in range(count)),
        ended="Succeeded",
        suspend=("runPolicy", "suspend"),
        minimum=minimum or {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
    )


def _replicated(kind: str, maker: Callable[[Object], Object] | None = None) -> Row:
    """A built-in kind of Kubernetes with four pods that have no index.

    :param maker: the object that creates the pods of a manifest; None: the workload itself creates them.
    """

    def spec() -> Object:
        pods = template()
        pods["metadata"]["labels"] = {"app": NAME}
        return {"replicas": 4, "selector": {"matchLabels": {"app": NAME}}, "template": pods}

    def pods(manifest: Object) -> Iterator[Object]:
        for index in range(manifest["spec"].get("replicas", 1)):
            name = f"{manifest['metadata']['name']}-{index}"
            yield made(
                maker(manifest) if maker else manifest,
                manifest["spec"]["template"],
                name,
                {"pod-template-hash": "7d9f"},
            )

    def makers(manifest: Object) -> Iterator[Object]:
        if maker:
            yield maker(manifest)

    names = ("w-0", "w-1", "w-2", "w-3")
    return Row("apps/v1", kind, spec, {"main": 4}, pods, names, makers=makers)


def _part(manifest: Object, kind: str, name: str) -> Object:
    """Return an object that a workload creates, and that in turn creates the pods."""
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owned(manifest)]}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata}


def _replica_set_of(deployment: Object) -> Object:
    return _part(deployment, "ReplicaSet", f"{deployment['metadata']['name']}-7d9f")


def _leader_worker_set() -> Row:
    """One group of a leader and three workers."""

    def spec() -> Object:
        parts = {"size": 4, "leaderTemplate": template(), "workerTemplate": template()}
        return {"replicas": 1, "leaderWorkerTemplate": parts}

    def pods(manifest: Object) -> Iterator[Object]:
        name, parts = manifest["metadata"]["name"], manifest["spec"]["leaderWorkerTemplate"]
        for group in range(manifest["spec"]["replicas"]):
            label = "leaderworkerset.sigs.k8s.io"
            own = {f"{label}/name": name, f"{label}/group-index": str(group)}
            (leaders,) = makers(manifest)
            first = {**own, f"{label}/worker-index": "0", "apps.kubernetes.io/pod-index": str(group)}
            leader = f"{name}-{group}"
            yield made(leaders, parts.get("leaderTemplate", parts["workerTemplate"]), leader, first)
            first_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": leader}}
            workers = _part(first_pod, "StatefulSet", leader)
            for index in range(1, parts["size"]):
                place = {f"{label}/worker-index": str(index), "apps.kubernetes.io/pod-index": str(index)}
                yield made(workers, parts["workerTemplate"], f"{leader}-{index}", {**own, **place})

    def makers(manifest: Object) -> Iterator[Object]:
        yield _part(manifest, "StatefulSet", manifest["metadata"]["name"])

    return Row(
        api_version="leaderworkerset.x-k8s.io/v1",
        kind="LeaderWorkerSet",
        spec=spec,
        sets={"leader": 1, "worker": 3},
        pods=pods,
        names=("w-0", "w-0-1", "w-0-2", "w-0-3"),
        makers=makers,
        gang="w-0",
    )


def _stateful_set() -> Row:
    def spec() -> Object:
        pods = template()
        pods["metadata"]["labels"] = {"app": NAME}
        return {
            "replicas": 4,
            "podManagementPolicy": "Parallel",
            "serviceName": NAME,
            "selector": {"matchLabels": {"app": NAME}},
            "template": pods,
        }

    def pods(manifest: Object) -> Iterator[Object]:
        for index in range(manifest["spec"].get("replicas", 1)):
            name = f"{manifest['metadata']['name']}-{index}"
            labels = {"apps.kubernetes.io/pod-index": str(index), "statefulset.kubernetes.io/pod-name": name}
            yield made(manifest, manifest["spec"]["template"], name, labels)

    return Row("apps/v1", "StatefulSet", spec, {"main": 4}, pods, ("w-0", "w-1", "w-2", "w-3"))


def child(manifest: Object, name: str, spec: Object, labels: Mapping[str, str]) -> Object:
    """A Job that an operator makes, its pods labelled."""
    metadata = {"name": name, "namespace": "default", "labels": dict(labels), "ownerReferences": [owned(manifest)]}
    found = deepcopy(spec)
    pods = found["template"].setdefault("metadata", {})
    pods["labels"] = {**(pods.get("labels") or {}), **labels}
    found["template"]["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": found}


def of_job(job: Object) -> Iterator[Object]:
    """The pods of a Job, by names that can be foreseen."""
    for index in range(job["spec"].get("parallelism", 1)):
        labels = {"batch.kubernetes.io/job-completion-index": str(index)} if "completionMode" in job["spec"] else {}
        yield made(job, job["spec"]["template"], f"{job['metadata']['name']}-{index}", labels)


def _mpi_job() -> Row:
    def spec() -> Object:
        parts = {"Launcher": 1, "Worker": 3}
        return {"mpiReplicaSpecs": {role: {"replicas": n, "template": template()} for role, n in parts.items()}}

    def labels(manifest: Object, role: str) -> dict[str, str]:
        name = {"training.kubeflow.org/job-name": manifest["metadata"]["name"]}
        role_of = {"training.kubeflow.org/job-role": role, "training.kubeflow.org/operator-name": "mpi-operator"}
        return {**name, **role_of}

    def workers(manifest: Object) -> Iterator[Object]:
        part = manifest["spec"]["mpiReplicaSpecs"]["Worker"]
        for index in range(part["replicas"]):
            own = {**labels(manifest, "worker"), "training.kubeflow.org/replica-index": str(index)}
            yield made(manifest, part["template"], f"{manifest['metadata']['name']}-worker-{index}", own)

    def launcher(manifest: Object) -> Iterator[Object]:
        part = {"template": manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]}
        yield child(manifest, f"{manifest['metadata']['name']}-launcher", part, labels(manifest, "launcher"))

    def pods(manifest: Object) -> Iterator[Object]:
        yield from workers(manifest)
        for job in launcher(manifest):
            yield from of_job(job)

    return Row(
        api_version="kubeflow.org/v2beta1",
        kind="MPIJob",
        spec=spec,
        sets={"launcher": 1, "worker": 3},
        pods=pods,
        names=("w-launcher-0", "w-worker-0", "w-worker-1", "w-worker-2"),
        ended="Failed",
        suspend=("runPolicy", "suspend"),
        minimum={"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}},
        jobs=launcher,
    )


def _job_set() -> Row:
    def spec() -> Object:
        def of(count: int) -> Object:
            return {"spec": {"parallelism": count, "completions": count, "template": template()}}

        driver = {"name": "driver", "replicas": 1, "template": of(1)}
        return {"replicatedJobs": [driver, {"name": "nodes", "replicas": 1, "template": of(3)}]}

    def jobs(manifest: Object) -> Iterator[Object]:
        for entry in manifest["spec"]["replicatedJobs"]:
            for index in range(entry["replicas"]):
                labels = {
                    "jobset.sigs.k8s.io/jobset-name": manifest["metadata"]["name"],
                    "jobset.sigs.k8s.io/replicatedjob-name": entry["name"],
                    "jobset.sigs.k8s.io/replicatedjob-replicas": str(entry["replicas"]),
                    "jobset.sigs.k8s.io/job-index": str(index),
                    "jobset.sigs.k8s.io/restart-attempt": "0",
                }
                name = f"{manifest['metadata']['name']}-{entry['name']}-{index}"
                yield child(manifest, name, {**entry["template"]["spec"], "completionMode": "Indexed"}, labels)

    def pods(manifest: Object) -> Iterator[Object]:
        for job in jobs(manifest):
            yield from of_job(job)

    return Row(
        api_version="jobset.x-k8s.io/v1alpha2",
        kind="JobSet",
        spec=spec,
        sets={"driver": 1, "nodes": 3},
        pods=pods,
        names=("w-driver-0-0", "w-nodes-0-0", "w-nodes-0-1", "w-nodes-0-2"),
        ended="Completed",
        suspend=("suspend",),
        jobs=jobs,
    )


def _ray_cluster() -> Row:
    def spec() -> Object:
        group = {"groupName": "gpu", "replicas": 3, "minReplicas": 2, "maxReplicas": 3, "template": template()}
        return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}

    def pods(manifest: Object) -> Iterator[Object]:
        name = manifest["metadata"]["name"]
        head = {"ray.io/cluster": name, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
        yield made(manifest, manifest["spec"]["headGroupSpec"]["template"], f"{name}-head", head)
        for group in manifest["spec"]["workerGroupSpecs"]:
            for index in range(group["replicas"]):
                labels = {"ray.io/cluster": name, "ray.io/node-type": "worker", "ray.io/group": group["groupName"]}
                yield made(manifest, group["template"], f"{name}-{group['groupName']}-worker-{index}", labels)

    return Row(
        api_version="ray.io/v1",
        kind="RayCluster",
        spec=spec,
        sets={"head": 1, "gpu": 3},
        pods=pods,
        names=("w-head", "w-gpu-worker-0", "w-gpu-worker-1", "w-gpu-worker-2"),
        suspend=("suspend",),
        minimum={"enableInTreeAutoscaling": True},
    )


def _volcano_job() -> Row:
    """A Job of Volcano, of two tasks. It names the scheduler of the cluster, so that its own need not run."""

    def spec() -> Object:
        parts = {"master": 1, "worker": 3}
        tasks = [{"name": task, "replicas": count, "template": template()} for task, count in parts.items()]
        return {"schedulerName": "default-scheduler", "tasks": tasks}

    def pods(manifest: Object) -> Iterator[Object]:
        name = manifest["metadata"]["name"]
        for task in manifest["spec"]["tasks"]:
            for index in range(task["replicas"]):
                labels = {
                    "volcano.sh/job-name": name,
                    "volcano.sh/job-namespace": "default",
                    "volcano.sh/task-spec": task["name"],
                    "volcano.sh/task-index": str(index),
                }
                yield made(manifest, task["template"], f"{name}-{task['name']}-{index}", labels)

    return Row(
        api_version="batch.volcano.sh/v1alpha1",
        kind="Job",
        spec=spec,
        sets={"master": 1, "worker": 3},
        pods=pods,
        names=("w-master-0", "w-worker-0", "w-worker-1", "w-worker-2"),
        minimum={"minAvailable": 3},
    )


def spark_application() -> Row:
    """A kind without pod templates, not among `ROWS`: a driver, and three executors that it makes when it runs.

    The operator makes the driver alone, with its labels and owner; Spark's own scheduler in the driver the others.
    """

    def part(**more: Any) -> Object:
        return {"coreRequest": "1", "memory": "1g", "annotations": {GOES_ON: "true"}, **more}

    def spec() -> Object:
        return {
            "type": "Scala",
            "mode": "cluster",
            "sparkVersion": "4.0.0",
            "image": "b",
            "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
            "driver": part(serviceAccount="spark"),
            "executor": part(instances=3),
        }

    def pod(manifest: Object, role: str, name: str, labels: Mapping[str, str]) -> Object:
        app, own = manifest["metadata"]["name"], manifest["spec"][role]
        resources = {"requests": {"cpu": own["coreRequest"], "memory": "1408Mi"}, "limits": {"memory": "1408Mi"}}
        container = {"name": f"spark-kubernetes-{role}", "image": manifest["spec"]["image"], "resources": resources}
        of = {
            "metadata": {"labels": own.get("labels") or {}, "annotations": own.get("annotations") or {}},
            "spec": {"containers": [container], "restartPolicy": "Never"},
        }
        common = {
            "spark-role": role,
            "spark-app-name": app,
            "spark-app-selector": "spark-0a1b",
            "sparkoperator.k8s.io/app-name": app,
            "sparkoperator.k8s.io/launched-by-spark-operator": "true",
        }
        return made(manifest, of, name, {**common, **labels})

    def pods(manifest: Object) -> Iterator[Object]:
        name = manifest["metadata"]["name"]
        driver = pod(manifest, "driver", f"{name}-driver", {})
        yield driver
        for index in range(1, manifest["spec"]["executor"].get("instances", 1) + 1):
            found = pod(manifest, "executor", f"{name}-9f3c-exec-{index}", {"spark-exec-id": str(index)})
            found["metadata"]["ownerReferences"] = [owned(driver)]
            yield found

    def makers(manifest: Object) -> Iterator[Object]:
        yield next(pods(manifest))

    return Row(
        api_version="sparkoperator.k8s.io/v1beta2",
        kind="SparkApplication",
        spec=spec,
        sets={"driver": 1, "executor": 3},
        pods=pods,
        names=("w-driver", "w-9f3c-exec-1", "w-9f3c-exec-2", "w-9f3c-exec-3"),
        makers=makers,
        suspend=("suspend",),
        minimum={"dynamicAllocation": {"enabled": True, "minExecutors": 2}},
    )


ROWS: Mapping[str, Row] = {
    "PyTorchJob": of_replicas("PyTorchJob", "pytorchReplicaSpecs"),
    "PyTorchJob, elastic": of_replicas(
        "PyTorchJob", "pytorchReplicaSpecs", minimum={"elasticPolicy": {"minReplicas": 2}}
    ),
    "TFJob": of_replicas("TFJob", "tfReplicaSpecs", leader="Chief"),
    "XGBoostJob": of_replicas("XGBoostJob", "xgbReplicaSpecs"),
    "PaddleJob": of_replicas("PaddleJob", "paddleReplicaSpecs"),
    "JAXJob": of_replicas("JAXJob", "jaxReplicaSpecs", leader=""),
    "StatefulSet": _stateful_set(),
    "Deployment": _replicated("Deployment", _replica_set_of),
    "ReplicaSet": _replicated("ReplicaSet"),
    "LeaderWorkerSet": _leader_worker_set(),
    "MPIJob": _mpi_job(),
    "JobSet": _job_set(),
    "RayCluster": _ray_cluster(),
    "Volcano's Job": _volcano_job(),
}


def described() -> Object:
    """Return a WorkloadKind as a platform team would write it for the kind of an invented operator (`training_run`)."""
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "WorkloadKind",
        "metadata": {"name": "trainingruns.ml.example.com"},
        "spec": {
            "group": "ml.example.com",
            "kind": "TrainingRun",
            "resource": "trainingruns",
            "versions": ["v1"],
            "podTemplates": [
                {
                    "path": "spec.roles.*.pods",
                    "replicas": "spec.roles.*.count",
                    "minReplicas": "spec.roles.*.atLeast",
                }
            ],
            "minMember": "spec.together",
            "rankKey": "ml.example.com/rank",
            "suspended": "spec.paused",
            "ended": [{"field": "status.phase", "values": ["Done"]}],
        },
    }


def training_run() -> Row:
    """A user-defined kind that Phalanx does not know: the WorkloadKind of `described` describes it."""

    def spec() -> Object:
        parts = {"chief": 1, "worker": 3}
        return {"roles": [{"name": role, "count": count, "pods": template()} for role, count in parts.items()]}

    def pods(manifest: Object) -> Iterator[Object]:
        for role in manifest["spec"]["roles"]:
            for index in range(role["count"]):
                name = f"{manifest['metadata']['name']}-{role['name']}-{index}"
                yield made(manifest, role["pods"], name, {"ml.example.com/rank": str(index)})

    return Row(
        api_version="ml.example.com/v1",
        kind="TrainingRun",
        spec=spec,
        sets={"chief": 1, "worker": 3},
        pods=pods,
        names=("w-chief-0", "w-worker-0", "w-worker-1", "w-worker-2"),
        suspend=("paused",),
        minimum={"together": 3},
    )


IN_TURN: dict[str, tuple[str, Object, tuple[str, ...]]] = {
    "OrderedReady": ("StatefulSet", {"podManagementPolicy": "OrderedReady"}, ("w-1", "w-2", "w-3")),
    "LeaderReady": ("LeaderWorkerSet", {"startupPolicy": "LeaderReady"}, ("w-0-1", "w-0-2", "w-0-3")),
    "WaitForWorkersReady": ("MPIJob", {"launcherCreationPolicy": "WaitForWorkersReady"}, ("w-launcher-0",)),
    "InOrder": (
        "JobSet",
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        ("w-nodes-0-0", "w-nodes-0-1", "w-nodes-0-2"),
    ),
}
"""Workloads that create some of their four pods only when the others run: kind, fields of the spec, names of them.
"""
