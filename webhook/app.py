"""The Flask application: admission, the dry run, the live picture as JSON and as a page, metrics."""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import msgspec
from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException

from cluster.api.token_reviews import AccessCheck, refusal
from gangs.manifests import MalformedError
from gangs.model import Gang, Manifest
from serving.application import WAITED
from serving.limits import LARGEST_BODY
from webhook.admission import dispatch
from webhook.admission.reviews import AdmissionRequest, Admitted, Decision, Refused, decode, encode
from webhook.client_certificates import Caller, anybody
from webhook.dry_run import InputError, TooLongError, solve_stream
from webhook.errors import BadReview, Unavailable
from webhook.forecasts.forecasting import forecast, waits
from webhook.forecasts.quick import QuickForecasts
from webhook.forecasts.readings import RecentGangs
from webhook.forecasts.slots import BusyError, SolveSlot
from webhook.live_view import data
from webhook.live_view.page import HEADERS, SCRIPT, page
from webhook.metrics import CONTENT_TYPE, Metrics
from webhook.picture import Picture

DEFAULT_TIMEOUT = 5.0
MARGIN = 0.3
"""Seconds of the caller's timeout that are left for the way back."""
LONGEST_FORECAST = 2.0
"""An admission waits this long for a plan, never longer."""
LONGEST_DRY_RUN = 30.0
MOST_MISTAKES = 1000
MOST_WARNINGS = 30
LONGEST_WARNING = 500
"""Clients read no more than so many headers, and so much of them."""
ABSENT_SCHEDULERS = "/mutate/absent-schedulers"
"""Where the API server sends pods of no gang that name a scheduler which may not run here, by choice."""
AUTOMATIC = "/mutate/automatic"
"""Where the API server sends the Jobs of namespaces whose label it has matched itself."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Everything that the views need."""

    picture: Picture
    access: AccessCheck
    metrics: Metrics
    slot: SolveSlot
    quick: QuickForecasts
    others: RecentGangs

    def mutate(self, review: AdmissionRequest, *, automatic: bool = False) -> Decision:
        """The answer of `/mutate`, and of `/mutate/automatic`."""

        def foretold(gang: Gang, whole: Callable[[], Gang]) -> tuple[str, ...]:
            return self.quick.told(gang, self.picture, whole)

        return dispatch.mutate(review, self.picture, foretold, automatic=automatic)

    def hand_over(self, review: AdmissionRequest) -> Decision:
        """The answer of `/mutate/absent-schedulers`."""
        return dispatch.hand_over(review, self.picture)

    def validate(self, review: AdmissionRequest) -> Decision:
        """The answer of `/validate`; the plan is made within the caller's timeout."""
        deadline = time.monotonic() + min(_timeout() - MARGIN, LONGEST_FORECAST)

        def planned(manifest: Manifest) -> tuple[str, ...]:
            return self.forecast(manifest, deadline - time.monotonic())

        return dispatch.validate(review, self.picture, planned)

    def forecast(self, manifest: Manifest, seconds: float) -> tuple[str, ...]:
        """The plan as sentences, none where there is no time for it. Never the reason why an object is not admitted."""
        if seconds <= 0:
            self.metrics.forecasts.labels("late").inc()
            return ()
        try:
            if (awaited := waits(manifest, self.picture)) is not None:
                self.metrics.forecasts.labels("waiting").inc()
                return awaited
            with self.slot.taken(seconds) as left:
                messages = forecast(manifest, self.picture, self.others, left)
        except BusyError:
            self.metrics.forecasts.labels("busy").inc()
            return ()
        except Exception:
            log.exception("no forecast for %s", manifest.get("kind"))
            self.metrics.forecasts.labels("failed").inc()
            return ()
        self.metrics.forecasts.labels("told").inc()
        return messages


def create_app(picture: Picture, access: AccessCheck, metrics: Metrics, caller: Caller = anybody) -> Flask:
    """The application over one picture. `caller` guards the admission paths, `access` every other one."""
    slot, others = SolveSlot(), RecentGangs()
    webhook = Webhook(picture, access, metrics, slot, QuickForecasts(slot, metrics, others), others)
    app = Flask("phalanx")
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY
    routes: tuple[tuple[str, str, Callable[[], Response]], ...] = (
        ("POST", "/mutate", _admission("/mutate", webhook.mutate, metrics, caller)),
        ("POST", AUTOMATIC, _admission(AUTOMATIC, partial(webhook.mutate, automatic=True), metrics, caller)),
        ("POST", ABSENT_SCHEDULERS, _admission(ABSENT_SCHEDULERS, webhook.hand_over, metrics, caller)),
        ("POST", "/validate", _admission("/validate", webhook.validate, metrics, caller)),
        ("POST", "/v1/solve", _guarded(access, lambda: _solve(webhook))),
        ("GET", "/v1/gangs", _guarded(access, lambda: _json(data.gangs(picture)))),
        ("GET", "/v1/topology", _guarded(access, lambda: _json(data.topology(picture)))),
        ("GET", "/", _guarded(access, lambda: _page(picture))),
        ("GET", "/page.js", _guarded(access, lambda: Response(SCRIPT, mimetype="text/javascript", headers=HEADERS))),
        ("GET", "/metrics", _guarded(access, lambda: Response(metrics.text(), content_type=CONTENT_TYPE))),
    )
    for method, path, view in routes:
        app.add_url_rule(path, endpoint=path, view_func=view, methods=[method])
    app.register_error_handler(HTTPException, _plain_error)
    return app


