"""The webhook's application: admission, and by Flask dry runs, the live page with its data, and metrics."""

import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import msgspec
from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException

from cluster.api.callers import AsBearer, token_in
from cluster.api.token_reviews import AccessCheck, refusal
from gangs.model import Gang, Manifest
from planning.what_if import UnknownNodeError, WhatIf, added_nodes, names
from serving.application import CALLER, JUDGE
from serving.limits import LARGEST_BODY
from timing.limit import TimeLimit
from webhook.admission import dispatch
from webhook.admission.reviews import AdmissionRequest, Decision
from webhook.admission_paths import AdmissionPaths, Decide, Environ, seconds_left, waited
from webhook.client_certificates import Caller, anybody
from webhook.dry_run import DryRunOptions, InputError, TooLongError, solve_stream
from webhook.forecasts.forecasting import forecast, waits
from webhook.forecasts.quick import QuickForecasts
from webhook.forecasts.recent_gangs import RecentGangs
from webhook.forecasts.slots import BusyError, SolveSlot
from webhook.live_view import data
from webhook.live_view.changes import CHANGES, WAIT_SECONDS, LiveFeed
from webhook.live_view.gang_stories import EventReader, story_of
from webhook.live_view.history import HISTORY, History, csv_of
from webhook.live_view.page import DRAWN, HEADERS, SCRIPT, TABLES, page
from webhook.live_view.queues import QueueAnswers
from webhook.metrics import CONTENT_TYPE, Metrics
from webhook.picture import Picture
from webhook.reviews_in_flight import ReviewsInFlight

