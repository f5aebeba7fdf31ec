"""Keeps a copy of one resource: lists it in pages, then watches it, and recovers from every failure of the API server.

The counterpart in client-go is the Reflector. The protocol is Kubernetes' own
(https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes).
"""

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import urllib3
from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, lines_of, message_of
from cluster.caches.bursts import Burst
from cluster.caches.reflector_timing import DEFAULT_TIMING, ReflectorTiming, Rest
from cluster.caches.trouble import Trouble, TroubleReason
from cluster.caches.wire_types import Page, ServedResources, Versioned, WatchEvent
from timing.backoff import Backoff
from timing.clock import SYSTEM_CLOCK, Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Stores the objects that a reflector receives. The reflector's thread makes one call at a time."""

    def replace(self, objects: Sequence[T_contra], api_version: str) -> None:
        """Replace all stored objects by these. `api_version`: `group/version` of the list they come from."""

    def put(self, item: T_contra) -> None:
        """Add or update an object."""

    def drop(self, item: T_contra) -> None:
        """Remove an object."""


_STORE_IS_MADE = "(re)initializing"
"""A part of the API server's error message (1.37, status 429) while it creates the store of a new CRD."""


class _UnfitError(Exception):
    """The path of a reflector is served, but with objects of another kind than expected, or with cluster-scoped
    objects.
    """

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.text)
        self.trouble = trouble


class _StoppedError(Exception):
    """The reflector was asked to stop."""


class _StaleError(Exception):
    """The watch cannot continue from its resource version, so the resource must be listed again."""


@lru_cache(maxsize=64)
def _decoders(kind: type[T]) -> tuple[Callable[[bytes], Page[T]], Callable[[bytes], WatchEvent[T]]]:
    """Return two JSON decoders for objects of a kind: for a page of a list, and for an event of a watch. They are
    cached, because most reflectors decode into plain dicts.
    """
    page = msgspec.json.Decoder(Page[kind], strict=False)  # type: ignore[valid-type]  # a type at run time
    event = msgspec.json.Decoder(WatchEvent[kind], strict=False)  # type: ignore[valid-type]  # a variable
    return page.decode, event.decode


