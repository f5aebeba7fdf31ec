"""`python -m benchmarks.live.devices`: measure pods with a claim for a device each, from creation to binding.

The pods are a gang of Phalanx, to which all devices are allocated before its release, or ungrouped pods of the stock
scheduler. The modes are measured alternately on one control plane of Kubernetes 1.37.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.live import device_rows, gang_starts, keeping, load, machine_usage, starting
from benchmarks.live.device_rows import API_SERVER, CLAIMS, MODES, NAMED, OURS, SCHEDULER, Lot, Setup
from benchmarks.live.modes import PHALANX, REST_SECONDS
from controlplane.control_plane import ControlPlane, Options, wait_until

_RESOURCE = "/apis/resource.k8s.io/v1"
_CLAIMS = f"{_RESOURCE}/namespaces/{load.NAMESPACE}/resourceclaims"
_RULES = f"{_RESOURCE}/devicetaintrules"
_DRIVER, _CLASS, _TEMPLATE = "gpu.example.com", "gpu", "one-gpu"
_DEVICES_OF_NODE = 8
_WRITERS = 8
_LONGEST = 300.0
"""Seconds that the pods of a lot may take to be bound, or to be deleted."""
_AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
- level: None
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The control plane of a run, and the audit log of its API server. `programs`: by name, the process ids of its
    programs.
    """

    plane: ControlPlane
    log: Path
    setup: Setup
    programs: Mapping[str, int]


@click.command()
@click.option("--nodes", type=click.IntRange(load.PER_RACK), default=200, show_default=True)
@click.option("--size", type=click.IntRange(2), default=64, show_default=True, help="Pods of a lot.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="Lots of each kind.")
@click.option(
    "--scheduler-qps", type=click.IntRange(1), help="The scheduler's limit of requests per second; default: 50."
)
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the page; its figures are written beside it (.json).",
)
def main(*, nodes: int, size: int, rounds: int, scheduler_qps: int | None, write: Path | None) -> None:
    """Measure how long pods with claims take from their creation until they are bound.

    Exits with status 1 if Phalanx takes more than 2.5 times as long as stock, or if two claims had one device. Then the
    page `write` and the file of its figures stay unchanged.
    """
    setup = Setup(nodes, size, scheduler_qps)
    if size > (most := nodes * _DEVICES_OF_NODE):
        raise click.UsageError(f"{size} pods do not fit: {nodes} nodes have {most} devices")
    about = f"{machine_usage.machine()}, load before the run {os.getloadavg()[0]:.1f}."
    rows = device_rows.rows(list(_measured(setup, rounds)), size)
    text = device_rows.page(rows, setup, about)
    click.echo(text)
    wrong = device_rows.changes(rows)
    if write is not None:
        texts = {write: text, keeping.table_of(write): device_rows.as_json(rows, setup, about)}
        if wrong:
            keeping.ASIDE.mkdir(parents=True, exist_ok=True)
            texts = {keeping.ASIDE / file.name: content for file, content in texts.items()}
        for file, content in texts.items():
            file.write_text(content, encoding="utf-8")
    for each in wrong:
        click.echo(f"error: {each.text}")
    if wrong:
        raise SystemExit(1)


def _measured(setup: Setup, rounds: int) -> Iterator[Lot]:
    """Yield the lots of all rounds: in each round one lot of each mode and source of claims.

    A first lot of each mode is not counted.

    The first gang after a start takes longer, because the solver's processes start.
    """
    with tempfile.TemporaryDirectory(prefix="phalanx-audit-") as folder:
        policy, log = Path(folder, "policy.yaml"), Path(folder, "audit.log")
        policy.write_text(_AUDIT, encoding="utf-8")
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
        options = Options(api_server=flags, more=starting.flags(setup.scheduler_qps))
        with ControlPlane(options) as plane:
            starting.add_nodes(plane, setup.nodes)
            _add_devices(plane, setup.nodes)
            programs = starting.install(plane, components=("devices",))
            for name, component in ((API_SERVER, "kube-apiserver"), (SCHEDULER, "kube-scheduler")):
                programs[name] = plane.program(component).pid
            installation = Installation(plane, log, setup, programs)
            time.sleep(REST_SECONDS)
            for mode in MODES:
                _lot(installation, mode, NAMED, "first")
            for number in range(rounds):
                for claims in CLAIMS:
                    for mode in MODES if number % 2 == 0 else reversed(MODES):
                        lot = _lot(installation, mode, claims, str(number))
                        click.echo(device_rows.text(lot))
                        yield lot


