"""A SparkApplication is a gang by annotation: its driver first, and the executors that the driver makes."""

from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from workload_operators import Object, spark_application

from cli.main import group
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of, pod_of
from gangs.model import Gang
from gangs.sources import Sources
from gangs.workloads.pod_templates import templates
from kube.keys import NAMED_BY
from kube.placeholders import role_of_seat

ROW = spark_application()
MARKED = {"phalanx.dev/workload": "SparkApplication.sparkoperator.k8s.io"}

DYNAMIC = yaml.safe_load("""
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata:
  name: spark-pi-dynamic-allocation
  namespace: default
  annotations: {phalanx.dev/gang: "true"}
spec:
  type: Scala
  mode: cluster
  image: docker.io/apache/spark:4.0.4
  mainClass: org.apache.spark.examples.SparkPi
  mainApplicationFile: local:///opt/spark/examples/jars/spark-examples.jar
  sparkVersion: 4.0.4
  driver:
    cores: 1
    memory: 512m
    serviceAccount: spark-operator-spark
  executor:
    instances: 1
    cores: 1
    memory: 512m
  dynamicAllocation:
    enabled: true
    initialExecutors: 2
    maxExecutors: 5
    minExecutors: 1
""")
"""The fields of the sample that the operator publishes for dynamic allocation."""


def admitted(**more: Any) -> Object:
    """The application as it is stored, with more in its spec."""
    manifest = ROW.manifest(gang="true")
    manifest["spec"] |= more
    return dict(as_admitted(manifest, Sources()))


def gang_of(manifest: Object, pods: list[Object]) -> Gang:
    """Return the only gang of the application and its pods, and check that the reading has no fault."""
    reading = read_all(Sources([pod_of(each) for each in pods], {key_of(manifest): manifest}))
    assert reading.faults == ()
    (gang,) = reading.gangs
    return gang


def counts(manifest: Object) -> dict[str, tuple[int, int | None]]:
    """Pods of each role, and how many of them must run."""
    return {each.role: (each.count, each.least) for each in templates(manifest)}


def test_driver_and_executors_are_marked_where_the_operator_takes_their_labels_from() -> None:
    spec = admitted()["spec"]
    for role in ("driver", "executor"):
        assert spec[role]["labels"] == {**MARKED, "phalanx.dev/pod-set": role}
        assert spec[role]["annotations"][NAMED_BY] == "sparkoperator.k8s.io/app-name"
        assert "metadata" not in spec[role]


def test_its_pods_are_one_gang_though_the_driver_has_made_the_executors() -> None:
    manifest = admitted()
    gang = gang_of(manifest, list(ROW.pods(manifest))[::-1])
    assert (gang.key.name, gang.source.kind) == ("w", "SparkApplication")
    assert [each.pod.metadata.name for each in gang.members] == list(ROW.names)
    assert {each.name: each.count for each in gang.pod_sets} == dict(ROW.sets)
    assert (gang.expected, gang.min_member, len(gang.to_come)) == (4, 4, 0)


def test_room_is_held_for_executors_until_the_driver_makes_them() -> None:
    manifest = admitted()
    driver, first, *_ = ROW.pods(manifest)
    gang = gang_of(manifest, [driver])
    assert (len(gang.members), [role_of_seat(each.pod.metadata.uid) for each in gang.to_come]) == (4, ["executor"] * 3)
    (container,) = gang.to_come[0].pod.spec.containers
    assert container.resources.requests == {"cpu": "1", "memory": "1408Mi"}
    assert len(gang_of(manifest, [driver, first]).to_come) == 2


@pytest.mark.parametrize(
    ("more", "executors"),
    [
        ({}, (3, None)),
        ({"executor": {}}, (1, None)),
        ({"executor": {}, "sparkConf": {"spark.executor.instances": "4"}}, (4, None)),
        ({"dynamicAllocation": {"enabled": False, "minExecutors": 1}}, (3, None)),
        ({"dynamicAllocation": {"enabled": True, "minExecutors": 2}}, (3, 2)),
        ({"dynamicAllocation": {"enabled": True, "minExecutors": 4, "maxExecutors": 9}}, (4, 4)),
        ({"dynamicAllocation": {"enabled": True, "initialExecutors": 5}}, (5, 0)),
        ({"executor": {}, "dynamicAllocation": {"enabled": True}}, (0, 0)),
        (
            {
                "executor": {},
                "sparkConf": {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "2"},
            },
            (2, 2),
        ),
    ],
)
def test_the_number_of_executors_is_the_one_that_spark_starts_with(more: Object, executors: tuple[int, int]) -> None:
    assert counts(admitted(**more)) == {"driver": (1, None), "executor": executors}


