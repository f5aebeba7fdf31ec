"""A pod that is being shrunk in place holds what its node has allocated to it until it gives that back.

n1: 4 cpu; r asks for 1 and still has 3; a gang's pod wants 2
"""

from pathlib import Path

from solving import Answer, solved

NO_ROOM = """\
default/g  Unplaceable  infeasible
  needs 1 pod: the cluster holds 0 of 1 (1 node: Insufficient cpu)

  NEAREST       FITS     NODES   EXCLUDED
  the cluster   0 of 1   1       1 Insufficient cpu

  would fit if: 1 more pod slot in the cluster
"""


def test_what_a_shrinking_pod_still_has_is_not_free() -> None:
    assert solved(Path(__file__).parent / "resizing" / "resize_in_place.yaml") == Answer(NO_ROOM, "", 3)
