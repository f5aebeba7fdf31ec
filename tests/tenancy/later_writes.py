"""Writes of tenant a to her own objects after their creation.

She changes objects, in part or as a whole, until they name tenant b's gangs. She scales, evicts and deletes them. She
also creates controllers whose pod templates name tenant b's gangs from the beginning.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain

from tenants import OF, SIZE, WRITERS, A, B, Object, Tenant, gang, job, made, path_of, pod, replicated, with_annotations

MERGE = "application/merge-patch+json"
KOORDINATOR, LIGHT = "gang.scheduling.koordinator.sh", "pod-group.scheduling.sigs.k8s.io"
EVIL = "x\n2026-11-22 WARNING FORGED \x1b[31m"


@dataclass
class Later:
    """Writes objects as tenant a, and keeps each written object with the answer."""

    tenant: Tenant
    answers: list[Object] = field(default_factory=list)

    def ask(self, method: str, path: str, body: Object | None = None, content_type: str = "application/json") -> Object:
        """One request; the answer."""
        answer: Object = self.tenant.api.request(method, path, body, content_type)
        self.answers.append(answer | {"asked": f"{method} {path}"})
        return answer

    def make(self, objects: Sequence[Object]) -> None:
        """Create objects."""
        for each in objects:
            self.ask("POST", path_of(each), each)

    def patch(self, manifest: Object, change: Object, subresource: str = "") -> None:
        """Change a part of an object."""
        self.ask("PATCH", f"{path_of(manifest)}/{manifest['metadata']['name']}{subresource}", change, MERGE)

    def replace(self, manifest: Object, change: Callable[[Object], None]) -> None:
        """Replace the stored object as a whole, after the change."""
        path = f"{path_of(manifest)}/{manifest['metadata']['name']}"
        stands = deepcopy(self.tenant.api.request("GET", path))
        change(stands)
        self.ask("PUT", path, stands)

    def delete(self, manifest: Object) -> None:
        """Delete an object."""
        self.ask("DELETE", f"{path_of(manifest)}/{manifest['metadata']['name']}")

    def evict(self, name: str) -> None:
        """Evict a pod of tenant a's."""
        meta = {"name": name, "namespace": A}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        self.ask("POST", f"/api/v1/namespaces/{A}/pods/{name}/eviction", eviction)


def claim(name: str, own: str) -> dict[str, str]:
    """Annotations by which a PodGroup or a pod of tenant a lists a gang of tenant b."""
    return {f"{KOORDINATOR}/groups": json.dumps([f"{A}/{own}", f"{B}/{name}"])}


def members(dialect: str, name: str) -> Object:
    """The metadata of pods that name tenant b's gang in every way at once."""
    labels = {"phalanx.dev/gang": name, "phalanx.dev/dialect": dialect, f"{LIGHT}": name, OF: name}
    labels |= {"network-topology-job-name": name, "network-topology-job-namespace": B}
    return {"labels": labels, "annotations": claim(name, name) | {"scheduling.run.ai/pod-group": name}}


def makers(dialect: str, name: str) -> Iterator[Object]:
    """Yield objects whose controllers create pods that each name tenant b's gang."""
    template = {"metadata": members(dialect, name), "spec": pod(name, A)["spec"]}
    for kind, version, selector in (
        ("ReplicaSet", "apps/v1", {"matchLabels": {OF: name}}),
        ("ReplicationController", "v1", {OF: name}),
    ):
        yield made(version, kind, f"made-{name}", A, replicas=SIZE, selector=selector, template=template)
    said = {"phalanx.dev/gang": "true", "phalanx.dev/topology": "own", **claim(name, f"made-{name}")}
    template_of_jobs = job(name, A, annotations=said, template=members(dialect, name))
    jobs = {"metadata": {"annotations": said}, "spec": template_of_jobs["spec"]}
    yield made("batch/v1", "CronJob", f"made-{name}", A, schedule="* * * * *", jobTemplate=jobs)


def work(tenant: Tenant, victims: Sequence[tuple[str, str]]) -> list[Object]:
    """All of it, for each gang (dialect, name) of tenant b, several of them at a time; the answers."""
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(chain.from_iterable(pool.map(lambda victim: _work_against(tenant, *victim), victims)))


def _work_against(tenant: Tenant, dialect: str, name: str) -> list[Object]:
    later, own = Later(tenant), f"later-{name}"
    objects = gang(dialect, own, A)
    later.make(objects)
    later.make([*makers(dialect, name)])
    for each in objects:
        later.patch(each, {"metadata": {"annotations": claim(name, own), "labels": {"phalanx.dev/gang": name}}})
        later.replace(each, lambda stands: stands["metadata"].update(annotations=claim(name, EVIL)))
    _change_groups(later, name)
    _scale(later, name)
    later.evict(f"{own}-0")
    later.evict(f"placed-{name}")
    later.evict(f"owned-{name}")
    for each in objects:
        later.delete(each)
    return later.answers


def _change_groups(later: Later, name: str) -> None:
    """Change groups and gangs that named no other gang at their creation; delete and recreate one of them."""
    group = made("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", f"plain-{name}", A, minMember=1)
    own = made("phalanx.dev/v1alpha1", "Gang", f"plain-{name}", A, minMember=1, topology="own")
    network = made("scheduling.koordinator.sh/v1alpha1", "JobNetworkTopology", f"plain-{name}", A)
    later.make([group, pod(f"plain-{name}", A, labels={LIGHT: f"plain-{name}"}), own, network])
    later.patch(group, {"metadata": {"annotations": claim(name, f"plain-{name}")}, "spec": {"minMember": 100}})
    later.replace(group, lambda stands: stands["spec"].update(minMember=7))
    later.patch(own, {"spec": {"minMember": 100, "required": EVIL, "topology": None}})
    later.replace(own, lambda stands: stands["metadata"].update(labels={"phalanx.dev/gang": name}))
    later.patch(network, {"spec": {"workerNum": 100}})
    later.patch(own, {"metadata": {"annotations": {"phalanx.dev/mirrors": f"koordinator/{B}/{name}"}}})
    later.delete(group)
    later.make([with_annotations(group, **claim(name, f"plain-{name}"))])
    later.delete(own)
    mirror = made("phalanx.dev/v1alpha1", "Gang", f"claim-{name}", A)
    later.delete(mirror)


def _scale(later: Later, name: str) -> None:
    """Up and down, by the address that is there for it."""
    replicas = [replicated(kind, f"scaled-{name}", A) for kind in ("Deployment", "StatefulSet")]
    later.make(replicas)
    for each in (*replicas, made("apps/v1", "ReplicaSet", f"made-{name}", A)):
        for number in (5, 0):
            later.patch(each, {"spec": {"replicas": number}}, "/scale")