MARGIN = 0.3
"""Seconds of the caller's timeout that are reserved to send the answer."""
LONGEST_FORECAST = 2.0
"""The time within which a forecast must end, in seconds since the request was received, by default."""
LONGEST_TURN = 0.1
"""The most seconds that an admission waits until the solver is free for its forecast.

A dry run may occupy the solver for longer.
"""
LONGEST_DRY_RUN = 30.0
"""The most seconds for one dry run, whatever the caller's timeout."""
MOST_ADDED_HERE = 2_000
"""The most nodes that one dry run may add. Each node takes the server about 8 KiB and a tenth of a millisecond."""
MOST_MISTAKES = 1000
"""The most mistakes that the answer to a dry run lists."""
MOST_WARNINGS = 30
LONGEST_WARNING = 500
"""The most warnings of one answer, and characters of each. Clients do not read more headers, or longer ones."""
LONGEST_WORD = 60
"""The most characters of an unknown parameter that an error message quotes."""
SOLVE_PARAMETERS = frozenset(
    {"cluster", "timeout", "preemption", "why", "add-nodes", "cordon", "drain", "relax", "gang"}
)
ABSENT_SCHEDULERS = "/mutate/absent-schedulers"
"""The path for pods of no gang that name another scheduler than the stock one. Registering the webhook for these pods
is optional (`webhook.admission.absent_schedulers`).
"""
DESCRIBED = "/mutate/described"
"""The path for objects of user-defined kinds: any kind without a path of its own, if it has annotations of Phalanx."""
FEED = "live-feed"
"""The key of the `LiveFeed` in the application's extensions."""
AUTOMATIC = "/mutate/automatic"
"""The path for Jobs in automatic namespaces, where every workload of more than one pod is a gang. The API server itself
matches the label of the namespace (`kube.keys.AUTOMATIC`).
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Webhook:
    """The state that the views share, and the decisions on AdmissionReviews by path.

    `access`: decides whether a token may use a path. `slot`: lets one solve run at a time. `quick`: makes forecasts for
    arriving pods. `others`: all gangs of the cluster, for forecasts. `in_flight`: counts the reviews being answered.
    """

    picture: Picture
    access: AccessCheck
    metrics: Metrics
    slot: SolveSlot
    quick: QuickForecasts
    others: RecentGangs
    longest_forecast: float = LONGEST_FORECAST
    """The time within which a forecast must end, in seconds since the request was received."""
    in_flight: ReviewsInFlight = field(default_factory=ReviewsInFlight)

    def mutate(self, review: AdmissionRequest, _environ: Environ, *, automatic: bool = False) -> Decision:
        """Return the decision of `/mutate`, or of `/mutate/automatic` if `automatic`."""

        def forecast_arrival(gang: Gang, all_members: Callable[[], Gang]) -> tuple[str, ...]:
            return self.quick.messages(gang, self.picture, all_members)

        return dispatch.mutate(review, self.picture, forecast_arrival, automatic=automatic)

    def hand_over(self, review: AdmissionRequest, _environ: Environ) -> Decision:
        """Return the decision of `/mutate/absent-schedulers` on a pod of no gang. If the pod names a scheduler that
        does not run in the cluster, it gets the stock scheduler.
        """
        return dispatch.hand_over(review, self.picture)

    def validate(self, review: AdmissionRequest, environ: Environ) -> Decision:
        """Return the decision of `/validate`. A forecast in it takes at most the time that the caller's timeout
        leaves.
        """
        return dispatch.validate(review, self.picture, self._in_time(environ))

    def described(self, review: AdmissionRequest, environ: Environ) -> Decision:
        """Return the decision of `/mutate/described`, for workloads whose kind a WorkloadKind describes. It has a
        forecast if the caller's timeout leaves time for one.
        """
        return dispatch.described(review, self.picture, self._in_time(environ))

    def _in_time(self, environ: Environ) -> Callable[[Manifest], tuple[str, ...]]:
        """Return a function that makes forecasts until the caller's timeout or `longest_forecast` ends.

        Both times start when the request was received. So a request that has waited long for a thread gets no forecast.
        """
        limit = TimeLimit(min(seconds_left(environ) - MARGIN, self.longest_forecast - waited(environ)))
        return lambda manifest: self.forecast(manifest, limit.seconds)

    def forecast(self, manifest: Manifest, seconds: float) -> tuple[str, ...]:
        """Return the forecast of the gang that the manifest describes, as sentences.

        Empty if there is no time, if another review is in flight, or if the forecast fails. So a forecast never
        prevents an admission. All reviews share the processor time of one Python process, and a forecast takes as long
        as ten reviews. If 60 Jobs are created at once, forecasts would delay the reviews of the other Jobs and of their
        pods.

        :param seconds: how long the forecast may take.
        """
        limit = TimeLimit(seconds)
        if seconds <= 0:
            self.metrics.forecasts.labels("late").inc()
            return ()
        try:
            if (awaited := waits(manifest, self.picture)) is not None:
                self.metrics.forecasts.labels("waiting").inc()
                return awaited
            if self.in_flight.count > 1:
                self.metrics.forecasts.labels("busy").inc()
                return ()
            with self.slot.taken(min(seconds, LONGEST_TURN)):
                messages = forecast(manifest, self.picture, self.others, limit.seconds)
        except BusyError:
            self.metrics.forecasts.labels("busy").inc()
            return ()
        except Exception:
            log.exception("no forecast for %s", manifest.get("kind"))
            self.metrics.forecasts.labels("failed").inc()
            return ()
        self.metrics.forecasts.labels("told").inc()
        return messages


def create_app(
    picture: Picture,
    access: AccessCheck,
    metrics: Metrics,
    caller: Caller = anybody,
    as_bearer: AsBearer | None = None,
    *,
    history: History | None = None,
    longest_forecast: float = LONGEST_FORECAST,
) -> Flask:
    """Return the Flask application that answers from this view of the cluster.

    :param access: decides which tokens may use the paths other than the admission paths.
    :param caller: decides which clients may call the admission paths.
    :param as_bearer: makes an API client with the token of the caller, to read events with the caller's permissions.
        None: the story of a gang (`/v1/story`) comes without events.
    :param history: the record of ended gangs. None: an empty one.
    :param longest_forecast: the time within which a forecast must end, in seconds since its request was received.
    """
    slot, others, feed = SolveSlot(), RecentGangs(), LiveFeed(picture.following)
    reader, queues = EventReader(), QueueAnswers(feed.latest)
    past = history or History(picture)
    quick = QuickForecasts(slot, metrics, others)
    webhook = Webhook(picture, access, metrics, slot, quick, others, longest_forecast)
    app = Flask("phalanx")
    app.extensions[FEED] = feed
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY
    decisions: dict[str, Decide] = {
        "/mutate": webhook.mutate,
        AUTOMATIC: partial(webhook.mutate, automatic=True),
        ABSENT_SCHEDULERS: webhook.hand_over,
        DESCRIBED: webhook.described,
        "/validate": webhook.validate,
    }
    app.wsgi_app = AdmissionPaths(  # type: ignore[method-assign]  # Flask's documented place of WSGI middleware
        decisions, app.wsgi_app, metrics=metrics, caller=caller, in_flight=webhook.in_flight
    )
    routes: tuple[tuple[str, str, Callable[[], Response]], ...] = (
        ("POST", "/v1/solve", _guarded(access, lambda: _solve(webhook))),
        ("GET", "/v1/gangs", _guarded(access, lambda: _json(data.gangs(picture)))),
        ("GET", "/v1/topology", _guarded(access, lambda: _json(data.topology(picture)))),
        ("GET", CHANGES, _guarded(access, lambda: _changes(picture, feed))),
        ("GET", "/v1/queues", _guarded(access, lambda: _queues(picture, queues))),
        ("GET", HISTORY, _guarded(access, lambda: _history(past))),
        ("GET", "/v1/story", _guarded(access, lambda: _story(picture, reader, as_bearer, past))),
        ("GET", "/", _guarded(access, lambda: _page(picture))),
        ("GET", "/page.js", _guarded(access, lambda: Response(SCRIPT, mimetype="text/javascript", headers=HEADERS))),
        ("GET", "/metrics", _guarded(access, lambda: Response(metrics.text(), content_type=CONTENT_TYPE))),
    )
    for method, path, view in routes:
        app.add_url_rule(path, endpoint=path, view_func=view, methods=[method])
    app.register_error_handler(HTTPException, _plain_error)
    return app


def _guarded(access: AccessCheck, view: Callable[[], Response]) -> Callable[[], Response]:
    """Return a function that answers a request by `view` if the caller's token may use the path of the request, and
    otherwise refuses the request.

    The API server reviews the token. If the WSGI environment of the request has the key `JUDGE`, the function only
    checks the access. It then answers 204 without calling `view`, and the header `CALLER` identifies the caller.
    """

    @wraps(view)
    def guarded() -> Response:
        refused = refusal(access, request.headers.get("Authorization", ""), request.method.lower(), request.path)
        if refused is None:
            return Response(status=204, headers={CALLER: _caller()}) if JUDGE in request.environ else view()
        answer = _error(refused.status, refused.text)
        answer.headers.extend(refused.headers)
        return answer

    return guarded


def _caller() -> str:
    """Return a hash of the caller's token, which identifies the caller for limits without revealing the token."""
    return hashlib.sha256(token_in(request.headers.get("Authorization", "")).encode()).hexdigest()


