"""The dry run reads any input within its caller's time limit, and the cost grows linearly with the input's length."""

import gc
import time
from collections.abc import Callable, Iterator

import pytest
from flask.testing import FlaskClient
from malformed import HEADERS, open_client

from kube.yaml_text import DEEPEST
from planning.files.documents import parse
from serving.limits import LARGEST_BODY
from solver.deadline import Deadline, OutOfTimeError


@pytest.fixture
def client() -> Iterator[FlaskClient]:
    """Of the application over four nodes in two racks."""
    with open_client() as client:
        yield client


TEXTS: dict[str, Callable[[int], bytes]] = {
    "tiny documents of JSON": lambda many: b"{}" * many,
    "blanks behind them": lambda many: b"{}" * (many // 8) + b" " * many * 20 + b"{}",
    "JSON that ends as none": lambda many: b"{}" * many + b"x",
    "objects without a name": lambda many: b'{"kind":"Pod"}' * many,
    "numbers in a list": lambda many: b"[" + b"1," * many + b"1]",
    "documents of YAML": lambda many: b"---\na: b\n" * many,
    "a key again and again": lambda many: b"a:\n" * many,
    "flow mappings": lambda many: b"- {a: b, c: [d]}\n" * (many // 4),
}


@pytest.mark.long
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_reading_costs_in_proportion_to_the_length(text: Callable[[int], bytes]) -> None:
    """With quadratic cost, eight times the text would take 64 times as long in every try."""
    short, long = text(2_500), text(20_000)
    assert any(_cpu(long) < 24 * max(_cpu(short), 0.005) for _ in range(6))


def _cpu(text: bytes) -> float:
    """Return the CPU seconds, without the garbage collector, which visits the objects of other tests, too."""
    gc.disable()
    try:
        started = time.thread_time()
        parse(text, "f.yaml")
        return time.thread_time() - started
    finally:
        gc.enable()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_reading_ends_when_the_time_is_over(text: Callable[[int], bytes]) -> None:
    looks = 0

    def left() -> float:
        nonlocal looks
        looks += 1
        return 5.0 - looks

    with pytest.raises(OutOfTimeError):
        parse(text(100_000), "f.yaml", Deadline(left))
    assert looks == 5


@pytest.mark.parametrize("opened", ["? ", "- ", "[", "{a: "])
def test_no_depth_of_nesting_ends_the_process(opened: str) -> None:
    documents, (mistake,) = parse(opened * 100_000 + "x", "f.yaml")
    assert not documents
    assert f"nests deeper than {DEEPEST} levels" in str(mistake) or "recursion" in str(mistake)


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [b"- {a: b, c: [d]}\n" * (LARGEST_BODY // 18), b"{}" * (LARGEST_BODY // 2), b"? " * (LARGEST_BODY // 2)],
    ids=["YAML", "JSON", "nested"],
)
def test_the_largest_body_is_answered_in_its_senders_time(client: FlaskClient, body: bytes) -> None:
    """Read to its end the first takes the better part of a minute."""
    answer = client.post("/v1/solve?timeout=1s", data=body, headers=HEADERS)
    assert answer.status_code in ((413,) if body.startswith(b"- ") else (400, 413)), answer.text


def test_what_is_too_long_to_read_is_told_so(client: FlaskClient) -> None:
    answer = client.post("/v1/solve?timeout=0.01s", data=b"- {a: b, c: [d]}\n" * 50_000, headers=HEADERS)
    assert (answer.status_code, "s that are left of the time given" in answer.text) == (413, True)


@pytest.mark.thorough
def test_gangs_whose_turn_comes_too_late_are_named_and_not_planned(client: FlaskClient) -> None:
    """Eight hundred gangs of one pod each ask for more solving than fits into the time in which they can be read."""
    pod = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p%d", "labels": {"phalanx.dev/gang": "g%d"}}, '
    pod += '"spec": {"containers": [{"name": "main", "image": "pause"}], "priority": %d}}\n'
    gang = '{"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "g%d"}, '
    gang += '"spec": {"minMember": 1}}\n'
    node = (
        '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9999"}}}\n'
    )
    body = node + "".join(pod % (each, each, each) + gang % each for each in range(800))
    for seconds in (0.5, 1, 2, 4, 8):
        answer = client.post(f"/v1/solve?timeout={seconds}s", data=body, headers=HEADERS)
        if answer.status_code != 413:
            break
    assert answer.status_code == 200, answer.text
    gangs = answer.get_json()["gangs"]
    late = [each for each in gangs if "time was over" in each["message"]]
    assert len(gangs) == 800
    assert late
    assert {(each["outcome"], each["proof"]) for each in late} == {("Unplaceable", "Unproven")}
