"""Wrong requests of ACK Lingjun's kind, and the exact answer at admission."""

import json
from typing import Any

import pytest
from ack_objects import GANG_NAME, LINGJUN, MIN_AVAILABLE, job, labels, member, network
from written import documents, pod, sources

from gangs.dialects import review
from gangs.model import Manifest
from gangs.sources import Sources
from kube.objects import Pod

NETWORK_REF = "JobNetworkTopology net/sample"

NETWORKS = {
    "a layer that the topology lacks": (
        network(strategies="[{layer: RackLayer, strategy: MustGather}]"),
        (
            f'{NETWORK_REF}: spec.topologyStrategy[0].layer: "RackLayer" is not a level of '
            "ClusterNetworkTopology default; "
            "its levels are PoDTopologyLayer (alibabacloud.com/point-of-delivery), ASWTopologyLayer "
            "(alibabacloud.com/asw-id), NodeTopologyLayer (kubernetes.io/hostname)"
        ),
    ),
    "a strategy that is not known": (
        network(strategies="[{layer: ASWTopologyLayer, strategy: mustGather}]"),
        (
            f'{NETWORK_REF}: spec.topologyStrategy[0].strategy: "mustGather" is not known; '
            "write MustGather or PreferGather"
        ),
    ),
    "no strategy": (
        network(strategies="[{layer: ASWTopologyLayer}]"),
        f"{NETWORK_REF}: spec.topologyStrategy[0].strategy: is missing; write MustGather or PreferGather",
    ),
    "no layer": (
        network(strategies="[{strategy: MustGather}]"),
        f"{NETWORK_REF}: spec.topologyStrategy[0].layer: is missing; name a layer of the ClusterNetworkTopology",
    ),
    "a layer twice": (
        network(
            strategies="[{layer: ASWTopologyLayer, strategy: MustGather},"
            " {layer: ASWTopologyLayer, strategy: PreferGather}]"
        ),
        (
            f'{NETWORK_REF}: spec.topologyStrategy[1].layer: layer "ASWTopologyLayer" is listed twice; '
            "keep one of MustGather and PreferGather for it"
        ),
    ),
    "no worker": (
        network(0),
        f"{NETWORK_REF}: spec.workerNum: 0 is less than 1; write the number of pods of the job",
    ),
    "workers that are no number": (
        network("two"),
        f"{NETWORK_REF}: spec.workerNum: expected `int | null`, got `str`; correct the value",
    ),
    "a time that is none": (
        network(wait="soon"),
        (
            f'{NETWORK_REF}: metadata.labels[network-topology-permit-wait-time]: "soon" is not a whole number of '
            "seconds from 1 up; correct it or leave it out"
        ),
    ),
}


@pytest.mark.parametrize(("text", "fault"), NETWORKS.values(), ids=NETWORKS)
def test_a_wrong_job_network_topology_is_refused(text: str, fault: str) -> None:
    (manifest,) = documents(text)
    faults, _ = review(manifest, sources(LINGJUN))
    assert [str(each) for each in faults] == [fault]


JOBS = {
    "parallelism alone differs": (
        job(4, 2),
        (
            "Job default/pi: spec.parallelism: this Job runs 4 pods at a time, "
            "pod-group.scheduling.sigs.k8s.io/min-available is 2, and workerNum of JobNetworkTopology net/sample is 2; "
            "write the same number in all three"
        ),
    ),
    "min-available alone differs": (
        job(2, 4),
        (
            "Job default/pi: spec.parallelism: this Job runs 2 pods at a time, "
            "pod-group.scheduling.sigs.k8s.io/min-available is 4, and workerNum of JobNetworkTopology net/sample is 2; "
            "write the same number in all three"
        ),
    ),
    "workerNum alone differs": (
        job(4, 4),
        (
            "Job default/pi: spec.parallelism: this Job runs 4 pods at a time, "
            "pod-group.scheduling.sigs.k8s.io/min-available is 4, and workerNum of JobNetworkTopology net/sample is 2; "
            "write the same number in all three"
        ),
    ),
    "two differ and the third is not there": (
        job(4, 2, of="other"),
        (
            "Job default/pi: spec.parallelism: this Job runs 4 pods at a time, "
            "pod-group.scheduling.sigs.k8s.io/min-available is 2, and workerNum of JobNetworkTopology net/other is not "
            "known yet; write the same number in all three"
        ),
    ),
    "fewer completions than parallelism": (
        job(2, 2, more="completions: 1, "),
        (
            "Job default/pi: spec.parallelism: this Job runs 1 pod at a time, "
            "pod-group.scheduling.sigs.k8s.io/min-available is 2, and workerNum of JobNetworkTopology net/sample is 2; "
            "write the same number in all three"
        ),
    ),
    "no min-available": (
        job(2, None),
        (
            f"Job default/pi: spec.template.metadata.labels[{MIN_AVAILABLE}]: is missing; "
            "write the number of pods that must start together"
        ),
    ),
    "a min-available that is no number": (
        job(2, "all"),
        (
            f'Job default/pi: spec.template.metadata.labels[{MIN_AVAILABLE}]: "all" is not a whole number from 1 up; '
            "correct it"
        ),
    ),
    "no gang": (
        job(2, gang=""),
        (
            f"Job default/pi: spec.template.metadata.labels[{GANG_NAME}]: is missing; "
            "name the gang, the same on all its pods"
        ),
    ),
}


