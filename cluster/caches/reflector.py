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
from kube.objects import Struct

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
    itself gives up after a minute. `missing`: how soon to look again for a resource that is not installed, twice as
    late each time up to `last_missing`. `unsynced_retry`: the longest pause before everything has been listed once;
    nobody is served meanwhile.
    """

    page: int = 500
    watch: float = 240.0
    silence: float = 90.0
    answer: float = 60.0
    connect: float = 5.0
    missing: float = 3.0
    last_missing: float = 30.0
    first_retry: float = 1.0
    unsynced_retry: float = 5.0
    last_retry: float = 30.0


DEFAULT_TIMING = ReflectorTiming()


def _as_it_is(thing: T) -> T:
    return thing


class _ListMeta(Struct, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Struct, Generic[T], frozen=True):
    api_version: str = ""
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] = ()


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Versioned(Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()


class _StoppedError(Exception):
    """Asked to stop."""


class _StaleError(Exception):
    """The watch cannot go on from where it was: list again."""


class Reflector(Generic[T]):
    """Copies one resource into a sink, in a thread of its own.

    :param paths: where the resource may be served, best first: the first that exists is used.
    :param kind: type of its objects (a Struct, or `dict[str, Any]`).
    :param trim: applied to each object as it comes, so that no full list of untrimmed ones is ever held.
    :param optional: whether the resource may not be installed at all: then it counts as synced and empty until it is.
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
    ) -> None:
        self.name = paths[0]
        self.relists = 0
        self._transport = transport
        self._paths = paths
        self._path = paths[0]
        self._decode_page = msgspec.json.Decoder(_Page[kind], strict=False).decode  # type: ignore[valid-type]
        self._decode_object = msgspec.json.Decoder(kind, strict=False).decode
        self._sink = sink
        self._trim = trim or _as_it_is
        self._field_selector = field_selector
        self._optional = optional
        self._timing = timing
        self._version: str | None = None
        self._retry = timing.first_retry
        self._missing = timing.missing
        self._heard = time.monotonic()
        self._synced = threading.Event()
        self._stopping = threading.Event()
        self._response: urllib3.BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._run, name=f"reflector {self.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end and cut its watch off. Returns at once; `join` waits for the thread."""
        self._stopping.set()
        if (response := self._response) is not None:
            # The thread may be closing the response itself at this moment; then there is nothing left to cut.
            with contextlib.suppress(ValueError, RuntimeError, OSError):
                response.shutdown()

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
            except ApiException as error:
                self._refused(error)
            except (*UNREACHABLE, msgspec.MsgspecError) as error:
                self._failed(str(getattr(error, "reason", error)))
            except Exception:
                # A fault in a sink must not end the copy: the picture would stay old without anybody knowing.
                log.exception("%s: starting over", self.name)
                self._start_over("fault")

    def _list(self) -> None:
        """List everything in pages and hand it over as one."""
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
        self._synced.set()

    def _get_page(self, query: dict[str, Any]) -> _Page[T]:
        if self._stopping.is_set():
            raise _StoppedError
        response = self._transport.open(
            "GET", self._path, query=query, timeout=(self._timing.connect, self._timing.answer)
        )
        try:
            page: _Page[T] = self._decode_page(response.data)
        finally:
            response.release_conn()
        return page

    def _watch(self) -> None:
        """Follow the changes until the server ends the watch."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "fieldSelector": self._field_selector,
            "timeoutSeconds": int(self._timing.watch * random.uniform(1.0, 1.2)),  # noqa: S311 - spreads the load
        }
        opened = time.monotonic()
        response = self._transport.open(
            "GET", self._path, query=query, timeout=(self._timing.connect, self._timing.silence)
        )
        self._response = response
        try:
            self._heard_of_it()
            if self._stopping.is_set():
                raise _StoppedError
            for line in lines_of(response):
                self._take(msgspec.json.decode(line, type=_Event))
        except urllib3.exceptions.ReadTimeoutError:
            log.info("%s: silent for %.0f s, watching again", self.name, self._timing.silence)
        finally:
            self._response = None
        if time.monotonic() - opened < self._timing.first_retry:
            self._pause(self._timing.first_retry)

    @property
    def seen(self) -> int:
        """The resource version up to which everything has been copied (comparable numbers, KEP-5504); 0 if none."""
        return int(self._version or 0)

    def _take(self, event: _Event) -> None:
        if self._stopping.is_set():
            raise _StoppedError
        match event.type:
            case "ADDED" | "MODIFIED":
                self._sink.put(self._trim(self._decode_object(event.object)))
            case "DELETED":
                self._sink.drop(self._decode_object(event.object))
            case "ERROR":
                raise _StaleError(bytes(event.object).decode("utf-8", "replace"))
        self._version = msgspec.json.decode(event.object, type=_Versioned).metadata.resource_version or self._version
        self._heard_of_it()

    def _heard_of_it(self) -> None:
        self._heard = time.monotonic()
        self._retry = self._timing.first_retry

    def _start_over(self, reason: str) -> None:
        log.info("%s: listing again: %s", self.name, reason)
        self.relists += 1
        self._version = None
        self._pause(self._retry * random.uniform(0.0, 0.5))  # noqa: S311 - spreads the load

    def _refused(self, error: ApiException) -> None:
        if error.status == HTTPStatus.NOT_FOUND:
            self._not_there()
        elif error.status == HTTPStatus.GONE:
            self._start_over(message_of(error))
        else:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                self._version = None
            self._failed(message_of(error))

    def _not_there(self) -> None:
        """Not served at this path: try the next; after the last, there is none of it for now."""
        self._version = None
        position = self._paths.index(self._path) + 1
        self._path = self._paths[position % len(self._paths)]
        if position < len(self._paths):
            return
        if not self._optional:
            self._failed("not served")
            return
        self._sink.replace([], "")
        self._heard_of_it()
        self._synced.set()
        self._pause(self._missing)
        self._missing = min(self._missing * 2, self._timing.last_missing)

    def _failed(self, message: str) -> None:
        if self._stopping.is_set():
            return
        log.warning("%s: %s; again in about %.0f s", self.name, message, self._retry)
        self._pause(self._retry * random.uniform(0.8, 1.2))  # noqa: S311 - spreads the load
        longest = self._timing.last_retry if self.synced else self._timing.unsynced_retry
        self._retry = min(self._retry * 2, longest)

    def _pause(self, seconds: float) -> None:
        self._stopping.wait(seconds)
