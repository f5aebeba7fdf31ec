"""Small random clusters as manifests: pods with affinity, anti-affinity, spread and ports, and unlike set members."""

from collections.abc import Sequence
from random import Random
from typing import Any

from pod_by_pod import Cluster

Manifest = dict[str, Any]

APPS = ("a", "b", "c")
KEYS = ("kubernetes.io/hostname", "rack", "zone")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def random_cluster(seed: int) -> Cluster:
    """Return a random cluster with one gang. Equal seeds give equal clusters."""
    return _Draw(Random(f"pods {seed}")).cluster()  # noqa: S311 - instances are to be repeatable, not secret


def random_pair(seed: int) -> tuple[Cluster, Sequence[str]]:
    """Return a random cluster with the members of two gangs, g and h, and the gang of each member.

    Equal seeds give equal clusters.
    """
    draw = _Draw(Random(f"pair {seed}"))  # noqa: S311 - as above
    cluster = draw.cluster()
    gangs = ["g", *(draw.random.choice("gh") for _ in cluster.members[1:])]
    for pod, gang in zip(cluster.members, gangs, strict=True):
        pod["metadata"]["labels"]["phalanx.dev/gang"] = gang
    return cluster, gangs


class _Draw:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.templates = [self.template() for _ in range(self.random.choice((1, 2, 2, 3)))]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def cluster(self) -> Cluster:
        nodes = [self.node(number) for number in range(self.random.choice((1, 2, 2, 3, 3)))]
        count = self.random.choice((1, 2, 2, 3, 3, 4))
        members = [self.pod(f"g-{number}", self.random.choice(self.templates), 10) for number in range(count)]
        running = [self.running(number, nodes) for number in range(self.random.choice((0, 1, 2, 2, 3)))]
        return Cluster(nodes, running, members)

    def node(self, number: int) -> Manifest:
        labels = {"kubernetes.io/hostname": f"n{number}", "rack": self.random.choice(("r1", "r2"))}
        if self.chance(0.8):
            labels["zone"] = self.random.choice(("z1", "z2"))
        if self.chance(0.7):
            labels["disk"] = "ssd"
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": labels},
            "status": {"allocatable": {"cpu": str(self.random.choice((2, 3, 4))), "pods": "110"}},
        }

    def template(self) -> Manifest:
        """Return a template that some members share: labels, ports, and a spec without requests."""
        spec: Manifest = {}
        affinity: Manifest = {}
        if self.chance(0.25):
            affinity["podAntiAffinity"] = {REQUIRED: [self.term()]}
        if self.chance(0.2):
            affinity["podAffinity"] = {REQUIRED: [self.term() for _ in range(self.random.choice((1, 1, 1, 2)))]}
        if affinity:
            spec["affinity"] = affinity
        if self.chance(0.2):
            spec["nodeSelector"] = {"disk": "ssd"}
        if self.chance(0.25):
            constraint = {"maxSkew": self.random.choice((1, 1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**constraint, **self.term()}]
        return {"labels": {"app": self.random.choice(APPS)}, "spec": spec, "ports": self.ports()}

    def ports(self) -> list[Manifest]:
        if self.chance(0.55):
            return []
        chosen = self.random.sample((80, 81, 82), self.random.choice((1, 1, 2)))
        return [self.port(number) for number in chosen]

    def port(self, number: int) -> Manifest:
        port: Manifest = {"containerPort": number, "hostPort": number}
        if self.chance(0.2):
            port["hostIP"] = self.random.choice(("10.0.0.1", "10.0.0.2"))
        if self.chance(0.15):
            port["protocol"] = "UDP"
        return port

    def term(self) -> Manifest:
        return {
            "topologyKey": self.random.choice(KEYS),
            "labelSelector": {"matchLabels": {"app": self.random.choice(APPS)}},
        }

    def pod(self, name: str, template: Manifest, priority: int) -> Manifest:
        container: Manifest = {"name": "main", "image": "i"}
        container["resources"] = {"requests": {"cpu": str(self.random.choice((0, 1, 1, 2)))}}
        if template["ports"]:
            container["ports"] = template["ports"]
        labels = {**template["labels"], **({"phalanx.dev/gang": "g"} if name.startswith("g-") else {})}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {**template["spec"], "priority": priority, "containers": [container]},
        }

    def running(self, number: int, nodes: list[Manifest]) -> Manifest:
        pod = self.pod(f"other-{number}", self.template(), self.random.choice((0, 0, 0, 0, 20)))
        pod["spec"] |= {"nodeName": self.random.choice(nodes)["metadata"]["name"]}
        pod["status"] = {"phase": "Running"}
        return pod