def _admission(
    path: str, decide: Callable[[AdmissionRequest], Decision], metrics: Metrics, caller: Caller
) -> Callable[[], Response]:
    """A view that answers AdmissionReviews of whom `caller` lets ask by `decide`."""

    def view() -> Response:
        started = time.perf_counter()
        body = request.get_data()
        resource, operation, outcome = "", "", "failed"
        try:
            if stranger := caller(request.environ):
                outcome = "forbidden"
                return _error(403, stranger)
            review = decode(body)
            resource, operation = review.resource.resource, review.operation
            decision = _judged(review, decide)
            outcome = _outcome(decision)
            return Response(encode(review.uid, decision), mimetype="application/json")
        except (BadReview, RecursionError) as error:
            outcome = "bad-review"
            problem = "the object nests too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())
            return Response(f"{problem}\n", status=400, mimetype="text/plain")
        except Unavailable as error:
            outcome = "unavailable"
            return Response(f"{error}\n", status=500, mimetype="text/plain")
        except Exception:
            log.exception("%s of %s", operation, resource)
            return Response("internal error; the webhook's log has it\n", status=500, mimetype="text/plain")
        finally:
            metrics.answered(path, resource, operation, outcome, time.perf_counter() - started)

    return view


def _judged(review: AdmissionRequest, decide: Callable[[AdmissionRequest], Decision]) -> Decision:
    """The decision. A part of a shape that its kind does not have is a fault of the object, whoever meets it."""
    try:
        return decide(review)
    except MalformedError as error:
        return Refused(str(error.fault))


def _outcome(decision: Decision) -> str:
    if isinstance(decision, Admitted):
        return "patched" if decision.patch else "admitted"
    return "refused"


def _guarded(access: AccessCheck, view: Callable[[], Response]) -> Callable[[], Response]:
    """A view for bearers who may use its path: TokenReview, then SubjectAccessReview."""

    @wraps(view)
    def guarded() -> Response:
        refused = refusal(access, request.headers.get("Authorization", ""), request.method.lower(), request.path)
        if refused is None:
            return view()
        answer = _error(refused.status, refused.text)
        answer.headers.extend(refused.headers)
        return answer

    return guarded


def _page(picture: Picture) -> Response:
    return Response(page(data.gangs(picture), data.topology(picture)), mimetype="text/html", headers=HEADERS)


def _solve(webhook: Webhook) -> Response:
    body = request.get_data()
    cluster = request.args.get("cluster")
    if cluster not in (None, "live"):
        abort(400, "cluster must be live, or absent")
    if cluster == "live" and not webhook.picture.synced():
        abort(503, "still reading the cluster; try again in a few seconds")
    answer = _solved(webhook, body, webhook.picture if cluster == "live" else None)
    webhook.metrics.dry_runs.labels(str(answer.status_code)).inc()
    return answer


def _solved(webhook: Webhook, body: bytes, picture: Picture | None) -> Response:
    try:
        with webhook.slot.taken(min(_timeout(LONGEST_DRY_RUN), LONGEST_DRY_RUN)) as seconds:
            solved = solve_stream(body, picture, seconds)
    except BusyError as error:
        answer = _error(429, str(error))
        answer.headers["Retry-After"] = "1"
        return answer
    except InputError as error:
        mistakes = [str(each) for each in error.mistakes[:MOST_MISTAKES]]
        if more := len(error.mistakes) - len(mistakes):
            mistakes.append(f"and {more} more")
        return _json({"error": "bad input", "mistakes": mistakes}, status=400)
    except TooLongError as error:
        return _error(413, f"{error}; send fewer objects, or give more time: ?timeout=30s is the most")
    except RecursionError:
        return _error(400, "bad input: an object nests too deep")
    response = _json(solved.report)
    response.headers.extend([("Warning", _warning(text)) for text in solved.warnings[:MOST_WARNINGS]])
    return response


def _warning(text: str) -> str:
    """A header as the API server writes its warnings (RFC 7234, section 5.5); a header holds one line of ASCII."""
    line = " ".join(text.split()).encode("ascii", "backslashreplace").decode()
    quoted = line[:LONGEST_WARNING].replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


def _timeout(default: float = DEFAULT_TIMEOUT) -> float:
    """What is left of the caller's own limit, in seconds: the API server sends it as `?timeout=5s`.

    The time that the request has waited for a thread here (`serving.application`) is gone already.
    """
    found = re.fullmatch(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", request.args.get("timeout", ""))
    limit = int(found[1] or 0) * 60 + float(found[2] or 0) if found and any(found.groups()) else default
    return limit - float(request.environ.get(WAITED, 0.0))


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status=status, mimetype="application/json")


def _error(status: int, message: str) -> Response:
    return _json({"error": message}, status)


def _plain_error(error: HTTPException) -> Response:
    return _error(error.code or 500, error.description or error.name)
