"""Run:ai's Topology and its annotations on Jobs: what is read, and the exact answer to what is wrong."""

from typing import Any

import pytest
import yaml
from written import DATACENTER, documents, sources

from gangs.dialects import as_admitted, dialect_of, expanded, read_all, review, template_labels
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
    """What is wrong with the last object, standing among the others."""
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
    from gangs.dialects import topologies  # noqa: PLC0415 -- beside its only use

    (topology,), _ = topologies(sources(yaml.safe_dump(written)))
    assert topology.levels[0] == expected
    assert topology.node_level == Level("node", ("kubernetes.io/hostname",), aliases=("hostname",))


AT = "Job default/j: metadata.annotations"
LIST = (
    "its levels are zone (cloud.provider.com/topology-zone), pod (cloud.provider.com/topology-block), "
    "rack (cloud.provider.com/topology-rack), node (kubernetes.io/hostname)"
)
REFUSALS = {
    "a level that the topology lacks": (
        {**GUIDE, f"{KEY}-required-placement": "row"},
        f'{AT}[{KEY}-required-placement]: "row" is not a level of Topology.kai.scheduler network; {LIST}',
    ),
    "preferred above required": (
        {**GUIDE, f"{KEY}-required-placement": "rack", f"{KEY}-preferred-placement": "zone"},
        (
            f'{AT}[{KEY}-preferred-placement]: "zone" is wider than the required level "rack"; '
            "prefer rack or a narrower level, or leave it out"
        ),
    ),
    "preferred and required the same, under two names": (
        {**GUIDE, f"{KEY}-required-placement": "pod", f"{KEY}-preferred-placement": "topology-block"},
        (
            f'{AT}[{KEY}-preferred-placement]: "topology-block" is the required level "pod" itself; '
            "prefer a level below it, such as rack, or leave it out"
        ),
    ),
    "a minimum above the total": (
        {**GUIDE, "kai.scheduler/batch-min-member": "5"},
        (
            f"{AT}[kai.scheduler/batch-min-member]: 5 is more than the 4 pods that the Job runs at a time; "
            "lower it to 4 or raise spec.parallelism and spec.completions"
        ),
    ),
    "a minimum that is no number": (
        {**GUIDE, "kai.scheduler/batch-min-member": "all"},
        f'{AT}[kai.scheduler/batch-min-member]: "all" is not a number from 1 up; correct it',
    ),
    "two ways at once": (
        {**GUIDE, "phalanx.dev/required": "rack"},
        (
            f"{AT}[phalanx.dev/required]: asks for the gang that annotations of kai.scheduler ask for already; "
            "keep the annotations of one of the two"
        ),
    ),
    "segments": (
        {**GUIDE, "kai.scheduler/segment-size": "2"},
        (
            f"{AT}[kai.scheduler/segment-size]: has no meaning on a Job: it divides PyTorchJobs and LeaderWorkerSets; "
            "remove it, or write a Gang with slices for the Job's pods"
        ),
    ),
}


@pytest.mark.parametrize(("annotations", "answer"), REFUSALS.values(), ids=REFUSALS)
def test_refused_on_a_job(annotations: dict[str, str], answer: str) -> None:
    assert faults_of(EXAMPLE, job(annotations)) == [answer]


def test_job_and_template_must_agree() -> None:
    assert faults_of(EXAMPLE, job(GUIDE, {"annotations": {f"{KEY}-preferred-placement": "node"}})) == [
        (
            f'Job default/j: spec.template.metadata.annotations[{KEY}-preferred-placement]: "node" differs from "rack" '
            "on the Job; write it on one of the two, or the same on both"
        )
    ]


def test_another_kind_of_workload_is_refused_by_name() -> None:
    written = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "annotations": GUIDE}}
    assert faults_of(EXAMPLE, yaml.safe_dump(written)) == [
        (
            f"StatefulSet default/s: metadata.annotations[{KEY}]: a StatefulSet cannot be made a gang by annotations "
            "yet; make a Gang object and label the pod template phalanx.dev/gang: <its name>"
        )
    ]


WARNED = {
    "kai.scheduler/topologie": "is ignored: the known annotations are kai.scheduler/topology, ",
    "kai.scheduler/preemption-delay": "is not honoured: victims go when the gang is placed",
}


@pytest.mark.parametrize(("key", "text"), WARNED.items())
def test_an_annotation_that_is_not_read_is_a_warning(key: str, text: str) -> None:
    (manifest,) = documents(job({**GUIDE, key: "1m"}))
    manifest["metadata"]["namespace"] = "default"
    faults, advice = review(manifest, sources(EXAMPLE))
    assert faults == []
    assert any(text in str(each) and key in each.field for each in advice)


def levels(*written: dict[str, str]) -> str:
    return yaml.safe_dump(documents(EXAMPLE)[0] | {"spec": {"levels": list(written)}})


A, B, NODE = {"nodeLabel": "x.io/a"}, {"nodeLabel": "x.io/b"}, {"nodeLabel": "kubernetes.io/hostname"}
WRONG = {
    "no level": ([], "spec.levels: has 0 levels; list 1 to 16, widest first"),
    "a label twice": (
        [A, A],
        'spec.levels[1].nodeLabel: "x.io/a" is spec.levels[0] already; give each level a label of its own',
    ),
    "the node above": (
        [NODE, A],
        "spec.levels[0].nodeLabel: kubernetes.io/hostname is the node; put it last or leave it out",
    ),
    "no label": (
        [{"nodeLabel": "-"}],
        'spec.levels[0].nodeLabel: "-" cannot be the key of a node label; write a key such as example.com/rack',
    ),
    "an alias twice": (
        [{**A, "alias": "q"}, {**B, "alias": "q"}],
        'spec.levels[1].alias: "q" is spec.levels[0] already; give each level an alias of its own',
    ),
    "an alias that is a label": (
        [A, {**B, "alias": "x.io/a"}],
        'spec.levels[1].alias: "x.io/a" is the nodeLabel of spec.levels[0]; choose a name that is no level\'s label',
    ),
}


@pytest.mark.parametrize(("entries", "answer"), WRONG.values(), ids=WRONG)
def test_refused_on_a_topology(entries: list[dict[str, str]], answer: str) -> None:
    assert faults_of(levels(*entries)) == [f"Topology network: {answer}"]
