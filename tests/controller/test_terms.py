"""Until when a leader may write, on a clock of the test's own.

renewed      0        6              a renewal counts from when its request was begun
may write    ├── 10 ──┴───── 10 ──┤  16: over for good
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import DEFAULT_TIMEOUT, UNREACHABLE, Transport
from controller.leadership.election import LeadershipLostError, Term
from controller.release.patches import release_patch
from controller.writes.writer import Result, Writer, Written
from kube.objects import ObjectMeta, Pod

PATIENCE = 60.0


class Clock:
    """A clock that the test sets (seconds)."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the current time (seconds)."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The term's clock."""
    return Clock()


@pytest.fixture
def term(clock: Clock) -> Term:
    """A term of ten seconds that begins at 0."""
    return Term(10, 0.0, clock)


@pytest.mark.parametrize(("now", "left"), [(0, 10), (9.5, 0.5), (10, 0), (3600, 0)])
def test_what_is_left(term: Term, clock: Clock, now: float, left: float) -> None:
    clock.now = now
    assert term.left() == left
    assert term.lost.is_set() == (left == 0)


def test_a_renewal_counts_from_when_it_was_asked_for(term: Term, clock: Clock) -> None:
    clock.now = 8
    term.renewed(6)
    assert term.left() == 8
    clock.now = 16
    with pytest.raises(LeadershipLostError, match="the lease is lost: nothing is written any more"):
        term.allowance()


def test_a_renewal_that_arrives_after_the_deadline_gives_nothing_back(term: Term, clock: Clock) -> None:
    """The process was stopped, or the machine slept, while the answer was on its way."""
    clock.now = 30
    term.renewed(9)
    term.renewed(30)
    assert term.left() == 0
    assert term.lost.is_set()


def test_one_that_is_only_to_stop_may_finish_what_it_has_begun(term: Term) -> None:
    term.lost.set()
    assert term.allowance() == 10
    term.end()
    assert term.left() == 0


@contextmanager
def serving(status: int = 200) -> Iterator[tuple[Transport, list[tuple[str, str]]]]:
    """Run a server that answers every request with this status; yield its client, and verb and path of the requests."""
    came: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            came.append((self.command, self.path))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the base class
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield transport_to(server.server_address[1]), came
        server.shutdown()


def transport_to(port: int) -> Transport:
    """A transport to a server on this machine."""
    settings = Configuration(host=f"http://127.0.0.1:{port}")
    settings.retries = False
    return Transport(ApiClient(settings))


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_a_write_is_told_what_is_left(term: Term, clock: Clock, method: str) -> None:
    clock.now = 7.5
    with serving() as (transport, came):
        transport.within(term.allowance).request(method, "/api/v1/pods", query={"dryRun": "All"})
    assert came == [(method, "/api/v1/pods?dryRun=All&timeout=2.500s")]


def test_a_write_of_a_long_term_has_its_usual_limit(clock: Clock) -> None:
    with serving() as (transport, came):
        transport.within(Term(3600, 0.0, clock).allowance).request("POST", "/api/v1/pods")
    assert came == [("POST", "/api/v1/pods?timeout=30.000s")]


def test_nothing_is_sent_once_the_term_is_over_but_reading_goes_on(term: Term, clock: Clock) -> None:
    clock.now = 10
    with serving() as (transport, came):
        fenced = transport.within(term.allowance)
        for method in ("POST", "PATCH", "PUT", "DELETE"):
            with pytest.raises(LeadershipLostError):
                fenced.request(method, "/api/v1/pods")
        fenced.request("GET", "/api/v1/pods")
    assert came == [("GET", "/api/v1/pods")]


def test_a_write_without_an_answer_is_given_up_when_the_term_ends(term: Term, clock: Clock) -> None:
    clock.now = 9.7
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = transport_to(silent.getsockname()[1]).within(term.allowance)
        begun = time.monotonic()
        with pytest.raises(UNREACHABLE):
            transport.request("PATCH", "/api/v1/pods")
    assert 0.2 < time.monotonic() - begun < DEFAULT_TIMEOUT[1]


def test_a_term_that_ends_while_a_request_connects_keeps_it_from_being_sent(term: Term, clock: Clock) -> None:
    """The process was stopped between its question and the first byte."""
    with serving() as (transport, came):

        def allowance() -> float:
            """The first answer is good; then the time is over."""
            left = term.allowance()
            clock.now = 60
            return left

        with pytest.raises(LeadershipLostError):
            transport.within(allowance).request("PATCH", "/api/v1/pods")
    assert came == []


def test_of_writes_that_go_together_those_under_way_are_awaited_and_no_other_begins(term: Term, clock: Clock) -> None:
    with serving() as (transport, came):
        writer, first = Writer(transport.within(term.allowance)), threading.Event()
        seen = {"metadata": {"resourceVersion": "7"}}

        def merging(number: int) -> Written:
            if number:
                assert first.wait(PATIENCE)
                clock.now = 10
            written = writer.merge(f"/apis/phalanx.dev/v1alpha1/gangs/{number}", {"status": {}}, seen)
            first.set()
            return written

        with pytest.raises(LeadershipLostError):
            writer.all(partial(merging, number) for number in range(40))
        assert [path.split("?")[0] for _, path in came] == ["/apis/phalanx.dev/v1alpha1/gangs/0"]
        writer.close()


def test_what_has_changed_since_it_was_seen_is_a_conflict_and_no_error() -> None:
    seen = {"metadata": {"resourceVersion": "7"}}
    pod = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u", resource_version="7"))
    with serving(status=409) as (transport, came):
        writer = Writer(transport)
        written = [
            writer.merge("/apis/phalanx.dev/v1alpha1/namespaces/default/gangs/g/status", {"status": {}}, seen),
            writer.nominate(pod, "n1", "plan"),
            writer.clear(pod),
            writer.release(pod, release_patch(pod, None, domain=None, now="")),
            writer.spare(pod, "plan"),
            writer.evict("default", "p", "u", version="7"),
            writer.delete("/api/v1/namespaces/default/pods/p", "u", version="7"),
        ]
        writer.close()
    assert {each.result for each in written} == {Result.CONFLICT}
    assert len(came) == len(written)
