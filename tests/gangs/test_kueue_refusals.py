"""Wrong requests in Kueue's words, and the exact answer to each."""

from typing import Any

import pytest
from kueue_objects import FIELD, GROUP, POOL, job, pool_object
from written import documents, pod, sources

from gangs.dialects import as_admitted, read_all, review
from gangs.model import Manifest
from gangs.sources import Sources

LEVELS = (
    "its levels are example.com/block (example.com/block), example.com/rack (example.com/rack), "
    "kubernetes.io/hostname (kubernetes.io/hostname)"
)
RACK, BLOCK = "example.com/rack", "example.com/block"
PODS = "the 4 pods of the set"


def reviewed(manifest: Manifest, around: Sources) -> tuple[list[str], list[str]]:
    """What is wrong with an object, and what it is warned of, after its admission."""
    faults, advice = review(as_admitted(manifest, around), around)
    return [str(each) for each in faults], [str(each) for each in advice]


JOBS_WRONG = {
    "a level that the topology lacks": (
        job(required_topology="zone"),
        f'{FIELD}podset-required-topology]: "zone" is not a level of Topology.kueue.x-k8s.io default; {LEVELS}',
    ),
    "preferred above required": (
        job(required_topology=RACK, preferred_topology=BLOCK),
        (
            f'{FIELD}podset-preferred-topology]: "{BLOCK}" is wider than the required level "{RACK}"; '
            f"prefer {RACK} or a narrower level, or leave it out"
        ),
    ),
    "anywhere and in a rack": (
        job(unconstrained_topology="true", required_topology=RACK),
        f"{FIELD}podset-unconstrained-topology]: contradicts {GROUP}/podset-required-topology; keep one of them",
    ),
    "neither true nor false": (
        job(unconstrained_topology="yes"),
        f'{FIELD}podset-unconstrained-topology]: "yes" is neither "true" nor "false"; write "true" or leave it out',
    ),
    "slices without a size": (
        job(slice_required_topology=RACK),
        f"{FIELD}podset-slice-size]: is missing, but {GROUP}/podset-slice-required-topology is set; set both or none",
    ),
    "a size without slices": (
        job(slice_size="2"),
        f"{FIELD}podset-slice-required-topology]: is missing, but {GROUP}/podset-slice-size is set; set both or none",
    ),
    "a size that is no number": (
        job(slice_required_topology=RACK, slice_size="two"),
        f'{FIELD}podset-slice-size]: "two" is not a whole number from 1 up; write the number of pods in a slice',
    ),
    "slices that leave pods over": (
        job(slice_required_topology=RACK, slice_size="3"),
        f"{FIELD}podset-slice-size]: 3 does not divide {PODS}; choose a size that does",
    ),
    "slices wider than the gang": (
        job(required_topology=RACK, slice_required_topology=BLOCK, slice_size="2"),
        (
            f'{FIELD}podset-slice-required-topology]: "{BLOCK}" is wider than the required level "{RACK}"; '
            f"prefer {RACK} or a narrower level, or leave it out"
        ),
    ),
    "layers that are no JSON": (
        job(slice_required_topology_constraints="[{"),
        (
            f"{FIELD}podset-slice-required-topology-constraints]: is not JSON: line 1, column 3: Expecting property "
            'name enclosed in double quotes; write [{"topology": "…", "size": …}], widest first'
        ),
    ),
    "a layer without a size": (
        job(slice_required_topology_constraints='[{"topology": "example.com/rack", "size": "2"}]'),
        (
            f"{FIELD}podset-slice-required-topology-constraints][0]: is no pair of a topology and a size from 1 up; "
            "name a level's label and a number"
        ),
    ),
    "a group of pod sets": (
        job(group_name="leader"),
        (
            f"{FIELD}podset-group-name]: needs two pod sets, and there is one; "
            "leave it out: all pods of the gang share a domain of the required level anyway"
        ),
    ),
    "a minimum above the parallelism": (
        job(meta={"job-min-parallelism": "5"}),
        (
            f"metadata.annotations[{GROUP}/job-min-parallelism]: 5 is more than the 4 pods that the Job runs at a "
            "time; lower it to 4 or raise spec.parallelism and spec.completions"
        ),
    ),
    "an elastic job": (
        job(meta={"elastic-job": "true"}),
        f"metadata[{GROUP}/elastic-job]: is not built here; leave it out",
    ),
    "a prebuilt workload": (
        job(meta={"prebuilt-workload-name": "w"}),
        f"metadata[{GROUP}/prebuilt-workload-name]: is not built here; leave it out",
    ),
}


