"""Invalid quantities in templates that the API server does not validate are a fault of their own workload only."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from test_described_kinds import among, stored, with_more
from workload_operators import ROWS, Object, Row, owned, spark_application, template, training_run

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of, pod_of
from gangs.model import Fault, Manifest
from gangs.sources import Sources

SPARK = spark_application()
EXECUTOR = "SparkApplication default/w: spec.executor"
REMEDY = "write 8, 500m or 64Gi, say"
NONE = {"resources": {"requests": {"cpu": "abc"}}}
LESS = {"resources": {"limits": {"memory": "-1"}}}

WRONG_IN_SPARK = {
    "cores that are asked for": ({"coreRequest": "abc"}, f"{EXECUTOR}.coreRequest: 'abc' is not a quantity"),
    "cores": ({"cores": -1}, f"{EXECUTOR}.cores: '-1' is negative"),
    "a GPU": ({"gpu": {"name": "nvidia.com/gpu", "quantity": "abc"}}, f"{EXECUTOR}.gpu.quantity: 'abc' is not a"),
    "less than no GPU": ({"gpu": {"name": "a.io/b", "quantity": -1}}, f"{EXECUTOR}.gpu.quantity: '-1' is negative"),
    "a GPU by the name of cpu": ({"gpu": {"name": "cpu", "quantity": "x"}}, f"{EXECUTOR}.gpu.quantity: 'x' is not a"),
    "a sidecar": ({"sidecars": [NONE]}, f"{EXECUTOR}.sidecars[0].resources.requests.cpu: 'abc' is not a quantity"),
    "a container of the template": (
        {"template": {"spec": {"containers": [{}, LESS]}}, "sidecars": [{}]},
        f"{EXECUTOR}.template.spec.containers[1].resources.limits.memory: '-1' is negative",
    ),
    "an init container": (
        {"template": {"spec": {"initContainers": [NONE]}}},
        f"{EXECUTOR}.template.spec.initContainers[0].resources.requests.cpu: 'abc' is not a quantity",
    ),
}


def with_executor(**own: Any) -> Object:
    """An application whose executors are described so."""
    manifest = SPARK.manifest(gang="true")
    manifest["spec"]["executor"] = {"instances": 3, **own}
    return manifest


def refused(manifest: Manifest, sources: Sources) -> list[Fault]:
    """Return the faults that admission reports to the user of the workload."""
    return review(manifest, sources)[0]


def read(manifest: Object, sources: Sources) -> tuple[int, list[str]]:
    """Return the number of gangs that these sources hold, and the faults of the workload."""
    reading = read_all(sources)
    name = manifest["metadata"]["name"]
    return len(reading.gangs), [str(each) for each in reading.faults if each.object.name == name]


@pytest.mark.parametrize(("own", "said"), WRONG_IN_SPARK.values(), ids=WRONG_IN_SPARK)
def test_what_an_executor_asks_for_is_told_with_the_field_in_which_it_stands(own: Object, said: str) -> None:
    manifest = with_executor(**own)
    (fault,) = refused(manifest, Sources())
    assert str(fault).startswith(said)
    assert fault.remedy == REMEDY
    admitted: Any = as_admitted(manifest, Sources())
    driver = pod_of(next(iter(SPARK.pods(stored_spark(admitted)))))
    assert read(manifest, Sources([driver], {key_of(manifest): admitted})) == (0, [str(fault)])


def stored_spark(admitted: Object) -> Object:
    """The application with executors of which pods can be made; only the driver is."""
    found = deepcopy(admitted)
    found["spec"]["executor"] = {"instances": 0}
    return found


@pytest.mark.parametrize("key", ["spark.kubernetes.executor.request.cores", "spark.executor.cores"])
def test_cores_in_the_configuration_of_spark(key: str) -> None:
    manifest = with_executor()
    manifest["spec"]["sparkConf"] = {key: "abc"}
    (fault,) = refused(manifest, Sources())
    assert (fault.field, fault.problem) == (f"spec.sparkConf[{key}]", "'abc' is not a quantity")


@pytest.mark.parametrize("written", ["abc", "-1"])
def test_pods_of_a_described_kind_that_start_later(written: str) -> None:
    later = {"path": "spec.workers.pods", "replicas": "spec.workers.count", "startsLater": True}
    kind = with_more(podTemplates=[{"path": "spec.chief.pods"}, later])
    manifest = training_run().manifest(gang="true")
    manifest["spec"] = {"chief": {"pods": template()}, "workers": {"count": 3, "pods": template(written)}}
    parts = stored(manifest, kind)["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", **parts["chief"]["pods"]}
    pod["metadata"] |= {"name": "w-chief-0", "namespace": "default", "uid": "1", "ownerReferences": [owned(manifest)]}
    there = among(manifest, kind, [pod])
    (fault,) = refused(there.objects[key_of(manifest)], there)
    assert fault.field == "spec.workers.pods.spec.containers[0].resources.requests.cpu"
    assert read(manifest, there) == (0, [str(fault)])


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_workloads_of_every_kind(row: Row) -> None:
    """Definitions of operators that do check let through what is below 0."""
    manifest = row.manifest(gang="true")
    for requests in requests_in(manifest["spec"]):
        requests["cpu"] = "-1"
    (fault,) = refused(manifest, Sources())
    assert fault.field.endswith(".spec.containers[0].resources.requests.cpu")
    assert str(fault).endswith(f": '-1' is negative; {REMEDY}")


def requests_in(part: Any) -> Iterator[Object]:
    """Every mapping of requests below a part of a manifest."""
    for name, each in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if name == "requests":
            yield each
        yield from requests_in(each)


def test_who_asks_for_no_gang_is_not_refused() -> None:
    manifest = with_executor(coreRequest="abc")
    del manifest["metadata"]["annotations"]
    assert refused(manifest, Sources()) == []


def test_a_text_of_any_length_is_told_in_a_line() -> None:
    (fault,) = refused(with_executor(coreRequest="x" * 100_000), Sources())
    assert len(str(fault)) < 300
