"""Run:ai's Topology and its annotations on Jobs: what is read, and the exact answer to what is wrong."""

from typing import Any

import pytest
import yaml
from written import DATACENTER, documents, sources

from gangs.dialects.claims import dialect_of
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted, template_labels
from gangs.model import Gang
from gangs.sources import Sources
from kube.topology import Level

EXAMPLE = """
    apiVersion: kai.scheduler/v1alpha1
    kind: Topology
    metadata: {name: network}
    spec:
      levels:
      - {nodeLabel: cloud.provider.com/topology-zone}
      - {nodeLabel: cloud.provider.com/topology-block, alias: pod}
      - {nodeLabel: cloud.provider.com/topology-rack}
      - {nodeLabel: kubernetes.io/hostname}
"""
"""zone > block > rack > node."""
KEY = "kai.scheduler/topology"
GUIDE = {f"{KEY}": "network", f"{KEY}-required-placement": "zone", f"{KEY}-preferred-placement": "rack"}


def job(annotations: dict[str, str] | None = None, template: dict[str, Any] | None = None, **spec: Any) -> str:
    """A Job of 4 pods with the guide's annotations."""
    metadata = {"name": "j", "annotations": GUIDE if annotations is None else annotations}
    whole = {"parallelism": 4, "template": {"metadata": template or {}, "spec": {}}, **spec}
    return yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": whole})


def gang_of(*texts: str, **more: Any) -> Gang:
    grown, faults = expanded(sources(*texts, **more))
    reading = read_all(grown)
    assert (faults, reading.faults) == ([], ())
    (gang,) = reading.gangs
    return gang


def faults_of(*texts: str) -> list[str]:
    """Return the faults of the last object, reviewed beside the others."""
    *others, mine = documents(*texts)
    mine["metadata"].setdefault("namespace", "" if mine["kind"] == "Topology" else "default")
    return [str(each) for each in review(mine, sources(*(yaml.safe_dump(each) for each in others)))[0]]


def test_the_guides_job_is_one_gang_of_all_its_pods() -> None:
    gang = gang_of(EXAMPLE, job())
    assert (gang.key.dialect, gang.expected, gang.min_member, len(gang.members)) == ("runai", 4, 4, 4)
    assert (gang.topology, gang.required, gang.preferred) == ("network", "zone", "rack")
    assert gang.topology_kind == "Topology.kai.scheduler"


def test_annotations_on_the_pod_template_count_too() -> None:
    gang = gang_of(EXAMPLE, job({}, {"annotations": GUIDE}))
    assert (gang.required, gang.preferred) == ("zone", "rack")


def test_the_template_is_labelled_and_its_pods_belong_to_this_dialect() -> None:
    (manifest,) = documents(job())
    assert template_labels(manifest, Sources()) == {"phalanx.dev/workload": "runai.Job"}
    assert as_admitted(as_admitted(manifest, Sources()), Sources()) == as_admitted(manifest, Sources())
    (pod, *_) = expanded(sources(EXAMPLE, job()))[0].pods
    claim = dialect_of(pod)
    assert claim is not None
    assert (claim[0].name, str(claim[1])) == ("runai", "default/j")


@pytest.mark.parametrize("annotations", [{}, {**GUIDE, "kai.scheduler/skip-podgrouper": "true"}])
def test_a_job_that_does_not_ask_is_left_alone(annotations: dict[str, str]) -> None:
    assert read_all(expanded(sources(EXAMPLE, job(annotations)))[0]).gangs == ()


def test_what_is_asked_for_in_an_automatic_namespace_is_not_automatic() -> None:
    gang = gang_of(EXAMPLE, job(), namespaces={"default": {"phalanx.dev/automatic": "true"}})
    assert (gang.key.dialect, gang.preferred) == ("runai", "rack")


def test_the_minimum_may_be_lower_than_all_pods() -> None:
    assert gang_of(EXAMPLE, job({**GUIDE, "kai.scheduler/batch-min-member": "3"})).min_member == 3


def test_a_topology_that_is_not_there_is_waited_for() -> None:
    assert gang_of(DATACENTER, job()).waiting_for == ("Topology.kai.scheduler network",)


def test_the_label_of_a_node_pool_keeps_the_pods_to_it() -> None:
    gang = gang_of(EXAMPLE, job(GUIDE, {"labels": {"kai.scheduler/node-pool": "gb200"}}))
    affinity = gang.node_affinity
    assert affinity is not None
    assert affinity.required is not None
    (term,) = affinity.required.node_selector_terms
    assert [(each.key, each.values) for each in term.match_expressions] == [("kai.scheduler/node-pool", ("gb200",))]


LEVELS = {
    "the label's last part and what follows topology-": (
        [{"nodeLabel": "x.io/topology-rack"}],
        Level("rack", ("x.io/topology-rack",), aliases=("topology-rack",)),
    ),
    "a last part without topology-": ([{"nodeLabel": "x.io/row"}], Level("row", ("x.io/row",))),
    "its alias first": (
        [{"nodeLabel": "x.io/topology-rack", "alias": "shelf"}],
        Level("shelf", ("x.io/topology-rack",), aliases=("topology-rack", "rack")),
    ),
    "its label alone where another level has the same last part": (
        [{"nodeLabel": "a.io/rack"}, {"nodeLabel": "b.io/rack"}],
        Level("a.io/rack", ("a.io/rack",)),
    ),
    "its label alone where another's alias is its last part": (
        [{"nodeLabel": "a.io/rack"}, {"nodeLabel": "b.io/row", "alias": "rack"}],
        Level("a.io/rack", ("a.io/rack",)),
    ),
}


@pytest.mark.parametrize(("levels", "expected"), LEVELS.values(), ids=LEVELS)
def test_a_level_goes_by(levels: list[dict[str, str]], expected: Level) -> None:
    written = documents(EXAMPLE)[0] | {"spec": {"levels": levels}}
    gang = gang_of(yaml.safe_dump(written), job({KEY: "network"}))
    assert gang.topology == "network"
    from gangs.dialects.topologies import topologies  # noqa: PLC0415 -- beside its only use

    (topology,), _ = topologies(sources(yaml.safe_dump(written)))
    assert topology.levels[0] == expected
    assert topology.node_level == Level("node", ("kubernetes.io/hostname",), aliases=("hostname",))


A, B, NODE = {"nodeLabel": "x.io/a"}, {"nodeLabel": "x.io/b"}, {"nodeLabel": "kubernetes.io/hostname"}
