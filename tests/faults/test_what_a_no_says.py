"""A rejection names its reason, and distinguishes constraints of the user from rules that Phalanx adds itself."""

from pathlib import Path

import pytest
from solving import Answer, solved, written

from gangs.koordinator.messages import no_room_messages
from gangs.no_room import NoRoom
from planning.dry_run import dry_run
from planning.files.documents import parse

HERE = Path(__file__).parent / "what_a_no_says"
BELOW = (
    "warning: tas-config.yaml: ConfigMap kai-scheduler/kai-scheduler-config: "
    'data[config.yaml].topologyAwareScheduling.levels: "{}" lies below the node: it counts only for ResourceClaims; '
    "without claims, the node chooses the devices\n"
)
KAI_SAYS = BELOW.format("gpu") + BELOW.format("numa-node")
TOO_SMALL = "node(s) were in an NVLink domain of less than 10 GPUs (gpu.topology/nvlink-domain-size)"
PCIE = "node(s) had GPUs that NVLink does not connect (gpu.topology/interconnect)"
NO_RACK = "node(s) had no label topology.kubernetes.io/rack or cloud.provider.com/topology-rack"
WRITTEN = "node(s) didn't match Pod's node affinity/selector"
NO_POOL = "node(s) were not in node pool nosuch (kai.scheduler/node-pool)"
TWO = (
    "Job default/own: metadata.annotations[phalanx.dev/topology]: is not set, and there are several topologies; name "
    "one of clusternetworktopologies.scheduling.koordinator.sh/default, topologies.kueue.x-k8s.io/default"
)

ANSWERS = {
    "a domain that is too small": (
        ("nodes-racks", "tas-config", "kai-too-big"),
        Answer(
            f"""\
default/big  Unplaceable  infeasible
  needs 5 pods in one nvlink-domain: gpu-zone-1/r1/dgx-h100-01 fits 0 of 5 (1 node: {TOO_SMALL}); \
gpu-zone-1/r1/dgx-h100-02 fits 0 of 5 (1 node: {TOO_SMALL}); gpu-zone-1/r2/dgx-h100-03 fits 0 of 5 (1 node: {TOO_SMALL})

  NEAREST                     FITS     NODES   EXCLUDED
  gpu-zone-1/r1/dgx-h100-01   0 of 5   1       1 {TOO_SMALL}
  gpu-zone-1/r1/dgx-h100-02   0 of 5   1       1 {TOO_SMALL}
  gpu-zone-1/r2/dgx-h100-03   0 of 5   1       1 {TOO_SMALL}
  gpu-zone-1/r2/l40s-01       0 of 5   1       1 {PCIE}
""",
            KAI_SAYS,
            3,
        ),
    ),
    "a label that is missing, and beside it a selector that somebody wrote": (
        ("kai-nodes-guide-labels", "tas-config", "multi-node-tas", "trainer-node-1"),
        Answer(
            f"""\
ml-training/multi-node-training  Unplaceable  infeasible
  needs 2 pods in one rack: gpu-zone-1/DefaultTopologyName fits 0 of 2 (3 nodes: {NO_RACK}, 1 node: {WRITTEN})

  NEAREST                          FITS     NODES   EXCLUDED
  gpu-zone-1/DefaultTopologyName   0 of 2   4       3 {NO_RACK}, 1 {WRITTEN}

  would fit if: label topology.kubernetes.io/rack on the nodes, one value on all of them (3 nodes)
""",
            KAI_SAYS,
            3,
        ),
    ),
    "a node pool that no node is in": (
        ("runai-nodes", "topology-zone", "runai-nodepool-nosuch"),
        Answer(
            f"""\
default/np  Unplaceable  infeasible
  needs 6 pods in one zone: z1 fits 0 of 6 (8 nodes: {NO_POOL})

  NEAREST   FITS     NODES   EXCLUDED
  z1        0 of 6   8       8 {NO_POOL}

  would fit if: label kai.scheduler/node-pool: nosuch left out (8 nodes)
""",
            "",
            3,
        ),
    ),
    "topologies of two systems that have one name": (
        ("koord-nodes", "kueue-default", "cluster-network-topology", "two-defaults-job"),
        Answer(f"default/own  Invalid\n  {TWO}\n", f"error: two-defaults-job.yaml: {TWO}\n", 2),
    ),
    "a member that is to be replaced where the others run: no other domain is near": (
        ("koord-nodes", "cluster-network-topology", "replacement"),
        Answer(
            """\
default/llm  Unplaceable  infeasible
  needs 4 pods in one SpineLayer: spine-1 fits 3 of 4 (4 nodes: Insufficient cpu)

  NEAREST   FITS     NODES   EXCLUDED
  spine-1   3 of 4   4       4 Insufficient cpu

  would fit if: 1 more pod slot in spine-1
  would fit if: a minimum of 3 instead of 4
  would fit if: required level SpineLayer dropped
""",
            "",
            3,
        ),
    ),
}


