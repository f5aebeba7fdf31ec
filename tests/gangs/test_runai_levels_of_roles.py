"""Levels of single roles in Run:ai's dialect, in addition to the level of the workload.

zone ── block ── rack ── node      RayCluster w: head, group of 3      JobSet w: driver, 3 nodes in one Job, or in three
"""

from collections.abc import Mapping

import pytest
from test_other_systems_on_workloads import KEY, around, faults, gang_of, stored
from test_queued_workloads import written
from workload_operators import ROWS, Object

from gangs.dialects.expanding import expanded
from gangs.dialects.oversights import oversights
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.model import PodSet, SliceRule

REQUIRED, PREFERRED = f"{KEY}topology-required-placement", f"{KEY}topology-preferred-placement"
LEAST = f"{KEY}batch-min-member"
IN_A_ZONE = {f"{KEY}topology": "network", REQUIRED: "zone"}
AT_JOBS = "JobSet default/w: spec.replicatedJobs[1].template.metadata.annotations"
AT_GROUP = "RayCluster default/w: spec.workerGroupSpecs[0].template.metadata.annotations"


def ray(
    of_group: Mapping[str, str], of_head: Mapping[str, str] | None = None, *, own: Mapping[str, str] | None = None
) -> Object:
    """Return a RayCluster in one zone, with more annotations on the templates of its worker group and its head."""
    manifest = ROWS["RayCluster"].manifest()
    manifest["metadata"]["annotations"] = {**IN_A_ZONE, **(own or {})}
    group, head = manifest["spec"]["workerGroupSpecs"][0], manifest["spec"]["headGroupSpec"]
    for part, said in ((group, of_group), (head, of_head)):
        if said is not None:
            part["template"].setdefault("metadata", {})["annotations"] = dict(said)
    return manifest


def jobs(said: Mapping[str, str], replicas: int = 1, *, own: Mapping[str, str] | None = None) -> Object:
    """Return a JobSet in one zone, with more annotations on the Job template of its second replicated job."""
    manifest = ROWS["JobSet"].manifest()
    manifest["metadata"]["annotations"] = {**IN_A_ZONE, **(own or {})}
    entry = manifest["spec"]["replicatedJobs"][1]
    entry["replicas"] = replicas
    entry["template"]["metadata"] = {"annotations": dict(said)}
    return manifest


def sets_of(manifest: Object) -> dict[str, PodSet]:
    """The pod sets of its gang, which is in one zone."""
    assert faults(manifest) == []
    gang = gang_of(ROWS[manifest["kind"]], stored(manifest))
    assert gang.required == "zone"
    return {each.name: each for each in gang.pod_sets}


def test_a_group_of_a_ray_cluster_has_its_own() -> None:
    head, group = sets_of(ray({REQUIRED: "rack"})).values()
    assert (head.required, head.preferred) == (None, None)
    assert (group.count, group.required, group.preferred, group.slices) == (3, "rack", None, ())
    head, group = sets_of(ray({PREFERRED: "rack"}, {REQUIRED: "kubernetes.io/hostname"})).values()
    assert (head.required, group.required, group.preferred) == ("kubernetes.io/hostname", None, "rack")


def test_what_a_group_repeats_is_said_once() -> None:
    assert all(each.required is None for each in sets_of(ray(IN_A_ZONE, IN_A_ZONE)).values())


@pytest.mark.parametrize("kind", ["RayJob", "RayService"])
def test_so_has_a_group_of_the_cluster_that_a_ray_job_or_service_makes(kind: str) -> None:
    cluster = ray({REQUIRED: "rack"})
    at = "rayClusterSpec" if kind == "RayJob" else "rayClusterConfig"
    manifest = {**cluster, "kind": kind, "spec": {at: cluster["spec"]}}
    found, wrong = expanded(around(manifest))
    assert not wrong
    (gang,) = read_all(found).gangs
    assert [(each.count, each.required) for each in gang.pod_sets] == [(1, None), (3, "rack")]


def test_the_job_of_a_replicated_job_has_its_own() -> None:
    driver, nodes = sets_of(jobs({REQUIRED: "rack", PREFERRED: "kubernetes.io/hostname"})).values()
    assert (driver.required, driver.slices) == (None, ())
    assert (nodes.count, nodes.required, nodes.preferred, nodes.slices) == (3, "rack", "kubernetes.io/hostname", ())


def test_each_of_several_jobs_has_a_domain_of_its_own() -> None:
    manifest = jobs({REQUIRED: "rack", PREFERRED: "kubernetes.io/hostname"}, replicas=2)
    _, nodes = sets_of(manifest).values()
    assert (nodes.count, nodes.required, nodes.preferred) == (6, None, None)
    assert nodes.slices == (SliceRule("rack", 3),)
    told = [str(each) for each in review(manifest, around())[1]]
    text = "is not honoured where a template has several replicas: each Job would have a wish of its own"
    assert f"{AT_JOBS}[{PREFERRED}]: {text}" in told


def test_pods_of_one_job_are_one_slice() -> None:
    """Pods of different Jobs have equal indices. Nevertheless the members of one Job are consecutive."""
    gang = gang_of(ROWS["JobSet"], stored(jobs({REQUIRED: "rack"}, replicas=2)))
    names = [each.pod.metadata.name for each in gang.members if each.pod_set == "nodes"]
    assert [name.rsplit("-", 1)[0] for name in names] == ["w-nodes-0"] * 3 + ["w-nodes-1"] * 3


