"""On two clusters with thousands of pods of lower priority, in files, `phalanx solve` has a plan in its time limit.

Two faults gave these inputs: with 96 or more members in slices, the solver process was killed at its limit, and 10,000
members took 36 s.
"""

import lzma
import re
from pathlib import Path

import pytest
from solving import solved

FILES = Path(__file__).parent / "large"
LARGE = {"gang10k_evictions_1000nodes.json": 10_000, "slices_psw_evictions_5082.jsonl": 128}
"""Members by file."""


@pytest.mark.timed  # the 10 s of a solve are real time
@pytest.mark.parametrize("name", LARGE)
def test_a_large_cluster_full_of_victims_has_a_plan(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_bytes(lzma.decompress((FILES / f"{name}.xz").read_bytes()))
    answer = solved(file)
    assert answer.status == 0, answer
    assert re.match(rf"default/g  Placed  (optimal|feasible)\n  {LARGE[name]} pods fit in ", answer.report)
    assert len(re.findall(r"^  g-\d+ ", answer.report, re.MULTILINE)) == LARGE[name]