def _lot(installation: Installation, mode: str, claims: str, number: str) -> Lot:
    """Create the pods of a lot, measure until all are bound, and delete them.

    :raises TimeoutError: the pods were not all bound in time.
    """
    plane, size = installation.plane, installation.setup.size
    name = f"{mode}-{claims}-{number}"
    if claims == NAMED:
        plane.create(_CLAIMS, [_claim(f"{name}-{each}") for each in range(size)])
    if mode == PHALANX:
        plane.create(load.GANGS, [load.gang(name, size)])
    pods = [_pod(each, claims) for each in load.pods(name, size, member=mode == PHALANX)]
    loop = machine_usage.timed_loop()
    time.sleep(REST_SECONDS)
    with gang_starts.BindingWatch(plane) as watch:
        begin, usage = installation.log.stat().st_size, machine_usage.usage_of(installation.programs)
        first = time.monotonic()
        plane.create(load.PODS, pods)
        last = time.monotonic()
        bindings = watch.await_bound(size, _LONGEST)
    time.sleep(REST_SECONDS)  # the API server writes its log late, and Phalanx must still report the end of the gang
    spent = machine_usage.spent(usage, machine_usage.usage_of(installation.programs))
    cpu = {OURS: spent["webhook"] + spent["controller"], **{name: spent[name] for name in (API_SERVER, SCHEDULER)}}
    writes = device_rows.writes_in(_audited(installation.log, begin))
    doubled = device_rows.doubled(plane.request("GET", _CLAIMS)["items"])
    _remove(plane, mode, claims, name, size)
    bound = bindings[-1].at
    return Lot(mode, claims, bound - first, bound - last, bindings[0].at - first, writes, doubled, cpu, loop)


def _audited(log: Path, begin: int) -> list[Mapping[str, Any]]:
    """Return the events of an audit log from a position in bytes on."""
    with log.open("rb") as file:
        file.seek(begin)
        return [json.loads(line) for line in file.read().splitlines() if line.endswith(b"}")]


def _remove(plane: ControlPlane, mode: str, claims: str, name: str, size: int) -> None:
    """Delete the objects of a lot, and wait until its pods, its claims and all DeviceTaintRules are gone."""
    names = [f"{name}-{number}" for number in range(size)]
    paths = [f"{load.PODS}/{each}?gracePeriodSeconds=0" for each in names]
    if mode == PHALANX:
        paths.append(f"{load.GANGS}/{name}")
    if claims == NAMED:
        paths += [f"{_CLAIMS}/{each}" for each in names]
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(partial(plane.request, "DELETE"), paths))
    for path, what in ((load.PODS, "pods"), (_CLAIMS, "claims"), (_RULES, "rules")):
        wait_until(partial(_is_empty, plane, path), _LONGEST, f"{what} to go")


def _is_empty(plane: ControlPlane, path: str) -> bool:
    return not plane.request("GET", f"{path}?limit=1")["items"]


def _add_devices(plane: ControlPlane, nodes: int) -> None:
    """Create a DeviceClass, a ResourceClaimTemplate, and a ResourceSlice for each node."""
    chosen = [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]
    plane.create(f"{_RESOURCE}/deviceclasses", [{"metadata": {"name": _CLASS}, "spec": {"selectors": chosen}}])
    template = {"metadata": {"name": _TEMPLATE}, "spec": {"spec": _claim_spec()}}
    plane.create(f"{_RESOURCE}/namespaces/{load.NAMESPACE}/resourceclaimtemplates", [template])
    names = [load.node(number)["metadata"]["name"] for number in range(nodes)]
    plane.create(f"{_RESOURCE}/resourceslices", map(_slice, names))


def _slice(node: str) -> load.Manifest:
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": "h100"}}} for number in range(_DEVICES_OF_NODE)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-{_DRIVER}"},
        "spec": {"driver": _DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _claim_spec() -> load.Manifest:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": _CLASS}}]}}


def _claim(name: str) -> load.Manifest:
    return {"metadata": {"name": name, "namespace": load.NAMESPACE}, "spec": _claim_spec()}


def _pod(pod: load.Manifest, claims: str) -> load.Manifest:
    """Return a pod that claims a device in place of its extended resource. `claims`: where its claim comes from."""
    source = (
        {"resourceClaimName": pod["metadata"]["name"]} if claims == NAMED else {"resourceClaimTemplateName": _TEMPLATE}
    )
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
    container = {**pod["spec"]["containers"][0], "resources": resources}
    spec = {**pod["spec"], "containers": [container], "resourceClaims": [{"name": "gpu", **source}]}
    return {**pod, "spec": spec}


if __name__ == "__main__":
    main()
