"""Requests that wait at `/v1/changes`: strangers take no place there, and no caller takes all places."""

import asyncio
import time
from collections import Counter
from typing import Any

import msgspec
from pictures import StillPicture

from cluster.api.token_reviews import Access
from serving.application import Application, Message
from serving.limits import ConnectionLimits
from webhook.app import create_app
from webhook.metrics import Metrics
from webhook.serving import MOST_OF_ONE_VIEWER, MOST_VIEWERS, pool_of, pools


class Slowly:
    """An access check that takes one second to reject a stranger. It allows every other token everything."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Return the access that the token's own text names."""
        del verb, path
        if token.startswith("stranger"):
            time.sleep(1.0)
            return Access.UNKNOWN_USER
        return Access.ALLOWED


def application() -> Application:
    """Return the webhook's application, as it is served."""
    return Application(create_app(StillPicture(), Slowly(), Metrics()), pools(4, 40), pool_of, ConnectionLimits())


async def asked(served: Application, authorization: str, query: str = "", source: str = "honest") -> tuple[int, Any]:
    """Status and JSON of one answer of `/v1/changes`."""
    headers = [(b"authorization", authorization.encode())]
    scope: dict[str, object] = {
        "type": "http",
        "method": "GET",
        "scheme": "https",
        "http_version": "1.1",
        "path": "/v1/changes",
    }
    scope |= {"query_string": query.encode(), "headers": headers, "client": (source, 1), "server": ("here", 9443)}
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await served({**scope, "state": {}}, receive, send)
    return told[0]["status"], msgspec.json.decode(told[1]["body"])


def test_strangers_take_no_place_of_those_who_wait_for_changes() -> None:
    async def play() -> tuple[int, Counter[int]]:
        served = application()
        crowd = [asyncio.create_task(asked(served, f"Bearer stranger-{n}", "", "far")) for n in range(MOST_VIEWERS)]
        await asyncio.sleep(0.1)
        status, _ = await asked(served, "Bearer known")
        return status, Counter([(await each)[0] for each in crowd])

    status, crowd = asyncio.run(play())
    assert status == 200
    assert crowd == {401: MOST_VIEWERS}


def test_of_one_caller_only_so_many_wait_however_it_writes_its_token() -> None:
    async def play() -> tuple[list[int], int]:
        served = application()
        _, first = await asked(served, "Bearer greedy")
        query, answered = f"wait=10&since={first['stamp']}", list[int]()

        async def wait(authorization: str) -> None:
            answered.append((await asked(served, authorization, query))[0])

        words = ("Bearer greedy", "bearer  greedy ", "BEARER greedy")
        crowd = [asyncio.create_task(wait(words[number % 3])) for number in range(MOST_VIEWERS)]
        await asyncio.sleep(0.5)
        status, _ = await asked(served, "Bearer modest", f"wait=0.1&since={first['stamp']}")
        await asyncio.gather(*crowd)
        return answered, status

    answered, modest = asyncio.run(play())
    assert answered == [429] * (MOST_VIEWERS - MOST_OF_ONE_VIEWER) + [200] * MOST_OF_ONE_VIEWER
    assert modest == 200
