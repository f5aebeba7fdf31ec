"""How far a build is, and how long it may still take.

run 0    runtime  etcd 1 .. 59           1 s of processor time a package, and 40 s to link the program
run 1    runtime  kubernetes 1 .. 410    2 s a package, and 80 s to link the program; run 0 compiles the runtime
"""

import subprocess
from pathlib import Path
from uuid import uuid4

import pytest
from manual_clock import ManualClock

from controlplane.programs.binaries import cache_directory
from controlplane.programs.compiling import Remaining, Run, go_build, missing_packages
from controlplane.programs.toolchain import find_go
from controlplane.progress import Progress

ETCD = [f"etcd/{at}" for at in range(1, 60)]
KUBERNETES = [f"k8s.io/{at}" for at in range(1, 411)]


def run(seconds: float) -> Run:
    return Run("go", Path("module"), ["./program"], [], seconds)


RUNS = [
    (run(1.0), {each: f"/mod/{each}" for each in ("runtime", *ETCD)}),
    (run(2.0), {each: f"/mod/{each}" for each in ("runtime", *KUBERNETES)}),
]


@pytest.mark.parametrize(
    ("seconds", "begun", "ended", "text"),
    [
        (60.0, [], [], "0 %"),
        (60.0, ["runtime", *ETCD[:9]], [], "1 %"),  # too early for an estimate
        (60.0, ["runtime", *ETCD[:49]], [], "5 %, about 19 min left"),
        (60.0, ["runtime", *ETCD[:49], "not in the list"], [], "5 %, about 19 min left"),
        (100.0, ["runtime", *ETCD], [], "6 %, about 26 min left"),
        (100.0, [], [0], "10 %, about 15 min left"),  # another process has compiled the packages
        (950.0, KUBERNETES[:400], [0], "90 %, about 110 s left"),
        (1000.0, KUBERNETES, [0], "92 %, about 90 s left"),  # the program is linked
        (1000.0, [], [0, 1], "100 %, about 10 s left"),
    ],
)
def test_the_estimate_follows_from_the_packages_that_are_left(
    seconds: float, begun: list[str], ended: list[int], text: str
) -> None:
    clock = ManualClock()
    remaining = Remaining(clock.monotonic, RUNS)
    for number in ended:
        remaining.ended(number)
    for each in begun:
        remaining.begins(len(ended), each)
    clock.now = seconds
    assert str(remaining) == text


def test_nothing_is_said_when_everything_is_compiled() -> None:
    assert str(Remaining(ManualClock().monotonic, [(run(1.0), {})])) == ""


def test_only_packages_that_are_not_compiled_yet_count(tmp_path: Path) -> None:
    """A real module of two packages, one of which was never built before: its content is unique."""
    content = f"package one\n\n// {uuid4()}\nfunc Do() {{}}\n"
    (tmp_path / "one").mkdir()
    (tmp_path / "go.mod").write_text("module example.com/m\n\ngo 1.21\n")
    (tmp_path / "main.go").write_text('package main\n\nimport "example.com/m/one"\n\nfunc main() { one.Do() }\n')
    (tmp_path / "one" / "one.go").write_text(content)
    build = Run(find_go(cache_directory(), Progress(None)), tmp_path, ["."], ["-ldflags", "-s"])
    assert missing_packages(build)["example.com/m/one"] == str(tmp_path / "one")
    compiled: list[str] = []
    go_build(build, target=tmp_path / "m", report=compiled.append)
    assert "example.com/m/one" in compiled
    assert "example.com/m/one" not in missing_packages(build)
    subprocess.run([tmp_path / "m"], check=True)
