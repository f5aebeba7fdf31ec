"""ACK Lingjun's Jobs and pods: what is written, and the gang that is read from it.

PoDTopologyLayer > ASWTopologyLayer > NodeTopologyLayer
"""

from typing import Any

import msgspec
import pytest
from ack_objects import LINGJUN, job, labels, member, network
from written import NETWORK, pod, sources

from cluster.topology.tree import domains
from gangs.dialects.claims import dialect_of
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.topologies import topologies
from gangs.findings import Findings
from gangs.koordinator.topologies import topology_of
from gangs.model import Gang, GangKey, PodSet
from gangs.sources import Sources
from kube.objects import Node, ObjectMeta, OwnerReference


def gangs_of(*texts: str, pods: tuple[Any, ...] = ()) -> tuple[Gang, ...]:
    written = sources(*texts)
    found, _ = expanded(Sources([*written.pods, *pods], written.objects, sharing={"*": "*"}))
    reading = read_all(found)
    assert reading.faults == ()
    return reading.gangs


def test_a_job_and_its_job_network_topology_are_one_gang() -> None:
    (gang,) = gangs_of(LINGJUN, network(2, wait="999999"), job(2))
    assert gang.key == GangKey("ack", "default", "g")
    assert str(gang.source) == "Job default/pi"
    assert (gang.topology, gang.topology_kind) == ("default", "ClusterNetworkTopology")
    assert (gang.required, gang.preferred) == ("PoDTopologyLayer", "ASWTopologyLayer")
    assert (gang.min_member, gang.expected, gang.pod_sets) == (2, 2, (PodSet("main", 2, 2),))
    assert [member.pod.metadata.name for member in gang.members] == ["pi-0", "pi-1"]
    assert (gang.schedule_timeout_seconds, gang.messages, gang.waiting_for) == (999999, "ack", ())


def test_bare_pods_may_ask_too() -> None:
    (gang,) = gangs_of(LINGJUN, network(2), pods=(member("a"), member("b")))
    assert str(gang.source) == "Pod default/a"
    assert (gang.min_member, gang.required) == (2, "PoDTopologyLayer")


@pytest.mark.parametrize(
    ("version", "source"), [("batch/v1", "Job default/pi"), ("example.com/v1", "Pod default/pi-x")]
)
def test_pods_whose_job_has_not_been_seen_yet_speak_in_its_name(version: str, source: str) -> None:
    """Else the gang would be shown under another name for ever, depending on which was seen first."""
    made = member("pi-x")
    owner = OwnerReference(api_version=version, kind="Job", name="pi", uid="7", controller=True)
    owned = msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, owner_references=(owner,), uid="1")
    )
    (gang,) = gangs_of(LINGJUN, network(2), pods=(owned,))
    assert str(gang.source) == source
    assert gang.source.uid == ("7" if version == "batch/v1" else "1")


def test_the_job_network_topology_of_ones_own_namespace_need_not_be_named() -> None:
    """Without the namespace label the pod's own namespace is meant."""
    near = network(1).replace("namespace: net", "namespace: default")
    (gang,) = gangs_of(LINGJUN, near, pods=(pod("a", labels=labels(1, namespace="")),))
    assert (gang.required, gang.waiting_for) == ("PoDTopologyLayer", ())


@pytest.mark.parametrize(
    ("there", "waits"),
    [
        ((LINGJUN,), "JobNetworkTopology net/sample"),
        ((network(),), "ClusterNetworkTopology default"),
    ],
)
def test_what_may_still_come_is_waited_for(there: tuple[str, ...], waits: str) -> None:
    (gang,) = gangs_of(*there, job())
    assert gang.waiting_for == (waits,)


def test_a_suspended_job_is_waited_for() -> None:
    (gang,) = gangs_of(LINGJUN, network(), job(more="suspend: true, "))
    assert gang.waiting_for == ("Job default/pi to be resumed (it is suspended by spec.suspend)",)


def test_near_its_end_a_job_needs_no_more_pods_than_it_still_runs() -> None:
    ending = job(2, more="completions: 5, ").rstrip() + "\n        status: {succeeded: 4}\n"
    (gang,) = gangs_of(LINGJUN, network(), ending)
    assert (gang.min_member, gang.expected) == (1, 1)


def test_a_finished_job_is_no_gang() -> None:
    done = job(2).rstrip() + "\n        status: {conditions: [{type: Complete, status: 'True'}]}\n"
    assert gangs_of(LINGJUN, network(), done) == ()


def test_pods_with_gang_labels_alone_are_koordinators() -> None:
    claim = dialect_of(pod("a", labels=labels(2, of="", namespace="")))
    assert claim is not None
    assert claim[0].name == "koordinator"


TREES = {
    "Lingjun's own labels": (LINGJUN, {}, ("DefaultTopologyName", "DefaultTopologyName")),
    "Lingjun's layers over labels of ones own": (
        LINGJUN.replace("alibabacloud.com", "example.com"),
        {"example.com/point-of-delivery": "p"},
        ("p", "DefaultTopologyName"),
    ),
    "Koordinator's rule elsewhere": (NETWORK, {"example.com/spine": "s"}, ("s", "n")),
}


@pytest.mark.parametrize(("text", "has", "path"), TREES.values(), ids=TREES)
def test_nodes_without_labels_share_the_default_domain_of_lingjun(
    text: str, has: dict[str, str], path: tuple[str, ...]
) -> None:
    (topology,), faults = topologies(sources(text))
    assert faults == []
    tree = domains(topology, [Node(metadata=ObjectMeta(name="n", labels=has))])
    assert tree.path_of == {"n": path}


def test_a_topology_of_nothing_but_nodes_can_be_read() -> None:
    only = "spec: {networkTopologySpec: [{topologyLayer: NodeTopologyLayer}]}"
    (manifest,) = sources(f"""
        apiVersion: scheduling.koordinator.sh/v1alpha1
        kind: ClusterNetworkTopology
        metadata: {{name: default}}
        {only}
    """).objects.values()
    topology = topology_of(manifest, Findings())
    assert topology is not None
    assert [level.name for level in topology.levels] == ["NodeTopologyLayer"]
