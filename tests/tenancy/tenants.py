"""Two tenants on one cluster, each with the ClusterRole `edit` in a namespace of its own, and what they write.

rack r1: n0 n1 … n11      64 cpu each, enough for all gangs: nothing but another tenant's objects could delay a gang

Tenant a writes in team-a against tenant b's gangs in team-b. A gang is two pods of 1 cpu.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node_manifests import node_manifest

from controlplane.api import ApiServer
from controlplane.control_plane import ControlPlane, wait_until
from controlplane.running.stages import NOT_READY
from gangs.workloads.later_pods.start_order import MOST_TO_COME
from kube.placeholders import HELD_FOR, HELD_FOR_GANG, PLACEHOLDER, SEAT, seat_uid

Object = dict[str, Any]

PATIENCE = 600.0
WRITERS = 4
"""Requests of a tenant that are under way at a time."""
LEASE_SECONDS = 15.0
"""The leader's lease is this long because these tests do not measure elections.

On a busy machine a leader loses a short lease, and the next leader reads everything again.
"""
RACK = "example.com/rack"
SIZE, CPU = 2, 64
A, B = "team-a", "team-b"
DIALECTS = (
    "koordinator",
    "labels",
    "annotations",
    "ack",
    "kai",
    "kueue",
    "runai",
    "phalanx",
    "job",
    "deploy",
    "stateful",
)
"""Every way of asking; three of them are Koordinator's, four our own: pods, and kinds of workloads by annotation."""
OF = "of"
"""The label that names the gang of a pod whose name is not predictable."""
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Gang": "/apis/phalanx.dev/v1alpha1/namespaces/{}/gangs",
}
WRITABLE = [
    {"apiGroups": ["scheduling.sigs.k8s.io", "scheduling.run.ai"], "resources": ["podgroups"], "verbs": ["*"]},
    {"apiGroups": ["scheduling.koordinator.sh"], "resources": ["jobnetworktopologies"], "verbs": ["*"]},
]
"""The rules that the other systems' own installations add to the role `edit` of a namespace."""


