"""Keeps a copy of one resource: list in pages, then watch, for ever, whatever happens to the API server.

The protocol is Kubernetes' own (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes).
Objects are decoded by msgspec into the type asked for; the official client is only the transport.
"""

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import urllib3
from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, lines_of, message_of
from cluster.caches.bursts import Burst
from cluster.caches.wire_types import Page, ServedResources, Versioned, WatchEvent

log = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Where the objects go. Called from the reflector's thread, one call at a time."""

    def replace(self, objects: Sequence[T_contra], api_version: str) -> None:
        """These are all there are, of that `group/version`."""

    def put(self, thing: T_contra) -> None:
        """This one is new or changed."""

    def drop(self, thing: T_contra) -> None:
        """This one is gone."""


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """How patient a reflector is, in seconds. `page` counts objects.

    `silence`: a watch that brings nothing for so long, not even a bookmark (the API server sends one a minute), is
    opened again: a connection that died without a word looks the same. `answer`: the same for a list; the API server
    gives up after a minute. `missing`: how soon to look again for a resource that is not installed and that nobody says
    is (`wake`), twice as late each time up to `last_missing`. `doubt`: how soon one that has just come to be served is
    listed again, twice as late each time up to `silence`: the API server makes the store of a definition anew when its
    names are accepted, and who watches the old one hears nothing more. `unsynced_retry`: the longest pause before all
    has been listed once; nobody is served meanwhile. `overloaded`: how long a server that answers nothing to the point
    is waited for before the resource counts as tried: an aggregated API may be down for good.
    """

    page: int = 500
    watch: float = 240.0
    silence: float = 90.0
    answer: float = 60.0
    connect: float = 5.0
    missing: float = 3.0
    last_missing: float = 120.0
    doubt: float = 5.0
    first_retry: float = 1.0
    unsynced_retry: float = 5.0
    last_retry: float = 30.0
    overloaded: float = 30.0


DEFAULT_TIMING = ReflectorTiming()
_STORE_IS_MADE = "(re)initializing"
"""Says the API server (1.37) while it makes the store of a definition, with the status of too many requests."""


class _UnfitError(Exception):
    """What is served there is not what was asked for."""


class _StoppedError(Exception):
    """Asked to stop."""


class _StaleError(Exception):
    """The watch cannot go on from where it was: list again."""