@pytest.mark.parametrize(("written", "answer"), JOBS_WRONG.values(), ids=JOBS_WRONG)
def test_a_wrong_job_is_refused_by_name(written: str, answer: str) -> None:
    (manifest,) = documents(written)
    faults, _ = reviewed(manifest, sources(POOL))
    assert faults == [f"Job default/train: {answer}"]


QUOTA = {"name": "cpu", "nominalQuota": 8}
TAS = {"name": "tas", "resources": [QUOTA]}
CPU = {"coveredResources": ["cpu"], "flavors": [TAS]}
AT = "spec.resourceGroups[0].flavors[0].resources"
POOL_WRONG = {
    "a flavor without labels": (
        pool_object("ResourceFlavor", nodeLabels={}),
        (
            "ResourceFlavor tas: spec.nodeLabels: is empty, but spec.topologyName is set; "
            "list at least one label that the flavor's nodes carry"
        ),
    ),
    "the node above a rack": (
        pool_object("Topology", levels=[{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": RACK}]),
        ("Topology default: spec.levels[0].nodeLabel: kubernetes.io/hostname is the node; put it last or leave it out"),
    ),
    "a level twice": (
        pool_object("Topology", levels=[{"nodeLabel": RACK}, {"nodeLabel": RACK}]),
        (
            f'Topology default: spec.levels[1].nodeLabel: "{RACK}" is spec.levels[0] already; '
            "give each level a label of its own"
        ),
    ),
    "a resource that is not covered": (
        pool_object("ClusterQueue", resourceGroups=[{**CPU, "coveredResources": ["cpu", "memory"]}]),
        (f"ClusterQueue pool: {AT}: are cpu, but coveredResources are cpu, memory; list exactly the covered resources"),
    ),
    "a quota that is none": (
        pool_object(
            "ClusterQueue",
            resourceGroups=[{**CPU, "flavors": [{**TAS, "resources": [{**QUOTA, "nominalQuota": "8 cores"}]}]}],
        ),
        (
            f'ClusterQueue pool: {AT}[0].nominalQuota: "8 cores" is not a quantity from 0 up; '
            "write a quantity such as 8, 500m or 64Gi"
        ),
    ),
    "a flavor in two groups": (
        pool_object(
            "ClusterQueue",
            resourceGroups=[
                CPU,
                {"coveredResources": ["gpu"], "flavors": [{**TAS, "resources": [{**QUOTA, "name": "gpu"}]}]},
            ],
        ),
        (
            'ClusterQueue pool: spec.resourceGroups[1].flavors[0].name: "tas" is in '
            "spec.resourceGroups[0].flavors[0].name already; list it once"
        ),
    ),
}


@pytest.mark.parametrize(("manifest", "answer"), POOL_WRONG.values(), ids=POOL_WRONG)
def test_a_wrong_pool_is_refused_by_name(manifest: dict[str, Any], answer: str) -> None:
    faults, _ = reviewed(manifest, sources(POOL))
    assert faults == [answer]


NOT_HONOURED = {
    "preemption": (
        {"preemption": {"withinClusterQueue": "LowerPriority"}},
        "spec.preemption: has no effect: a gang never evicts for quota: it waits until quota is free",
    ),
    "strict order": (
        {"queueingStrategy": "StrictFIFO"},
        (
            "spec.queueingStrategy: has no effect: "
            "a gang that fits goes before an older one that does not (BestEffortFIFO)"
        ),
    ),
    "admission checks": (
        {"admissionChecks": ["provisioning"]},
        "spec.admissionChecks: has no effect: no admission check is run",
    ),
    "draining": (
        {"stopPolicy": "HoldAndDrain"},
        "spec.stopPolicy: holds new gangs back; those that run are not drained",
    ),
    "a slip of the pen": (
        {"cohrt": "all"},
        (
            "spec.cohrt: is ignored: the known fields are resourceGroups, cohort, cohortName, namespaceSelector, "
            "stopPolicy, queueingStrategy, preemption, flavorFungibility, admissionChecks, admissionChecksStrategy, "
            "fairSharing, admissionScope"
        ),
    ),
}


@pytest.mark.parametrize(("spec", "text"), NOT_HONOURED.values(), ids=NOT_HONOURED)
def test_what_has_no_effect_on_a_pool_is_said(spec: dict[str, Any], text: str) -> None:
    faults, advice = reviewed(pool_object("ClusterQueue", **spec), sources(POOL))
    assert (faults, advice) == ([], [f"ClusterQueue pool: {text}"])


MISSING = {
    "LocalQueue": "LocalQueue default/q",
    "ClusterQueue": "ClusterQueue pool",
    "ResourceFlavor": "ResourceFlavor tas",
    "Topology": "Topology default",
}


@pytest.mark.parametrize("kind", MISSING)
def test_what_is_not_there_yet_is_waited_for(kind: str) -> None:
    whole = sources(POOL)
    objects = {key: each for key, each in whole.objects.items() if key[1] != kind}
    (manifest,) = documents(job())
    faults, advice = reviewed(manifest, Sources(objects=objects))
    assert faults == []
    assert advice == [f"Job default/train: metadata.name: the gang default/train waits for {MISSING[kind]}"]


def test_a_job_that_is_our_own_gang_as_well_asks_twice() -> None:
    (manifest,) = documents(job())
    manifest["metadata"]["annotations"]["phalanx.dev/gang"] = "true"
    faults, _ = reviewed(manifest, sources(POOL))
    problem = "names a queue or a level of Kueue, but the Job is a gang by keys of phalanx.dev as well"
    assert faults == [f"Job default/train: metadata: {problem}; keep one of the two ways of asking"]


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_a_queue_on_another_workload_is_refused(kind: str) -> None:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "labels": {f"{GROUP}/queue-name": "q"}},
    }
    faults, _ = reviewed(manifest, sources(POOL))
    remedy = (
        f"label its pod template instead (each pod is then queued alone), or group its pods by {GROUP}/pod-group-name"
    )
    problem = f"metadata.labels[{GROUP}/queue-name]: a {kind} cannot be queued as a whole yet"
    assert faults == [f"{kind} default/web: {problem}; {remedy}"]


def member(name: str, total: str | None, index: int | None = None) -> Any:
    labels = {f"{GROUP}/pod-group-name": "g", f"{GROUP}/queue-name": "q"}
    if index is not None:
        labels[f"{GROUP}/pod-group-pod-index"] = str(index)
    annotations = {} if total is None else {f"{GROUP}/pod-group-total-count": total}
    return pod(name, labels=labels, annotations=annotations)


TOTAL = f"metadata.annotations[{GROUP}/pod-group-total-count]"
GROUPS_WRONG = {
    "no total": ([member("a", None)], f"Pod default/a: {TOTAL}: is missing; write how many pods the group has"),
    "totals that differ": (
        [member("a", "2"), member("b", "3")],
        (
            f'Pod default/b: {TOTAL}: "3" differs from "2" of Pod default/a; '
            "write the same number on all pods of the group"
        ),
    ),
    "more pods than the total": (
        [member("a", "1"), member("b", "1")],
        f"Pod default/a: {TOTAL}: is 1, but 2 pods are in the group; write how many there are",
    ),
    "one rank twice": (
        [member("a", "2", 0), member("b", "2", 0)],
        (
            f"Pod default/b: metadata.labels[{GROUP}/pod-group-pod-index]: rank 0 is already held by Pod default/a; "
            "give each live member a rank of its own"
        ),
    ),
}


@pytest.mark.parametrize(("pods", "answer"), GROUPS_WRONG.values(), ids=GROUPS_WRONG)
def test_a_wrong_group_of_pods_is_invalid(pods: list[Any], answer: str) -> None:
    around = sources(POOL)
    reading = read_all(Sources(pods, around.objects))
    assert [str(each) for each in reading.faults] == [answer]
    assert reading.gangs == ()
