"""The gangs that Kueue's objects define."""

from dataclasses import replace
from typing import Any

import pytest
from kueue_objects import GROUP, POOL, job
from written import documents, pod, sources

from gangs.dialects.claims import dialect_of
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.templates import as_admitted
from gangs.dialects.topologies import topologies
from gangs.kueue.keys import TOPOLOGY_KIND
from gangs.kueue.topologies import lowest_level
from gangs.manifests import key_of
from gangs.model import Gang, SliceRule
from gangs.sources import Sources
from gangs.topology.levels import NO_TOPOLOGY

RACK, BLOCK = "example.com/rack", "example.com/block"


def gang_of(written: str, around: Sources) -> Gang:
    """The gang of one Job among these objects, its pods made."""
    (manifest,) = documents(written)
    whole, _ = expanded(replace(around, objects={**around.objects, key_of(manifest): manifest}))
    reading = read_all(whole)
    assert reading.faults == ()
    (gang,) = reading.gangs
    return gang


def test_a_job_with_a_queue_is_a_gang_of_all_its_pods_charged_to_the_pool() -> None:
    gang = gang_of(job(), sources(POOL))
    assert (str(gang.key), gang.key.dialect, gang.expected, gang.min_member) == ("default/train", "kueue", 4, 4)
    assert gang.account is not None
    assert (gang.queue, gang.account.queue.name) == ("q", "pool")
    (flavor,) = gang.account.flavors
    assert (flavor.node_labels, flavor.topology, flavor.preferred) == ((("ready", "true"),), "default", RACK)


def test_the_minimum_may_be_lower_than_the_parallelism() -> None:
    gang = gang_of(job(meta={"job-min-parallelism": "2"}), sources(POOL))
    assert (gang.min_member, gang.expected) == (2, 4)


def test_where_there_is_no_queue_object_a_queue_is_a_label() -> None:
    gang = gang_of(job(queue="any"), Sources())
    assert (gang.queue, gang.account, gang.waiting_for) == ("any", None, ())
    assert gang.topology_kind == NO_TOPOLOGY


def test_without_a_queue_the_only_topology_is_meant_and_its_lowest_level_preferred() -> None:
    whole = sources(POOL)
    alone = Sources(objects={key: each for key, each in whole.objects.items() if key[1] == "Topology"})
    gang = gang_of(job(), alone)
    assert (gang.topology, gang.topology_kind, gang.preferred) == ("default", TOPOLOGY_KIND, RACK)
    asked = gang_of(job(queue=None, required_topology=BLOCK), alone)
    assert (asked.topology, asked.required, asked.preferred) == ("default", BLOCK, None)
    anywhere = gang_of(job(unconstrained_topology="true"), alone)
    assert (anywhere.required, anywhere.preferred) == (None, None)


SLICES = {
    "one layer": ({"slice_required_topology": RACK, "slice_size": "2"}, (SliceRule(RACK, 2),)),
    "two layers": (
        {
            "slice_required_topology_constraints": (
                f'[{{"topology": "{BLOCK}", "size": 4}}, {{"topology": "{RACK}", "size": 2}}]'
            )
        },
        (SliceRule(BLOCK, 4), SliceRule(RACK, 2)),
    ),
}


@pytest.mark.parametrize(("annotations", "slices"), SLICES.values(), ids=SLICES)
def test_slices(annotations: dict[str, Any], slices: tuple[SliceRule, ...]) -> None:
    (pod_set,) = gang_of(job(**annotations), sources(POOL)).pod_sets
    assert pod_set.slices == slices


def test_a_job_is_started_and_its_template_carries_the_queue() -> None:
    (manifest,) = documents(job())
    manifest["spec"]["suspend"] = True
    admitted = as_admitted(manifest, sources(POOL))
    assert admitted["spec"]["suspend"] is False
    assert admitted["spec"]["template"]["metadata"]["labels"] == {f"{GROUP}/queue-name": "q"}


def test_an_automatic_namespace_leaves_a_job_with_a_queue_to_its_queue() -> None:
    (manifest,) = documents(job())
    around = Sources(namespaces={"default": {"phalanx.dev/automatic": "true"}})
    labels = as_admitted(manifest, around)["spec"]["template"]["metadata"]["labels"]
    assert labels == {f"{GROUP}/queue-name": "q"}


def test_a_pod_that_names_a_queue_alone_is_a_gang_of_one() -> None:
    lonely = pod("lonely", labels={f"{GROUP}/queue-name": "q"})
    (gang,) = read_all(Sources([lonely], sources(POOL).objects)).gangs
    assert (gang.key.name, gang.min_member, gang.expected) == ("lonely", 1, 1)


def test_a_pod_without_these_keys_is_nobodys() -> None:
    assert dialect_of(pod("other", labels={f"{GROUP}/managed": "true"})) is None


def test_a_level_is_not_refused_for_a_flavor_that_does_not_exist_yet() -> None:
    whole = sources(POOL)
    early = replace(whole, objects={key: each for key, each in whole.objects.items() if key[1] != "ResourceFlavor"})
    gang = gang_of(job(preferred_topology=RACK), early)
    assert gang.waiting_for == ("ResourceFlavor tas",)


def test_a_stopped_queue_holds_its_gangs() -> None:
    whole = sources(POOL)
    key = (GROUP, "ClusterQueue", "", "pool")
    held = {**whole.objects[key], "spec": {**whole.objects[key]["spec"], "stopPolicy": "Hold"}}
    gang = gang_of(job(), whole.having(held))
    assert gang.waiting_for == ("ClusterQueue pool to be resumed (spec.stopPolicy)",)


@pytest.mark.parametrize("spec", ["x", {}, {"levels": -1}, {"levels": []}, {"levels": ["rack"]}, {"levels": [{}]}])
def test_a_malformed_topology_is_refused_and_its_lowest_level_nobodys(spec: object) -> None:
    manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "t"}, "spec": spec}
    _, faults = topologies(sources(POOL).having(manifest))
    assert [each.object.name for each in faults] == ["t"]
    assert lowest_level(manifest) is None


def test_a_topology_goes_by_its_labels_down_to_the_node() -> None:
    (topology,), faults = topologies(sources(POOL))
    assert faults == []
    assert [level.name for level in topology.levels] == [BLOCK, RACK, "kubernetes.io/hostname"]
