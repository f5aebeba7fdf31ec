"""Every wrong request of `tests/refusals`, and what `phalanx solve` answers: its lines on stderr and exit status."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from refusal_cases import Case, cases

from cli.main import group

BAD_INPUT, NOT_PLACED = 2, 3


@pytest.mark.parametrize("case", cases(), ids=str)
def test_solve_gives_the_exact_answer(case: Case, tmp_path: Path) -> None:
    standing, written = tmp_path / "standing.yaml", tmp_path / "written.yaml"
    standing.write_text(yaml.safe_dump_all(case.standing()))
    written.write_text(yaml.safe_dump(case.write))
    arguments = ["solve", "-f", str(standing), "-f", str(written), "-o", "json"]
    result = CliRunner().invoke(group, arguments, catch_exceptions=False)
    said = [line.replace(f"{written}: ", "").replace(f"{standing}: ", "") for line in result.stderr.splitlines()]
    gangs = json.loads(result.stdout)["gangs"]
    if case.refused or case.spoils:
        errors = [each for each in said if each.startswith("error")]
        assert (errors, result.exit_code) == ([f"error: {case.refused or case.spoils}"], BAD_INPUT)
    elif case.warned:
        # A warning of admission is an error of `solve` if the user cannot have meant the text of the file.
        (kind,) = (kind for kind in ("warning", "error") if f"{kind}: {case.warned}" in said)
        assert (result.exit_code == BAD_INPUT) is (kind == "error")
    else:
        assert result.exit_code == NOT_PLACED
        assert any(each["outcome"] == "Waiting" and case.waits in each["message"] for each in gangs), gangs
