"""Wrong requests in the words of the KAI guide, and the exact answer to each."""

import pytest
from kai_objects import CONFIG, POLICY, ROLE, config, group, job, member, settings
from written import DATACENTER, documents, sources

from gangs.dialects import read_all, review, topologies
from gangs.sources import Sources
from kube.objects import Pod

SCOPES = "the scopes are gpu, numa-node, node, nvlink-domain, rack, zone"
AFFINITY = "spec.topologyPolicy.affinity"

GROUPS = {
    "no minimum": (
        group().replace("minMember: 2", "queue: a"),
        "spec.minMember: is missing; write the number of pods that must start together",
    ),
    "a minimum of none": (
        group(minimum=0),
        "spec.minMember: 0 is less than 1; write the number of pods that must start together",
    ),
    "a minimum that is no number": (
        group(minimum="two"),
        "spec.minMember: expected `int | null`, got `str`; correct the value",
    ),
    "a scope nobody knows": (
        group(scope="nvlink"),
        f'spec.topologyPolicy.scope: "nvlink" is not a scope; {SCOPES}',
    ),
    "an operator nobody knows": (
        group(affinity="[{key: a, operator: Is, values: [b]}]"),
        (f'{AFFINITY}.required[0].operator: "Is" is not known; write one of In, NotIn, Exists, DoesNotExist, Gt, Lt'),
    ),
    "a requirement of no label": (
        group(affinity="[{operator: Exists}]"),
        f"{AFFINITY}.required[0].key: is missing; name a label of the nodes",
    ),
    "In without values": (
        group(affinity="[{key: a, operator: In}]"),
        f"{AFFINITY}.required[0].values: is empty, and In needs values; list them",
    ),
    "Exists with values": (
        group(affinity="[{key: a, operator: Exists, values: [b]}]"),
        f"{AFFINITY}.required[0].values: is not empty, and Exists takes none; remove it",
    ),
    "Gt of a word": (
        group(affinity="[{key: a, operator: Gt, values: [many]}]"),
        f"{AFFINITY}.required[0].values: is not one whole number, which Gt needs; correct it",
    ),
    "an affinity that is not required": (
        group(more="affinity: {preferred: []}"),
        "spec.affinity.preferred: is not known; write required: a list of key, operator and values",
    ),
    "subgroups": (
        group(version="v2alpha2", more="subGroups: [{name: a, minMember: 1}]"),
        ("spec.subGroups: is not built yet; leave it out; pods of one role (annotation topology-role) are one pod set"),
    ),
    "two wishes in one": (
        group(scope="rack", constraint="{topology: datacenter}"),
        "spec.topologyConstraint: is given beside spec.topologyPolicy.scope; keep one of the two",
    ),
    "a level that the topology lacks": (
        group(constraint="{topology: datacenter, requiredTopologyLevel: spine}"),
        (
            'spec.topologyConstraint.requiredTopologyLevel: "spine" is not a level of Topology datacenter; '
            "its levels are block (example.com/block), rack (example.com/rack), node (kubernetes.io/hostname)"
        ),
    ),
    "preferred above required": (
        group(constraint="{topology: datacenter, requiredTopologyLevel: rack, preferredTopologyLevel: block}"),
        (
            'spec.topologyConstraint.preferredTopologyLevel: "block" is wider than the required level "rack"; '
            "prefer rack or a narrower level, or leave it out"
        ),
    ),
}


@pytest.mark.parametrize(("text", "answer"), GROUPS.values(), ids=GROUPS)
def test_a_wrong_group_is_refused_naming_the_field_and_the_remedy(text: str, answer: str) -> None:
    (manifest,) = documents(text)
    manifest["metadata"]["namespace"] = "default"
    faults, _ = review(manifest, sources(DATACENTER, CONFIG))
    assert [str(each) for each in faults] == [f"PodGroup default/g: {answer}"]
    reading = read_all(sources(text, DATACENTER, CONFIG))
    assert (reading.gangs, [str(each) for each in reading.faults]) == ((), [f"PodGroup default/g: {answer}"])


AT = "data[config.yaml]"
PART = f"{AT}.topologyAwareScheduling"
ONE = "{name: a, topology: nvlink, strategy: pack, weight: 1}"
CONFIGS = {
    "text that is no YAML": (settings("a: [b"), f"{AT}: cannot be read as YAML: "),
    "a list": (settings("- a"), f"{AT}: is not a mapping; correct the text"),
    "no strategy": (
        config(policies="[{name: a, topology: nvlink}]"),
        f"{PART}.policies[0].strategy: is missing; set it",
    ),
    "a strategy nobody knows": (
        config(policies="[{name: a, topology: nvlink, strategy: spread}]"),
        f'{PART}.policies[0].strategy: "spread" is not known; write pack or prefer',
    ),
    "a topology nobody knows": (
        config(policies="[{name: a, topology: pcie, strategy: pack}]"),
        (
            f'{PART}.policies[0].topology: "pcie" is not known; '
            "write one of nvlink, numa, nvswitch, nvlink-domain, node, rack, zone"
        ),
    ),
    "a weight out of bounds": (
        config(policies="[{name: a, topology: nvlink, strategy: pack, weight: 200}]"),
        f"{PART}.policies[0].weight: 200 is not from 1 to 100; correct it",
    ),
    "two policies of one name": (
        config(policies=f"[{ONE}, {ONE}]"),
        f'{PART}.policies[1].name: "a" is given twice; give each policy a name of its own',
    ),
    "two levels of one label": (
        config(levels="[{name: rack, label: x}, {name: hall, label: x}]"),
        f'{PART}.levels[1].label: "x" stands for levels[0] too; give each level a name and a label of its own',
    ),
    "a level without a label": (config(levels="[{name: rack}]"), f"{PART}.levels[0].label: is missing; set it"),
    "a switch that is no switch": (
        config(enabled="maybe"),
        f"{PART}.enabled: expected `bool`, got `str`; correct the value",
    ),
}


