"""What the small HTTP servers beside the main one share: health probes and metrics. They answer from threads."""

import socket

from werkzeug.serving import WSGIRequestHandler


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; werkzeug would end the process where the port cannot be had, this raises OSError."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


class Quiet(WSGIRequestHandler):
    """Probes and scrapes are not worth a line each."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""
