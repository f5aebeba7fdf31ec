"""Objects of tenants and of unknown users can neither fill Phalanx's memory nor stop a reconcile for other users."""

from typing import Any

import pytest
from kubernetes.client import ApiClient
from prometheus_client.parser import text_string_to_metric_families

from cluster.api.transport import Transport
from controller.acting.probe import Probes
from controller.writes.writer import Writer
from gangs.dialects.reading import read_all
from gangs.manifests import MalformedError
from gangs.sources import Sources
from gangs.workloads.jobs import missing_pods
from kube.objects import ObjectMeta, Pod
from webhook.metrics import Metrics


def job(completed: str, completions: int = 2_000_000_000) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"parallelism": 2, "completions": completions, "completionMode": "Indexed"},
        "status": {"completedIndexes": completed},
    }


COMPLETED = {
    "more numbers than memory holds": ("0-9999999999", []),
    "all but a few of very many": ("0-1999999997", ["train-1999999998", "train-1999999999"]),
    "ranges that lie over each other": ("0-5,3-9,2", ["train-10", "train-11"]),
    "a range that ends before it begins": ("9-3", ["train-0", "train-1"]),
}


@pytest.mark.parametrize(("completed", "made"), COMPLETED.values(), ids=COMPLETED)
def test_what_a_job_has_completed_is_never_counted_out(completed: str, made: list[str]) -> None:
    assert [pod.metadata.name for pod in missing_pods(job(completed), [])] == made


@pytest.mark.parametrize("completed", ["x", "1-", "-5", "1-2-3", "9" * 30])
def test_completed_indexes_that_are_none_are_told(completed: str) -> None:
    with pytest.raises(MalformedError) as caught:
        missing_pods(job(completed if completed != "1-" else "1-y"), [])
    assert str(caught.value.fault).startswith("Job default/train: status.completedIndexes: ")
    assert str(caught.value.fault).endswith("; leave the Job's status to its controller")


@pytest.mark.parametrize("waiting", ["9" * 400 + "s", "1" + "0" * 300 + "h", "9999999999999h"])
def test_a_time_without_end_is_a_fault_of_its_pod_alone(waiting: str) -> None:
    annotations = {
        "gang.scheduling.koordinator.sh/name": "llm",
        "gang.scheduling.koordinator.sh/min-available": "1",
        "gang.scheduling.koordinator.sh/waiting-time": waiting,
    }
    meta = ObjectMeta(name="w-0", namespace="default", uid="uid-w-0", annotations=annotations)
    other = ObjectMeta(name="x-0", namespace="default", uid="uid-x-0", annotations={**annotations, **OTHER})
    reading = read_all(Sources([Pod(metadata=meta), Pod(metadata=other)]))
    assert [str(each.key) for each in reading.gangs] == ["default/other"]
    (fault,) = reading.faults
    assert "is not a duration above 0" in fault.problem


OTHER = {"gang.scheduling.koordinator.sh/name": "other", "gang.scheduling.koordinator.sh/waiting-time": "10m"}


def test_a_caller_cannot_make_series_by_words_of_his_own() -> None:
    metrics = Metrics()
    for number in range(300):
        metrics.answered("/mutate", f"resource-{number}", f"OPERATION-{number}", "bad-review", 0.001)
    metrics.answered("/mutate", "pods", "CREATE", "patched", 0.001)
    metrics.answered("/validate", "statefulsets", "CREATE", "admitted", 0.001)
    families = text_string_to_metric_families(metrics.text().decode())
    found = {
        (sample.labels["resource"], sample.labels["operation"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name == "phalanx_admission_requests_total"
    }
    assert found == {("other", "other"): 300, ("pods", "CREATE"): 1, ("statefulsets", "CREATE"): 1}


def test_what_is_known_of_plans_that_are_over_is_forgotten() -> None:
    writer = Writer(Transport(ApiClient()))
    probes = Probes(writer)
    for number in range(1000):
        probes.seen(f"plan-{number}")
    assert len(probes) == 1000
    probes.keep({"plan-7"})
    assert len(probes) == 1
    writer.close()
