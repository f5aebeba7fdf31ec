"""Invalid requests in Phalanx's own dialect that a row of the refusal tables cannot express."""

import pytest
from refusal_cases import Case, cases, sources_of
from written import documents, sources

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.topologies import topologies
from gangs.sources import Sources

TOPOLOGIES = [
    case for case in cases() if case.write["apiVersion"] == "phalanx.dev/v1alpha1" and case.write["kind"] == "Topology"
]


@pytest.mark.parametrize("case", TOPOLOGIES, ids=str)
def test_a_wrong_topology_is_none(case: Case) -> None:
    found, faults = topologies(sources_of([case.write]))
    assert (found, [str(each) for each in faults]) == ([], [case.refused])


def workload(kind: str, annotations: str) -> str:
    api = {
        "Deployment": "apps/v1",
        "Service": "serving.knative.dev/v1",
    }
    metadata = f"{{name: w, namespace: default, annotations: {annotations}}}"
    return f"{{apiVersion: {api[kind]}, kind: {kind}, metadata: {metadata}}}"


INSTEAD = {
    "Service": "make a Gang object and label the pod template phalanx.dev/gang: <its name>",
}
"""By kind: what to do where annotations make no gang of it."""


@pytest.mark.parametrize("kind", INSTEAD)
def test_workloads_of_other_kinds_are_refused_by_name(kind: str) -> None:
    faults, _ = review(documents(workload(kind, '{phalanx.dev/gang: "true"}'))[0], Sources())
    assert [str(each) for each in faults] == [
        (
            f"{kind} default/w: metadata.annotations[phalanx.dev/gang]: a {kind} cannot be made a gang by annotations "
            f"yet; {INSTEAD[kind]}"
        )
    ]


def test_workloads_of_other_kinds_in_an_automatic_namespace_are_only_warned() -> None:
    where = Sources(namespaces={"default": {"phalanx.dev/automatic": "true"}})
    faults, advice = review(documents(workload("Deployment", "{}"))[0], where)
    assert faults == []
    assert [each.text for each in advice] == [
        "the namespace is automatic, but a Deployment is not made a gang yet: its pods start one by one"
    ]
    assert review(documents(workload("Deployment", "{}"))[0], Sources()) == ([], [])


MISPLACED = {
    "wishes on the template": (
        "metadata: {name: train}",
        "annotations: {phalanx.dev/required: rack}",
        (
            "spec.template.metadata.annotations[phalanx.dev/required]: "
            "asks for nothing there: write it on the Job itself"
        ),
    ),
    "the pods' label on the Job": (
        "metadata: {name: train, labels: {phalanx.dev/gang: llm}}",
        "labels: {app: train}",
        (
            "metadata.labels[phalanx.dev/gang]: "
            "does not reach the pods: write it at spec.template.metadata.labels[phalanx.dev/gang]"
        ),
    ),
    "a slip of the pen": (
        'metadata: {name: train, annotations: {phalanx.dev/gnag: "true"}}',
        "labels: {app: train}",
        (
            "metadata.annotations[phalanx.dev/gnag]: is ignored: the known annotations are phalanx.dev/gang, "
            "phalanx.dev/required, phalanx.dev/preferred, phalanx.dev/min-member, phalanx.dev/topology, "
            "phalanx.dev/placeholders, phalanx.dev/ignore-resource-claims, phalanx.dev/expected-duration"
        ),
    ),
}


@pytest.mark.parametrize(("metadata", "template", "advice"), MISPLACED.values(), ids=MISPLACED)
def test_what_asks_for_a_gang_in_the_wrong_place_is_told(metadata: str, template: str, advice: str) -> None:
    """The dry run and the doctor report it. The webhook does not receive a Job without gang keys in the right place."""
    text = f"""
        apiVersion: batch/v1
        kind: Job
        {metadata}
        spec: {{parallelism: 2, template: {{metadata: {{{template}}}, spec: {{}}}}}}
    """
    assert [str(each) for each in read_all(sources(text)).advice] == [f"Job default/train: {advice}"]


def test_what_admission_writes_itself_is_no_slip_of_the_pen() -> None:
    text = """
        apiVersion: batch/v1
        kind: Job
        metadata: {name: train, namespace: default, annotations: {phalanx.dev/created-suspended: "true"}}
        spec: {parallelism: 2, template: {metadata: {}, spec: {}}}
    """
    assert review(documents(text)[0], Sources()) == ([], [])
