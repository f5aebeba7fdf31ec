"""Every wrong request of `tests/refusals`, and what kubectl shows of the answer of the real API server.

Requests that stand beside the same objects go in one `kubectl create --dry-run=server`; nothing of them is stored.
"""

import re
import time
from collections.abc import Iterator
from itertools import groupby

import pytest
import yaml
from refusal_cases import Case, cases
from system import Phalanx

from gangs.coexistence.systems import SYSTEMS

pytestmark = pytest.mark.controlplane

SECONDS = 300.0
"""The time until the webhook has read the objects that were applied before."""
NAMESPACES = {"ack": ("net",), "kai": ("kai-scheduler",), "koordinator": ("koordinator-system",)}
"""The namespaces that the documents name."""
DENIED = re.compile(
    r'^(?:Error from server(?: \(\w+\))?|The request is invalid): (?:error when creating "STDIN": )?'
    r'(?:admission webhook "[^"]+" denied the request: )?'
)


def written(case: Case) -> str:
    """The request as a YAML document."""
    return yaml.safe_dump(case.write)


def shown(phalanx: Phalanx, *requests: Case) -> tuple[list[str], str]:
    """Return kubectl's output: the errors, one for each refused request, and all warnings as one text."""
    answer = phalanx.cluster.kubectl_result(
        "create", "--dry-run=server", "-f", "-", stdin="---\n".join(map(written, requests))
    )
    lines = answer.stderr.splitlines()
    warnings = " ".join(line.removeprefix("Warning: ") for line in lines if line.startswith("Warning: "))
    return [DENIED.sub("", line) for line in lines if not line.startswith("Warning: ")], warnings


def scenes(dialect: str) -> Iterator[list[Case]]:
    """Yield the requests of a dialect, grouped by the objects that must exist beside them."""
    requests = sorted((each for each in cases() if each.dialect == dialect), key=lambda each: each.beside)
    for _, found in groupby(requests, lambda each: each.beside):
        yield list(found)


def answers(phalanx: Phalanx, requests: list[Case]) -> dict[str, str]:
    """Return the answer to each request.

    An admitted request is sent alone, because kubectl shows no warning twice.
    """
    batch = [each for each in requests if each.refused]
    errors = shown(phalanx, *batch)[0] if batch else []
    errors += [f"nothing: {len(errors)} answers to {len(batch)} requests"] * (len(batch) - len(errors))
    found = dict(zip(batch, errors, strict=True))
    for case in requests:
        if not case.refused:
            errors, warnings = shown(phalanx, case)
            found[case] = " ".join([warnings, *errors])
    return {str(case): _told(case, text) for case, text in found.items()}


def _told(case: Case, text: str) -> str:
    """The expected answer where the text holds it as it must, else the whole text."""
    if case.api_server:
        return case.api_server if case.api_server in text else text
    return case.answer if not case.refused and case.answer in text else text


def dialects() -> list[object]:
    """One for `make test`. `tests/gangs/test_refusal_rules.py` has them all.

    Dialects whose objects the default installation does not send are left out (`test_groups_in_one_cycle.py`).
    """
    by_choice = {name for each in SYSTEMS if each.by_default for name in each.dialects}
    names = sorted({each.dialect for each in cases()} - by_choice)
    return [pytest.param(each, marks=() if each == "koordinator" else pytest.mark.long) for each in names]


@pytest.mark.parametrize("dialect", dialects())
def test_kubectl_shows_the_exact_answers(phalanx: Phalanx, dialect: str) -> None:
    for name in NAMESPACES.get(dialect, ()):
        phalanx.make_namespace(name)
    for requests in scenes(dialect):
        standing = requests[0].standing()
        if standing:
            phalanx.submit(*standing)
        expected = {str(each): each.api_server or each.answer for each in requests}
        deadline = time.monotonic() + SECONDS
        while (seen := answers(phalanx, requests)) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
        assert seen == expected, f"beside {requests[0].beside}"
        if standing:
            phalanx.cluster.kubectl("delete", "--wait=false", "-f", "-", stdin=yaml.safe_dump_all(standing))
