"""Koordinator's match policies, and the switches of its scheduler's ConfigMap."""

from typing import Any

import pytest
from koordinator_objects import gather, group, member
from written import NETWORK, documents, sources

from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.model import Gang
from gangs.sources import Sources

MUST = gather(("SpineLayer", "MustGather"))


def gang_of(*texts: str, pods: tuple[Any, ...] = ()) -> Gang:
    reading = read_all(Sources(pods=pods, objects=sources(*texts).objects))
    assert reading.faults == ()
    (gang,) = reading.gangs
    return gang


RUNS = {"nodeName": "node-1"}

POLICIES: dict[str, tuple[dict[str, str], str, int, tuple[str, ...]]] = {
    # policy of the PodGroup (minMember 3), its pods (R runs, w waits), pods that must run together, waiting message
    "at first all are needed": ({}, "ww", 3, ()),
    "once satisfied, a member that comes back waits for nobody": ({}, "Rw", 2, ()),
    "once satisfied by name": ({"match_policy": "once-satisfied"}, "Rw", 2, ()),
    "what is lost is still missed while nobody comes": ({}, "RR", 3, ()),
    "waiting and running count together": ({"match_policy": "waiting-and-running"}, "Rw", 3, ()),
    "waiting and running are enough together": ({"match_policy": "waiting-and-running"}, "RRw", 3, ()),
    "only those that wait count": (
        {"match_policy": "only-waiting"},
        "RRw",
        3,
        ("2 more pods of default/g: 1 of 3 wait, and only-waiting counts no others",),
    ),
    "as many as needed wait": ({"match_policy": "only-waiting"}, "Rwww", 3, ()),
    "none waits": ({"match_policy": "only-waiting"}, "RRR", 3, ()),
    "none runs yet": ({"match_policy": "only-waiting"}, "ww", 3, ()),
    "the mode changes nothing": ({"mode": "NonStrict"}, "Rw", 2, ()),
}


@pytest.mark.parametrize(("said", "pods", "minimum", "waits"), POLICIES.values(), ids=POLICIES)
def test_a_match_policy_says_who_counts(said: dict[str, str], pods: str, minimum: int, waits: tuple[str, ...]) -> None:
    members = tuple(member(f"p{i}", **(RUNS if each == "R" else {})) for i, each in enumerate(pods))
    gang = gang_of(group(minimum=3, **said), pods=members)
    assert (gang.min_member, gang.waiting_for) == (minimum, waits)


def test_one_running_member_satisfies_the_whole_group() -> None:
    both = {"groups": '["default/master", "default/worker"]'}
    pods = (member("m", "master", **RUNS), member("w", "worker"))
    gang = gang_of(group("master", 1, **both), group("worker", 2, **both), pods=pods)
    assert [(each.name, each.min_count) for each in gang.pod_sets] == [("master", 1), ("worker", 1)]


def config(arguments: str) -> str:
    return f"""
        apiVersion: v1
        kind: ConfigMap
        metadata: {{name: koord-scheduler-config, namespace: koordinator-system}}
        data:
          koord-scheduler-config: |
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            profiles:
            - pluginConfig:
              - name: NodeResourcesFit
              - name: Coscheduling
                args: {arguments}
    """


SWITCHES = {
    "both on, as the document shows": ("{awareNetworkTopology: true, enablePreemption: true}", "SpineLayer", True),
    "the network off": ("{awareNetworkTopology: false, enablePreemption: true}", None, True),
    "preemption off": ("{awareNetworkTopology: true, enablePreemption: false}", "SpineLayer", False),
    "missing is off, as the document says": ("{}", None, False),
}


@pytest.mark.parametrize(("arguments", "required", "preempts"), SWITCHES.values(), ids=SWITCHES)
def test_the_switches_of_a_config_map_that_is_there_are_honoured(
    arguments: str, required: str | None, preempts: object
) -> None:
    gang = gang_of(NETWORK, config(arguments), group(network_topology_spec=MUST))
    assert (gang.required, gang.preempts) == (required, preempts)


def test_without_a_config_map_everything_is_on() -> None:
    gang = gang_of(NETWORK, group(network_topology_spec=MUST))
    assert (gang.required, gang.preempts) == ("SpineLayer", True)


def test_whoever_asks_for_layers_that_are_switched_off_is_told() -> None:
    (manifest,) = documents(group(network_topology_spec=MUST))
    manifest["metadata"]["namespace"] = "default"
    faults, advice = review(manifest, sources(NETWORK, config("{}")))
    assert faults == []
    assert [each.text for each in advice] == [
        "is not honoured: awareNetworkTopology is not true in ConfigMap koordinator-system/koord-scheduler-config"
    ]


WRONG = {
    "no YAML": ("{", "cannot be read as YAML"),
    "a switch that is none": ("{awareNetworkTopology: 'yes'}", "expected `bool`, got `str`"),
}


@pytest.mark.parametrize(("arguments", "problem"), WRONG.values(), ids=WRONG)
def test_a_config_map_that_cannot_be_read_is_refused_and_counts_as_none(arguments: str, problem: str) -> None:
    (manifest,) = documents(config(arguments))
    faults, _ = review(manifest, sources(NETWORK))
    assert len(faults) == 1
    assert problem in faults[0].problem
    there = sources(NETWORK, config(arguments), group(network_topology_spec=MUST))
    (gang,) = read_all(there).gangs
    assert gang.required == "SpineLayer"


def test_the_layer_names_that_the_document_recommends_make_one_chain() -> None:
    layers = ("DatacenterLayer", "SpineLayer", "BlockLayer", "AcceleratorLayer")
    entries = [
        f"{{topologyLayer: {name}, labelKey: [example.com/{name}]"
        + (f", parentTopologyLayer: {layers[at - 1]}}}" if at else "}")
        for at, name in enumerate(layers)
    ]
    network = "\n".join(
        [
            "apiVersion: scheduling.koordinator.sh/v1alpha1",
            "kind: ClusterNetworkTopology",
            "metadata: {name: default}",
            "spec:",
            "  networkTopologySpec:",
            "  - {topologyLayer: NodeTopologyLayer, parentTopologyLayer: AcceleratorLayer}",
            *(f"  - {entry}" for entry in entries),
        ]
    )
    spec = gather(("DatacenterLayer", "MustGather"), ("AcceleratorLayer", "PreferGather"))
    gang = gang_of(network, group(network_topology_spec=spec))
    assert (gang.required, gang.preferred) == ("DatacenterLayer", "AcceleratorLayer")
