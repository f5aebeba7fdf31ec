"""A run leaves no process and no file behind, however it ends.

Each test starts a control plane in a process of its own, whose temporary directory is the test's, and ends that. Every
run has one of each sort of end, the long suite all of them.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.control_plane import ControlPlane, Options, StartError, wait_until
from controlplane.programs.binaries import Binaries, find_binaries
from controlplane.running.components import COMPONENTS
from controlplane.running.directories import PREFIX, RunDirectory
from controlplane.running.janitor import marked
from controlplane.running.processes import Program

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

REPOSITORY = Path(__file__).parents[2]
START = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the children of nohup inherit that it is ignored,
signal.signal(signal.SIGINT, signal.default_int_handler)  # and those that a shell puts into the background this one
from controlplane.control_plane import ControlPlane
with ControlPlane() as running:
    running.run("beside", ["sh", "-c", "sleep 1000 & wait"])
    print("running", flush=True)
    {then}
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Return a function that starts a process with a control plane and then executes the given statement in it."""
    children: list[subprocess.Popen[str]] = []

    def started(then: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", START.format(then=then)],
            cwd=REPOSITORY,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield started
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()


def runs(folder: Path) -> list[Path]:
    return list(folder.glob(f"{PREFIX}*"))


def await_nothing(folder: Path, directory: Path) -> None:
    wait_until(lambda: not runs(folder) and not list(marked(directory)), 120, "everything to be gone")


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline()


def longer(*others: object) -> list[Any]:
    """Parameters that are left to the long suite."""
    return [pytest.param(each, marks=pytest.mark.long) for each in others]


@pytest.mark.parametrize("number", [signal.SIGKILL, *longer(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)])
def test_nothing_is_left_after_a_signal(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    child = start("time.sleep(1000)")
    assert line(child) == "running\n"
    (directory,) = runs(tmp_path)
    programs = len(COMPONENTS) + 2  # the program beside it, and its child
    wait_until(lambda: len(list(marked(directory))) == programs, 120, "all programs")
    child.send_signal(number)
    child.wait(120)
    await_nothing(tmp_path, directory)


@pytest.mark.parametrize("seconds", [0.7, 0.2, 1.5])
def test_nothing_is_left_when_it_is_killed_while_it_starts(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path, seconds: float
) -> None:
    child = start("time.sleep(1000)")
    wait_until(lambda: bool(runs(tmp_path)), 120, "the start")
    (directory,) = runs(tmp_path)
    time.sleep(seconds)
    child.kill()
    child.wait(120)
    await_nothing(tmp_path, directory)


@pytest.mark.parametrize(
    ("then", "status"),
    [
        pytest.param("pass", 0, id="leaving it"),
        pytest.param("sys.exit(5)", 5, id="leaving the program", marks=pytest.mark.long),
        pytest.param("raise ValueError", 1, id="an error", marks=pytest.mark.long),
        pytest.param("import os; os._exit(4)", 4, id="an exit without any end", marks=pytest.mark.long),
        pytest.param("running.program('kube-apiserver').freeze()", 0, id="a frozen component", marks=pytest.mark.long),
        pytest.param(
            "running.program('etcd').kill()", 0, id="a component that is gone already", marks=pytest.mark.long
        ),
    ],
)
def test_nothing_is_left_after_the_end(
    start: Callable[[str], subprocess.Popen[str]], tmp_path: Path, then: str, status: int
) -> None:
    child = start(f"sys.stdin.close(); {then}")
    assert line(child) == "running\n"
    directories = runs(tmp_path)
    assert child.wait(120) == status
    for directory in directories:
        await_nothing(tmp_path, directory)


@pytest.mark.parametrize(
    "component", ["kube-apiserver", *longer(*(each for each in COMPONENTS if each != "kube-apiserver"))]
)
def test_a_component_that_ends_at_once_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, component: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken = tmp_path / component
    broken.write_text("#!/bin/sh\necho cannot go on; exit 1\n")
    broken.chmod(0o755)
    with (
        pytest.raises(StartError, match=f"{component} ended at once:\ncannot go on"),
        ControlPlane(Options(), Binaries({**find_binaries().paths, component: broken})),
    ):
        pass
    assert not runs(tmp_path)


def test_a_component_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no such components: kubelet; there are etcd, kube-apiserver"):
        Options(components=["kubelet"])


def test_only_what_is_asked_for_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ControlPlane(Options(components=["kwok"])) as running:
        assert running.program("kwok").running
        assert running.request("GET", "/readyz") == "ok"
        with pytest.raises(KeyError):
            running.program("kube-scheduler")
    assert not runs(tmp_path)


def test_the_native_gang_scheduling_can_be_switched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    options = Options(feature_gates=gates, runtime_config=["scheduling.k8s.io/v1beta1=true"])
    with ControlPlane(options) as running:
        kinds = running.kubectl("api-resources", "--api-group=scheduling.k8s.io", "-o", "name").split()
        assert "podgroups.scheduling.k8s.io" in kinds


def test_a_process_in_its_directory_is_gone_with_it_even_in_a_session_of_its_own(tmp_path: Path) -> None:
    with RunDirectory() as directory:
        mark = {"PHALANX_CONTROL_PLANE": str(directory), "PATH": os.environ["PATH"]}
        program = Program("stray", ["sh", "-c", "setsid sleep 1000 & wait"], tmp_path / "log", mark)
        program.start()
        wait_until(lambda: len(list(marked(directory))) == 2, 120, "the stray")
    assert not list(marked(directory))
    assert not directory.exists()
    program.wait()
