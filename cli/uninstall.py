"""`phalanx uninstall`: releases every waiting pod and removes Phalanx from the cluster. Running pods do not change.

The pods of gangs without a plan, such as gangs that wait for quota, are released as well. So the command lists these
gangs and asks the user before it changes anything.

If the command stops between two steps, no pod stays gated for ever, and the command can be repeated. First the webhook
configurations are deleted, so that no new pod is gated. Then the servers are deleted, so that the controller writes
nothing more. Then the gates are removed from the pods, and at last all other objects are deleted.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import click
import msgspec
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from cli.asking.progress import waiting
from cli.installation import installed_objects as installing
from cli.text.columns import lines, table
from cluster.api.connecting import connect
from cluster.api.transport import MERGE_PATCH, UNREACHABLE, Transport, message_of
from cluster.devices.holdings import RULES_PATH
from controller.gang_status import Phase
from controller.release.patches import release_patch
from gangs.mirrors import is_marked
from kube.keys import API_VERSION, DEVICE_RULE, GATE, SYSTEM_NAMESPACE
from kube.objects import Node, Pod
from kube.placeholders import PLACEHOLDER, is_placeholder, seat_of
from kube.scheduling_groups import group_of, is_release_group, pod_group, pod_group_path
from kube.text import one_line
from timing.clock import SYSTEM_CLOCK, rfc3339

PAGE = 500
SETTLE_SECONDS = 1.0
"""Seconds between two lists of gated pods. An API server may still call a deleted webhook for a moment."""
EMPTY_LOOKS = 2
"""How many lists in a row must contain no gated pod."""
PATIENCE_SECONDS = 120.0
"""Seconds after which the command fails if new pods are still gated."""
SHOWN = 20
"""How many gangs without a plan are listed by name. The other ones are counted."""

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_ACCESS = "/apis/rbac.authorization.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments"
_COLLECTIONS = {
    "MutatingWebhookConfiguration": f"{_ADMISSION}/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": f"{_ADMISSION}/validatingwebhookconfigurations",
    "MutatingAdmissionPolicy": f"{_ADMISSION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{_ADMISSION}/mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
    "ClusterRole": f"{_ACCESS}/clusterroles",
    "ClusterRoleBinding": f"{_ACCESS}/clusterrolebindings",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Namespace": "/api/v1/namespaces",
}
"""The API paths of the cluster-scoped kinds to delete. Objects in a namespace are deleted with their namespace."""

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Released:
    """How many pods were released: with a plan of their gang (`planned`), and without one."""

    planned: int = 0
    unplanned: int = 0

    def __str__(self) -> str:
        """Return how many pods were released, with and without a plan, as a phrase for the user."""
        if not self.planned + self.unplanned:
            return "no pod was waiting"
        return (
            f"{self.planned} pods released that had a plan, each to its node, "
            f"{self.unplanned} without one (they start as room comes, not together)"
        )


class WouldStartError(click.ClickException):
    """The removal would start gangs that have no plan or no quota, and there is no terminal to ask on."""

    exit_code = 2

    def __init__(self, gangs: int) -> None:
        what = "a gang has" if gangs == 1 else f"{gangs} gangs have"
        super().__init__(
            f"{what} no plan or no quota, and the removal starts all waiting pods: "
            "delete or suspend their workloads first, or start them with --yes. Nothing was changed"
        )


@click.command(
    epilog="""\b
Examples:
  phalanx uninstall
  phalanx uninstall --yes