class Reflector(Generic[T]):
    """Copies one resource into a sink, in a thread of its own.

    :param paths: where the resource may be served, best first: the first that exists is used.
    :param kind: type of its objects (a Struct, or `dict[str, Any]`).
    :param trim: applied to each object as it comes, so that no full list of untrimmed ones is ever held.
    :param on_change: called when `trouble` or `tried` has changed.
    :param optional: whether the resource may not be installed at all: then it counts as synced and empty until it is.
    :param of_kind: where somebody else has said what is served there: the kind that objects in namespaces have. It is
        looked up before everything is listed, and what is otherwise counts as not installed.
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
    ) -> None:
        self.name = paths[0]
        self._on_change = on_change
        self.relists = 0
        self._transport = transport
        self._paths = paths
        self._path = paths[0]
        self._decode_page = msgspec.json.Decoder(Page[kind], strict=False).decode  # type: ignore[valid-type]
        self._decode_object = msgspec.json.Decoder(kind, strict=False).decode
        self._sink = sink
        self._trim: Callable[[T], T] = trim or (lambda thing: thing)
        self._field_selector = field_selector
        self._optional = optional
        self._of_kind = of_kind
        self._began = time.monotonic()
        self.trouble = ""
        """Why nothing is copied at present; "" where all is well."""
        self.tried = threading.Event()
        """Whether the API server has said what there is, be it that nobody may know; or could not for long."""
        self._timing = timing
        self._version: str | None = None
        self._retry = timing.first_retry
        self._missing = timing.missing
        self._doubt = 0.0
        """After so many seconds of a watch all is listed again; 0: only when the server says so."""
        self._fault_retry = timing.first_retry
        self._faulty_until = 0.0
        """Until when another fault of ours counts as the same one."""
        self._heard = time.monotonic()
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._response: urllib3.BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name=f"reflector {self.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end and cut its watch off. Returns at once; `join` waits for the thread."""
        self._stopping.set()
        self._woken.set()
        if (response := self._response) is not None:
            # The thread may be closing the response itself at this moment; then there is nothing left to cut.
            with contextlib.suppress(ValueError, RuntimeError, OSError):
                response.shutdown()

    def wake(self) -> None:
        """Look again at once for a resource that is not installed: it may be now."""
        self._woken.set()

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended; False where it has not within `timeout` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def synced(self) -> bool:
        """Whether everything there is has been seen once."""
        return self._synced.is_set()

    def wait_synced(self, timeout: float) -> bool:
        """Wait until `synced`; False where that takes longer than `timeout` seconds."""
        return self._synced.wait(timeout)

    @property
    def last_event_age(self) -> float:
        """Seconds since the API server was last heard of: a list, an event or a bookmark."""
        return time.monotonic() - self._heard

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._version is None:
                    self._list()
                self._watch()
            except _StoppedError:
                return
            except _StaleError as reason:
                self._start_over(str(reason))
            except _UnfitError as reason:
                self._empty(str(reason))
            except ApiException as error:
                self._refused(error)
            except (*UNREACHABLE, msgspec.MsgspecError) as error:
                self._failed(str(getattr(error, "reason", error)))
            except Exception as error:
                # A fault in a sink must not end the copy: the picture would stay old without anybody knowing.
                log.exception("%s: starting over", self.name)
                self._faulty(error)

    def _list(self) -> None:
        """List everything in pages and hand it over as one."""
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
        self._synced.set()  # before anybody is told of it, who looks at both
        self._settled("")

    def _check_kind(self) -> None:
        """Raises `_UnfitError` where objects of another kind are served there, or such as are in no namespace."""
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
            raise _UnfitError(f"are of kind {found.kind}")
        if not found.namespaced:
            raise _UnfitError("are in no namespace")

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

    def _watch(self) -> None:
        """Follow the changes until the server ends the watch."""
        doubt = self._doubt
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "fieldSelector": self._field_selector,
            "timeoutSeconds": max(1, int(doubt or self._timing.watch * random.uniform(1.0, 1.2))),  # noqa: S311 - spreads the load
        }
        opened = time.monotonic()
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
                    burst.came(time.monotonic())
                    self._take(msgspec.json.decode(line, type=WatchEvent))
                else:
                    self._pause(burst.pause(time.monotonic()))
        except urllib3.exceptions.ReadTimeoutError:
            if not doubt:
                log.info("%s: silent for %.0f s, watching again", self.name, silence)
        finally:
            self._response = None
        if doubt:
            self._doubt = 2 * doubt if 2 * doubt <= self._timing.silence else 0.0
            self._version = None
        if time.monotonic() - opened < self._timing.first_retry:
            self._pause(self._timing.first_retry)

    @property
    def seen(self) -> int:
        """The resource version up to which everything has been copied (comparable numbers, KEP-5504); 0 if none."""
        return int(self._version or 0)

    def _take(self, event: WatchEvent) -> None:
        if self._stopping.is_set():
            raise _StoppedError
        match event.type:
            case "ADDED" | "MODIFIED":
                thing = self._decode_object(event.object)
                self._sink.put(self._trim(thing))
                version = _version_of(thing)
            case "DELETED":
                thing = self._decode_object(event.object)
                self._sink.drop(thing)
                version = _version_of(thing)
            case "ERROR":
                raise _StaleError(bytes(event.object).decode("utf-8", "replace"))
            case _:  # a bookmark
                version = msgspec.json.decode(event.object, type=Versioned).metadata.resource_version
        self._version = version or self._version
        self._heard_of_it()

    def _heard_of_it(self) -> None:
        self._heard = time.monotonic()
        self._retry = self._timing.first_retry

    def _start_over(self, reason: str) -> None:
        log.info("%s: listing again: %s", self.name, reason)
        self.relists += 1
        self._version = None
        self._pause(self._retry * random.uniform(0.0, 0.5))  # noqa: S311 - spreads the load

    def _faulty(self, error: Exception) -> None:
        """A fault of ours: what is there is most often there the next time, and each try costs a full list."""
        longest, again = self._timing.last_retry, time.monotonic() < self._faulty_until
        self._fault_retry = min(self._fault_retry * 2, longest) if again else self._timing.first_retry
        self._settled(f"failed in Phalanx itself ({type(error).__name__}); its log says where")
        self.relists += 1
        self._version = None
        self._pause(self._fault_retry * random.uniform(0.8, 1.2))  # noqa: S311 - spreads the load
        self._faulty_until = time.monotonic() + 2 * longest

    def _refused(self, error: ApiException) -> None:
        if error.status == HTTPStatus.NOT_FOUND:
            self._not_there()
        elif error.status == HTTPStatus.GONE:
            self._start_over(message_of(error))
        else:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                self._version = None
            elif _STORE_IS_MADE in message_of(error):
                self._doubt = self._timing.doubt
            answered = error.status is not None and error.status < HTTPStatus.INTERNAL_SERVER_ERROR
            self._failed(message_of(error), answered=answered and error.status != HTTPStatus.TOO_MANY_REQUESTS)

    def _not_there(self) -> None:
        """Not served at this path: try the next; after the last, there is none of it for now."""
        self._version = None
        position = self._paths.index(self._path) + 1
        self._path = self._paths[position % len(self._paths)]
        if position < len(self._paths):
            return
        if not self._optional:
            self._failed("not served", answered=True)
            return
        self._empty("is not served by this API server")

    def _empty(self, trouble: str) -> None:
        """There is none of it for now; it is looked for ever more seldom."""
        self._version = None
        self._sink.replace([], "")
        self._heard_of_it()
        self._synced.set()
        self._settled(trouble)
        self._doubt = self._timing.doubt
        woken = self._woken.wait(self._missing)
        self._woken.clear()
        self._missing = self._timing.missing if woken else min(self._missing * 2, self._timing.last_missing)

    def _failed(self, message: str, *, answered: bool = False) -> None:
        """`answered`: whether to ask again soon is no use."""
        if self._stopping.is_set():
            return
        log.warning("%s: %s; again in about %.0f s", self.name, message, self._retry)
        self._settled(message, answered=answered or time.monotonic() - self._began > self._timing.overloaded)
        self._pause(self._retry * random.uniform(0.8, 1.2))  # noqa: S311 - spreads the load
        longest = self._timing.last_retry if self.synced else self._timing.unsynced_retry
        self._retry = min(self._retry * 2, longest)

    def _settled(self, trouble: str, *, answered: bool = True) -> None:
        changed = trouble != self.trouble or (answered and not self.tried.is_set())
        self.trouble = trouble
        if answered:
            self.tried.set()
        if changed and self._on_change is not None:
            self._on_change()

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self._stopping.wait(seconds)


def _version_of(thing: Any) -> str:
    """The resource version of a decoded object: to read it from the text once more would cost as much again."""
    meta = thing["metadata"] if isinstance(thing, dict) else thing.metadata
    return str(meta.get("resourceVersion", "") if isinstance(meta, dict) else meta.resource_version)
