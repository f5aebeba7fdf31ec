"""The Job controller: Jobs get their pods, and lost pods are replaced.

The rules are those of Kubernetes 1.37. An Indexed Job makes one pod for each index that has no running or pending pod
(pkg/controller/job/indexed_job_utils.go). It replaces a terminating pod at once, which is the default
`podReplacementPolicy`. Dependents are deleted after their owner (background deletion).
"""

from local_api.resources import RESOURCES
from local_api.store import Object

from gangs.dialects.templates import as_admitted
from gangs.sources import Sources
from simulation.models.workloads import WorkloadController, pod_template
from simulation.objects import is_finished, is_terminating

JOBS = next(each for each in RESOURCES if each.plural == "jobs")
JOBS_PATH = "/apis/batch/v1/namespaces/default/jobs"
JOB_NAME = "batch.kubernetes.io/job-name"
_INDEX = "batch.kubernetes.io/job-completion-index"


def job(name: str, pods: int, *, cpu: int = 4, priority: str = "", **annotations: str) -> Object:
    """An Indexed Job whose annotations make it a gang in one rack, as admission lets it in."""
    said = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack", **annotations}
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": 100,
        "template": pod_template(cpu, priority, restartPolicy="Never"),
    }
    metadata = {"name": name, "namespace": "default", "annotations": said}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return dict(as_admitted(manifest, Sources()))


class JobController(WorkloadController):
    """Creates a pod for each index of a Job that has none."""

    resource = JOBS

    def reconcile(self, workload: Object, pods: list[Object]) -> None:
        """Create the missing pods at once."""
        if workload["spec"].get("suspend"):
            return
        live = [pod for pod in pods if not is_terminating(pod) and not is_finished(pod)]
        have = {pod["metadata"]["labels"].get(_INDEX) for pod in live}
        name = workload["metadata"]["name"]
        for index in map(str, range(workload["spec"]["parallelism"])):
            if index not in have:
                labels = {JOB_NAME: name, _INDEX: index}
                self.make(workload, {"generateName": f"{name}-{index}-"}, labels, {_INDEX: index})