def test_dynamic_allocation_needs_its_least_and_takes_in_what_comes() -> None:
    manifest: Any = as_admitted(DYNAMIC, Sources())
    assert counts(manifest) == {"driver": (1, None), "executor": (2, 1)}
    sources, faults = expanded(Sources(objects={key_of(DYNAMIC): DYNAMIC}))
    assert faults == []
    (gang,) = read_all(sources).gangs
    assert (gang.expected, gang.min_member) == (3, 2)
    assert [each.pod.metadata.name for each in gang.members] == [
        f"spark-pi-dynamic-allocation-{each}" for each in ("driver", "exec-1", "exec-2")
    ]
    more = admitted(dynamicAllocation={"enabled": True, "minExecutors": 1})
    more["spec"]["executor"]["instances"] = 5  # two of these were asked for later
    pods = list(ROW.pods(more))
    more["spec"]["executor"]["instances"] = 3
    found = gang_of(more, pods)
    assert (len(found.members), found.min_member) == (6, 2)


RESOURCES = {
    "cores and a gigabyte": ({"cores": 2, "memory": "4g"}, {"cpu": "2", "memory": "4505Mi"}),
    "a request goes before cores": ({"cores": 2, "coreRequest": "500m"}, {"cpu": "500m", "memory": "1408Mi"}),
    "an overhead": ({"memory": "2g", "memoryOverhead": "100m"}, {"cpu": "1", "memory": "2148Mi"}),
    "a GPU": (
        {"gpu": {"name": "nvidia.com/gpu", "quantity": 4}},
        {"cpu": "1", "memory": "1408Mi", "nvidia.com/gpu": "4"},
    ),
}


@pytest.mark.parametrize(("part", "requests"), RESOURCES.values(), ids=RESOURCES)
def test_what_the_pods_ask_for_is_what_spark_asks_for(part: Object, requests: dict[str, str]) -> None:
    manifest = admitted(driver=part, executor={**part, "instances": 1})
    sources, faults = expanded(Sources(objects={key_of(manifest): manifest}))
    assert faults == []
    for pod in sources.pods:
        assert pod.spec.containers[0].resources.requests == requests


MEMORY: dict[str, tuple[Object, tuple[str, str]]] = {
    "off the heap": (
        {"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "2g"}},
        ("1408Mi", "3456Mi"),
    ),
    "off the heap, in bytes": (
        {"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"}},
        ("1408Mi", "2432Mi"),
    ),
    "off the heap, but not enabled": ({"sparkConf": {"spark.memory.offHeap.size": "2g"}}, ("1408Mi", "1408Mi")),
    "PySpark's": (
        {"type": "Python", "sparkConf": {"spark.executor.pyspark.memory": "512m"}},
        ("1433Mi", "1945Mi"),
    ),
    "PySpark's, but of no Python": ({"sparkConf": {"spark.executor.pyspark.memory": "512m"}}, ("1408Mi", "1408Mi")),
    "a factor for both": ({"sparkConf": {"spark.kubernetes.memoryOverheadFactor": "0.5"}}, ("1536Mi", "1536Mi")),
    "a factor of each": (
        {
            "memoryOverheadFactor": "0.5",
            "sparkConf": {"spark.driver.memoryOverheadFactor": "1", "spark.executor.memoryOverheadFactor": "2"},
        },
        ("2048Mi", "3072Mi"),
    ),
    "the least overhead": (
        {"sparkConf": {"spark.driver.minMemoryOverhead": "500m", "spark.executor.minMemoryOverhead": "600m"}},
        ("1524Mi", "1624Mi"),
    ),
    "all in sparkConf": (
        {
            "type": "Python",
            "sparkConf": {
                "spark.executor.memory": "2g",
                "spark.executor.memoryOverhead": "100",
                "spark.executor.pyspark.memory": "200",
                "spark.memory.offHeap.enabled": "true",
                "spark.memory.offHeap.size": "300m",
            },
        },
        ("1433Mi", "2648Mi"),
    ),
}
"""By case: memory settings in `sparkConf` and in the spec, and the resulting requests of the driver and an executor."""


@pytest.mark.parametrize(("more", "asked"), MEMORY.values(), ids=MEMORY)
def test_memory_is_counted_as_spark_counts_it(more: Object, asked: tuple[str, str]) -> None:
    manifest = admitted(driver={}, executor={"instances": 1}, **more)
    sources, faults = expanded(Sources(objects={key_of(manifest): manifest}))
    assert faults == []
    assert tuple(each.spec.containers[0].resources.requests["memory"] for each in sources.pods) == asked


