"""Answers AdmissionReviews over HTTP, as a WSGI application in front of the Flask application.

Admission does without Flask: Flask's context, routing and response of one request take about as long as the review of a
pod of no gang.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from gangs.manifests import MalformedError
from serving.application import WAITED, WSGI
from serving.limits import LARGEST_BODY
from timing.clock import SYSTEM_CLOCK
from webhook.admission.reviews import AdmissionRequest, Admitted, Decision, Refused, decode, encode
from webhook.client_certificates import Caller
from webhook.errors import BadReview, Unavailable
from webhook.metrics import Metrics
from webhook.reviews_in_flight import ReviewsInFlight

DEFAULT_TIMEOUT = 5.0
"""The time limit of a request in seconds, if the caller sends no `timeout`."""

Environ = dict[str, Any]
"""The WSGI environment of a request (PEP 3333)."""
Decide = Callable[[AdmissionRequest, Environ], Decision]
"""Returns the decision on an object, for a request with this WSGI environment."""

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"

log = logging.getLogger(__name__)


class _Answer(NamedTuple):
    """The answer to a request: its HTTP status with the phrase, its content type and its body."""

    status: str
    content_type: str
    body: bytes


class AdmissionPaths:
    """A WSGI application that answers AdmissionReviews at some paths, and passes all other requests on.

    :param decisions: by path: returns the decision on an object.
    :param others: the application that answers all other paths.
    :param caller: decides which clients may call the paths.
    :param in_flight: counts each review while it is answered.
    """

    def __init__(
        self,
        decisions: Mapping[str, Decide],
        others: WSGI,
        *,
        metrics: Metrics,
        caller: Caller,
        in_flight: ReviewsInFlight,
    ) -> None:
        self._decisions = decisions
        self._others = others
        self._metrics = metrics
        self._caller = caller
        self._in_flight = in_flight

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer an HTTP request to one of the admission paths (WSGI)."""
        path = environ["PATH_INFO"]
        decide = self._decisions.get(path)
        if decide is None:
            return self._others(environ, start_response)
        status, content_type, body = _refusal(environ) or self._answer(path, decide, environ)
        start_response(status, [("Content-Type", content_type), ("Content-Length", str(len(body)))])
        return [body]

    def _answer(self, path: str, decide: Decide, environ: Environ) -> _Answer:
        started = SYSTEM_CLOCK.monotonic()
        resource, operation, outcome = "", "", "failed"
        try:
            if stranger := self._caller(environ):
                outcome = "forbidden"
                return _error("403 Forbidden", stranger)
            review = decode(environ["wsgi.input"].read(_length(environ)))
            resource, operation = review.resource.resource, review.operation
            with self._in_flight.one_more():
                decision = _judged(review, decide, environ)
            outcome = _outcome(decision)
            return _Answer("200 OK", _JSON, encode(review.uid, decision))
        except (BadReview, RecursionError) as error:
            outcome = "bad-review"
            problem = "the object nests too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())
            return _text("400 Bad Request", problem)
        except Unavailable as error:
            outcome = "unavailable"
            return _text("500 Internal Server Error", str(error))
        except Exception:
            log.exception("%s of %s", operation, resource)
            return _text("500 Internal Server Error", "internal error; the webhook's log has it")
        finally:
            self._metrics.answered(path, resource, operation, outcome, SYSTEM_CLOCK.monotonic() - started)


def seconds_left(environ: Environ, default: float = DEFAULT_TIMEOUT) -> float:
    """Return how many seconds of the caller's time limit are left. The API server sends the limit as `?timeout=5s`.

    The time that the request has waited for a thread (`serving.application`) is subtracted.

    :param default: the limit of a caller that sends none.
    """
    (text, *_) = parse_qs(environ.get("QUERY_STRING", "")).get("timeout", [""])
    found = re.fullmatch(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", text)
    limit = int(found[1] or 0) * 60 + float(found[2] or 0) if found and any(found.groups()) else default
    return limit - waited(environ)


def waited(environ: Environ) -> float:
    """Return the seconds since a request was received, until it got a thread."""
    return float(environ.get(WAITED, 0.0))


def _refusal(environ: Environ) -> _Answer | None:
    """Return the refusal of a request with another method than POST or too large a body; None for other requests."""
    if environ["REQUEST_METHOD"] != "POST":
        return _error("405 Method Not Allowed", "send an AdmissionReview by POST")
    if _length(environ) > LARGEST_BODY:
        return _error(
            "413 Content Too Large", f"the body is of {_length(environ)} bytes; at most {LARGEST_BODY} are read"
        )
    return None


def _length(environ: Environ) -> int:
    return int(environ.get("CONTENT_LENGTH") or 0)


def _judged(review: AdmissionRequest, decide: Decide, environ: Environ) -> Decision:
    """Return the decision of `decide`. If `decide` finds a malformed part of the object, refuse the object."""
    try:
        return decide(review, environ)
    except MalformedError as error:
        return Refused(str(error.fault))


def _outcome(decision: Decision) -> str:
    if isinstance(decision, Admitted):
        return "patched" if decision.patch else "admitted"
    return "refused"


def _error(status: str, message: str) -> _Answer:
    return _Answer(status, _JSON, msgspec.json.encode({"error": message}))


def _text(status: str, message: str) -> _Answer:
    return _Answer(status, _TEXT, f"{message}\n".encode())
