"""The scenarios of `make examples`, each on the session's control plane."""

from pathlib import Path

import pytest
from system import Phalanx

from cli.scenarios import folders, play, read

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_the_example_happens_as_documented(phalanx: Phalanx, folder: Path) -> None:
    for act in read(folder).acts:
        rows = play(act, folder, phalanx.cluster)
        assert [(row.what, row.seen) for row in rows] == [(row.what, row.expected) for row in rows], act.title
