"""The figure of Run:ai's guide beside plain pod affinity: it can be measured."""

import re
import subprocess
import sys

import pytest
from system import EXAMPLES

LINE = re.compile(r"^(.+): (\d+) of (\d+) split, (\d+) of \3 incomplete \(.+\)$")


@pytest.mark.long
@pytest.mark.controlplane
def test_phalanx_never_splits_the_workload_and_the_share_of_pod_affinity_is_told() -> None:
    command = [sys.executable, str(EXAMPLES / "runai" / "compare.py"), "1"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=EXAMPLES.parent)
    told = [LINE.match(line) for line in answer.stdout.splitlines()]
    rows = [match.groups() for match in told if match]
    assert [row[0] for row in rows] == ["pod affinity, preferred", "pod affinity, required", "Phalanx"]
    assert rows[-1] == ("Phalanx", "0", "1", "0")
    assert answer.stdout.splitlines()[-1].endswith("(1 x 6 in rack-a)")