"""
)
@click.option("--kubeconfig", type=click.Path(exists=True), help="Default: in-cluster, else the usual kubeconfig.")
@click.option(
    "--definitions", is_flag=True, help="Also remove Phalanx's CRDs, and with them all objects of their kinds."
)
@click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation. Also start the gangs that have no plan or no quota."
)
def uninstall(*, kubeconfig: str | None, definitions: bool, yes: bool) -> None:
    """Release all waiting pods and remove Phalanx from the cluster. Running pods are not changed.

    First, the command lists the gangs without a plan, such as gangs that wait for quota. Their pods start, too, but
    not together.

    After a failure you can repeat the command. Even with --definitions, definitions of other systems stay.

    If there are gangs without a plan, and neither a terminal to ask on nor --yes, the exit status is 2 and nothing
    is changed.
    """
    try:
        transport = connect(kubeconfig)
        found = _definitions(transport) if definitions else []
        with waiting("looking for gangs without a plan"):
            unplanned = gangs_without_plan(transport)
        _show(unplanned)
        if unplanned and not yes and not sys.stdin.isatty():
            raise WouldStartError(len(unplanned))
        if not yes:
            _confirm(transport, found)
        _remove(transport, found)
    except ConfigException as error:
        raise click.ClickException(f"no cluster: {error}") from error
    except (ApiException, *UNREACHABLE) as error:
        raise click.ClickException(f"{message_of(error)}; finished steps stay finished, repeat the command") from error


def gangs_without_plan(transport: Transport) -> list[Manifest]:
    """Return the Gang objects whose members wait gated and have no plan. If the API server does not serve the kind
    Gang, there are none.

    No plan means: no capacity, no quota, an invalid request, or members that do not exist yet.
    """
    try:
        gangs = list(_listed(transport, f"/apis/{API_VERSION}/gangs"))
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:  # no such kind
            return []
        raise
    return sorted((each for each in gangs if _waits_without_plan(each)), key=_name)


def _waits_without_plan(gang: Manifest) -> bool:
    """Whether a gang has no plan, and at least one existing member that is not bound to a node."""
    status = gang.get("status") or {}
    members = status.get("members") or {}
    unbound = int(members.get("existing") or 0) > int(members.get("bound") or 0)
    return unbound and not Phase.shown_by(status).planned


def _name(gang: Manifest) -> str:
    return f"{gang['metadata']['namespace']}/{gang['metadata']['name']}"


def _show(gangs: list[Manifest]) -> None:
    """Print the gangs whose pods would start without a plan."""
    if not gangs:
        return
    click.echo("These gangs have no plan or no quota. When Phalanx is removed, their pods start all the same:")
    statuses = ((_name(each), each.get("status") or {}) for each in gangs[:SHOWN])
    rows = [
        (name, *(one_line(str(status.get(key) or "")) for key in ("phase", "reason", "message")))
        for name, status in statuses
    ]
    click.echo(lines(table(("GANG", "PHASE", "REASON", "MESSAGE"), rows, indent="  ")), nl=False)
    if len(gangs) > SHOWN:
        click.echo(f"  … and {len(gangs) - SHOWN} more")


def _confirm(transport: Transport, definitions: list[Manifest]) -> None:
    with waiting("counting objects"):
        gated = sum(not _holds_room(pod) for pod in gated_pods(transport))
        counts = {each["metadata"]["name"]: _count(transport, each) for each in definitions}
    click.echo(f"{gated} pods wait behind our gate and will be released, planned or not.")
    for name, count in counts.items():
        click.echo(f"{name}: the definition and {count} objects will be removed.")
    click.confirm("Remove Phalanx?", abort=True)


def _remove(transport: Transport, definitions: list[Manifest]) -> None:
    objects = [*installing.system_objects(), *installing.access_by_choice()]
    bindings = [each for each in objects if each["kind"] == "ClusterRoleBinding"]

    def servers() -> int:
        stopped = [_gone(transport, f"{_DEPLOYMENTS}/phalanx-{name}") for name in ("controller", "webhook")]
        return sum(stopped) + _delete(transport, bindings)

    def described() -> int:
        return sum(_gone(transport, f"{_DEFINITIONS}/{each['metadata']['name']}") for each in definitions)

    _step("webhook configurations and policies", lambda: _delete(transport, _admission_objects()))
    _step("servers and their access", servers)
    with waiting("opening gates"):
        released = open_gates(transport)
    click.echo(f"gates: {released}")
    _step("rules that taint devices", lambda: _delete_rules(transport))
    _step("mirrors (Gang objects for gangs of other systems)", lambda: _delete_mirrors(transport))
    classes = [each for each in _listed(transport, _COLLECTIONS["PriorityClass"]) if _is_holding(each)]
    leaving = [*reversed(objects), *({**each, "kind": "PriorityClass"} for each in classes)]
    _step("roles, priority classes, namespace", lambda: _delete(transport, leaving))
    if definitions:
        _step("definitions", described)


def _is_holding(priority_class: Manifest) -> bool:
    """Whether the object is a PriorityClass of placeholders, which the controller has created."""
    return PLACEHOLDER in (priority_class["metadata"].get("labels") or {})


def _step(what: str, remove: Callable[[], int]) -> None:
    """Run one step of the removal and print how many objects it removed.

    :param remove: removes the objects and returns their number.
    """
    with waiting(f"removing {what}"):
        removed = remove()
    click.echo(f"{what}: {removed} removed" if removed else f"{what}: none left")


def _admission_objects() -> list[Manifest]:
    return [*installing.webhook_configurations("https://localhost", b""), *installing.admission_policies()]


def _delete(transport: Transport, manifests: Iterable[Manifest]) -> int:
    """Delete the cluster-scoped objects among these. Return how many existed."""
    paths = (
        f"{_COLLECTIONS[each['kind']]}/{each['metadata']['name']}"
        for each in manifests
        if each["kind"] in _COLLECTIONS and "namespace" not in each["metadata"]
    )
    return sum(_gone(transport, path) for path in paths)


def _gone(transport: Transport, path: str) -> bool:
    """Delete the object at an API path. Return whether it existed. An object that is being deleted counts as gone."""
    try:
        before = transport.request("GET", path)
        if before["metadata"].get("deletionTimestamp"):
            return False
        transport.request("DELETE", path)
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


def open_gates(transport: Transport) -> Released:
    """Remove Phalanx's gate from every pod: planned members first, then by priority. Return how many were released.

    The function ends when `EMPTY_LOOKS` lists in a row have no gated pod. One empty list is not enough, because an API
    server that does not know yet that the webhook is gone may gate another pod.

    A planned member is pinned to its node, as at any release. Otherwise the scheduler might evict other pods for it,
    because it does not count the capacity of victims that are still terminating.

    :raises ApiException: the API server refuses a change of a pod for another reason than a conflict.
    :raises click.ClickException: new pods are still gated after `PATIENCE_SECONDS`.
    """
    planned = unplanned = empty_looks = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        placeholders = _placeholders(transport)
        pods = [_with_plan(pod, placeholders) for pod in gated_pods(transport)]
        empty_looks = 0 if pods else empty_looks + 1
        if empty_looks == EMPTY_LOOKS:
            return Released(planned, unplanned)
        _provide_groups(transport, pods)
        for pod in sorted(pods, key=_turn):
            placeholder = placeholders.get(pod["metadata"]["uid"])
            if placeholder is not None:
                _gone(transport, _path(placeholder))
            if _holds_room(pod):
                _gone(transport, _path(pod))
            elif _open(transport, pod):
                planned, unplanned = planned + _planned(pod), unplanned + (not _planned(pod))
        if pods and time.monotonic() > deadline:
            raise click.ClickException("somebody still gates new pods: is there another webhook configuration of ours?")
        time.sleep(SETTLE_SECONDS)


def gated_pods(transport: Transport) -> list[Manifest]:
    """Return the pods that have Phalanx's gate. Only Pending pods without a node are listed, as a gated pod is one."""
    fields = "status.phase=Pending,spec.nodeName="
    return [
        pod
        for pod in _listed(transport, "/api/v1/pods", fields)
        if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ())
    ]


