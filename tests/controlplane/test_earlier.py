"""The previous Kubernetes version: only programs that differ are built again, and only known versions can be chosen."""

from pathlib import Path

import pytest

from controlplane.programs.binaries import PROGRAMS, version_flags
from controlplane.programs.previous_version import EARLIER, binaries_of

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
    with pytest.raises(ValueError, match=r"PHALANX_KUBERNETES=1\.30: there is only 1\.36"):
        binaries_of("1.30")


def test_the_pinned_module_is_of_the_version_that_the_programs_are_told() -> None:
    module = (BUILD / "long" / "kubernetes-1.36" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {EARLIER}" in module
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in version_flags(EARLIER)
