"""Other Kubernetes versions: only programs that differ are built again, and only known versions can be chosen."""

from pathlib import Path

import pytest

from controlplane.programs.binaries import PROGRAMS, version_flags
from controlplane.programs.other_versions import OTHER, binaries_of, scheduler_asked_for

BUILD = Path(__file__).parents[2] / "controlplane" / "build"


@pytest.fixture(autouse=True)
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all usual programs, as envtest provides them."""
    for each in PROGRAMS:
        (tmp_path / each.name).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    return tmp_path


def test_nothing_asked_for_means_the_usual_programs(assets: Path) -> None:
    assert binaries_of("").paths == {each.name: assets / each.name for each in PROGRAMS}


def test_a_version_that_there_is_not_is_refused_by_the_name_of_the_variable() -> None:
    with pytest.raises(ValueError, match=r"PHALANX_KUBERNETES=1\.30: there are 1\.34, 1\.36, 1\.34-scheduler"):
        binaries_of("1.30")


@pytest.mark.parametrize("minor", OTHER)
def test_the_pinned_module_is_of_the_version_that_the_programs_are_told(minor: str) -> None:
    module = (BUILD / "long" / f"kubernetes-{minor}" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {OTHER[minor]}" in module
    assert f"-X k8s.io/component-base/version.gitVersion={OTHER[minor]}" in version_flags(OTHER[minor])


def test_the_scheduler_alone_may_be_older(
    assets: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build is skipped, because a program of that name and version is on PATH."""
    path = tmp_path_factory.mktemp("path")
    scheduler = path / "kube-scheduler"
    scheduler.write_text(f"#!/bin/sh\necho Kubernetes {OTHER['1.36']}\n")
    scheduler.chmod(0o755)
    monkeypatch.setenv("PATH", str(path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    found = binaries_of("1.36-scheduler")
    assert Path(found["kube-scheduler"]).resolve() == scheduler
    assert found["kube-apiserver"] == str(assets / "kube-apiserver")
    monkeypatch.setenv("PHALANX_KUBERNETES", "1.36-scheduler")
    assert scheduler_asked_for() == "1.36"