def _placeholders(transport: Transport) -> dict[str, Manifest]:
    """Return the placeholders, each by the identifier of the expected or gated pod for which it reserves capacity."""
    found = _listed(transport, f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods")
    return {seat_of(pod): each for each in found if is_placeholder(pod := msgspec.convert(each, Pod))}


def _with_plan(pod: Manifest, placeholders: Mapping[str, Manifest]) -> Manifest:
    """Return the pod, nominated for the node of its placeholder if it has one and is not nominated itself."""
    placeholder = placeholders.get(pod["metadata"]["uid"])
    node = ((placeholder or {}).get("status") or {}).get("nominatedNodeName")
    if not node or _planned(pod):
        return pod
    return {**pod, "status": {**pod.get("status", {}), "nominatedNodeName": node}}


def _provide_groups(transport: Transport, pods: Iterable[Manifest]) -> None:
    """Create the missing PodGroups of Phalanx that pods name: kube-scheduler binds no pod without its PodGroup.

    The PodGroups have the policy `basic`, because the number of their members is not known here.
    """
    members = {(pod.metadata.namespace, group_of(pod)): pod for pod in (msgspec.convert(each, Pod) for each in pods)}
    for (namespace, name), pod in members.items():
        if is_release_group(name):
            try:
                transport.request("POST", pod_group_path(namespace), body=pod_group(name, pod, None))
            except ApiException as error:
                if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                    raise


def _path(pod: Manifest) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _holds_room(pod: Manifest) -> bool:
    """Whether the pod is a placeholder, which is deleted and not released, because it belongs to no workload."""
    return is_placeholder(msgspec.convert(pod, Pod))


def _turn(pod: Manifest) -> tuple[bool, int, str]:
    return not _planned(pod), -int(pod["spec"].get("priority") or 0), pod["metadata"]["creationTimestamp"]


def _planned(pod: Manifest) -> bool:
    return bool((pod.get("status") or {}).get("nominatedNodeName"))


def _open(transport: Transport, pod: Manifest) -> bool:
    """Release one pod: remove Phalanx's gate, and pin it to its node if it has a plan. Return whether it was released.

    False if the pod has changed meanwhile or is gone. If it still exists, the next list contains it.
    """
    body = release_patch(
        msgspec.convert(pod, Pod), _node_of(transport, pod), domain=None, now=rfc3339(SYSTEM_CLOCK.wall())
    )
    try:
        transport.request("PATCH", _path(pod), body=body, content_type=MERGE_PATCH)
    except ApiException as error:
        if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            return False
        raise
    return True


def _node_of(transport: Transport, pod: Manifest) -> Node | None:
    """Return the node for which the pod is nominated; None if it has no nomination, or if the node is gone."""
    name = (pod.get("status") or {}).get("nominatedNodeName")
    if not name:
        return None
    try:
        return msgspec.convert(transport.request("GET", f"/api/v1/nodes/{name}"), Node)
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def _delete_rules(transport: Transport) -> int:
    """Delete the DeviceTaintRules that the controller created. Return how many existed.

    Otherwise no new pod could get the devices that they taint.
    """
    try:
        rules = list(_listed(transport, RULES_PATH))
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:  # the API server does not serve them
            return 0
        raise
    made = (each["metadata"] for each in rules if DEVICE_RULE in (each["metadata"].get("labels") or {}))
    return sum(_gone(transport, f"{RULES_PATH}/{each['name']}") for each in made)


def _delete_mirrors(transport: Transport) -> int:
    """Delete the mirrors, which are Gang objects that the controller created. Return how many existed.

    Gang objects of users stay.
    """
    try:
        gangs = list(_listed(transport, f"/apis/{API_VERSION}/gangs"))
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:  # no such kind
            return 0
        raise
    made = [each["metadata"] for each in gangs if is_marked(each)]
    paths = (f"/apis/{API_VERSION}/namespaces/{each['namespace']}/gangs/{each['name']}" for each in made)
    return sum(_gone(transport, path) for path in paths)


def _definitions(transport: Transport) -> list[Manifest]:
    """Return the CRDs in the cluster that Phalanx has installed, by their label.

    A CRD of another system with the same name lacks the label, so it is left out.
    """
    names = {each["metadata"]["name"] for each in installing.custom_resource_definitions()}
    selector = ",".join(f"{key}={value}" for key, value in installing.OURS.items())
    items = transport.request("GET", _DEFINITIONS, query={"labelSelector": selector})["items"]
    return [each for each in items if each["metadata"]["name"] in names]


def _count(transport: Transport, definition: Manifest) -> int:
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    return sum(1 for _ in _listed(transport, f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"))


def _listed(transport: Transport, path: str, fields: str | None = None) -> Iterator[Manifest]:
    """Yield all objects at an API path, which are read page by page. `fields`: a field selector; None: all."""
    after: str | None = None
    while True:
        page = transport.request("GET", path, query={"limit": PAGE, "continue": after, "fieldSelector": fields})
        yield from page["items"]
        after = page["metadata"].get("continue")
        if not after:
            return