def test_fewer_pods_of_one_job_may_start_together() -> None:
    found = sets_of(jobs({LEAST: "2"}))
    assert [each.min_count for each in found.values()] == [1, 2]
    assert gang_of(ROWS["JobSet"], stored(jobs({LEAST: "2"}))).min_member == 3
    assert [each.min_count for each in sets_of(jobs({LEAST: "3"}, replicas=2)).values()] == [1, 6]


@pytest.mark.parametrize(
    ("manifest", "fault"),
    [
        (
            ray({f"{KEY}topology": "other"}),
            f'{AT_GROUP}[kai.scheduler/topology]: "other" differs from "network" on the',
        ),
        (
            jobs({f"{KEY}topology": "other"}),
            f'{AT_JOBS}[kai.scheduler/topology]: "other" differs from "network" on the',
        ),
        (ray({LEAST: "2"}, own={LEAST: "3"}), f'{AT_GROUP}[{LEAST}]: "2" differs from "3" on the RayCluster'),
        (ray({REQUIRED: "row"}), f'{AT_GROUP}[{REQUIRED}]: "row" is not a level of'),
        (jobs({REQUIRED: "row"}), f'{AT_JOBS}[{REQUIRED}]: "row" is not a level of'),
        (ray({REQUIRED: ""}), f"{AT_GROUP}[{REQUIRED}]: is empty"),
        (jobs({REQUIRED: ""}), f"{AT_JOBS}[{REQUIRED}]: is empty"),
        (ray({REQUIRED: "rack", PREFERRED: "block"}), f'{AT_GROUP}[{PREFERRED}]: "block" is wider than'),
        (ray({PREFERRED: "zone"}), f'{AT_GROUP}[{PREFERRED}]: "zone" is the required level "zone" itself'),
        (jobs({REQUIRED: "rack", PREFERRED: "rack"}), f'{AT_JOBS}[{PREFERRED}]: "rack" is the required level "rack"'),
        (jobs({LEAST: "4"}), f"{AT_JOBS}[{LEAST}]: 4 is more than the 3 pods that each Job runs"),
        (jobs({LEAST: "none"}), f'{AT_JOBS}[{LEAST}]: "none" is not a number from 1 up'),
        (jobs({LEAST: "2"}, replicas=2), f"{AT_JOBS}[{LEAST}]: 2 of the 3 pods of each of several Jobs cannot be"),
        (
            jobs({LEAST: "2"}, own={LEAST: "2"}),
            f"JobSet default/w: metadata.annotations[{LEAST}]: 2 is less than the 3 pods",
        ),
        (jobs({REQUIRED: "rack"}, replicas=2, own={LEAST: "5"}), f"{AT_JOBS}[{REQUIRED}]: is for each of several Jobs"),
        (ray({LEAST: "2"}), f"{AT_GROUP}[{LEAST}]: is not read here, since the RayCluster itself asks"),
        (jobs({f"{KEY}segment-size": "2"}), f"{AT_JOBS}[{KEY}segment-size]: divides no Job of a JobSet"),
    ],
)
def test_what_cannot_be_is_refused(manifest: Object, fault: str) -> None:
    found = faults(manifest)
    assert found
    assert found[0].startswith(fault), found


def test_where_the_templates_alone_differ_it_is_said_where_that_can_be() -> None:
    manifest = ray({**IN_A_ZONE, REQUIRED: "rack"}, IN_A_ZONE)
    manifest["metadata"]["annotations"] = {}
    found, _ = expanded(around(manifest))
    texts = [str(each) for each in read_all(found).faults]
    assert any(
        each.endswith("where the RayCluster itself carries kai.scheduler/topology, each may name levels of its own")
        for each in texts
    ), texts


@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"RayCluster"}))
def test_a_level_that_a_pod_template_alone_names_is_not_passed_by(name: str) -> None:
    """Otherwise the pods would be planned without the level, and without a message."""
    manifest, kind = ROWS[name].manifest(), ROWS[name].kind
    manifest["metadata"]["annotations"] = {f"{KEY}topology": "network"}
    *_, last = written(manifest)
    last.setdefault("metadata", {})["annotations"] = {REQUIRED: "rack"}
    (fault,) = faults(manifest)
    assert fault.endswith(
        f"is not read here, since the {kind} itself asks to be a gang; write it on the {kind} itself, or leave it out"
    )


def test_a_topology_that_a_template_alone_names_is_not_passed_by() -> None:
    for manifest in (ray({f"{KEY}topology": "other"}), jobs({f"{KEY}topology": "other"})):
        manifest["metadata"]["annotations"] = {LEAST: "4"}
        assert any("[kai.scheduler/topology]: is not read here" in each for each in faults(manifest))


def test_no_replica_needs_no_pod() -> None:
    """The gang must not wait for two pods that the operator does not create."""
    driver, nodes = sets_of(jobs({LEAST: "2"}, replicas=0)).values()
    assert (driver.min_count, nodes.count, nodes.min_count) == (1, 0, 0)


def test_a_job_set_that_is_left_alone_reads_nothing_at_its_jobs() -> None:
    manifest = jobs({REQUIRED: "rack"}, own={f"{KEY}skip-podgrouper": "true"})
    told = [str(each) for each in oversights(manifest)]
    assert f"{AT_JOBS}[{REQUIRED}]: makes a gang of each Job: for one of all its pods let the JobSet itself ask" in told
