"""`python -m benchmarks.live`: stock and Phalanx side by side on one control plane of kwok nodes, in turns."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.live import load, machine_usage, modes, report
from cli.installation.local import Deployment
from controlplane.control_plane import LONG_LEASES, ControlPlane, Options

LEASE = ("--lease-seconds", 4)
"""As it is installed; tests have a shorter one."""
LONGEST_START = 900.0
LOOK_SECONDS = 5.0
IDLE_SECONDS = 30.0
SETTLE_SECONDS = 20.0
"""After the start, before the servers are looked at with nothing to do."""


@click.command()
@click.option("--nodes", type=click.IntRange(load.PER_RACK), default=5000, show_default=True)
@click.option("--sizes", default="512,64,8", show_default=True, help="Pods of a lot, by comma.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Lots of each size and mode.")
@click.option("--modes", "names", default=",".join(modes.MODES), show_default=True, help="In turns; by comma.")
@click.option("--scheduler-qps", type=click.IntRange(1), help="Requests a second of the scheduler; else its own 50.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Where the page goes.")
def main(*, nodes: int, sizes: str, rounds: int, names: str, scheduler_qps: int | None, write: Path | None) -> None:
    """Measure how long pods take from their creation to their nodes."""
    load_before = os.getloadavg()[0]
    measured = names.split(",")
    options = Options(feature_gates=load.FEATURE_GATES, runtime_config=load.RUNTIME_CONFIG, more=_flags(scheduler_qps))
    with ControlPlane(options) as plane:
        _add_nodes(plane, nodes)
        click.echo(f"{nodes} nodes are ready")
        servers = _install(plane)
        idle = _idle(servers)
        lots = []
        for size in map(int, sizes.split(",")):
            for number in range(rounds):
                turn = number % len(measured)
                for mode in (*measured[turn:], *measured[:turn]):
                    lots.append(modes.run(plane, mode, size, number, servers))
                    click.echo(report.text(lots[-1]))
    about = (
        f"{nodes} nodes of kwok, {machine_usage.machine()}, load before the run {load_before:.1f}. "
        f"The scheduler may send {scheduler_qps or 50} requests a second and {scheduler_qps or 100} at once."
    )
    text = report.page(lots, idle, about)
    click.echo(text)
    if write is not None:
        write.write_text(text, encoding="utf-8")


def _flags(scheduler_qps: int | None) -> dict[str, Sequence[str]]:
    """What the components are told beside what they are in tests."""
    limits = [f"--kube-api-qps={scheduler_qps}", f"--kube-api-burst={scheduler_qps}"] if scheduler_qps else []
    return {**LONG_LEASES, "kube-scheduler": limits}


def _add_nodes(plane: ControlPlane, count: int) -> None:
    """Nodes that can take pods. It is seldom asked whether they can: so many are a large answer."""
    plane.create("/api/v1/nodes", [load.node(number) for number in range(count)])
    end = time.monotonic() + LONGEST_START
    while sum(map(load.ready, plane.request("GET", "/api/v1/nodes")["items"])) < count:
        if time.monotonic() > end:
            raise click.ClickException(f"the nodes were not ready within {LONGEST_START:.0f} s")
        time.sleep(LOOK_SECONDS)


def _install(plane: ControlPlane) -> dict[str, int]:
    """Phalanx with its two servers; their process ids."""
    deployment = Deployment(plane)
    deployment.install()
    plane.apply([load.topology()])
    webhook = deployment.start_webhook()
    deployment.register_webhook()
    return {"webhook": webhook.pid, "controller": deployment.start_controller(options=LEASE).pid}


def _idle(servers: dict[str, int]) -> dict[str, tuple[float, float]]:
    """By server: the percentage of a core that it uses with nothing to do, and its megabytes then."""
    time.sleep(SETTLE_SECONDS)
    before = machine_usage.usage_of(servers)
    time.sleep(IDLE_SECONDS)
    after = machine_usage.usage_of(servers)
    used = machine_usage.spent(before, after)
    return {name: (used[name] / IDLE_SECONDS * 100, after[name].megabytes) for name in servers}


if __name__ == "__main__":
    main()
