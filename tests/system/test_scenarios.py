"""The scenarios of `make examples`, each on the session's control plane.

They run in `make test-long` only. `test_install.py` also plays the scenarios that need no operator, with servers that
have their own rights and no others. `test_real_operators.py` and its neighbours cover the kinds of the other ones.
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