def test_where_the_pods_may_run_is_read_from_the_application_and_its_template() -> None:
    base = {"spec": {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}}
    part = {"nodeSelector": {"disk": "ssd"}, "template": base}
    manifest = admitted(driver=part, nodeSelector={"arch": "amd64"}, type="Python")
    driver, *_ = expanded(Sources(objects={key_of(manifest): manifest}))[0].pods
    assert driver.spec.node_selector == {"zone": "a", "arch": "amd64", "disk": "ssd"}
    assert [each.key for each in driver.spec.tolerations] == ["gpu"]
    assert driver.spec.containers[0].resources.requests["memory"] == "1433Mi"  # of Python 40 % beside it


WRONG = {
    "instances": ({"executor": {"instances": "three"}}, "spec.executor.instances: expected `int`"),
    "less than none": ({"executor": {"instances": -1}}, "spec.executor.instances: -1 is less than 0"),
    "memory": ({"driver": {"memory": "much"}}, 'spec.driver.memory: "much" is no amount of memory of Spark'),
    "conf": (
        {"executor": {}, "sparkConf": {"spark.executor.instances": "x"}},
        'spec.sparkConf[spark.executor.instances]: "x" is not a number from 0 up',
    ),
    "more than most": (
        {"dynamicAllocation": {"enabled": True, "minExecutors": 3, "maxExecutors": 2}},
        "spec.dynamicAllocation.minExecutors: 3 is more than maxExecutors, 2",
    ),
    "memory off the heap": (
        {"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "much"}},
        'spec.sparkConf[spark.memory.offHeap.size]: "much" is no amount of memory of Spark',
    ),
    "a factor of the executors": (
        {"sparkConf": {"spark.executor.memoryOverheadFactor": "half"}},
        'spec.sparkConf[spark.executor.memoryOverheadFactor]: "half" is no part of the memory',
    ),
    "a factor": ({"memoryOverheadFactor": "half"}, 'spec.memoryOverheadFactor: "half" is no part of the memory'),
    "labels": ({"driver": {"labels": 3}}, "spec.driver.labels: expected `object"),
    "another gang": (
        {"executor": {"instances": 1, "labels": {"phalanx.dev/gang": "g"}}},
        "spec.executor.labels[phalanx.dev/gang]: names Gang g, but the SparkApplication asks to be a gang itself",
    ),
}


@pytest.mark.parametrize(("more", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_with_its_field(more: Object, said: str) -> None:
    manifest = ROW.manifest(gang="true")
    manifest["spec"] |= more
    objects: Any = {key_of(manifest): manifest}
    _, faults = expanded(Sources(objects=objects))
    found = faults or review(as_admitted(manifest, Sources()), Sources())[0]
    assert [said in str(each) for each in found] == [True], found


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_one_that_is_over_is_no_gang(state: str) -> None:
    manifest = {**admitted(), "status": {"applicationState": {"state": state}}}
    assert read_all(Sources(objects={key_of(manifest): manifest})).gangs == ()


def test_no_executors_are_to_come_when_the_driver_has_ended() -> None:
    manifest = admitted()
    driver, *_ = ROW.pods(manifest)
    ended = pod_of({**driver, "status": {"phase": "Succeeded"}})
    assert not any(gang.to_come for gang in read_all(Sources([ended], {key_of(manifest): manifest})).gangs)


def test_runais_annotations_on_it_hold_room_for_executors_as_ours_do() -> None:
    manifest = ROW.manifest()
    asked = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
    manifest["metadata"]["annotations"] = asked
    assert review(manifest, Sources())[0] == []
    stored: Any = as_admitted(manifest, Sources())
    stored["metadata"]["uid"] = "u"
    driver, *executors = (pod_of(each) for each in ROW.pods(stored))
    for there, coming in (([driver], 3), ([driver, *executors], 0)):
        (gang,) = read_all(Sources(there, {key_of(stored): stored})).gangs
        assert (gang.key.dialect, gang.key.name, gang.required) == ("runai", "w", "rack")
        assert (len(gang.members), len(gang.to_come), gang.min_member) == (4, coming, 4)


def test_in_client_mode_there_is_no_driver_pod() -> None:
    assert counts(admitted(mode="client"))["driver"] == (0, None)


def test_the_executors_of_a_gang_that_their_labels_name_are_left_to_that() -> None:
    manifest = ROW.manifest()
    manifest["spec"]["executor"]["labels"] = {"phalanx.dev/gang": "g"}
    assert review(manifest, Sources())[0] == []


def test_solve_plans_it(tmp_path: Any) -> None:
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{index}"},
            "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
        }
        for index in range(2)
    ]
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([ROW.manifest(gang="true"), *nodes]))
    assert "4 pods fit" in CliRunner().invoke(group, ["solve", "-f", str(file)]).output
