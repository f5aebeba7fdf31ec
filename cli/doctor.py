"""`phalanx doctor`: checks whether this cluster supports gangs, and whether the parts of Phalanx work."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime

import click
import msgspec
from kubernetes.client.exceptions import ApiException, NotFoundException
from rich.text import Text

from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from cli.asking.progress import waiting
from cli.installation import device_checks, doctor_checks
from cli.live import live_picture
from cli.text.columns import lines
from cluster.api.transport import Transport, message_of
from cluster.devices.holdings import CLAIMS_PATH, RULES_PATH, SLICES_PATH
from gangs.coexistence.ownership import MUTATING, ceded_beside_kubernetes
from gangs.coexistence.systems import COMPONENTS
from kube.devices import ResourceSlice
from kube.keys import CONTROLLER_LEASE, DIALECT, GATE, GROUP, SYSTEM_NAMESPACE
from kube.text import one_line
from kube.versions import SCHEDULER_PODS
from planning.doctor.checkup import check_up
from planning.doctor.devices import needs, pools
from planning.doctor.finding import Finding, Severity
from planning.dry_run import Live

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SYMBOLS = {Severity.OK: ("ok", "green"), Severity.WARNING: ("warning", "yellow"), Severity.ERROR: ("error", "red")}


@click.command(
    epilog="""\b
Examples:
  phalanx doctor
  phalanx doctor --fix
"""
)
@click.option("--kubeconfig", type=click.Path(exists=True), help="Default: in-cluster, else the usual kubeconfig.")
@click.option("--fix", is_flag=True, help="Also print the commands that fix the findings. No command is run.")
def doctor(kubeconfig: str | None, *, fix: bool) -> None:
    """Check the cluster and Phalanx in it: topology labels, topologies, requests, webhooks, certificates, controller.

    Exit status 1: at least one finding is an error.
    """
    transport, live = live_picture(kubeconfig)
    left = {dialect: each.title for dialect, each in ceded_beside_kubernetes(live.sources).items()}
    with waiting("checking webhooks, certificates and nodes"):
        used = {pod.metadata.labels[DIALECT] for pod in live.sources.pods if DIALECT in pod.metadata.labels}
        installed = _installation(transport, left, used)
        findings = [*installed, *check_up(live.snapshot, live.sources, datetime.now(UTC))]
        findings += _devices(transport, live)
    for each in findings:
        word, colour = _SYMBOLS[each.severity]
        line = Text.assemble((word.ljust(8), colour), f" {one_line(f'{each.subject}: {each.text}')}")
        click.echo(lines([line]), nl=False)
        if each.remedy:
            click.echo(f"{'':8}   {one_line(each.remedy)}")
        for command in each.fix if fix else ():
            click.echo(f"{'':8}   $ {one_line(command)}")
    if any(each.severity is Severity.ERROR for each in findings):
        raise SystemExit(1)


def _installation(transport: Transport, left: Mapping[str, str], used: Collection[str]) -> Iterator[Finding]:
    """Yield the findings about the installation of Phalanx.

    :param left: by ceded dialect, the title of the system to which its workloads are ceded.
    :param used: the dialects of the gang members in the cluster.
    """
    now = datetime.now(UTC)
    served = _read(transport, f"{DEFAULT_PLACE.secrets_path}/{DEFAULT_PLACE.secret}")
    for kind, name in CONFIGURATIONS:
        found = _read(transport, f"{_ADMISSION}/{kind.lower()}s/{name}")
        yield from doctor_checks.configuration(kind, name, found, served, now)
        if kind == MUTATING:
            yield from doctor_checks.asked(found, left)
    names = (
        name for dialects in COMPONENTS.values() for each in dialects for name in doctor_checks.definition_names(each)
    )
    yield from doctor_checks.definitions(
        {name: _read(transport, f"{_DEFINITIONS}/{name}") for name in names}, used, left
    )
    yield doctor_checks.answering(_tried(transport))
    yield doctor_checks.certificate(served, now)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases"
    yield doctor_checks.leader(_read(transport, f"{leases}/{CONTROLLER_LEASE}"), now)
    yield doctor_checks.version(_read(transport, "/version"), _read(transport, SCHEDULER_PODS))


def _devices(transport: Transport, live: Live) -> Iterator[Finding]:
    """Yield the findings about devices; none in a cluster without DeviceClasses and without claims.

    The ResourceSlices are read from the API server, because the caches keep only slices from which devices can be
    planned.
    """
    claiming = [
        pod
        for pod in live.sources.pods
        if pod.spec.resource_claims and pod.gated_by(GATE) and not (pod.bound or pod.finished or pod.terminating)
    ]
    devices = live.snapshot.devices
    if not claiming and (devices is None or not devices.classes):
        return
    component = {path: _read(transport, path) for path in device_checks.paths()}
    yield from device_checks.component(component, [pod.key for pod in claiming])
    if any(component.values()):
        yield from device_checks.kinds(*(_read(transport, f"{path}?limit=1") for path in (CLAIMS_PATH, RULES_PATH)))
    slices = _read(transport, SLICES_PATH)
    if isinstance(slices, Mapping):
        yield from pools(msgspec.convert(each, type=ResourceSlice) for each in slices.get("items") or ())
    if devices is not None:
        yield from needs(devices, claiming, live.sources.of_kind(GROUP, "Topology"))


def _tried(transport: Transport) -> doctor_checks.Found:
    """Send a gang's pod to the API server as a dry run. Return it as it would be stored, or the error message."""
    path = "/api/v1/namespaces/default/pods"
    try:
        answer: doctor_checks.Object = transport.request(
            "POST", path, query={"dryRun": "All"}, body=doctor_checks.probe()
        )
    except ApiException as error:
        return message_of(error)
    return answer


def _read(transport: Transport, path: str) -> doctor_checks.Found:
    """Return the object at an API path, None if it does not exist, or the error message if it cannot be read."""
    try:
        found: doctor_checks.Object = transport.request("GET", path)
    except NotFoundException:
        return None
    except ApiException as error:
        return message_of(error)
    return found
