"""The store behind real HTTP, and faults on cue."""

import json
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from cluster.api.connecting import connect
from cluster.api.transport import Transport
from local_api import claims, pods
from local_api.patches import patched
from local_api.resources import BUDGETS, CLAIMS, PODS, RESOURCES, Address, Resource, address
from local_api.store import Event, Object, RefusedError, Store, check, copied, not_found

PATIENCE = 60.0
"""Seconds. Only a test that fails takes so long."""
_LOOK_SECONDS = 0.1
"""How often a wait checks a condition that may change although nothing is stored."""
_WATCH_SECONDS = 5.0
"""How often a watch checks whether it has ended."""
_VERSION = {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}


@dataclass(frozen=True, slots=True)
class Request:
    """One received request. `code`: the status of the answer; 0 if there was none."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any = None
    content_type: str = "application/json"
    code: int = 0

    def __str__(self) -> str:
        """As faults and tests name it; a rehearsal says so."""
        return f"{self.method} {self.path}{' (dry run)' if self.query.get('dryRun') else ''}"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that is injected into a request.

    `before`: called first, to simulate a faster client. `refusal`: the error that is answered instead. `cut`: the
    connection ends without an answer. `carried_out`: whether a request that is cut was carried out.
    """

    before: Callable[[], object] | None = None
    refusal: RefusedError | None = None
    cut: bool = False
    carried_out: bool = True


def refused(code: int, reason: str, message: str = "no", **details: Any) -> Fault:
    """The request is answered with an error."""
    return Fault(refusal=RefusedError(code, reason, message, **details))


_NO_FAULT = Fault()
LOST = Fault(cut=True)
"""The request is carried out, and the answer is lost."""
UNREACHABLE = Fault(cut=True, carried_out=False)
"""It does not arrive."""