def _page(picture: Picture) -> Response:
    written = TABLES in request.args or not DRAWN
    text = page(data.gangs(picture), data.domains(picture)) if written else DRAWN
    return Response(text, mimetype="text/html", headers=HEADERS)


def _changes(picture: Picture, feed: LiveFeed) -> Response:
    if not picture.synced():
        abort(503, "still reading the cluster; try again in a few seconds")
    wait = request.args.get("wait", str(WAIT_SECONDS))
    if not re.fullmatch(r"\d{1,4}(\.\d{1,3})?", wait):
        abort(400, "wait is a number of seconds")
    found = feed.changes(request.args.get("since", ""), float(wait), _caller())
    if found is None:
        abort(503, "nobody could look at the cluster in time; ask again")
    if request.accept_encodings["gzip"] and (compressed := found.compressed):
        return Response(compressed, mimetype="application/json", headers={"Content-Encoding": "gzip"})
    return Response(found.plain, mimetype="application/json")


def _queues(picture: Picture, queues: QueueAnswers) -> Response:
    if not picture.synced():
        abort(503, "still reading the cluster; try again in a few seconds")
    found = queues.answer()
    if found is None:
        abort(503, "the webhook did not read the cluster in time; try again in a few seconds")
    return Response(found, mimetype="application/json")


def _history(history: History) -> Response:
    """Answer `/v1/history`: the ended gangs as JSON or CSV. The parameter `namespace` selects one namespace."""
    found = history.gangs(request.args.get("namespace", ""))
    wanted = request.args.get("format", "json")
    if wanted == "csv":
        return Response(csv_of(found), mimetype="text/csv")
    if wanted != "json":
        abort(400, "format is json or csv")
    return _json({"gangs": [each.as_data() for each in found]})


