"""The scenarios of `make examples`, each on the session's control plane."""

from pathlib import Path

import pytest
from documented_examples import happens_as_documented
from system import Phalanx

from cli.scenarios import scenarios

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("folder", scenarios(), ids=lambda folder: folder.name)
def test_the_example_happens_as_documented(phalanx: Phalanx, folder: Path) -> None:
    happens_as_documented(phalanx.cluster, folder)
