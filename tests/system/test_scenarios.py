"""The scenarios of `make examples`, each on the session's control plane.

Those that need no operator are played by `test_install.py`, too, where the servers have their own rights and no others;
here they are left to `make test-long`.
"""

from pathlib import Path

import pytest
from documented_examples import happens_as_documented
from system import Phalanx

from cli.scenarios import folders, scenarios

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize(
    "folder",
    [pytest.param(each, marks=pytest.mark.long if each in folders() else (), id=each.name) for each in scenarios()],
)
def test_the_example_happens_as_documented(phalanx: Phalanx, folder: Path) -> None:
    happens_as_documented(phalanx.cluster, folder)
