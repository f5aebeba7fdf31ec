"""Operations of system tests on a cluster, in the words of the tests."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import yaml
from node_manifests import node_manifest

from controlplane.api import Answer
from controlplane.applying import UnknownKindError
from controlplane.control_plane import ControlPlane, wait_until
from controlplane.deployment import Deployment
from controlplane.recording import Recorder, WatchEvent, bound
from kube.keys import SYSTEM_NAMESPACE
from kube.placeholders import HELD_FOR
from kube.versions import forgets, version_of

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
GUIDE = EXAMPLES / "koordinator"
PATIENCE = 300.0
"""Seconds. Only a test that fails takes so long; a slow machine may."""

SPINE = "network.topology.nvidia.com/spine"
BLOCK = "network.topology.nvidia.com/block"

SLOW = "test.phalanx.dev/slow"
"""A finalizer that only the test removes."""

_TOO_SLOW = "context deadline exceeded"
"""The end of the API server's message about a request that took too long, or whose webhook did."""
MOST_REPEATS = 5
"""How often an object is created again after a request that took too long on a busy machine."""
_NO_CLASS = "no PriorityClass with name"
"""The API server's message for a moment about a PriorityClass that has just been created."""

Object = dict[str, Any]


def ready(port: int) -> bool:
    """Return whether the server at this port reports ready."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


class Phalanx:
    """A cluster that runs Phalanx, and the questions tests ask of it."""

    def __init__(self, cluster: ControlPlane, deployment: Deployment | None = None) -> None:
        """`deployment`: the servers that tests may end and start; None if the caller runs them itself."""
        self.cluster = cluster
        self._deployment = deployment

    @property
    def deployment(self) -> Deployment:
        """The servers, for a test that ends and starts them."""
        assert self._deployment is not None, "these servers are not run by a Deployment"
        return self._deployment

    def ensure_servers(self, *options: object) -> None:
        """Start again whatever an earlier test has killed, or started in another way: `options` of the controller."""
        if not self.cluster.program("webhook").running:
            self.deployment.start_webhook()
        self.deployment.ensure_controller(options)

    def show_logs(self) -> None:
        """Print how the servers' logs end; pytest shows it where a test failed."""
        for name in ("controller", "webhook"):
            print(f"--- {name}\n{self.cluster.program(name).tail()}")  # noqa: T201 - for the report of a failed test

    def guide_nodes(self) -> None:
        """The Koordinator guide's cluster: 12 nodes of 8 cpu in three spines."""
        for name in ("nodes.yaml", "cluster-network-topology.yaml"):
            self.cluster.apply(yaml.safe_load_all((GUIDE / name).read_text()))
        self.cluster.await_nodes(f"node-{index}" for index in range(12))

    def apply_files(self, *files: Path) -> str:
        """`kubectl apply` of files; returns what kubectl prints."""
        return "".join(self.cluster.kubectl("apply", "-f", str(file)) for file in files)

    def apply(self, *objects: Mapping[str, Any]) -> str:
        """`kubectl apply` of objects; returns what kubectl prints, warnings included."""
        answer = self.cluster.kubectl_result("apply", "-f", "-", stdin=_text(objects))
        assert answer.returncode == 0, answer.stderr
        return answer.stdout + answer.stderr

    def submit(self, *objects: Mapping[str, Any]) -> None:
        """Create or update these objects by the same requests as `kubectl apply`, which takes a hundred times as long.

        If an object already exists and is to be changed, `kubectl apply` itself is called.
        """
        for number, each in enumerate(objects):
            answer = self._created(each)
            if answer is not None and answer.refused and _NO_CLASS in str(answer.body):
                self.wait(partial(self._finds_class, each), "a PriorityClass to be known")
                answer = self._created(each)
            for _ in range(MOST_REPEATS):
                if answer is not None and answer.refused and _TOO_SLOW in str(answer.body):
                    answer = self._created(each)
            if answer is None or answer.status == HTTPStatus.CONFLICT:
                self.apply(*objects[number:])
                return
            assert not answer.refused, answer.body

    def _finds_class(self, manifest: Mapping[str, Any]) -> bool:
        return _NO_CLASS not in str(self._created(manifest, dry_run=True))

    def _created(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Answer | None:
        """Create the object; return None if its kind is not served, which kubectl then reports."""
        try:
            return self.cluster.applier.create(manifest, dry_run=dry_run)
        except UnknownKindError:
            return None

    def apply_once_told(self, text: str, *objects: Mapping[str, Any]) -> None:
        """`kubectl apply` the objects as soon as a dry run reports this text.

        The webhook reads earlier objects a moment after they were applied.
        """
        self.wait(lambda: text in self._told(*objects)[1], f"kubectl to say {text!r}")
        assert text in one_line(self.apply(*objects))

    def await_refusal(self, text: str, *objects: Mapping[str, Any]) -> None:
        """Wait until objects are refused with this text. Nothing is stored."""

        def refused() -> bool:
            accepted, said = self._told(*objects)
            return not accepted and text in said

        self.wait(refused, f"a refusal that says {text!r}")

    def _told(self, *objects: Mapping[str, Any]) -> tuple[bool, str]:
        """Dry-run the creation; return whether all objects are accepted, and the messages. Nothing is stored."""
        accepted, said = True, list[str]()
        for each in objects:
            answer = self._created(each, dry_run=True)
            if answer is None or answer.status == HTTPStatus.CONFLICT:
                tried = self.cluster.kubectl_result("apply", "--dry-run=server", "-f", "-", stdin=_text(objects))
                return tried.returncode == 0, one_line(tried.stderr)
            accepted = accepted and not answer.refused
            said += [*answer.warnings, *([answer.body["message"]] if answer.refused else [])]
        return accepted, one_line("\n".join(said))

    @contextmanager
    def slow_to_end(self, *pods: str) -> Iterator[None]:
        """Pods that are deleted stay Terminating meanwhile, and end then."""
        for name in pods:
            self._finalize(name, [SLOW])
        try:
            yield
        finally:
            for name in pods:
                self._finalize(name, [])

    def _finalize(self, pod: str, finalizers: list[str]) -> None:
        patch = json.dumps({"metadata": {"finalizers": finalizers}})
        answer = self.cluster.kubectl_result("patch", "pod", pod, "--type=merge", "-p", patch)
        assert answer.returncode == 0 or "NotFound" in answer.stderr, answer.stderr

    def make_namespace(self, name: str) -> None:
        """Make a namespace; one of that name that an earlier test has left is gone first."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}

        def there() -> bool:
            self.cluster.request("POST", "/api/v1/namespaces", manifest)
            found = self.cluster.request("GET", f"/api/v1/namespaces/{name}")
            return bool(found["kind"] == "Namespace" and found["status"].get("phase") == "Active")

        self.wait(there, f"namespace {name}")

    def pod(self, name: str) -> Object:
        """Return a pod of the default namespace as stored now."""
        found: Object = self.cluster.request("GET", f"/api/v1/namespaces/default/pods/{name}")
        return found

    def pods(self) -> list[Object]:
        """All pods of the default namespace."""
        items: list[Object] = self.cluster.request("GET", "/api/v1/namespaces/default/pods")["items"]
        return items

    @property
    def forgets(self) -> bool:
        """Whether the scheduler is older than 1.37, so that placeholders hold the capacity of gated members."""
        options = [str(each) for each in self._deployment.controller_options] if self._deployment is not None else []
        named = options[options.index("--scheduler-version") + 1] if "--scheduler-version" in options else ""
        return forgets(version_of(named or self.cluster.request("GET", "/version")["gitVersion"]))

    def reserved(self) -> dict[str, str]:
        """The nodes whose capacity is reserved for pods of the default namespace: by the pods, or by placeholders."""
        found = {each["metadata"]["name"]: each["status"].get("nominatedNodeName", "") for each in self.pods()}
        items = self.cluster.request("GET", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")["items"]
        held = ((each["metadata"].get("annotations", {}).get(HELD_FOR, ""), each["status"]) for each in items)
        found |= {name.removeprefix("default/"): status.get("nominatedNodeName", "") for name, status in held if name}
        return {name: node for name, node in found.items() if node}

    def nodes_of(self, names: Iterable[str]) -> dict[str, str]:
        """Return the nodes of the pods by name; "" for a pod that has none."""
        found = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.pods()}
        return {name: found.get(name, "") for name in names}

    def gang(self, name: str) -> Object:
        """The Gang object of that name."""
        path = f"/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/{name}"
        found = self.cluster.request("GET", path)
        return found if found.get("kind") == "Gang" else {}

    def status(self, name: str) -> Object:
        """A gang's status; empty where it has none yet."""
        status: Object = self.gang(name).get("status") or {}
        return status

    def await_phase(self, name: str, phase: str) -> Object:
        """Wait until the gang has this phase, and return its status."""
        self.wait(lambda: self.status(name).get("phase") == phase, f"gang {name} to be {phase}")
        return self.status(name)

    def await_bound(self, names: Sequence[str]) -> dict[str, str]:
        """Wait until all the pods have nodes, and return them."""
        self.wait(lambda: all(self.nodes_of(names).values()), f"{', '.join(names)} to be bound")
        return self.nodes_of(names)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something holds."""
        wait_until(condition, PATIENCE, what)

    def record(self, path: str = "/api/v1/pods") -> Recorder:
        """Record a watch stream from now on."""
        return Recorder(self.cluster, path)


def _text(objects: Iterable[Mapping[str, Any]]) -> str:
    return yaml.safe_dump_all([dict(each) for each in objects])


def one_line(text: str) -> str:
    """Return kubectl's output as one line, with the prefixes of warnings removed."""
    return " ".join(line.removeprefix("Warning: ") for line in text.splitlines())


def numbered(stem: str, count: int) -> list[str]:
    """Return the names `stem-0`, `stem-1`, …, `count` in all."""
    return [f"{stem}-{index}" for index in range(count)]


def node(name: str, spine: str, block: str, cpu: int = 8) -> Object:
    """A node of the guide's topology."""
    return node_manifest(name, {SPINE: spine, BLOCK: block}, cpu)


def pod_group(name: str, minimum: int, *strategy: tuple[str, str]) -> Object:
    """A Koordinator PodGroup: `strategy` holds pairs of layer and PreferGather or MustGather."""
    layers = ",".join(f'{{"layer": "{layer}", "strategy": "{how}"}}' for layer, how in strategy)
    annotations = {"gang.scheduling.koordinator.sh/network-topology-spec": f'{{"gatherStrategy": [{layers}]}}'}
    metadata = {"name": name, "namespace": "default", "annotations": annotations if strategy else {}}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": minimum},
    }


def pod(name: str, group: str = "", *, cpu: int = 8, **spec: Any) -> Object:
    """Return a pod of so many cpus, a member of the group unless that is ""."""
    labels = {"pod-group.scheduling.sigs.k8s.io": group} if group else {}
    resources = {"requests": {"cpu": str(cpu)}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [container], **spec},
    }


def priority_class(name: str, value: int) -> Object:
    """A priority class."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def scheduled_message(pod: Object) -> str:
    """Return the message of the pod's condition PodScheduled; "" if it has none."""
    conditions = pod.get("status", {}).get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


def unschedulable(pod: Object) -> bool:
    """Return whether the scheduler has tried the pod and found no node for it."""
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


def all_bound(names: Iterable[str]) -> Callable[[list[WatchEvent]], bool]:
    """A condition on recorded events: every one of the pods was seen with a node."""
    wanted = set(names)
    return lambda events: wanted <= {event.name for event in events if bound(event)}
