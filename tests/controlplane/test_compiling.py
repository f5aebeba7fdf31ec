"""How far a build is, and how long it may still take.

run 0    runtime  etcd 1 .. 59           without dependencies: 1 a package
run 1    runtime  kubernetes 1 .. 390    300 dependencies each: 2 a package; run 0 compiles the runtime

The mean is 1.87 a package, and the linking of each of the two programs costs as much as 40 packages.
"""

import subprocess
from pathlib import Path
from uuid import uuid4

import pytest
from manual_clock import ManualClock

from controlplane.programs.binaries import cache_directory
from controlplane.programs.compiling import MissingPackage, Remaining, Run, go_build, missing_packages
from controlplane.programs.toolchain import find_go
from controlplane.progress import Progress

ETCD = [f"etcd/{at}" for at in range(1, 60)]
KUBERNETES = [f"k8s.io/{at}" for at in range(1, 391)]


RUN = Run("go", Path("module"), ["./program"], [])
RUNTIME = {"runtime": MissingPackage("/go/runtime", 0)}
RUNS = [
    (RUN, RUNTIME | {each: MissingPackage(f"/mod/{each}", 0) for each in ETCD}),
    (RUN, RUNTIME | {each: MissingPackage(f"/mod/{each}", 300) for each in KUBERNETES}),
]


@pytest.mark.parametrize(
    ("seconds", "begun", "ended", "text"),
    [
        (60.0, [], [], "0 %"),
        (60.0, ["runtime", *ETCD[:9]], [], "1 %"),  # too early for an estimate
        (60.0, ["runtime", *ETCD[:49]], [], "5 %, about 19 min left"),
        (60.0, ["runtime", *ETCD[:49], "not in the list"], [], "5 %, about 19 min left"),
        (100.0, ["runtime", *ETCD], [], "6 %, about 26 min left"),
        (100.0, [], [0], "13 %, about 11 min left"),  # another process has compiled the packages
        (950.0, KUBERNETES[:360], [0], "86 %, about 150 s left"),
        (1000.0, KUBERNETES, [0], "92 %, about 80 s left"),  # the program is linked
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
    assert str(Remaining(ManualClock().monotonic, [(RUN, {})])) == ""


def test_only_packages_that_are_not_compiled_yet_count(tmp_path: Path) -> None:
    """A real module of two packages, one of which was never built before: its content is unique."""
    content = f"package one\n\n// {uuid4()}\nfunc Do() {{}}\n"
    (tmp_path / "one").mkdir()
    (tmp_path / "go.mod").write_text("module example.com/m\n\ngo 1.21\n")
    (tmp_path / "main.go").write_text('package main\n\nimport "example.com/m/one"\n\nfunc main() { one.Do() }\n')
    (tmp_path / "one" / "one.go").write_text(content)
    build = Run(find_go(cache_directory(), Progress(None)), tmp_path, ["."], ["-ldflags", "-s"])
    assert missing_packages(build)["example.com/m/one"].folder == str(tmp_path / "one")
    compiled: list[str] = []
    go_build(build, target=tmp_path / "m", report=compiled.append)
    assert "example.com/m/one" in compiled
    assert "example.com/m/one" not in missing_packages(build)
    subprocess.run([tmp_path / "m"], check=True)