@pytest.mark.parametrize(("files", "answer"), ANSWERS.values(), ids=ANSWERS)
def test_a_no_says_what_it_is(files: tuple[str, ...], answer: Answer) -> None:
    assert solved(*(HERE / f"{each}.yaml" for each in files)) == answer


def test_the_domain_of_a_replacement_offers_what_is_left_of_it_in_koordinators_words_too() -> None:
    """The slots of the three running members must not count as offered: "desiredOfferSlot: 1" excludes "spine-1: 3"."""
    files = [HERE / f"{each}.yaml" for each in ("koord-nodes", "cluster-network-topology", "replacement")]
    (decision,) = dry_run([each for file in files for each in parse(file.read_bytes(), file.name)[0]]).decisions
    assert decision.gang is not None
    waiting = [member.pod for member in decision.gang.members if not member.pod.bound]
    (text,) = no_room_messages(
        NoRoom(decision.gang, waiting, 12, decision.explanation.offered, evicting=False, node_offers=list)
    )
    assert text == (
        "0/12 nodes are available: no candidate topology nodes can accommodate job, desiredOfferSlot: 1, topology "
        "topologyNode SpineLayer/spine-1: 0. preemption: 0/12 nodes are available: 12 Preemption is not helpful for "
        "scheduling.."
    )


NAMES = {
    "Kueue's": ("topologies.kueue.x-k8s.io/default", "network.topology.nvidia.com/spine", "Placed"),
    "Kueue's, as kubectl tells it": ("topology.kueue.x-k8s.io/default", "network.topology.nvidia.com/spine", "Placed"),
    "Koordinator's": ("clusternetworktopologies.scheduling.koordinator.sh/default", "BlockLayer", "Placed"),
    "both": ("default", "BlockLayer", '"default" is the name of several topologies; name one of clusternetwork'),
    "one of a kind that is not there": (
        "topologies.kai.scheduler/default",
        "x",
        "waits for topologies.kai.scheduler/d",
    ),
}


@pytest.mark.parametrize(("name", "level", "text"), NAMES.values(), ids=NAMES)
def test_a_kind_tells_topologies_of_one_name_apart(tmp_path: Path, name: str, level: str, text: str) -> None:
    """In the annotation of a Job, and in the field of a Gang."""
    there = [HERE / f"{each}.yaml" for each in ("koord-nodes", "kueue-default", "cluster-network-topology")]
    job = (HERE / "two-defaults-job.yaml").read_text().replace("BlockLayer", f'{level}, phalanx.dev/topology: "{name}"')
    gang = (
        "apiVersion: phalanx.dev/v1alpha1\nkind: Gang\nmetadata: {name: own}\n"
        f"spec: {{minMember: 1, topology: {name}, preferred: {level}}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: own-0, labels: {phalanx.dev/gang: own}}\n"
        "spec: {containers: [{name: c, image: i}]}\n"
    )
    for asked in (job, gang):
        assert text in solved(*there, written(tmp_path, asked)).report


def test_our_own_kind_is_meant_by_a_name_alone(tmp_path: Path) -> None:
    there = [HERE / f"{each}.yaml" for each in ("koord-nodes", "kueue-default", "cluster-network-topology")]
    own = "apiVersion: phalanx.dev/v1alpha1\nkind: Topology\nmetadata: {name: default}\nspec: {levels: [{name: b, "
    own += "nodeLabel: network.topology.nvidia.com/block}]}\n---\n"
    job = (HERE / "two-defaults-job.yaml").read_text().replace("BlockLayer", "b, phalanx.dev/topology: default")
    assert "in block-1: node-3..4" in solved(*there, written(tmp_path, own + job)).report


KUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: fast}
spec: {nodeLabels: {pool: fast}}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [cpu], flavors: [{name: fast, resources: [{name: cpu, nominalQuota: 9}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: q}
spec: {clusterQueue: all}
---
apiVersion: batch/v1
kind: Job
metadata: {name: own, labels: {kueue.x-k8s.io/queue-name: q}}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}
"""
GANG = """
apiVersion: phalanx.dev/v1alpha1
kind: Gang
metadata: {name: own}
spec:
  minMember: 1
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [fast]}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: own-0, labels: {phalanx.dev/gang: own}}
spec: {containers: [{name: c, image: i}]}
"""
KAI = """
apiVersion: scheduling.run.ai/v2
kind: PodGroup
metadata: {name: own}
spec:
  minMember: 1
  topologyPolicy: {affinity: {required: [{key: pool, operator: In, values: [fast]}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: own-0, annotations: {scheduling.run.ai/pod-group: own}}
spec: {containers: [{name: c, image: i}]}
"""
TIED = """
apiVersion: v1
kind: Pod
metadata: {name: own-0, labels: {phalanx.dev/gang: own}, annotations: {phalanx.dev/pinned-domain: pool=fast}}
spec: {nodeSelector: {pool: fast}, containers: [{name: c, image: i}]}
---
apiVersion: phalanx.dev/v1alpha1
kind: Gang
metadata: {name: own}
spec: {minMember: 1}
"""
GROUNDS = {
    "a flavor": (KUEUE, "node(s) were not of flavor fast (pool=fast)", ["label pool=fast on the nodes (1 node)"]),
    "the Gang's own affinity": (
        GANG,
        "node(s) didn't match the Gang's nodeAffinity",
        ["nodeAffinity of the Gang dropped (1 node)"],
    ),
    "the PodGroup's own affinity": (
        KAI,
        "node(s) didn't match the PodGroup's topologyPolicy.affinity",
        ["PodGroup's topologyPolicy.affinity dropped (1 node)"],
    ),
    "a tie to siblings": (TIED, "node(s) were outside pool=fast, where the gang's running members are", []),
    "a selector of the pod's user": (
        TIED.replace("pinned-domain", "nothing"),
        WRITTEN,
        ["node affinity/selector dropped (1 node)"],
    ),
}


@pytest.mark.parametrize(("asked", "reason", "remedies"), GROUNDS.values(), ids=GROUNDS)
def test_whose_rule_keeps_a_node_out(tmp_path: Path, asked: str, reason: str, remedies: list[str]) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 4}}\n---"
    report = solved(written(tmp_path, node + asked)).report
    assert f"the cluster holds 0 of 1 (1 node: {reason})" in report
    assert [line.partition(": ")[2] for line in report.splitlines() if "would fit if" in line] == remedies


def test_a_node_in_none_of_the_topologys_pools_is_told_as_that(tmp_path: Path) -> None:
    """The message must not report the node as one without the label `pool=fast`."""
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {rack: a}}\nstatus: {allocatable: {cpu: 4}}\n---\n"
    topology = "apiVersion: phalanx.dev/v1alpha1\nkind: Topology\nmetadata: {name: t, annotations: "
    topology += "{phalanx.dev/node-pools: pool=fast}}\nspec: {levels: [{name: rack, nodeLabel: rack}]}\n---\n"
    gang = (
        "apiVersion: phalanx.dev/v1alpha1\nkind: Gang\nmetadata: {name: own}\nspec: {minMember: 1, topology: t}\n---\n"
    )
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: own-0, labels: {phalanx.dev/gang: own}}\n"
    pod += "spec: {containers: [{name: c, image: i}]}\n"
    report = solved(written(tmp_path, node + topology + gang + pod)).report
    assert "(1 node: node(s) were not in the topology's node pool pool=fast)" in report
