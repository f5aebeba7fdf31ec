"""Every wrong request of `tests/refusals`, and the answer of the rules that admission and the dry run share."""

import pytest
from refusal_cases import Case, cases, defaulted, sources_of

from gangs.dialects.reviewing import review
from gangs.dialects.templates import as_admitted
from gangs.manifests import MalformedError
from gangs.model import Advice, Fault


def reviewed(case: Case) -> tuple[list[Fault], list[Advice]]:
    """Return the faults and the advice of the rules for the object, as it is stored after admission."""
    standing = sources_of(case.standing())
    try:
        manifest = as_admitted(defaulted(case.write), standing)
    except MalformedError as error:
        return [error.fault], []
    return review(manifest, standing)


@pytest.mark.parametrize("case", [each for each in cases() if not each.planned], ids=str)
def test_a_request_gets_its_exact_answer(case: Case) -> None:
    faults, advice = reviewed(case)
    if case.refused:
        assert [str(each) for each in faults] == [case.refused]
        return
    assert faults == []
    assert any(str(each).endswith(case.answer) for each in advice), [str(each) for each in advice]


def test_no_two_cases_of_a_dialect_go_by_one_name() -> None:
    names = [str(each) for each in cases()]
    assert sorted(set(names)) == sorted(names)
