"""The guides of the site, played as they are written, each from an empty cluster; by the user who installed Phalanx."""

from pathlib import Path

import pytest
from going_on import let_pods_go_on
from page_commands import Shell, pages, play, with_marks
from system import Phalanx

from controlplane.programs.binaries import find_binaries

pytestmark = pytest.mark.controlplane

USUAL = ("koordinator", "kueue")
"""The guides that `make test` plays; `make test-long` plays all of them."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", with_marks(pages(on_a_cluster=True), USUAL))
def test_a_guide_goes_as_it_is_written(phalanx: Phalanx, page: Path, tmp_path: Path) -> None:
    let_pods_go_on(phalanx.cluster)
    kubectl = Path(find_binaries()["kubectl"])
    environment = {"PATH": str(kubectl.parent), "KUBECONFIG": str(phalanx.cluster.kubeconfig)}
    assert "\n".join(play(page, Shell(tmp_path, environment))) == ""
