"""A cached rejection that still holds is correct: after random changes, the brute-force search finds no plan either."""

import copy
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
import scenes
from pod_by_pod import Cluster, Manifest, best
from random_pods import random_cluster
from thorough import chunks, has_rare_cases

from controller.scheduling.cluster_changes import Basis, ClusterChanges, Cure, cure_of
from planning.decision import Decision

CHUNK, CHUNKS = 400, 6
CHANGES = ("comes", "goes", "is going", "is relabelled", "moves", "node is relabelled", "node grows")


def decided(cluster: Cluster) -> Decision:
    gang = scenes.gang("g", minMember=len(cluster.members))
    (decision,) = scenes.solved([gang, *map(dict, (*cluster.nodes, *cluster.running, *cluster.members))]).decisions
    return decision


def basis(cluster: Cluster) -> Basis:
    return Basis(scenes.picture([*map(dict, (*cluster.nodes, *cluster.running))])[1], ())


def crowded(seed: int) -> Cluster:
    """An instance among pods of which most may not be evicted, each with a uid as the API server gives it."""
    random, cluster = Random(f"no {seed}"), random_cluster(seed)  # noqa: S311 - to be repeatable, not secret
    return Cluster(cluster.nodes, [running(each, random) for each in cluster.running], cluster.members)


def running(pod: Manifest, random: Random, number: int | None = None) -> Manifest:
    name = pod["metadata"]["name"] if number is None else f"new-{number}"
    priority = random.choice((10, 20, 20, 20, 20, 20, 20, 0))
    return {
        **pod,
        "metadata": {**pod["metadata"], "name": name, "uid": f"uid-{name}"},
        "spec": {**pod["spec"], "priority": priority},
    }


def changed(cluster: Cluster, seed: int) -> tuple[Cluster, list[str]]:
    """The cluster after a few changes, most of which only add pods."""
    random = Random(f"change {seed}")  # noqa: S311 - as above
    nodes, pods = copy.deepcopy(list(cluster.nodes)), copy.deepcopy(list(cluster.running))
    done = [random.choice((*CHANGES, *["comes"] * 9)) for _ in range(random.choice((1, 1, 2)))]
    for number, change in enumerate(done):
        node = random.choice(nodes)
        if change == "comes":
            others = random_cluster(random.randrange(10_000)).running or random_cluster(4).running
            for each in others[:1]:
                come = running(each, random, number)
                pods.append({**come, "spec": {**come["spec"], "nodeName": node["metadata"]["name"]}})
        elif change == "node is relabelled":
            node["metadata"]["labels"]["disk"] = "ssd"
        elif change == "node grows":
            node["status"]["allocatable"]["cpu"] = "4"
        elif pods:
            pod = random.choice(pods)
            pods.remove(pod)
            pods += _after(pod, change, node)
    return Cluster(nodes, pods, cluster.members), done


def _after(pod: Manifest, change: str, node: Manifest) -> list[Manifest]:
    metadata = dict(pod["metadata"])
    match change:
        case "is going":
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        case "is relabelled":
            metadata["labels"] = {"app": "a"}
        case "moves":
            return [{**pod, "spec": {**pod["spec"], "nodeName": node["metadata"]["name"]}}]
        case _:
            return []
    return [{**pod, "metadata": metadata}]


def staying(cluster: Cluster) -> Cluster:
    """Return the cluster for the brute-force search, without terminating pods: their capacity becomes free."""
    pods: Sequence[Manifest] = [each for each in cluster.running if "deletionTimestamp" not in each["metadata"]]
    return Cluster(cluster.nodes, pods, cluster.members)


@pytest.mark.parametrize("seeds", chunks(CHUNKS * CHUNK, CHUNK, fast=100, fresh=37))
def test_a_no_that_is_said_to_stand_is_still_one(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        cluster = crowded(seed)
        decision = decided(cluster)
        if decision.gang is None or cure_of(decision) is not Cure.MORE_THAN_NEW_PODS:
            continue
        now, done = changed(cluster, seed)
        there = basis(now)
        stands = ClusterChanges(there).are_only_new_pods(basis(cluster), decision.gang)
        possible = best(staying(now)) is not None
        assert not (stands and possible), (seed, done)
        seen["stands" if stands else "asked again, in vain" if not possible else "asked again"] += 1
    if has_rare_cases(seeds):
        assert seen["stands"] >= len(seeds) / 40, seen
        assert seen["asked again"] >= 1, seen
