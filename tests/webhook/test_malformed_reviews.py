"""A review that is none gets 400 and one line; nothing that can be sent is answered by "internal error"."""

import json
import logging
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from malformed import HEADERS, Spoiler, one_of_each_kind, open_client, resource_of, with_a_wrong_part
from thorough import parts


@pytest.fixture
def client() -> Iterator[FlaskClient]:
    """Of the application over four nodes in two racks."""
    with open_client() as client:
        yield client


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m", "labels": {"phalanx.dev/gang": "g"}}, "spec": {}}


def review(manifest: object, old: object = None, operation: str = "CREATE", **request: object) -> bytes:
    """An AdmissionReview of a pod."""
    asked = {"uid": "u", "operation": operation, "resource": {"version": "v1", "resource": "pods"}, "object": manifest}
    asked |= {"oldObject": old} | request
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


DEEP = review(POD).replace(b'"spec": {}', b'"spec": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000)
BELOW = review({**POD, "spec": json.loads("[" * 400 + "]" * 400)})


@pytest.mark.parametrize("path", ["/mutate", "/validate", "/mutate/automatic", "/mutate/absent-schedulers"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        DEEP,
        review(POD).replace(b'"g"', b'"\xff\xfe"'),
        review("a text"),
        review([POD]),
        review({**POD, "metadata": "a text"}),
        review({**POD, "metadata": {"name": 5}}),
        review({**POD, "metadata": {"name": "m", "labels": ["a"]}}),
        review({**POD, "apiVersion": ["v1"]}),
        review({**POD, "kind": {}}),
        review(POD, {**POD, "metadata": 7}, "UPDATE"),
        review(POD, uid=5),
        review(POD, operation=["CREATE"]),  # type: ignore[arg-type] # a list where a name belongs
    ],
    ids=lambda body: body[:20].decode(errors="replace") + str(len(body)),
)
def test_a_malformed_review_gets_400_and_one_line(
    client: FlaskClient, caplog: pytest.LogCaptureFixture, path: str, body: bytes
) -> None:
    answer = client.post(path, data=body)
    assert answer.status_code == 400, answer.text
    assert answer.text.strip()
    assert answer.text.count("\n") == 1
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_part_of_a_wrong_shape_is_the_objects_fault(client: FlaskClient, path: str) -> None:
    """No API server sends such a pod. An object of another kind with this fault gets the usual error message."""
    gated = {**POD, "spec": "a text"}
    body = review(gated, {**POD, "spec": {"schedulingGates": [{"name": "phalanx.dev/gang"}]}}, "UPDATE")
    answer = client.post(path, data=body)
    assert answer.status_code == 200, answer.text
    assert "Traceback" not in answer.text


@pytest.mark.long
@pytest.mark.parametrize("path", ["/mutate", "/validate", "/mutate/described"])
def test_a_part_of_a_wrong_shape_is_the_objects_fault_for_every_kind(client: FlaskClient, path: str) -> None:
    kinds = list(one_of_each_kind())
    assert len(kinds) > 20
    for manifest in kinds:
        for spoilt in with_a_wrong_part(manifest):
            answer = client.post(path, data=review(spoilt, resource=resource_of(manifest)))
            assert answer.status_code in (200, 400), (answer.text, spoilt)


def test_what_nests_deep_is_answered(client: FlaskClient) -> None:
    assert client.post("/mutate", data=BELOW).status_code in (200, 400)


@pytest.mark.parametrize("seed", parts(3))
def test_whatever_is_sent_no_answer_is_an_internal_error(
    client: FlaskClient, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    caplog.set_level(logging.ERROR)
    spoiler = Spoiler(seed)
    for _ in range(700):
        path, body = spoiler.request()
        answer = client.post(path, data=body, headers=HEADERS)
        assert "internal error" not in answer.text, body
        assert answer.status_code in (200, 400, 413, 422, 429), (answer.status_code, path, body)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_what_callers_invent_is_no_series_of_its_own(client: FlaskClient) -> None:
    """Otherwise any caller could make the webhook keep a metric series for each invented word for ever."""

    def series() -> int:
        return len(metrics(client).splitlines())

    def ask(word: str) -> None:
        resource = {"group": word, "version": word, "resource": f"{word}-things"}
        body = review({"apiVersion": word, "kind": word}, operation=word.upper(), resource=resource, uid=word)
        for path in ("/mutate", "/validate"):
            client.post(path, data=body)

    ask("first")
    before = series()
    for number in range(300):
        ask(f"w{number}-{'x' * 1_000}")
    assert series() == before
    assert "xxx" not in metrics(client)


def metrics(client: FlaskClient) -> str:
    """Return the text that Prometheus scrapes."""
    return client.get("/metrics", headers=HEADERS).text
