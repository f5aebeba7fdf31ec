"""The gangs that PodGroups, policies, roles and the ConfigMap of the KAI guide define."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kai_objects import CONFIG, POLICY, ROLE, config, group, job, member
from written import DATACENTER, documents, pod, sources

from gangs.dialects.claims import dialect_of
from gangs.dialects.expanding import expanded
from gangs.dialects.reading import read_all
from gangs.dialects.reviewing import review
from gangs.dialects.topologies import topologies, topology_of
from gangs.kai.keys import KEYS
from gangs.model import Advice, Gang, GangKey
from gangs.sources import Sources
from kube.topology import Topology

GUIDE = Path(__file__).parents[2] / "examples" / "kai"


def gangs(*texts: str, pods: Any = ()) -> dict[str, Gang]:
    """The gangs of these objects by name; nothing may be wrong."""
    standing = sources(*texts)
    grown, malformed = expanded(Sources([*standing.pods, *pods], standing.objects))
    reading = read_all(grown)
    assert not (*malformed, *reading.faults), reading.faults
    return {each.key.name: each for each in reading.gangs}


def advice(*texts: str, about: int = -1) -> list[str]:
    """Return the warnings at the admission of one of these objects.

    :param about: the index of the object; by default the last one.
    """
    written = documents(*texts)
    written[about]["metadata"].setdefault("namespace", "default")
    faults, said = review(written[about], sources(*texts))
    assert not faults
    return [each.text for each in said if isinstance(each, Advice)]


@pytest.mark.parametrize(
    ("annotations", "owner", "name"),
    [
        ({"scheduling.run.ai/pod-group": "g"}, None, "g"),
        ({"pod-group-name": "g"}, None, "g"),
        ({"scheduling.run.ai/pod-group": "g", POLICY: "nvlink-locality"}, None, "g"),
        ({POLICY: "nvlink-locality"}, {"kind": "Job", "name": "j", "controller": True}, "j"),
        ({POLICY: "nvlink-locality"}, {"kind": "ReplicaSet", "name": "r", "controller": True}, "p"),
        ({POLICY: "nvlink-locality"}, None, "p"),
        ({ROLE: "prefill"}, None, None),
    ],
)
def test_a_pod_is_claimed_by_its_group_or_by_naming_a_policy(
    annotations: dict[str, str], owner: dict[str, Any] | None, name: str | None
) -> None:
    claim = dialect_of(pod("p", annotations=annotations, owner=owner))
    assert (claim and claim[1]) == (name and GangKey("kai", "default", name))


@pytest.mark.parametrize(
    ("scope", "required"),
    [
        ("gpu", "node"),
        ("numa-node", "node"),
        ("node", "node"),
        ("nvlink-domain", "nvlink-domain"),
        ("rack", "rack"),
        ("zone", "zone"),
        (None, None),
    ],
)
def test_a_scope_is_a_required_level_with_the_guides_settings_or_without(scope: str | None, required: str) -> None:
    assert gangs(group(scope=scope))["g"].required == required
    assert gangs(CONFIG, group(scope=scope))["g"].required == required


def test_scopes_inside_the_node_say_that_the_node_chooses() -> None:
    text = "lies below the node: all pods are placed on one node, and the node chooses the devices"
    assert f'"gpu" {text}' in advice(group(scope="gpu"))
    assert not [each for each in advice(group(scope="nvlink-domain")) if "below" in each]
    asking = """
        apiVersion: v1
        kind: Pod
        metadata: {name: p, annotations: {pod-group-name: g}}
        spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}
    """
    unless = "unless a DeviceClass provides the extended resources"  # their requests become claims, which are bound
    assert f'"numa-node" {text} {unless}' in advice(asking, group(scope="numa"))


LEVELS = {
    "none listed": (
        "[]",
        ["zone", "rack", "nvlink-domain", "node"],
        ["topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "gpu.topology/nvlink-domain"],
    ),
    "the guide's, narrowest first": (
        None,
        ["zone", "rack", "nvlink-domain", "node"],
        ["topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "gpu.topology/nvlink-domain"],
    ),
    "a rack of one's own": (
        "[{name: node, label: kubernetes.io/hostname}, {name: rack, label: example.com/rack}]",
        ["zone", "rack", "nvlink-domain", "node"],
        ["topology.kubernetes.io/zone", "example.com/rack", "gpu.topology/nvlink-domain"],
    ),
    "a level of one's own": (
        "[{name: node, label: kubernetes.io/hostname}, {name: pod, label: a/pod}, {name: hall, label: a/hall}]",
        ["zone", "hall", "pod", "rack", "nvlink-domain", "node"],
        ["topology.kubernetes.io/zone", "a/hall", "a/pod", "topology.kubernetes.io/rack", "gpu.topology/nvlink-domain"],
    ),
}


@pytest.mark.parametrize(("levels", "names", "labels"), LEVELS.values(), ids=LEVELS)
def test_levels_are_turned_widest_first_and_completed(levels: str | None, names: list[str], labels: list[str]) -> None:
    text = CONFIG if levels is None else config(levels=levels)
    (found,), faults = topologies(sources(text))
    assert not faults
    assert [level.name for level in found.levels] == names
    assert [level.label_keys[0] for level in found.levels[:-1]] == labels


def test_the_settings_are_no_topology_of_other_gangs() -> None:
    own = "apiVersion: phalanx.dev/v1alpha1\nkind: Gang\nmetadata: {name: own}\nspec: {minMember: 1}"
    standing = sources(CONFIG, own, DATACENTER)
    known, _ = topologies(standing)
    (gang,) = (each for each in read_all(standing).gangs if each.key.name == "own")
    chosen = topology_of(gang, known)
    assert isinstance(chosen, Topology)
    assert chosen.name == "datacenter"
    assert topologies(sources(own))[0] == []


def test_a_scope_that_spans_nodes_asks_for_its_label_and_the_affinity_for_its_own() -> None:
    required = "[{key: nvidia.com/nvswitch.present, operator: In, values: ['true']}]"
    gang = gangs(group(scope="rack", affinity=required))["g"]
    assert gang.node_affinity
    assert gang.node_affinity.required
    terms = [
        [(each.key, each.operator) for each in term.match_expressions]
        for term in gang.node_affinity.required.node_selector_terms
    ]
    assert terms == [
        [("nvidia.com/nvswitch.present", "In"), ("topology.kubernetes.io/rack", "Exists")],
        [("nvidia.com/nvswitch.present", "In"), ("cloud.provider.com/topology-rack", "Exists")],
    ]


def test_roles_are_pod_sets_and_the_missing_pod_may_have_any() -> None:
    pods = [member("prefill-worker", role="prefill"), member("decode-worker", role="decode")]
    gang = gangs(group(minimum=3, scope="node"), pods=pods)["g"]
    assert [(each.name, each.count, each.min_count) for each in gang.pod_sets] == [("decode", 1, 1), ("prefill", 1, 1)]
    assert (gang.min_member, gang.expected, len(gang.members)) == (3, 3, 2)
    whole = gangs(group(minimum=3, scope="node"), pods=[*pods, member("router")])["g"]
    assert [each.name for each in whole.pod_sets] == ["main", "decode", "prefill"]


def test_a_job_that_names_a_policy_alone_is_a_gang_of_its_parallelism() -> None:
    gang = gangs(CONFIG, job("j", parallelism=3, annotations={POLICY: "nvlink-locality"}))["j"]
    assert (str(gang.source), gang.min_member, gang.preferred) == ("Job default/j", 3, "nvlink-domain")


def test_pods_that_their_job_has_finished_are_not_waited_for() -> None:
    written = job("j", parallelism=4, annotations={"scheduling.run.ai/pod-group": "g"}, status="{succeeded: 3}")
    gang = gangs(group(minimum=4), written)["g"]
    assert (gang.min_member, gang.expected) == (1, 1)
    over = job("j", parallelism=4, annotations={"scheduling.run.ai/pod-group": "g"}, status="{succeeded: 4}")
    assert "g" not in gangs(group(minimum=4), over)


PREFERRED = {
    "the weightiest packs where none is named": (None, None, "nvlink-domain"),
    "the named one": ("numa-locality", None, "node"),
    "one that packs nothing": ("nvswitch-preference", None, None),
    "below a wider scope": ("nvlink-locality", "rack", "nvlink-domain"),
    "not beside the same scope": ("nvlink-locality", "nvlink-domain", None),
    "not above a narrower scope": ("nvlink-locality", "node", None),
}


@pytest.mark.parametrize(("policy", "scope", "preferred"), PREFERRED.values(), ids=PREFERRED)
def test_a_policy_packs_into_the_level_it_names(policy: str | None, scope: str | None, preferred: str | None) -> None:
    assert gangs(CONFIG, group(minimum=1, scope=scope), pods=[member("a", policy=policy)])["g"].preferred == preferred


def test_switched_off_nothing_of_the_topology_counts_and_the_group_still_starts_together() -> None:
    off = CONFIG.replace("enabled: true", "enabled: false")
    gang = gangs(off, group(scope="rack"), pods=[member("a", policy="nvlink-locality"), member("b")])["g"]
    assert (gang.required, gang.preferred, gang.node_affinity, gang.node_wishes) == (None, None, None, ())
    assert gang.min_member == 2
    assert [each for each in advice(off, group(scope="rack")) if "enabled is false" in each]


def test_a_policy_waits_for_its_configmap_and_a_member_for_its_group() -> None:
    found = gangs(group(minimum=1), pods=[member("a", policy="mine")])["g"]
    assert found.waiting_for == ('ConfigMap kai-scheduler/kai-scheduler-config with a policy "mine"',)
    assert gangs(pods=[member("a", of="h")])["h"].waiting_for == ("PodGroup default/h",)


def test_a_group_of_kai_schedulers_own_version_names_a_topology() -> None:
    constraint = "{topology: datacenter, requiredTopologyLevel: block, preferredTopologyLevel: example.com/rack}"
    gang = gangs(DATACENTER, group(version="v2alpha2", constraint=constraint))["g"]
    assert (gang.topology, gang.required, gang.preferred) == ("datacenter", "block", "example.com/rack")
    waiting = gangs(group(version="v2alpha2", constraint=constraint))["g"]
    assert waiting.waiting_for == ("Topology datacenter",)


def test_queues_are_labels() -> None:
    assert gangs(group(queue="training"))["g"].queue == "training"


def test_the_guides_files_say_nothing_wrong() -> None:
    texts = [path.read_text() for path in sorted(GUIDE.glob("**/*.yaml")) if "apiVersion:" in path.read_text()]
    found = gangs(*texts)
    assert {name: (gang.required, gang.min_member) for name, gang in found.items()} == {
        "ddp-training-tas": ("nvlink-domain", 4),
        "multi-node-training": ("rack", 2),
        "llm-serving-pipeline": ("node", 3),
        "nccl-benchmark": (None, 1),
    }
    assert {gang.queue for gang in found.values()} == {"training", "inference", None}


def test_every_key_is_listed_once_and_told_in_the_reference() -> None:
    assert len(set(KEYS)) == len(KEYS)
    page = Path(__file__).parents[2] / "docs" / "reference" / "keys" / "kai.md"
    told = re.findall(r"^\| `([^`]+)` \|", page.read_text(), re.MULTILINE)
    assert told == list(KEYS)
    text = yaml.safe_load((GUIDE / "tas-config.yaml").read_text())["data"]["config.yaml"]
    settings = yaml.safe_load(text)["topologyAwareScheduling"]
    listed = {f"policies[].{key}" for each in settings["policies"] for key in each}
    listed |= {f"levels[].{key}" for each in settings["levels"] for key in each} | {"enabled"}
    assert {f"config.yaml topologyAwareScheduling.{each}" for each in listed} <= set(KEYS)