class Reflector(Generic[T]):
    """Copies the objects of one resource into a sink, by list and watch.

    `start` runs it in a thread. A simulation calls `list_once` and `take` instead.

    :param paths: the API paths at which the resource may be served, best first. The first one that exists is used.
    :param kind: the type into which its objects are decoded (a Struct, or `dict[str, Any]`).
    :param trim: applied to each object on arrival, so that memory never holds a full list of untrimmed objects.
    :param on_change: called when `trouble` or `tried` has changed.
    :param optional: whether the resource may be missing. A missing resource counts as synced and empty.
    :param of_kind: the expected kind, if a user's object names the path; "": not checked. The kind is looked up before
        each list. A resource of another kind, or a cluster-scoped one, counts as not installed.
    :param wanted: the thread makes no request before this event is set (`want`); None: it begins at once.
    """

    def __init__(
        self,
        transport: Transport,
        paths: Sequence[str],
        kind: type[T],
        sink: Sink[T],
        *,
        trim: Callable[[T], T] | None = None,
        field_selector: str | None = None,
        optional: bool = False,
        timing: ReflectorTiming = DEFAULT_TIMING,
        on_change: Callable[[], None] | None = None,
        of_kind: str = "",
        clock: Clock = SYSTEM_CLOCK,
        wanted: threading.Event | None = None,
    ) -> None:
        self.name = paths[0]
        self._wanted = wanted
        self._clock = clock
        self._on_change = on_change
        self.relists = 0
        self._transport = transport
        self._paths = paths
        self._path = paths[0]
        self._decode_page, self._decode_event = _decoders(kind)  # type: ignore[arg-type]  # a type is hashable
        self._sink = sink
        self._trim: Callable[[T], T] = trim or (lambda item: item)
        self._field_selector = field_selector
        self._optional = optional
        self._of_kind = of_kind
        self._began = clock.monotonic()
        self.trouble: Trouble | None = None
        """Why the copy is not kept up to date at present; None if it is."""
        self.tried = threading.Event()
        """Set when the API server has answered a list, even with a denial, or has failed to answer for a long time."""
        self._timing = timing
        self._version: str | None = None
        self._retry = 0.0
        """The pause after the last of consecutive failures, in seconds; 0 if the last request succeeded."""
        self._missing = 0.0
        """The last pause before a missing resource was requested again, in seconds."""
        self._doubt = 0.0
        """The seconds after which a watch ends and everything is listed again; 0: only when the server demands it."""
        self._fault_retry = 0.0
        """The pause after the last of consecutive internal errors, in seconds."""
        self._faulty_until = 0.0
        """The monotonic time until which another internal error counts as consecutive, so that the pause grows."""
        self._heard = clock.monotonic()
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._response: urllib3.BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name=f"reflector {self.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._began = self._clock.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, and close its watch. Return at once; `join` waits for the end of the thread."""
        self._stopping.set()
        self._woken.set()
        self.want()
        if (response := self._response) is not None:
            # The thread may be closing the response itself at this moment; then there is nothing left to cut.
            with contextlib.suppress(ValueError, RuntimeError, OSError):
                response.shutdown()

    def want(self) -> None:
        """Let a reflector that was created with `wanted` begin."""
        if self._wanted is not None:
            self._wanted.set()

    @property
    def wanted(self) -> bool:
        """Whether the thread may make requests (`want`)."""
        return self._wanted is None or self._wanted.is_set()

    def wake(self) -> None:
        """Request a missing resource again at once, because the served kinds have changed and it may be installed."""
        self._woken.set()

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended; False if it has not ended within `timeout` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def synced(self) -> bool:
        """Whether the resource has been listed completely once, or counts as missing and thus as empty."""
        return self._synced.is_set()

    def wait_synced(self, timeout: float) -> bool:
        """Wait until `synced`; False if that takes longer than `timeout` seconds."""
        return self._synced.wait(timeout)

    @property
    def last_event_age(self) -> float:
        """Seconds since the last list, event or bookmark from the API server."""
        return self._clock.monotonic() - self._heard

    @property
    def listed(self) -> bool:
        """Whether a watch can continue from the last seen version. If not, the resource must be listed first."""
        return self._version is not None

    @property
    def served(self) -> bool:
        """Whether the resource has been listed once, and the API server still serves it and allows reading it."""
        lacking = (TroubleReason.NOT_SERVED, TroubleReason.FORBIDDEN)
        return self.synced and (self.trouble is None or self.trouble.reason not in lacking)

    def list_once(self) -> Rest:
        """List all objects into the sink. Return the pause before the next request. A failure is in `trouble`."""
        return self._attempt(self._list)

    def take(self, line: bytes) -> Rest:
        """Apply one line of a watch to the sink. Return the pause before the next request.

        `listed` is False afterwards if the watch cannot continue.
        """
        return self._attempt(partial(self._take, line))

    def _run(self) -> None:
        if self._wanted is not None:
            self._wanted.wait()
        while not self._stopping.is_set():
            rest = self._attempt(self._watch) if self.listed else self.list_once()
            if rest.until_woken:
                if self._clock.wait(self._woken, rest.seconds):
                    self._missing = 0.0
                self._woken.clear()
            else:
                self._pause(rest.seconds)

    def _attempt(self, act: Callable[[], float]) -> Rest:
        """Call `act` and return the pause before the next request.

        `act` sends requests and returns this pause in seconds. If `act` raises, the failure is reported in `trouble`,
        and the pause is the one before the next attempt.
        """
        try:
            return Rest(act())
        except _StoppedError:
            rest = Rest()
        except _StaleError as reason:
            rest = self._start_over(str(reason))
        except _UnfitError as reason:
            rest = self._empty(reason.trouble)
        except ApiException as error:
            rest = self._refused(error)
        except (*UNREACHABLE, msgspec.MsgspecError) as error:
            rest = self._failed(str(getattr(error, "reason", error)))
        except Exception as error:
            # If a fault in a sink ended the thread, the snapshot would stay old and no log would say so.
            log.exception("%s: starting over", self.name)
            rest = self._faulty(error)
        return rest

    def _list(self) -> float:
        """List all objects in pages, then replace the content of the sink. Return 0: the watch begins at once."""
        if self._of_kind:
            self._check_kind()
        objects: list[T] = []
        token: str | None = None
        while True:
            query = {"limit": self._timing.page, "continue": token, "fieldSelector": self._field_selector}
            page = self._get_page(query)
            objects.extend(map(self._trim, page.items))
            token = page.metadata.continue_
            if not token:
                break
        self._sink.replace(objects, page.api_version)
        self._version = page.metadata.resource_version
        self._heard_of_it()
        self._synced.set()  # set first, because the callback `on_change` reads `synced`
        self._settled(None)
        return 0.0

    def _check_kind(self) -> None:
        """Check that the path serves objects of the expected kind.

        :raises _UnfitError: it serves another kind, or cluster-scoped objects.
        :raises ApiException: with status 404 if nothing is served at the path.
        """
        version, _, plural = self._path.rpartition("/")
        response = self._transport.open("GET", version, timeout=(self._timing.connect, self._timing.answer))
        try:
            served = msgspec.json.decode(response.data, type=ServedResources).resources
        finally:
            response.release_conn()
        found = next((each for each in served if each.name == plural), None)
        if found is None:
            raise ApiException(status=HTTPStatus.NOT_FOUND)
        if found.kind != self._of_kind:
            raise _UnfitError(Trouble(TroubleReason.WRONG_KIND, f"are of kind {found.kind}"))
        if not found.namespaced:
            raise _UnfitError(Trouble(TroubleReason.NOT_NAMESPACED, "are in no namespace"))

    def _get_page(self, query: dict[str, Any]) -> Page[T]:
        if self._stopping.is_set():
            raise _StoppedError
        response = self._transport.open(
            "GET", self._path, query=query, timeout=(self._timing.connect, self._timing.answer)
        )
        try:
            page: Page[T] = self._decode_page(response.data)
        finally:
            response.release_conn()
        return page

    def _watch(self) -> float:
        """Apply the events of one watch to the sink until the watch ends. Return the pause before the next watch."""
        doubt = self._doubt
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "fieldSelector": self._field_selector,
            "timeoutSeconds": max(1, int(doubt or self._timing.watch * random.uniform(1.0, 1.2))),  # noqa: S311 - spreads the load
        }
        opened = self._clock.monotonic()
        silence = min(self._timing.silence, doubt or self._timing.silence)
        response = self._transport.open("GET", self._path, query=query, timeout=(self._timing.connect, silence))
        self._response = response
        try:
            self._heard_of_it()
            if self._stopping.is_set():
                raise _StoppedError
            burst = Burst()
            for line in lines_of(response, drained=True):
                if line:
                    burst.came(self._clock.monotonic())
                    self._take(line)
                else:
                    self._pause(burst.pause(self._clock.monotonic()))
        except urllib3.exceptions.ReadTimeoutError:
            if not doubt:
                log.info("%s: silent for %.0f s, watching again", self.name, silence)
        finally:
            self._response = None
        if doubt:
            longer = Backoff(self._timing.doubt, float("inf")).after(doubt)
            self._doubt = longer if longer <= self._timing.silence else 0.0
            self._version = None
        return self._timing.first_retry if self._clock.monotonic() - opened < self._timing.first_retry else 0.0

    @property
    def seen(self) -> int:
        """The resourceVersion up to which all changes have been copied, as a number; 0 before the first list.

        Versions of one resource can be compared (KEP-5504).
        """
        return int(self._version or 0)

    def _take(self, line: bytes) -> float:
        if self._stopping.is_set():
            raise _StoppedError
        try:
            event = self._decode_event(line)
        except msgspec.ValidationError as error:
            version = _version_without_object(line, error)
        else:
            match event.type:
                case "ADDED" | "MODIFIED":
                    self._sink.put(self._trim(event.object))
                case "DELETED":
                    self._sink.drop(event.object)
                case "ERROR":
                    raise _StaleError(_text_of_object(line))
            version = _version_of(event.object)
        self._version = version or self._version
        self._heard_of_it()
        return 0.0

    def _heard_of_it(self) -> None:
        self._heard = self._clock.monotonic()
        self._retry = 0.0

    def _start_over(self, reason: str) -> Rest:
        log.info("%s: listing again: %s", self.name, reason)
        self.relists += 1
        self._version = None
        return Rest(max(self._retry, self._timing.first_retry) * random.uniform(0.0, 0.5))  # noqa: S311 - spreads the load

    def _faulty(self, error: Exception) -> Rest:
        """Handle an internal error: report it in `trouble`, list again later, and return the pause before that.

        The pauses grow, because the cause usually persists and each retry costs a full list.
        """
        longest, again = self._timing.last_retry, self._clock.monotonic() < self._faulty_until
        backoff = Backoff(self._timing.first_retry, longest)
        self._fault_retry = backoff.after(self._fault_retry if again else 0.0)
        text = f"failed in Phalanx itself ({type(error).__name__}); its log says where"
        self._settled(Trouble(TroubleReason.UNREADABLE, text))
        self.relists += 1
        self._version = None
        pause = self._fault_retry * random.uniform(0.8, 1.2)  # noqa: S311 - spreads the load
        self._faulty_until = self._clock.monotonic() + pause + 2 * longest
        return Rest(pause)

    def _refused(self, error: ApiException) -> Rest:
        if error.status == HTTPStatus.NOT_FOUND:
            return self._not_there()
        if error.status == HTTPStatus.GONE:
            return self._start_over(message_of(error))
        if error.status != HTTPStatus.TOO_MANY_REQUESTS:
            self._version = None
        elif _STORE_IS_MADE in message_of(error):
            self._doubt = self._timing.doubt
        answered = error.status is not None and error.status < HTTPStatus.INTERNAL_SERVER_ERROR
        reason = TroubleReason.FORBIDDEN if error.status == HTTPStatus.FORBIDDEN else TroubleReason.UNREADABLE
        answered = answered and error.status != HTTPStatus.TOO_MANY_REQUESTS
        return self._failed(message_of(error), reason, answered=answered)

    def _not_there(self) -> Rest:
        """Handle a path that is not served: continue with the next path. Return the pause before that.

        If no path is served, an optional resource counts as missing. For any other resource that is a failure.
        """
        self._version = None
        position = self._paths.index(self._path) + 1
        self._path = self._paths[position % len(self._paths)]
        if position < len(self._paths):
            return Rest()
        if not self._optional:
            return self._failed("not served", answered=True)
        return self._empty(Trouble(TroubleReason.NOT_SERVED, "is not served by this API server"))

    def _empty(self, trouble: Trouble) -> Rest:
        """Treat the resource as missing: it counts as synced and empty. Return the growing pause before a retry."""
        self._version = None
        self._sink.replace([], "")
        self._heard_of_it()
        self._synced.set()
        self._settled(trouble)
        self._doubt = self._timing.doubt
        self._missing = Backoff(self._timing.missing, self._timing.last_missing).after(self._missing)
        return Rest(self._missing, until_woken=True)

    def _failed(
        self, message: str, reason: TroubleReason = TroubleReason.UNREADABLE, *, answered: bool = False
    ) -> Rest:
        """Report a failed request in `trouble` and the log. Return the pause before the next request.

        :param answered: whether the API server gave an answer that a retry will not change soon, such as a denial. Then
            the resource counts as tried.
        """
        if self._stopping.is_set():
            return Rest()
        # An installation may lack the rights for a resource that is read only when it is wanted.
        by_choice = reason is TroubleReason.FORBIDDEN and self._wanted is not None
        longest = self._timing.last_retry if self.synced else self._timing.unsynced_retry
        longest = self._timing.last_missing if by_choice else longest
        self._retry = Backoff(self._timing.first_retry, longest).after(self._retry)
        level = logging.DEBUG if by_choice and self.trouble == Trouble(reason, message) else logging.WARNING
        log.log(level, "%s: %s; again in about %.0f s", self.name, message, self._retry)
        waited = self._clock.monotonic() - self._began
        self._settled(Trouble(reason, message), answered=answered or waited > self._timing.overloaded)
        return Rest(self._retry * random.uniform(0.8, 1.2))  # noqa: S311 - spreads the load

    def _settled(self, trouble: Trouble | None, *, answered: bool = True) -> None:
        changed = trouble != self.trouble or (answered and not self.tried.is_set())
        self.trouble = trouble
        if answered:
            self.tried.set()
        if changed and self._on_change is not None:
            self._on_change()

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self._clock.wait(self._stopping, seconds)


def _version_without_object(line: bytes, unreadable: msgspec.ValidationError) -> str:
    """Return the resourceVersion of an event whose object is not of the resource's kind: a bookmark.

    :raises _StaleError: the event is an error.
    :raises msgspec.ValidationError: the object should be of the kind; it is `unreadable`.
    """
    match msgspec.json.decode(line, type=WatchEvent[Versioned]):
        case WatchEvent(type="BOOKMARK", object=bookmark):
            return bookmark.metadata.resource_version
        case WatchEvent(type="ERROR"):
            raise _StaleError(_text_of_object(line))
    raise unreadable


def _text_of_object(line: bytes) -> str:
    return bytes(msgspec.json.decode(line, type=WatchEvent[msgspec.Raw]).object).decode("utf-8", "replace")


def _version_of(item: Any) -> str:
    """Return the resourceVersion of a decoded object, which is a Struct or a dict; "" if it has none."""
    meta = item["metadata"] if isinstance(item, dict) else item.metadata
    return str(meta.get("resourceVersion", "") if isinstance(meta, dict) else meta.resource_version)