@pytest.mark.parametrize(("text", "fault"), JOBS.values(), ids=JOBS)
def test_a_wrong_job_is_refused(text: str, fault: str) -> None:
    (manifest,) = documents(text)
    faults, _ = review(manifest, sources(LINGJUN, network(2)))
    assert [str(each) for each in faults] == [fault]


def bare(**kwargs: Any) -> dict[str, str]:
    return labels(**kwargs)


PODS: dict[str, tuple[dict[str, str], str]] = {
    "a number that is not workerNum": (
        bare(minimum=3),
        (
            f"Pod default/b: metadata.labels[{MIN_AVAILABLE}]: 3 differs from 2 of Pod default/a; "
            "write the same number on every member"
        ),
    ),
    "another network": (
        bare(of="other"),
        (
            "Pod default/b: metadata.labels[network-topology-job-name]: net/other differs from net/sample of "
            "Pod default/a; "
            "name the same JobNetworkTopology on all members"
        ),
    ),
    "a PodGroup beside it": (
        {**bare(), "pod-group.scheduling.sigs.k8s.io": "g"},
        (
            "Pod default/b: metadata.labels[pod-group.scheduling.sigs.k8s.io]: cannot be combined with "
            f"network-topology-job-name; write {GANG_NAME} and {MIN_AVAILABLE}"
        ),
    ),
}


@pytest.mark.parametrize(("written", "fault"), PODS.values(), ids=PODS)
def test_a_wrong_pod_is_refused(written: dict[str, str], fault: str) -> None:
    there = sources(LINGJUN, network(2))
    faults, _ = review(manifest_of("b", written), Sources([member("a", created="2026-01-01T00:00:00Z")], there.objects))
    assert [str(each) for each in faults] == [fault]


def test_a_first_pod_that_disagrees_with_the_network_is_refused() -> None:
    faults, _ = review(manifest_of("a", labels(3)), sources(LINGJUN, network(2)))
    assert [str(each) for each in faults] == [
        (
            f"Pod default/a: metadata.labels[{MIN_AVAILABLE}]: is 3, but workerNum of "
            "JobNetworkTopology net/sample is 2; "
            "write the same number in both, and in the parallelism of the job if there is one"
        )
    ]


def test_members_of_different_priority_are_refused() -> None:
    there = sources(LINGJUN, network(2))
    eldest = member("a", created="2026-01-01T00:00:00Z", priority=5)
    faults, _ = review(manifest_of("b", labels()), Sources([eldest], there.objects))
    assert [str(each) for each in faults] == [
        (
            "Pod default/b: spec.priority: 0 differs from 5 of Pod default/a in Pod default/a; "
            "give all members of a gang one priority"
        )
    ]


def test_a_network_that_comes_last_is_admitted_and_says_what_it_makes_wrong() -> None:
    (manifest,) = documents(network(4))
    faults, advice = review(manifest, sources(LINGJUN, job(2)))
    assert faults == []
    assert [each.text for each in advice] == [
        (
            "the gang net/sample cannot be planned: Job default/pi: spec.parallelism: this Job runs 2 pods at a time, "
            "pod-group.scheduling.sigs.k8s.io/min-available is 2, and workerNum of JobNetworkTopology net/sample is 4; "
            "write the same number in all three"
        )
    ]


def test_a_job_that_comes_first_is_told_what_it_waits_for() -> None:
    (manifest,) = documents(job())
    faults, advice = review(manifest, sources(LINGJUN))
    assert faults == []
    assert [each.text for each in advice] == ["the gang default/g waits for JobNetworkTopology net/sample"]


def test_fields_that_nobody_reads_are_warned_of() -> None:
    (manifest,) = documents(network(strategies="[{layer: ASWTopologyLayer, strategy: PreferGather, must: true}]"))
    manifest["spec"]["workers"] = 2
    _, advice = review(manifest, sources(LINGJUN))
    assert [each.field for each in advice] == ["spec.workers", "spec.topologyStrategy[0].must"]


def test_a_job_of_no_gang_is_let_alone() -> None:
    (manifest,) = documents(job(3, 2, of="", namespace=""))
    assert review(manifest, sources(LINGJUN, network(2))) == ([], [])


def manifest_of(name: str, written: dict[str, str]) -> Manifest:
    found: Pod = pod(name, labels=written)
    metadata = {"name": name, "namespace": "default", "labels": json.loads(json.dumps(found.metadata.labels))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}