@pytest.mark.parametrize(("text", "answer"), CONFIGS.values(), ids=CONFIGS)
def test_a_wrong_configmap_is_refused_and_counts_for_nothing(text: str, answer: str) -> None:
    (manifest,) = documents(text)
    (fault,), _ = review(manifest, Sources())
    assert str(fault).startswith(f"ConfigMap kai-scheduler/kai-scheduler-config: {answer}")
    (usual,), faults = topologies(sources(text))
    assert [level.name for level in usual.levels] == ["zone", "rack", "nvlink-domain", "node"]
    assert faults == [fault]


PODS = {
    "a policy that the ConfigMap lacks": (
        [member("a", policy="nvlink")],
        (
            f'Pod default/a: metadata.annotations[{POLICY}]: "nvlink" is not a policy of ConfigMap '
            "kai-scheduler/kai-scheduler-config; its policies are nvlink-locality, numa-locality, nvswitch-preference"
        ),
    ),
    "two policies in one gang": (
        [
            member("a", policy="nvlink-locality", created="2026-01-01T00:00:00Z"),
            member("b", policy="numa-locality", created="2026-01-01T00:00:01Z"),
        ],
        (
            f'Pod default/b: metadata.annotations[{POLICY}]: "numa-locality" differs from "nvlink-locality" of '
            "Pod default/a; name one policy on all members"
        ),
    ),
    "a role that is no word": (
        [member("a", role="pre fill")],
        (
            f'Pod default/a: metadata.annotations[{ROLE}]: "pre fill" cannot name a pod set; '
            "write prefill or decode, or another word of letters, digits and dashes"
        ),
    ),
    "mixed priorities": (
        [
            member("a", priority=1, created="2026-01-01T00:00:00Z"),
            member("b", priority=2, created="2026-01-01T00:00:01Z"),
        ],
        (
            "Pod default/b: spec.priority: 2 differs from 1 of Pod default/a in PodGroup default/g; "
            "give all members of a gang one priority"
        ),
    ),
}


@pytest.mark.parametrize(("pods", "answer"), PODS.values(), ids=PODS)
def test_a_wrong_member_is_refused(pods: list[Pod], answer: str) -> None:
    standing = sources(CONFIG, group())
    reading = read_all(Sources(pods, standing.objects))
    assert (reading.gangs, [str(each) for each in reading.faults]) == ((), [answer])


def test_a_gang_of_scope_gpu_has_one_gpu_in_all() -> None:
    standing = sources(group(scope="gpu"))
    one = [member("a", gpus=1, created="2026-01-01T00:00:00Z"), member("b")]
    assert not read_all(Sources(one, standing.objects)).faults
    two = [one[0], member("b", gpus=1)]
    (fault,) = read_all(Sources(two, standing.objects)).faults
    assert str(fault) == (
        "Pod default/b: spec.containers: makes 2 nvidia.com/gpu together, and PodGroup default/g has the scope of a "
        "single GPU; choose the scope node, or ask for less"
    )


def test_a_jobs_misspelt_policy_is_told_to_whoever_writes_the_job() -> None:
    (manifest,) = documents(job("j", annotations={POLICY: "nvlink"}))
    manifest["metadata"]["namespace"] = "default"
    (fault,), _ = review(manifest, sources(CONFIG))
    assert str(fault) == (
        f'Job default/j: spec.template.metadata.annotations[{POLICY}]: "nvlink" is not a policy of ConfigMap '
        "kai-scheduler/kai-scheduler-config; its policies are nvlink-locality, numa-locality, nvswitch-preference"
    )


def test_annotations_of_pods_are_refused_on_the_job_that_makes_them() -> None:
    text = job("j", annotations={}).replace("{name: j}", f"{{name: j, annotations: {{{POLICY}: nvlink-locality}}}}")
    (manifest,) = documents(text)
    manifest["metadata"]["namespace"] = "default"
    (fault,), _ = review(manifest, sources(CONFIG))
    at = f"metadata.annotations[{POLICY}]"
    assert str(fault) == f"Job default/j: {at}: does not reach the pods; write it at spec.template.{at}"
    assert read_all(sources(CONFIG, text)).faults == (fault,)


def test_what_has_no_effect_is_said() -> None:
    (manifest,) = documents(group(version="v2alpha2", more="preemptibility: preemptible, minMembers: 3"))
    manifest["metadata"]["namespace"] = "default"
    _, said = review(manifest, Sources())
    assert [(each.field, each.text.partition(":")[0]) for each in said] == [
        ("spec.preemptibility", "has no effect here"),
        ("spec.minMembers", "is ignored"),
    ]
