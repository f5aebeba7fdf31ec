"""`/v1/story`: which facts of a gang it returns, to which callers, and for which gangs."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from kubernetes.client import ApiClient, Configuration
from pictures import Manifest, StillPicture, node, pod, pod_group, topology

from cluster.api.token_reviews import Access
from cluster.api.transport import Transport
from cluster.devices.claims import DeviceObjects, devices_of
from controller.telemetry import events
from gangs.mirrors import MARK
from kube.devices import ResourceClaim
from kube.keys import GATE, MIRRORS
from planning.stories.timeline import TOLD_BY_EVENTS, WARNINGS
from webhook.app import create_app
from webhook.live_view.gang_stories import MORE_THAN, MOST_PAGES, MOST_READERS, READING_SECONDS
from webhook.metrics import Metrics

HEADERS = {"Authorization": "Bearer theirs"}
GROUP = "pod-group.scheduling.sigs.k8s.io"
ASKED = "2026-11-21T11:55:00Z"


class Anybody:
    """An access check that allows every caller."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Always."""
        del token, verb, path
        return Access.ALLOWED


def shown(name: str, claim: str = "", **status: Any) -> Manifest:
    """Return the Gang object that mirrors a PodGroup's gang. `claim`: the gang that it only claims to mirror."""
    mirrors = claim or f"koordinator/default/{name}"
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": ASKED}
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {**metadata, "annotations": {MIRRORS: mirrors}},
        "spec": {"minMember": 4},
        "status": {**({} if claim else {MARK: mirrors}), **status},
    }


def answer(path: str, picture: StillPicture, api: Transport | None = None) -> tuple[int, Any]:
    """Return status and JSON of an answer.

    :param api: the API server from which the caller's events are read with its own token; None reads no events.
    """
    as_bearer = None if api is None else api.for_bearers()
    response = create_app(picture, Anybody(), Metrics(), as_bearer=as_bearer).test_client().get(path, headers=HEADERS)
    return response.status_code, response.get_json()


@pytest.fixture
def waiting() -> StillPicture:
    """Two gangs without capacity, the older one first."""
    gangs = [shown(name, phase="Unplaceable", message="no room\x1b[2J") for name in ("llm", "older")]
    gangs[1]["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z"
    pods = [pod(f"llm-{at}", labels={GROUP: "llm"}) for at in range(4)]
    return StillPicture([topology("rack"), pod_group(), *gangs], nodes=[node("node-0", rack="r0")], pods=pods)


def test_a_gang_that_waits_is_told_with_its_place_in_line(waiting: StillPicture) -> None:
    status, story = answer("/v1/story?namespace=default&name=llm&dialect=koordinator", waiting)
    assert (status, story["phase"], story["message"]) == (200, "Unplaceable", "no room\\x1b[2J")
    assert story["place"] == {
        "position": 2,
        "waiting": 2,
        "before": ["default/older"],
        "told": "2 of 2 for capacity, after default/older",
    }
    assert [each["pod"] for each in story["members"]] == [f"llm-{at}" for at in range(4)]
    assert story["presence"] == "4 of 4 exist, 0 bound"
    assert [(each["what"], each["after"]) for each in story["steps"]] == [("asked for", 0)]
    assert story["withoutEvents"] == "events cannot be read here"


def test_the_devices_of_members_and_the_held_devices_of_the_gang_are_reported() -> None:
    """The claim of one gated member has devices, one of them shared. Another member has planned devices, and the third
    has none.
    """

    def planned(name: str, *devices: str) -> Manifest:
        results: list[Manifest] = [
            {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": each} for each in devices
        ]
        return {"namespace": "default", "name": f"{name}-gpu", "pods": [name], "node": "node-0", "devices": results}

    near = {"devices": "devices of gpu", "requests": ["gpu"], "matching": 4, "free": 2, "needed": 4}
    shared = planned("llm-1", "gpu-2", "gpu-3")
    for each in shared["devices"]:
        each["consumedCapacity"] = {"lanes": "0", "memory": "3Gi"}
    gang = shown(
        "llm",
        phase="Nominated",
        claims=[planned("llm-0", "gpu-0", "gpu-1"), shared],
        explanation={"nearest": [{"path": ["r0"], "fits": 2, "needed": 4, "nodes": 1, "devices": [near]}]},
    )
    pods = [pod(f"llm-{at}", labels={GROUP: "llm"}) for at in range(3)]
    for each in pods:
        name = each["metadata"]["name"]
        each["spec"] |= {
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}],
        }
        each.setdefault("status", {})["nominatedNodeName"] = "node-0"
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0"}
    share = {"shareID": "share", "consumedCapacity": {"memory": "1Gi", "rate": "2"}}
    results = [{**result, "device": "gpu-0"}, {**result, "device": "gpu-1", **share}]
    claim = {
        "metadata": {"name": "llm-0-gpu", "namespace": "default"},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    picture = StillPicture([topology("rack"), pod_group(), gang], nodes=[node("node-0", rack="r0")], pods=pods)
    devices = devices_of(DeviceObjects(claims=[msgspec.convert(claim, ResourceClaim)]))
    picture._snapshot = replace(picture.snapshot(), devices=devices)  # noqa: SLF001 - no test before had devices
    status, story = answer("/v1/story?namespace=default&name=llm", picture)
    assert status == 200
    assert [each.get("devices") for each in story["members"]] == [
        "gpu: gpu-0, gpu-1 with 1Gi of memory and 2 of rate",
        "planned: gpu: gpu-2..3 with 3Gi of memory",
        None,
    ]
    assert story["devicesHeld"] == "1 of 2 claims, 2 devices"
    assert story["explanation"]["nearest"][0]["devices"] == [near]


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ("", 400, "say which gang: ?namespace=NAMESPACE&name=GANG"),
        ("?namespace=default", 400, "say which gang: ?namespace=NAMESPACE&name=GANG"),
        ("?namespace=default&name=nobody", 404, "no Gang object shows this gang yet"),
        ("?namespace=default&name=llm&dialect=kueue", 404, "no Gang object shows this gang yet"),
        ("?namespace=other&name=llm", 404, "no Gang object shows this gang yet"),
    ],
)
def test_what_is_not_there_is_said_in_a_line(waiting: StillPicture, query: str, status: int, error: str) -> None:
    assert answer(f"/v1/story{query}", waiting) == (status, {"error": error})