def path_of(manifest: Object) -> str:
    """Where objects of its kind are: in its namespace, or cluster-wide."""
    plural = re.sub("y$", "ie", re.sub("s$", "se", manifest["kind"].lower())) + "s"
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def made(api_version: str, kind: str, name: str, namespace: str = "", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def with_annotations(manifest: Object, **annotations: Any) -> Object:
    """Return the manifest with more annotations. A `_` in a key is kept, so pass other keys as an unpacked dict."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def pod(name: str, namespace: str, *, labels: Any = None, annotations: Any = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    whole = {"terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    found = made("v1", "Pod", name, namespace, **whole)
    found["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    return found


def job(name: str, namespace: str, *, labels: Any = None, annotations: Any = None, template: Any = None) -> Object:
    spec = pod(name, namespace, restartPolicy="Never")["spec"]
    found = made("batch/v1", "Job", name, namespace, parallelism=SIZE, completions=SIZE, completionMode="Indexed")
    found["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    found["spec"]["template"] = {"metadata": template or {}, "spec": spec}
    return found


def replicated(kind: str, name: str, namespace: str, *, replicas: int = SIZE, annotations: Any = None) -> Object:
    """Return a Deployment or StatefulSet that is one gang in a rack; a StatefulSet starts its pods one after the other.

    :param annotations: of its pods.
    """
    metadata = {"labels": {OF: name}, "annotations": annotations or {}}
    template = {"metadata": metadata, "spec": pod(name, namespace)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {OF: name}}, "template": template}
    found = made("apps/v1", kind, name, namespace, **spec, **({"serviceName": name} if kind == "StatefulSet" else {}))
    said = {"phalanx.dev/gang": "true", "phalanx.dev/topology": "own", "phalanx.dev/required": "rack"}
    return with_annotations(found, **said)


def held(name: str, namespace: str) -> Object:
    """Return a StatefulSet whose first pod runs and never becomes ready by itself, so the other pod is expected."""
    return replicated("StatefulSet", name, namespace, annotations={NOT_READY: "true"})


def workload(dialect: str, name: str, namespace: str) -> Object:
    """Return a workload whose controller creates the two pods of a gang."""
    match dialect:
        case "runai":
            wish = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
            return job(name, namespace, annotations=wish)
        case "deploy":
            return replicated("Deployment", name, namespace)
        case "stateful":
            return replicated("StatefulSet", name, namespace)
        case _:
            return job(name, namespace, annotations={"phalanx.dev/gang": "true", "phalanx.dev/topology": "own"})


def gang(dialect: str, name: str, namespace: str) -> list[Object]:  # noqa: PLR0911 -- one a dialect
    """Return the objects of a gang of two pods in a dialect: its description first, then its pods or their Job."""
    members = [f"{name}-{index}" for index in range(SIZE)]
    koordinator, light = "gang.scheduling.koordinator.sh", "pod-group.scheduling.sigs.k8s.io"
    match dialect:
        case "koordinator":
            group = made("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", name, namespace, minMember=SIZE)
            return [group, *(pod(each, namespace, labels={light: name}) for each in members)]
        case "labels":
            said = {f"{light}/name": name, f"{light}/min-available": str(SIZE)}
            return [pod(each, namespace, labels=said) for each in members]
        case "annotations":
            said = {f"{koordinator}/name": name, f"{koordinator}/min-available": str(SIZE)}
            return [pod(each, namespace, annotations=said) for each in members]
        case "ack":
            said = {f"{light}/name": name, f"{light}/min-available": str(SIZE)}
            said |= {"network-topology-job-name": name, "network-topology-job-namespace": namespace}
            wish = [{"layer": "RackLayer", "strategy": "MustGather"}]
            network = made("scheduling.koordinator.sh/v1alpha1", "JobNetworkTopology", name, namespace)
            network["spec"] = {"topologyStrategy": wish, "workerNum": SIZE}
            return [network, *(pod(each, namespace, labels=said) for each in members)]
        case "kai":
            group = made("scheduling.run.ai/v2", "PodGroup", name, namespace, minMember=SIZE)
            said = {"scheduling.run.ai/pod-group": name}
            return [group, *(pod(each, namespace, annotations=said) for each in members)]
        case "kueue":
            said = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/pod-group-name": name}
            total = {"kueue.x-k8s.io/pod-group-total-count": str(SIZE)}
            return [pod(each, namespace, labels=said, annotations=total) for each in members]
        case "phalanx":
            own = made("phalanx.dev/v1alpha1", "Gang", name, namespace, minMember=SIZE, required="rack", topology="own")
            return [own, *(pod(each, namespace, labels={"phalanx.dev/gang": name}) for each in members)]
        case _:
            return [workload(dialect, name, namespace)]


def cluster_objects() -> list[Object]:
    """Return the cluster-wide topologies and queues that administrators create for all tenants."""
    layers = [
        {"labelKey": [RACK], "topologyLayer": "RackLayer"},
        {"parentTopologyLayer": "RackLayer", "topologyLayer": "NodeTopologyLayer"},
    ]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "racks", "resources": []}]}
    group["flavors"][0]["resources"] = [{"name": "cpu", "nominalQuota": 64}]  # type: ignore[index]
    kueue = "kueue.x-k8s.io/v1beta1"
    return [
        made("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "default", networkTopologySpec=layers),
        made(kueue, "Topology", "racks", levels=[{"nodeLabel": RACK}]),
        made(kueue, "ResourceFlavor", "racks", nodeLabels={RACK: "r1"}, topologyName="racks"),
        made(kueue, "ClusterQueue", "pool", namespaceSelector={}, resourceGroups=[group]),
        *(made(kueue, "LocalQueue", "team", namespace, clusterQueue="pool") for namespace in (A, B)),
        made("kai.scheduler/v1alpha1", "Topology", "network", levels=[{"nodeLabel": RACK}]),
        made("phalanx.dev/v1alpha1", "Topology", "own", levels=[{"name": "rack", "nodeLabel": RACK}]),
    ]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A user who may edit one namespace, and a client of the API server with that user's rights."""

    namespace: str
    api: ApiServer
    kubeconfig: str

    def write(self, manifest: Object) -> Object:
        """Create the object; the answer, an object or a refusal."""
        answer: Object = self.api.request("POST", path_of(manifest), manifest)
        return answer

    def write_all(self, manifests: Sequence[Object]) -> list[Object]:
        """Create objects, several at a time; the answers, in their order."""
        with ThreadPoolExecutor(WRITERS) as pool:
            return list(pool.map(self.write, manifests))

    def must_write(self, objects: Iterable[Object]) -> None:
        """Create objects of which none may be refused."""
        for each in objects:
            answer = self.write(each)
            assert answer["kind"] == each["kind"], answer.get("message")

    def items(self, path: str) -> list[Object]:
        """Return the objects of the collection at `path`; empty if the request is refused."""
        found: list[Object] = self.api.request("GET", path).get("items", [])
        return found

    def pods(self) -> list[Object]:
        """All in the tenant's namespace."""
        return self.items(PATHS["Pod"].format(self.namespace))

    def gangs(self) -> list[Object]:
        """All Gang objects there."""
        return self.items(PATHS["Gang"].format(self.namespace))

    def bound(self, name: str) -> list[Object]:
        """The gang's pods that have a node."""
        return _bound(name, self.pods())

    def await_bound(self, names: Sequence[str]) -> float:
        """Wait until all pods of these gangs have a node; the seconds that it took."""
        started = time.monotonic()

        def all_are() -> bool:
            pods = self.pods()
            return all(len(_bound(name, pods)) == SIZE for name in names)

        wait_until(all_are, PATIENCE, f"{names} to run")
        return time.monotonic() - started


def _bound(name: str, pods: Iterable[Object]) -> list[Object]:
    numbered = re.compile(rf"{re.escape(name)}-\d")
    return [
        each
        for each in pods
        if each["spec"].get("nodeName")
        and (numbered.match(each["metadata"]["name"]) or each["metadata"].get("labels", {}).get(OF) == name)
    ]


def tenant(plane: ControlPlane, namespace: str, writable: Sequence[Object] = ()) -> Tenant:
    """Create the namespace, and a user with the role `edit` there and with the rights of `WRITABLE` and `writable`."""
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "of-others"},
        "rules": [*WRITABLE, *writable],
    }
    bindings = [
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }
        for name in ("edit", "of-others")
    ]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": namespace}}
    plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
    plane.apply([account, role, *bindings])
    config = plane.kubeconfig_for(namespace, "tenant")
    token = plane.kubectl("create", "token", "tenant", "-n", namespace, "--duration=4h").strip()
    api = ApiServer(plane.server.removeprefix("https://"), token, plane.ca_file)
    gangs = PATHS["Gang"].format(namespace)
    wait_until(lambda: api.request("GET", gangs)["kind"] == "GangList", PATIENCE, "the rights to count")
    wait_until(lambda: there(plane, namespace), PATIENCE, "the namespace's default account")
    return Tenant(namespace, api, str(config))


