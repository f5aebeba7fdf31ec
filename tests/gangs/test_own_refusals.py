"""Wrong requests in our own dialect, and the exact answer to each."""

import pytest
from written import DATACENTER, documents, pod, sources

from gangs.dialects import read_all, review, topologies
from gangs.sources import Sources

LEVELS = "its levels are block (example.com/block), rack (example.com/rack), node (kubernetes.io/hostname)"

GANGS = {
    "an unknown field": ("{minMembers: 2}", "spec.minMembers: is not a known field; correct its name or remove it"),
    "an unknown field of a set": (
        "{podSets: [{name: a, count: 1, minCont: 1}]}",
        "spec.podSets[0].minCont: is not a known field; correct its name or remove it",
    ),
    "a slip in the affinity": (
        "{minMember: 1, nodeAffinity: {requiredDuringScheduling: {}}}",
        "spec.nodeAffinity.requiredDuringScheduling: is not a known field; correct its name or remove it",
    ),
    "a number that is text": (
        '{minMember: "2"}',
        "spec.minMember: expected `int | null`, got `str`; correct the value",
    ),
    "a set without a count": ("{podSets: [{name: a}]}", "spec.podSets[0].count: is missing; set it"),
    "a minimum of none": (
        "{minMember: 0}",
        "spec.minMember: 0 is less than 1; write 1 or more, or leave it out",
    ),
    "a minimum above the total": (
        "{minMember: 5, podSets: [{name: a, count: 3}, {name: b, count: 1}]}",
        "spec.minMember: 5 is more than the 4 members of all pod sets; lower it to 4 or raise the counts",
    ),
    "a set's minimum above its count": (
        "{podSets: [{name: a, count: 3, minCount: 4}]}",
        "spec.podSets[0].minCount: 4 is not between 0 and the count, 3; correct it or leave it out",
    ),
    "an empty set": (
        "{podSets: [{name: a, count: 0}]}",
        "spec.podSets[0].count: 0 is less than 1; write the number of members",
    ),
    "a set name that no label can hold": (
        "{podSets: [{name: a/b, count: 1}]}",
        (
            'spec.podSets[0].name: "a/b" cannot be the value of a label; '
            "use up to 63 letters, digits, dashes, dots and underscores"
        ),
    ),
    "two sets of one name": (
        "{podSets: [{name: a, count: 1}, {name: a, count: 1}]}",
        'spec.podSets: 2 sets are called "a"; give each a name of its own',
    ),
    "a level that the topology lacks": (
        "{minMember: 2, required: rak}",
        f'spec.required: "rak" is not a level of Topology datacenter; {LEVELS}',
    ),
    "a level of a rule that the topology lacks": (
        "{podSets: [{name: a, count: 2, slices: [{level: hall, size: 2}]}]}",
        f'spec.podSets[0].slices[0].level: "hall" is not a level of Topology datacenter; {LEVELS}',
    ),
    "preferred above required": (
        "{minMember: 2, required: rack, preferred: block}",
        (
            'spec.preferred: "block" is wider than the required level "rack"; '
            "prefer rack or a narrower level, or leave it out"
        ),
    ),
    "a set's preferred above the gang's required": (
        "{required: rack, podSets: [{name: a, count: 2, preferred: block}]}",
        (
            'spec.podSets[0].preferred: "block" is wider than the required level "rack"; '
            "prefer rack or a narrower level, or leave it out"
        ),
    ),
    "slices that do not divide the count": (
        "{podSets: [{name: a, count: 6, slices: [{level: rack, size: 4}]}]}",
        "spec.podSets[0].slices[0].size: 4 does not divide the count, 6; choose a size that divides it",
    ),
    "slices that do not divide each other": (
        "{podSets: [{name: a, count: 12, slices: [{level: block, size: 6}, {level: rack, size: 4}]}]}",
        (
            "spec.podSets[0].slices[1].size: 4 does not divide 6, the size before it; "
            "choose sizes that divide each other"
        ),
    ),
    "slices from narrow to wide": (
        "{podSets: [{name: a, count: 4, slices: [{level: rack, size: 4}, {level: block, size: 2}]}]}",
        (
            'spec.podSets[0].slices[1].level: "block" is not narrower than "rack" before it; '
            "list slices from the widest level to the narrowest"
        ),
    ),
    "slices of nothing": (
        "{podSets: [{name: a, count: 4, slices: [{level: rack, size: 0}]}]}",
        "spec.podSets[0].slices[0].size: 0 is less than 1; write 1 or more",
    ),
    "multiples that cannot come out even": (
        "{podSets: [{name: a, count: 7, minCount: 5, multiples: [{level: rack, of: 4}]}]}",
        (
            "spec.podSets[0].multiples: no number of members from 5 to 7 is a multiple of 4; "
            "change the count, the minCount or the multiples"
        ),
    ),
    "multiples of nothing": (
        "{podSets: [{name: a, count: 7, multiples: [{level: rack, of: 0}]}]}",
        "spec.podSets[0].multiples[0].of: 0 is less than 1; write 1 or more, or remove the rule",
    ),
    "two caps on one level": (
        "{podSets: [{name: a, count: 7, maxPerDomain: [{level: rack, count: 4}, {level: rack, count: 5}]}]}",
        'spec.podSets[0].maxPerDomain: names level "rack" 2 times; keep one rule a level',
    ),
    "a set that is together with a stranger": (
        "{podSets: [{name: a, count: 1}], together: [{podSets: [a, b], level: rack}]}",
        'spec.together[0].podSets: "b" is not a pod set of this gang; name sets of spec.podSets',
    ),
    "a set that is together with itself": (
        "{podSets: [{name: a, count: 1}], together: [{podSets: [a, a], level: rack}]}",
        "spec.together[0].podSets: names fewer than two sets; name two or more, or use the set's own required",
    ),
    "a policy that is not built yet": (
        "{minMember: 2, onFailure: Restart}",
        (
            'spec.onFailure: "Restart" is not built yet; '
            "write Wait, or leave it out: a member that cannot be replaced then waits"
        ),
    ),
    "a policy nobody knows": (
        "{minMember: 2, onFailure: Panic}",
        'spec.onFailure: "Panic" is not known; write Wait',
    ),
    "no time at all": (
        "{minMember: 2, scheduleTimeoutSeconds: 0}",
        "spec.scheduleTimeoutSeconds: 0 is less than 1; leave it out to wait for ever",
    ),
}


@pytest.mark.parametrize(("spec", "fault"), GANGS.values(), ids=GANGS)
def test_a_gang_is_refused_for(spec: str, fault: str) -> None:
    text = f"""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {{name: llm, namespace: default}}
        spec: {spec}
    """
    faults, _ = review(documents(text)[0], sources(DATACENTER))
    assert [str(each) for each in faults] == [f"Gang default/llm: {fault}"]
    reading = read_all(sources(DATACENTER, text))
    assert (reading.gangs, list(reading.faults)) == ((), faults)


def test_one_of_several_topologies_must_be_named() -> None:
    text = """
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {name: llm, namespace: default}
        spec: {minMember: 2}
    """
    both = sources(DATACENTER, DATACENTER.replace("datacenter", "annex"))
    faults, _ = review(documents(text)[0], both)
    assert [str(each) for each in faults] == [
        "Gang default/llm: spec.topology: is not set, and there are several topologies; name one of annex, datacenter"
    ]


TOPOLOGIES = {
    "no level": ("{levels: []}", "spec.levels: has 0 levels; list 1 to 16, widest first"),
    "no levels field": ("{}", "spec.levels: is missing; set it"),
    "no spec": ("null", "spec: expected `object`, got `null`; correct the value"),
    "a level without a label": ("{levels: [{name: a}]}", "spec.levels[0].nodeLabel: is missing; set it"),
    "a name used twice": (
        "{levels: [{name: a, nodeLabel: x}, {name: a, nodeLabel: y}]}",
        'spec.levels[1].name: "a" stands for spec.levels[0] too; give each level a name and a label of its own',
    ),
    "a label used twice": (
        "{levels: [{name: a, nodeLabel: x}, {name: b, nodeLabel: x}]}",
        'spec.levels[1].nodeLabel: "x" stands for spec.levels[0] too; give each level a name and a label of its own',
    ),
    "the node above another level": (
        "{levels: [{name: host, nodeLabel: kubernetes.io/hostname}, {name: a, nodeLabel: x}]}",
        "spec.levels[0].nodeLabel: kubernetes.io/hostname is the node; put it last or leave it out",
    ),
    "a key that no label can have": (
        '{levels: [{name: a, nodeLabel: "my rack"}]}',
        'spec.levels[0].nodeLabel: "my rack" cannot be the key of a node label; write a key such as example.com/rack',
    ),
}


@pytest.mark.parametrize(("spec", "fault"), TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_a_topology_is_refused_for(spec: str, fault: str) -> None:
    text = f"{{apiVersion: phalanx.dev/v1alpha1, kind: Topology, metadata: {{name: dc}}, spec: {spec}}}"
    faults, _ = review(documents(text)[0], Sources())
    assert [str(each) for each in faults] == [f"Topology dc: {fault}"]
    assert topologies(sources(text)) == ([], faults)


def job(annotations: str, template: str = "{}") -> str:
    return f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train, namespace: default, annotations: {annotations}}}
        spec: {{parallelism: 4, template: {{metadata: {{labels: {template}}}, spec: {{}}}}}}
    """


JOBS = {
    "neither yes nor no": (
        job("{phalanx.dev/gang: llm}"),
        (
            'metadata.annotations[phalanx.dev/gang]: "llm" is neither "true" nor "false"; '
            'write "true"; a Gang object is named on the pod template'
        ),
    ),
    "a minimum that is no number": (
        job("{phalanx.dev/min-member: some}"),
        'metadata.annotations[phalanx.dev/min-member]: "some" is not a number from 1 up; correct it',
    ),
    "a minimum above what it runs": (
        job('{phalanx.dev/min-member: "5"}'),
        (
            "metadata.annotations[phalanx.dev/min-member]: 5 is more than the 4 pods that the Job runs at a time; "
            "lower it to 4 or raise spec.parallelism and spec.completions"
        ),
    ),
    "a level that the topology lacks": (
        job("{phalanx.dev/required: hall}"),
        f'metadata.annotations[phalanx.dev/required]: "hall" is not a level of Topology datacenter; {LEVELS}',
    ),
    "preferred above required": (
        job("{phalanx.dev/required: rack, phalanx.dev/preferred: block}"),
        (
            'metadata.annotations[phalanx.dev/preferred]: "block" is wider than the required level "rack"; '
            "prefer rack or a narrower level, or leave it out"
        ),
    ),
    "two ways of asking at once": (
        job("{phalanx.dev/required: rack}", "{phalanx.dev/gang: llm}"),
        (
            "spec.template.metadata.labels[phalanx.dev/gang]: names Gang llm, "
            "but the Job asks to be a gang itself; remove one of the two"
        ),
    ),
    "an annotation that is no text": (
        job("{phalanx.dev/min-member: 4}"),
        "metadata.annotations[...]: expected `str`, got `int`; correct the value",
    ),
}


@pytest.mark.parametrize(("text", "fault"), JOBS.values(), ids=JOBS)
def test_a_job_is_refused_for(text: str, fault: str) -> None:
    faults, _ = review(documents(text)[0], sources(DATACENTER))
    assert [str(each) for each in faults] == [f"Job default/train: {fault}"]


def test_a_job_and_a_gang_of_one_name_are_two_ways_of_asking() -> None:
    gang = """
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {name: train, namespace: default}
        spec: {minMember: 2}
    """
    faults, _ = review(documents(job('{phalanx.dev/gang: "true"}'))[0], sources(gang))
    assert [str(each) for each in faults] == [
        (
            "Job default/train: metadata.name: Gang train has the same name; "
            "label the pod template phalanx.dev/gang: train instead of annotating the Job, or rename one"
        )
    ]


def workload(kind: str, annotations: str) -> str:
    api = {"Deployment": "apps/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "RayCluster": "ray.io/v1"}[kind]
    return f"{{apiVersion: {api}, kind: {kind}, metadata: {{name: w, namespace: default, annotations: {annotations}}}}}"


@pytest.mark.parametrize("kind", ["Deployment", "JobSet", "RayCluster"])
def test_workloads_of_other_kinds_are_refused_by_name(kind: str) -> None:
    faults, _ = review(documents(workload(kind, '{phalanx.dev/gang: "true"}'))[0], Sources())
    assert [str(each) for each in faults] == [
        (
            f"{kind} default/w: metadata.annotations[phalanx.dev/gang]: a {kind} cannot be made a gang by annotations "
            "yet; make a Gang object and label the pod template phalanx.dev/gang: <its name>"
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


SETS = """
    apiVersion: phalanx.dev/v1alpha1
    kind: Gang
    metadata: {name: llm, namespace: default}
    spec: {podSets: [{name: a, count: 2}, {name: b, count: 1}]}
"""


def member(name: str, labels: str, annotations: str = "{}", priority: int = 0) -> str:
    return f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: {name}, namespace: default, labels: {labels}, annotations: {annotations}}}
        spec: {{priority: {priority}}}
    """


SET_A = "{phalanx.dev/gang: llm, phalanx.dev/pod-set: a}"
PODS = {
    "no pod set where there are several": (
        member("p", "{phalanx.dev/gang: llm}"),
        "metadata.labels[phalanx.dev/pod-set]: is absent, and Gang default/llm has several pod sets; write one of a, b",
    ),
    "a pod set that is not there": (
        member("p", "{phalanx.dev/gang: llm, phalanx.dev/pod-set: c}"),
        'metadata.labels[phalanx.dev/pod-set]: "c" is not a pod set of Gang default/llm; write one of a, b',
    ),
    "a rank that is no number": (
        member("p", SET_A, "{phalanx.dev/index: first}"),
        (
            'metadata.annotations[phalanx.dev/index]: "first" is not a whole number from 0 up; '
            "write the member's rank, or leave it out"
        ),
    ),
    "a rank below none": (
        member("p", SET_A, '{phalanx.dev/index: "-1"}'),
        (
            'metadata.annotations[phalanx.dev/index]: "-1" is not a whole number from 0 up; '
            "write the member's rank, or leave it out"
        ),
    ),
    "two ranks": (
        member("p", SET_A[:-1] + ', phalanx.dev/index: "1"}', '{phalanx.dev/index: "2"}'),
        (
            "metadata.labels[phalanx.dev/index]: differs from metadata.annotations[phalanx.dev/index]; "
            "write the rank once"
        ),
    ),
    "a rank that a sibling holds": (
        member("p", SET_A, '{phalanx.dev/index: "0"}'),
        (
            "metadata.annotations[phalanx.dev/index]: rank 0 is already held by Pod default/first; "
            "give each live member a rank of its own"
        ),
    ),
    "another priority than its siblings'": (
        member("p", SET_A, priority=5),
        (
            "spec.priority: 5 differs from 0 of Pod default/first in Gang default/llm; "
            "give all members of a gang one priority"
        ),
    ),
}


@pytest.mark.parametrize(("text", "fault"), PODS.values(), ids=PODS)
def test_a_pod_is_refused_for(text: str, fault: str) -> None:
    first = pod(
        "first",
        labels={"phalanx.dev/gang": "llm", "phalanx.dev/pod-set": "a"},
        annotations={"phalanx.dev/index": "0"},
        created="2026-01-01T00:00:00Z",
    )
    faults, _ = review(documents(text)[0], Sources(pods=[first], objects=sources(SETS).objects))
    assert [str(each) for each in faults] == [f"Pod default/p: {fault}"]


ADVICE = {
    "a minCount without effect": (
        """
            apiVersion: phalanx.dev/v1alpha1
            kind: Gang
            metadata: {name: llm, namespace: default}
            spec: {podSets: [{name: a, count: 4, minCount: 2}]}
        """,
        (
            "Gang default/llm: spec.podSets[0].minCount: has no effect: spec.minMember is absent, "
            "so all 4 members must start together"
        ),
    ),
    "an annotation nobody reads": (
        job('{phalanx.dev/gang: "true", phalanx.dev/requierd: rack}'),
        (
            "Job default/train: metadata.annotations[phalanx.dev/requierd]: is ignored: the known annotations are "
            "phalanx.dev/gang, phalanx.dev/required, phalanx.dev/preferred, phalanx.dev/min-member, "
            "phalanx.dev/topology"
        ),
    ),
    "a topology that is not there yet": (
        job("{phalanx.dev/required: rack, phalanx.dev/topology: hall}"),
        "Job default/train: metadata.name: the gang default/train waits for Topology hall",
    ),
    "a gang that is not there yet": (
        member("p", "{phalanx.dev/gang: llm}"),
        "Pod default/p: metadata.name: the gang default/llm waits for Gang default/llm",
    ),
}


@pytest.mark.parametrize(("text", "advice"), ADVICE.values(), ids=ADVICE)
def test_a_warning_is_given_for(text: str, advice: str) -> None:
    faults, given = review(documents(text)[0], sources(DATACENTER))
    assert faults == []
    assert [str(each) for each in given] == [advice]