def test_an_object_that_only_claims_to_show_a_gang_is_not_asked() -> None:
    forged = shown("forged", claim="koordinator/other/llm", message="all is well")
    assert answer("/v1/story?namespace=other&name=llm", StillPicture([pod_group(), forged]))[0] == 404


class Asked(BaseHTTPRequestHandler):
    """An API server that has one event for the bearer of one token, and notes the token and path of each request."""

    seen: list[tuple[str, str]]

    def do_GET(self) -> None:
        """Answer."""
        token = self.headers.get("Authorization", "")
        self.seen.append((token, unquote(self.path)))
        known = token == HEADERS["Authorization"]
        about = {"kind": "Gang", "name": "llm", "uid": "uid-llm"}
        event = {"reason": "GangPlanned", "eventTime": "2026-11-21T11:55:02Z", "involvedObject": about}
        body: Manifest = {"items": [event] if "uid-llm" in self.path else [], "metadata": {}}
        if not known:
            body = {"kind": "Status", "message": "who are you?"}
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(msgspec.json.encode(body))

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def api_server() -> Iterator[tuple[Transport, list[tuple[str, str]]]]:
    """Run the server; yield a client with a token that the webhook must not use, and the recorded requests."""
    seen: list[tuple[str, str]] = []
    server = HTTPServer(("127.0.0.1", 0), type("Noting", (Asked,), {"seen": seen}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = Configuration()
    settings.host = f"http://127.0.0.1:{server.server_port}"
    settings.api_key = {"BearerToken": "Bearer ours"}
    try:
        yield Transport(ApiClient(settings)), seen
    finally:
        server.shutdown()
        server.server_close()


def test_events_are_read_as_whoever_asks_and_never_as_the_webhook(waiting: StillPicture) -> None:
    with api_server() as (api, seen):
        _, story = answer("/v1/story?namespace=default&name=llm", waiting, api)
        _, refused = answer("/v1/story?namespace=default&name=llm", waiting, api)
    assert [each["what"] for each in story["steps"]] == ["asked for", "GangPlanned"]
    assert story["withoutEvents"] == refused["withoutEvents"] == ""
    assert {token for token, _ in seen} == {"Bearer theirs"}
    assert any("involvedObject.uid=uid-llm" in path for _, path in seen)


def test_who_may_not_read_events_is_told_so_beside_the_rest(waiting: StillPicture) -> None:
    with api_server() as (api, _):
        app = create_app(waiting, Anybody(), Metrics(), as_bearer=api.for_bearers())
        headers = {"Authorization": "Bearer another's"}
        story = app.test_client().get("/v1/story?namespace=default&name=llm", headers=headers).get_json()
    assert story["withoutEvents"] == "who are you?"
    assert [each["what"] for each in story["steps"]] == ["asked for"]


class Endless(BaseHTTPRequestHandler):
    """An API server with endless Warnings, a given delay for each page, and a count of concurrent reads."""

    slowness = 0.0
    paths: list[str]
    at_once: list[int]
    lock: threading.Lock

    def do_GET(self) -> None:
        """Answer with a page, and that there is more."""
        with self.lock:
            self.paths.append(unquote(self.path))
            self.at_once.append(self.at_once[-1] + 1)
        time.sleep(self.slowness)
        about = {"kind": "Pod", "name": "another", "uid": "another"}
        body: Manifest = {"items": [{"reason": "Bad", "involvedObject": about}] * 500, "metadata": {"continue": "more"}}
        body = body if "type=Warning" in unquote(self.path) else {"items": [], "metadata": {}}
        with self.lock:
            self.at_once.append(self.at_once[-1] - 1)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(msgspec.json.encode(body))

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def endless(slowness: float = 0.0) -> Iterator[tuple[Transport, type[Endless]]]:
    """Run the server; yield a client, and the handler class that records the requests."""
    seen = {"slowness": slowness, "paths": [], "at_once": [0], "lock": threading.Lock()}
    handler = type("EndlessHere", (Endless,), seen)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = Configuration()
    settings.host = f"http://127.0.0.1:{server.server_port}"
    settings.retries = False
    try:
        yield Transport(ApiClient(settings)), handler
    finally:
        server.shutdown()
        server.server_close()


STORY = "/v1/story?namespace=default&name=llm"


def test_events_without_end_are_read_to_a_limit_and_that_is_said(waiting: StillPicture) -> None:
    """It read the Warnings of the whole namespace, page by page, for as long as there were any."""
    with endless() as (api, server):
        status, story = answer(STORY, waiting, api)
    assert (status, story["phase"]) == (200, "Unplaceable")
    assert story["withoutEvents"] == f"not all events were read: {MORE_THAN}; phalanx events default/llm reads all"
    assert len(server.paths) == MOST_PAGES


def test_events_that_come_slowly_are_not_waited_for(waiting: StillPicture) -> None:
    with endless(slowness=1.0) as (api, server):
        status, story = answer(STORY, waiting, api)
    assert len(server.paths) <= READING_SECONDS + 2 < MOST_PAGES, "a page takes a second"
    assert (status, bool(story["withoutEvents"])) == (200, True)


def test_only_two_stories_have_their_events_read_at_a_time(waiting: StillPicture) -> None:
    """The other stories are returned without events."""
    with endless(slowness=1.0) as (api, server):
        client = create_app(waiting, Anybody(), Metrics(), as_bearer=api.for_bearers())
        stories: list[Any] = []

        def ask() -> None:
            stories.append(client.test_client().get(STORY, headers=HEADERS).get_json())

        crowd = [threading.Thread(target=ask) for _ in range(6)]
        for each in crowd:
            each.start()
        for each in crowd:
            each.join()
    assert max(server.at_once) == MOST_READERS
    assert [each["phase"] for each in stories] == ["Unplaceable"] * 6
    busy = "the events of other gangs are being read; ask again in a moment"
    assert [each["withoutEvents"] for each in stories].count(busy) == 6 - MOST_READERS


def test_the_timeline_knows_events_by_the_names_that_they_have() -> None:
    reasons = {each.name: each for each in vars(events).values() if isinstance(each, events.Reason)}
    assert set(TOLD_BY_EVENTS.values()) <= reasons.keys()
    assert {name for name in TOLD_BY_EVENTS.values() if reasons[name].kind is events.Kind.WARNING} == WARNINGS