def _story(picture: Picture, reader: EventReader, as_bearer: AsBearer | None, past: History) -> Response:
    namespace, name, dialect = (request.args.get(each, "") for each in ("namespace", "name", "dialect"))
    if not (namespace and name):
        abort(400, "say which gang: ?namespace=NAMESPACE&name=GANG")
    api = as_bearer(token_in(request.headers.get("Authorization", ""))) if as_bearer else None
    found = story_of(picture, namespace, name, dialect, lambda facts: reader.read(facts, api), displaced=past.displaced)
    if found is None:
        abort(404, "no Gang object shows this gang yet")
    return _json(found)


def _solve(webhook: Webhook) -> Response:
    body = request.get_data()
    cluster = request.args.get("cluster")
    if cluster not in (None, "live"):
        abort(400, "cluster must be live, or absent")
    if cluster == "live" and not webhook.picture.synced():
        abort(503, "still reading the cluster; try again in a few seconds")
    if cluster != "live" and request.args.getlist("gang"):
        abort(400, "gang names a gang of the live cluster: add cluster=live")
    answer = _solved(webhook, body, webhook.picture if cluster == "live" else None, _asked())
    webhook.metrics.dry_runs.labels(str(answer.status_code)).inc()
    return answer


def _asked() -> DryRunOptions:
    """Return the options of the dry run from the query parameters.

    An unknown parameter is answered with 400, because the caller expects it to have an effect.
    """
    unknown = sorted(set(request.args) - SOLVE_PARAMETERS)
    if unknown:
        abort(400, f"{unknown[0][:LONGEST_WORD]} is no parameter; there are {', '.join(sorted(SOLVE_PARAMETERS))}")
    switches = {"preemption": "true", "why": "false"}
    chosen = {name: request.args.get(name, usual) for name, usual in switches.items()}
    if wrong := next((name for name, value in chosen.items() if value not in ("true", "false")), None):
        abort(400, f"{wrong} is true or false")
    lists = request.args.getlist
    try:
        added = added_nodes(lists("add-nodes"), MOST_ADDED_HERE, "; `phalanx solve --add-nodes` adds more")
    except ValueError as error:
        abort(400, f"add-nodes: {str(error)[:LONGEST_WARNING]}")
    gangs = names(lists("gang"))
    if any(each.count("/") != 1 or each.startswith("/") or each.endswith("/") for each in gangs):
        abort(400, "gang is written as NAMESPACE/GANG")
    what_if = WhatIf(added, names(lists("cordon")), names(lists("drain")), tuple(sorted(names(lists("relax")))), gangs)
    return DryRunOptions(chosen["preemption"] == "true", chosen["why"] == "true", what_if)


def _solved(webhook: Webhook, body: bytes, picture: Picture | None, asked: DryRunOptions) -> Response:
    try:
        with webhook.slot.taken(
            min(seconds_left(request.environ, LONGEST_DRY_RUN), LONGEST_DRY_RUN), _caller()
        ) as seconds:
            solved = solve_stream(body, picture, seconds, asked)
    except BusyError as error:
        answer = _error(429, str(error))
        answer.headers["Retry-After"] = "1"
        return answer
    except InputError as error:
        mistakes = [str(each) for each in error.mistakes[:MOST_MISTAKES]]
        if more := len(error.mistakes) - len(mistakes):
            mistakes.append(f"and {more} more")
        return _json({"error": "bad input", "mistakes": mistakes}, status=400)
    except UnknownNodeError as error:
        return _error(400, str(error)[:LONGEST_WARNING])
    except TooLongError as error:
        return _error(413, f"{error}; send fewer objects, or give more time: ?timeout=30s is the most")
    except RecursionError:
        return _error(400, "bad input: an object nests too deep")
    response = _json(solved.report)
    response.headers.extend([("Warning", _warning(text)) for text in solved.warnings[:MOST_WARNINGS]])
    return response


def _warning(text: str) -> str:
    """Return the value of a `Warning` header, in the format of the API server (RFC 7234, section 5.5).

    A header holds one line of ASCII, so other characters are escaped, and the text is cut to `LONGEST_WARNING`.
    """
    line = " ".join(text.split()).encode("ascii", "backslashreplace").decode()
    quoted = line[:LONGEST_WARNING].replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status=status, mimetype="application/json")


def _error(status: int, message: str) -> Response:
    return _json({"error": message}, status)


def _plain_error(error: HTTPException) -> Response:
    return _error(error.code or 500, error.description or error.name)