def spent(plane: ControlPlane) -> float:
    """Return the processor seconds that the controller has used so far: a busy machine does not change them."""
    fields = Path(f"/proc/{plane.program('controller').pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def runs_on(before: Mapping[str, Object], now: Iterable[Object]) -> None:
    """Check that the pods before still exist, by name, on the same nodes."""
    found = {each["metadata"]["name"]: each for each in now}
    for name, pod in before.items():
        assert found[name]["metadata"]["uid"] == pod["metadata"]["uid"]
        assert found[name]["spec"]["nodeName"] == pod["spec"]["nodeName"]
        assert not found[name]["metadata"].get("deletionTimestamp")


def there(plane: ControlPlane, namespace: str) -> bool:
    """Whether pods can be made in the namespace."""
    found = plane.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
    return bool(found["kind"] == "ServiceAccount")


def nodes() -> list[Object]:
    return [node_manifest(f"n{number}", {RACK: "r1"}, cpu=CPU) for number in range(12)]


def attacks(victims: Sequence[tuple[str, str]], owners: Callable[[str], Object]) -> list[Object]:
    """Return all objects that tenant a may write about gangs (dialect, name) of tenant b, in every way to name them.

    :param owners: the object of tenant b that describes a gang, for references to its uid.
    """
    prefix, evil = "gang.scheduling.koordinator.sh", "x\n2026-11-22 WARNING FORGED \x1b[31m"
    found: list[Object] = [made("scheduling.run.ai/v2", "PodGroup", "first", A, minMember=SIZE)]
    for dialect, name in victims:
        listed = json.dumps([f"{A}/claim-{name}", f"{B}/{name}"])
        claim = made("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", f"claim-{name}", A, minMember=1)
        found.append(with_annotations(claim, **{f"{prefix}/groups": listed}))
        only = made("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", f"only-{name}", A, minMember=1)
        found.append(with_annotations(only, **{f"{prefix}/groups": json.dumps([f"{A}/only-{name}", f"{B}/{name}"])}))
        said = {f"{prefix}/name": f"loose-{name}", f"{prefix}/min-available": "1"}
        said |= {f"{prefix}/groups": json.dumps([f"{A}/loose-{name}", f"{B}/{name}"])}
        found.append(pod(f"loose-{name}", A, annotations=said))
        found.append(pod(f"placed-{name}", A, annotations=said, nodeName="n11"))
        network = {"network-topology-job-name": name, "network-topology-job-namespace": B}
        light = "pod-group.scheduling.sigs.k8s.io"
        found.append(pod(f"net-{name}", A, labels={**network, f"{light}/name": name, f"{light}/min-available": "7"}))
        marks = {"phalanx.dev/gang": name, "phalanx.dev/dialect": dialect, "phalanx.dev/workload": "Job"}
        plan = {
            "phalanx.dev/plan": "1",
            "phalanx.dev/planned-node": "n0",
            "phalanx.dev/released": "2020-01-01T00:00:00Z",
        }
        found.append(pod(f"marked-{name}", A, labels=marks, annotations=plan))
        owner = owners(name)["metadata"] | {"apiVersion": owners(name)["apiVersion"], "kind": owners(name)["kind"]}
        reference = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")} | {"controller": True}
        owned = pod(f"owned-{name}", A, labels=marks)
        owned["metadata"]["ownerReferences"] = [reference]
        found.append(owned)
        for kind in ("koordinator", "kai", "phalanx", "kueue", "ack", "runai"):
            mirror = made("phalanx.dev/v1alpha1", "Gang", f"{kind}-{name}", A, minMember=1)
            found.append(with_annotations(mirror, **{"phalanx.dev/mirrors": f"{kind}/{B}/{name}"}))
        found.append(made("phalanx.dev/v1alpha1", "Gang", name, A, minMember=9, topology=evil))
        found += gang(dialect, name, A)[:2]
    evil_pod = pod("evil", A, annotations={f"{prefix}/name": evil, f"{prefix}/min-available": "3"})
    return [*found, evil_pod]


def attacks_on_held_room(name: str, uid: str) -> list[Object]:
    """Return all objects that tenant a may write about the capacity reserved for tenant b's StatefulSet.

    The capacity is reserved for the second pod of the StatefulSet.

    :param uid: of the StatefulSet. Tenant a could not know it; in this test she does.
    """
    labels = {PLACEHOLDER: "true", "phalanx.dev/gang": name, "phalanx.dev/workload": "StatefulSet", OF: name}
    seats = {"right": seat_uid(uid, "", f"{name}-1"), "main": seat_uid(uid, "main", f"{name}-1"), "none": "x"}
    found = [held(name, A)]
    for word, seat in seats.items():
        said = {HELD_FOR: f"{B}/{name}-1", HELD_FOR_GANG: f"phalanx/{B}/{name}", SEAT: seat}
        found.append(pod(f"held-{word}", A, labels=labels, annotations=said))
        found.append(pod(f"held-there-{word}", A, labels=labels, annotations=said, nodeName="n11"))
        gated = pod(f"held-gated-{word}", A, labels=labels, annotations=said)
        gated["spec"]["schedulingGates"] = [{"name": "phalanx.dev/gang"}]
        found.append(gated)
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": True}
    for index in range(SIZE + 1):
        owned = pod(f"{name}-{index}" if index == SIZE else f"owned-{name}-{index}", A, labels=labels)
        owned["metadata"]["ownerReferences"] = [reference]
        found.append(owned)
    return found


def enormous(number: int) -> list[Object]:
    """Return gangs with as many expected pods as capacity is reserved for, of which one pod exists.

    Each such gang is costly for every reader of the cluster's gangs.
    """
    return [replicated("StatefulSet", f"enormous-{each}", A, replicas=MOST_TO_COME) for each in range(number)]
