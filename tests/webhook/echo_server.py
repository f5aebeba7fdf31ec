"""A webhook server whose service only echoes, for tests of the HTTP server. Arguments: settings as JSON."""

import json
import sys
import time
from datetime import datetime
from pathlib import Path

from flask import Flask, Response, request

from webhook.health import Check
from webhook.serving import Settings, WebhookServer


class Echo:
    """Answers a POST with its own body: after `?sleep=` seconds, or as soon as the file `?until=` is there.

    Makes the file `?come=` before.
    """

    def __init__(self) -> None:
        self.app = Flask("echo")
        self.app.add_url_rule("/mutate", view_func=self.echo, methods=["POST"])

    def echo(self) -> Response:
        """The body, after a while."""
        if come := request.args.get("come"):
            Path(come).touch()
        while (until := request.args.get("until")) and not Path(until).exists():
            time.sleep(0.05)
        time.sleep(float(request.args.get("sleep", "0")))
        return Response(request.get_data(), mimetype="application/json")

    def checks(self) -> dict[str, Check]:
        """Always ready."""
        return {"caches": lambda: ""}

    def certificate_changed(self, not_after: datetime) -> None:
        """Not of interest."""

    def close(self) -> None:
        """Close nothing: the service has no resources."""


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    WebhookServer(Settings(**{**arguments, "certificates": Path(arguments["certificates"])}), Echo).run()