@dataclass(slots=True)
class LocalApi:
    """One API server. `ask` goes past HTTP: what tests do themselves."""

    url: str = ""
    store: Store = field(default_factory=Store)
    requests: list[Request] = field(default_factory=list)
    closing: bool = False
    _faults: list[tuple[re.Pattern[str], list[Fault]]] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    """Plurals of the resources whose watches deliver nothing (`silence`)."""
    served: tuple[Resource, ...] = RESOURCES

    def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Object:
        """Send a request as another client would. Raises `RefusedError`."""
        with self.store.lock:
            return copied(self._answer(Request(method, path, query, body, content_type)))  # the caller may change it

    def create(self, path: str, *objects: Object) -> None:
        """Create objects in the collection at `path`."""
        for each in objects:
            self.ask("POST", path, each)

    def fault(self, pattern: str, *faults: Fault) -> None:
        """Inject these faults, one after another, into requests whose "METHOD path" matches from the beginning."""
        with self.store.lock:
            self._faults.append((re.compile(pattern), list(faults)))

    def mend(self) -> None:
        """No faults any more."""
        with self.store.lock:
            self._faults.clear()

    def silence(self, *plurals: str) -> None:
        """Stop the watches of these resources from delivering events, until other resources (or none) are named."""
        with self.store.lock:
            self.held = set(plurals)
            self.store.wake_watches()

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait until the condition holds. It is checked after every change."""
        end = monotonic() + PATIENCE
        with self.store.lock:
            while not condition():
                assert monotonic() < end, f"waited {PATIENCE:.0f} s for {what}"
                self.store.lock.wait(_LOOK_SECONDS)

    def writes(self) -> list[str]:
        """The requests so far other than GET, as "METHOD path"."""
        return [str(each) for each in self.requests if each.method != "GET"]

    def connect(self, folder: Path) -> Transport:
        """The controller's own client."""
        return connect(self.kubeconfig(folder))

    def kubeconfig(self, folder: Path) -> str:
        """A kubeconfig for this server."""
        path = folder / "local.kubeconfig"
        named = {"name": "local"}
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{**named, "cluster": {"server": self.url}}],
            "users": [{**named, "user": {"token": "none"}}],
            "contexts": [{**named, "context": {"cluster": "local", "user": "local"}}],
            "current-context": "local",
        }
        path.write_text(yaml.safe_dump(settings))
        return str(path)

    def serve(self, request: Request) -> tuple[int, Mapping[str, str], Object] | None:
        """Code, headers and body of the answer; None: the connection ends without one."""
        fault = self._fault(request)
        if fault.before is not None:
            fault.before()
        with self.store.lock:  # one lock for both: an object that is visible in the store is also in `requests`
            answer = self._served(request, fault)
            code = 0 if fault.cut else answer[0]
            whole = Request(request.method, request.path, request.query, request.body, request.content_type, code)
            self.requests.append(whole)
            self.store.lock.notify_all()
        return None if fault.cut else answer

    def _served(self, request: Request, fault: Fault) -> tuple[int, Mapping[str, str], Object]:
        refusal = fault.refusal
        if fault.cut and not fault.carried_out:
            return 0, {}, {}
        try:
            if refusal is not None:
                raise refusal
            answer = self._answer(request)
        except RefusedError as error:
            return error.code, error.headers, error.body
        except NotImplementedError as error:
            return 501, {}, RefusedError(501, "NotImplemented", str(error)).body
        return 201 if request.method == "POST" else 200, {}, answer

    def _fault(self, request: Request) -> Fault:
        if not self._faults:
            return _NO_FAULT
        with self.store.lock:
            for pattern, faults in self._faults:
                if faults and pattern.match(str(request)):
                    return faults.pop(0)
        return _NO_FAULT

    def _answer(self, request: Request) -> Object:
        if (request.method, request.path) == ("GET", "/version"):
            return dict(_VERSION)
        at = address(request.path, self.served)
        if at is None:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        if at.part == "status" and not at.resource.status:
            raise not_found(at)
        if request.method == "GET":
            return self.store.get(at) if at.name else self._listed(at, _only(request.query))
        return self._written(at, request, dry_run=request.query.get("dryRun") == "All")

    def _written(self, at: Address, request: Request, *, dry_run: bool) -> Object:
        body = request.body or {}
        match request.method, bool(at.name), at.part:
            case "POST", False, _:
                return self.store.create(at, self._prepared(at, body), dry_run=dry_run)
            case "POST", True, "binding" if at.resource == PODS:
                return pods.bind(self.store, at, body)
            case "POST", True, "eviction" if at.resource == PODS:
                return pods.evict(self.store, at, body, dry_run=dry_run)
            case (("PUT" | "PATCH"), True, ("" | "status")):
                new = self.store.update(at, lambda old: _changed(at, old, request), dry_run=dry_run)
                if at.resource == PODS and not dry_run:
                    pods.finalized(self.store, at, new)
                return new
            case "DELETE", True, "":
                return self._deleted(at, body, dry_run=dry_run)
        raise NotImplementedError(str(request))

    def _prepared(self, at: Address, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a new object as it is stored, before any status is written."""
        if at.resource == PODS:
            return pods.prepared(self.store, at, given)
        if not (at.resource.counted and at.resource.status):
            return given
        kept = {key: each for key, each in given.items() if key != "status"}
        return {**kept, "status": dict(pods.NEW_BUDGET)} if at.resource == BUDGETS else kept

    def _listed(self, at: Address, only: str) -> Object:
        unsaid = () if at.resource.custom else ("apiVersion", "kind")
        items = [{key: each for key, each in found.items() if key not in unsaid} for found in self.store.all(at, only)]
        return {
            "apiVersion": at.resource.api_version,
            "kind": f"{at.resource.kind}List",
            "metadata": {
                "resourceVersion": str(self.store.version),
                **({"continue": ""} if at.resource.custom else {}),
            },
            "items": items,
        }

    def _deleted(self, at: Address, options: Mapping[str, Any], *, dry_run: bool) -> Object:
        if at.resource == PODS:
            return pods.end(self.store, at, options, dry_run=dry_run)
        found = self.store.get(at)
        check(at, found, options.get("preconditions") or {})
        self.store.remove(at, dry_run=dry_run)
        group = {"group": at.resource.group} if at.resource.group else {}
        details = {"name": at.name, **group, "kind": at.resource.plural, "uid": found["metadata"]["uid"]}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def follow(
        self, at: Address, query: Mapping[str, str], is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[Object]:
        """The events of a watch. `is_over`: whether its client has ended it."""
        end = monotonic() + float(query.get("timeoutSeconds") or 3600)
        since, only = int(query.get("resourceVersion") or 0), _only(query)
        with self.store.lock:
            arrival = self.store.arrival(at.resource)
            position = bisect_right(self.store.history, since, key=lambda event: event.version)
        while not (self.closing or is_over()) and (left := end - monotonic()) > 0:
            with self.store.lock:
                is_held = at.resource.plural in self.held
                new = [] if is_held else self.store.history[position:]
                position += len(new)
                if not new and not is_over():
                    arrival.wait(min(left, _WATCH_SECONDS))
            for event in new:
                if _concerns(event, at, only):
                    yield {"type": event.kind, "object": event.object}

    def close(self) -> None:
        """End all watches."""
        self.closing = True
        self.store.wake_watches()


def _concerns(event: Event, at: Address, only: str) -> bool:
    """Return whether a watch of this collection delivers the event. `only`: the name that the watch selects."""
    meta = event.object["metadata"]
    return event.resource == at.resource and at.namespace in ("", meta.get("namespace")) and only in ("", meta["name"])


def _only(query: Mapping[str, str]) -> str:
    """The one name that is asked for; "" for all."""
    key, _, name = query.get("fieldSelector", "").partition("=")
    if key not in ("", "metadata.name"):
        raise NotImplementedError(key)
    return name


def _changed(at: Address, old: Object, request: Request) -> Object:
    """The object as the request wants it, as far as its path may write that."""
    given = request.body
    new = given if request.method == "PUT" else patched(old, given, request.content_type)
    if at.part == "status":
        meta = new["metadata"] if at.resource == PODS else {**old["metadata"], **_identity(new)}
        kept = {key: each for key, each in old.items() if key != "status"}
        whole = {**kept, "metadata": meta, **({"status": new["status"]} if "status" in new else {})}
        if at.resource == CLAIMS:
            return claims.checked(at, old, whole)
        return pods.told(whole) if at.resource == PODS else whole
    if at.resource == PODS:
        return pods.checked(at, old, new)
    if at.resource.status:
        kept = {key: each for key, each in new.items() if key != "status"}
        return {**kept, **({"status": old["status"]} if "status" in old else {})}
    return dict(new)


def _identity(new: Object) -> Object:
    return {key: new["metadata"][key] for key in ("uid", "resourceVersion") if key in new["metadata"]}


@contextmanager
def local_api(*further: Resource) -> Iterator[LocalApi]:
    """Serve on a free port. `further`: resources beyond `RESOURCES`."""
    api = LocalApi(served=(*RESOURCES, *further))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        api.close()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(api: LocalApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            content_type = self.headers.get("Content-Type") or "application/json"
            request = Request(self.command, parts.path, query, json.loads(text or "null"), content_type)
            at = address(parts.path, api.served)
            if query.get("watch") == "true" and at is not None:
                self._watch(at, query)
                return
            answer = api.serve(request)
            if answer is None:
                self.close_connection = True
                return
            code, headers, body = answer
            whole = json.dumps(body).encode()
            self.send_response(code)
            for name, value in {**headers, "Content-Type": "application/json", "Content-Length": len(whole)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(whole)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - names of the base class

        def _watch(self, at: Address, query: Mapping[str, str]) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = True
            try:
                self.wfile.flush()
                for event in api.follow(at, query):
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler
