"""The scenarios of `make examples`, each on the session's control plane.

Left to `make test-long`: those that need no operator are played by `test_install.py`, too, where the servers have their
own rights and no others; the kinds of the others by `test_real_operators.py` and those beside it.
"""

from pathlib import Path

import pytest
from documented_examples import happens_as_documented
from system import Phalanx

from controlplane.scenarios import scenarios

pytestmark = [pytest.mark.controlplane, pytest.mark.long]


@pytest.mark.parametrize("folder", scenarios(), ids=lambda each: each.name)
def test_the_example_happens_as_documented(phalanx: Phalanx, folder: Path) -> None:
    happens_as_documented(phalanx.cluster, folder)
