"""Clusters with many gangs of one kind in one namespace, and a pod of one of them as it arrives."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gangs.dialects.templates import as_admitted
from gangs.manifests import key_of
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workloads.jobs import example_pod

NAMESPACE = "default"
SIZE = 4


@dataclass(frozen=True)
class Way:
    """A way to ask for gangs. `{name}` in a text is the gang's name, `{next}` that of another one.

    `job`: annotations of its Job, `labels` and `template`: labels and annotations of its pods. `group`: the object
    beside the Job. `common`: what the cluster has once.
    """

    dialect: str
    job: Mapping[str, str] | None = None
    queue: str = ""
    labels: Mapping[str, str] | None = None
    template: Mapping[str, str] | None = None
    group: Mapping[str, Any] | None = None
    common: tuple[Mapping[str, Any], ...] = ()

    def objects(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the objects that the user of one gang writes, and the Gang object that mirrors it."""
        name, other = f"gang-{number}", f"gang-{number ^ 1}"
        yield self._job(name, other)
        if self.group is not None:
            group = _filled(self.group, name, other)
            group["metadata"] = {"name": name, "namespace": NAMESPACE, **group.get("metadata", {})}
            yield group
        if self.group is None or self.group["kind"] != "Gang":
            shown = {"phalanx.dev/mirrors": f"{self.dialect}/{NAMESPACE}/{name}"}
            metadata = {"name": f"{self.dialect}-{name}", "namespace": NAMESPACE, "annotations": shown}
            yield {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": {}}

    def _job(self, name: str, other: str) -> dict[str, Any]:
        template = {
            "metadata": _filled({"labels": self.labels or {}, "annotations": self.template or {}}, name, other),
            "spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"},
        }
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "labels": _filled({"kueue.x-k8s.io/queue-name": self.queue} if self.queue else {}, name, other),
            "annotations": _filled(self.job or {}, name, other),
        }
        spec = {"parallelism": SIZE, "completions": SIZE, "completionMode": "Indexed", "template": template}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _filled(part: Any, name: str, other: str) -> Any:
    if isinstance(part, str):
        return part.replace("{name}", name).replace("{next}", other)
    if isinstance(part, Mapping):
        return {key: _filled(value, name, other) for key, value in part.items()}
    return [_filled(each, name, other) for each in part] if isinstance(part, list) else part


def _one(api_version: str, kind: str, name: str, spec: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


_OWN = _one("phalanx.dev/v1alpha1", "Topology", "own", {"levels": [{"name": "rack", "nodeLabel": "example.com/rack"}]})
_NETWORK = _one(
    "scheduling.koordinator.sh/v1alpha1",
    "ClusterNetworkTopology",
    "default",
    {
        "networkTopologySpec": [
            {"topologyLayer": "BlockLayer", "labelKey": ["example.com/block"]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
        ]
    },
)
_NETWORK_OF_RUNAI = _one(
    "kai.scheduler/v1alpha1", "Topology", "network", {"levels": [{"nodeLabel": "cloud.provider.com/topology-rack"}]}
)
_KUEUE = "kueue.x-k8s.io/v1beta1"
_QUEUES = (
    _one(_KUEUE, "Topology", "default", {"levels": [{"nodeLabel": "example.com/rack"}]}),
    _one(_KUEUE, "ResourceFlavor", "tas", {"nodeLabels": {"ready": "true"}, "topologyName": "default"}),
    _one(
        _KUEUE,
        "ClusterQueue",
        "pool",
        {
            "namespaceSelector": {},
            "cohort": "all",
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "tas", "resources": [{"name": "cpu", "nominalQuota": 8}]}],
                }
            ],
        },
    ),
    _one(_KUEUE, "LocalQueue", "q", {"clusterQueue": "pool"}, NAMESPACE),
)
_POD_GROUP = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": SIZE}}
_POD_GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
_LISTED = {"gang.scheduling.koordinator.sh/groups": f'["{NAMESPACE}/{{name}}", "{NAMESPACE}/{{next}}"]'}

WAYS: Mapping[str, Way] = {
    "a Job of our own": Way("phalanx", {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack"}, common=(_OWN,)),
    "a Gang object of our own, sized by its Job": Way(
        "phalanx",
        labels={"phalanx.dev/gang": "{name}"},
        group={"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "spec": {}},
        common=(_OWN,),
    ),
    "a Gang object of our own in a queue of Kueue, which its Job names, too": Way(
        "phalanx",
        labels={"phalanx.dev/gang": "{name}"},
        queue="q",
        group={"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "spec": {"minMember": SIZE, "queue": "q"}},
        common=_QUEUES,
    ),
    "a Job of Run:ai": Way(
        "runai",
        {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"},
        common=(_NETWORK_OF_RUNAI,),
    ),
    "a Job of ACK": Way(
        "ack",
        labels={
            "network-topology-job-name": "{name}",
            f"{_POD_GROUP_LABEL}/name": "{name}",
            f"{_POD_GROUP_LABEL}/min-available": str(SIZE),
        },
        group={
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "JobNetworkTopology",
            "spec": {"topologyStrategy": [{"layer": "BlockLayer", "strategy": "PreferGather"}], "workerNum": SIZE},
        },
        common=(_NETWORK,),
    ),
    "a PodGroup of Koordinator": Way(
        "koordinator", labels={_POD_GROUP_LABEL: "{name}"}, group=_POD_GROUP, common=(_NETWORK,)
    ),
    "a GangGroup of Koordinator": Way(
        "koordinator",
        labels={_POD_GROUP_LABEL: "{name}"},
        group={**_POD_GROUP, "metadata": {"annotations": _LISTED}},
        common=(_NETWORK,),
    ),
    "a PodGroup of KAI": Way(
        "kai",
        template={"scheduling.run.ai/pod-group": "{name}"},
        group={"apiVersion": "scheduling.run.ai/v2", "kind": "PodGroup", "spec": {"minMember": SIZE}},
    ),
    "a policy of KAI": Way("kai", template={"scheduling.run.ai/topology-policy": "same-rack"}),
    "a queue of Kueue": Way("kueue", queue="q", common=_QUEUES),
    "a queue of Kueue for each gang": Way(
        "kueue",
        queue="{name}",
        group={"apiVersion": _KUEUE, "kind": "LocalQueue", "spec": {"clusterQueue": "pool"}},
        common=_QUEUES,
    ),
    "a place of Kueue": Way(
        "kueue", template={"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}, common=_QUEUES
    ),
}
"""The ways to ask for gangs, by description."""


def crowd(way: Way, gangs: int) -> Sources:
    """Return the objects of so many gangs, with their Jobs as they are after admission."""
    found = [*way.common, *(each for number in range(gangs) for each in way.objects(number))]
    written = Sources(objects={key_of(each): each for each in found})
    return Sources(objects={key: as_admitted(each, written) for key, each in written.objects.items()})


def arriving(sources: Sources, number: int, index: int = 0) -> dict[str, Any]:
    """A pod of one gang as its Job makes it."""
    return pod_of_job(sources.objects["batch", "Job", NAMESPACE, f"gang-{number}"], index)


def pod_of_job(job: Manifest, index: int) -> dict[str, Any]:
    """A pod as the Job's controller makes it."""
    meta = example_pod(job).metadata
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta.name, "uid": job["metadata"]["uid"]}
    number = {"batch.kubernetes.io/job-completion-index": str(index)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta.name}-{index}",
            "namespace": NAMESPACE,
            "labels": {**meta.labels, **number},
            "annotations": {**meta.annotations, **number},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {**job["spec"]["template"]["spec"], "schedulerName": "default-scheduler"},
    }
