"""The figure of Run:ai's guide beside plain pod affinity: it can be measured, and its README tells of 20 runs each."""

import re
import subprocess
import sys

import pytest
from system import EXAMPLES

RUNAI = EXAMPLES / "runai"
LINE = re.compile(r"^(.+): (\d+) of (\d+) split, (\d+) of \3 incomplete \(.+\)$")


@pytest.mark.controlplane
def test_phalanx_never_splits_the_workload_and_the_share_of_pod_affinity_is_told() -> None:
    command = [sys.executable, str(RUNAI / "compare.py"), "1"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=EXAMPLES.parent)
    told = [LINE.match(line) for line in answer.stdout.splitlines()]
    rows = [match.groups() for match in told if match]
    assert [row[0] for row in rows] == ["pod affinity, preferred", "pod affinity, required", "Phalanx"]
    assert rows[-1] == ("Phalanx", "0", "1", "0")
    assert answer.stdout.splitlines()[-1].endswith("(1 x 6 in rack-a)")


def test_the_readme_reports_the_share_of_20_runs_each() -> None:
    table = (RUNAI / "README.md").read_text().partition("## Beside plain pod affinity")[2]
    shares = re.findall(r"\| (\d+) of 20", table)
    assert len(shares) == 6
    assert re.search(r"under Phalanx \| 0 of 20 \| 0 of 20 \|", table)
