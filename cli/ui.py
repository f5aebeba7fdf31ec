"""`phalanx ui`: opens the webhook's live page in a browser.

The webhook requires a bearer token, which a browser cannot send by itself. So a small server on the loopback address
forwards the browser's requests with the user's token, for as long as the command runs.
"""

import logging
import secrets
import socket
import sys
import webbrowser
from contextlib import nullcontext
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import click
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from werkzeug.exceptions import Forbidden, HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge
from werkzeug.serving import make_server
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from cli.port_forward import port_forward
from cli.webhook_requests import Token, account_token, authority_in, webhook_at
from cluster.api.connecting import connect, token_of
from cluster.api.transport import UNREACHABLE, message_of
from serving.limits import LARGEST_BODY

PATHS = (
    "/",
    "/page.js",
    "/v1/gangs",
    "/v1/topology",
    "/v1/queues",
    "/v1/history",
    "/v1/story",
    "/v1/changes",
    "/metrics",
)
DRY_RUN = "POST", "/v1/solve"
"""Method and path of the only forwarded request that is no GET. It changes nothing either."""
KEPT_HEADERS = (
    "Warning",
    "Retry-After",
    "Content-Type",
    "Content-Security-Policy",
    "X-Content-Type-Options",
    "Referrer-Policy",
    "Cache-Control",
)
LOOPBACK = "127.0.0.1"
AT_ONCE = 8
"""The most concurrent requests to the webhook, including the one that waits for changes."""


@click.command(
    epilog="""\b
Examples:
  phalanx ui
  phalanx ui --service-account research/viewer --no-open
"""
)
@click.option(
    "--server",
    metavar="URL",
    help="Where the webhook is reached. Without it, kubectl forwards a free local port to the webhook.",
)
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="By what the webhook is believed; absent: by the caBundle that the API server believes it by.",
)
@click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    help="Ask in its name, where your kubeconfig signs in by certificate. It needs the ClusterRole phalanx-viewer.",
)
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Default: the usual one.")
@click.option("--port", default=0, help="Port on the loopback; absent: any that is free.")
@click.option("--open/--no-open", "opening", default=True, show_default=True, help="Open the page in the browser.")
def ui(
    *,
    server: str | None,
    ca_file: Path | None,
    service_account: str | None,
    kubeconfig: str | None,
    port: int,
    opening: bool,
) -> None:
    """Open the live page in a browser, with your permissions, until you stop the command."""
    try:
        transport = connect(kubeconfig)
        token = account_token(transport, service_account) if service_account else token_of(kubeconfig)
        authority = ca_file.read_text() if ca_file else authority_in(transport)
        missing = not token()
    except (ApiException, ConfigException, *UNREACHABLE) as error:
        raise click.ClickException(message_of(error)) from error
    if missing:
        raise click.ClickException("your kubeconfig holds no token: name a --service-account NAMESPACE/NAME")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request, with the key in it
    with nullcontext(server) if server else port_forward(kubeconfig) as url:
        gateway = Gateway(url, authority, token)
        if unreachable := gateway.unreachable():
            raise click.ClickException(f"nothing answers at {url}: {unreachable}")
        listening = make_server(LOOPBACK, port, gateway.application, threaded=True)
        address = gateway.address(listening.server_port)
        click.echo(address)
        if opening:
            webbrowser.open(address)
        listening.serve_forever()


class Gateway:
    """Forwards the requests of one browser to the webhook with the user's token. Other programs are refused.

    The browser authenticates once by the `key` in the address, and by a cookie from then on. The host name is random,
    because a browser sends a cookie to every port of a host name, so other servers on this machine could receive it.
    Requests with another Host header are refused, which stops foreign pages whose name points to this address (DNS
    rebinding).
    """

    def __init__(self, server: str, authority: str, token: Token) -> None:
        self.key = secrets.token_urlsafe(24)
        self._hosts: set[str] = set()
        self._token = token
        self._webhook = webhook_at(server, authority, AT_ONCE)
        self.application = Request.application(self._answer)

    def address(self, port: int) -> str:
        """Return the URL for the browser, given the port on the loopback. From now on, requests to it are accepted."""
        own = own_host()
        self._hosts = {f"{name}:{port}" for name in (own, LOOPBACK, "localhost")}
        return f"http://{own}:{port}/?key={self.key}"

    def unreachable(self) -> str:
        """Return why the webhook cannot be reached; "" if it answers, even with a refusal."""
        try:
            self._webhook.request("GET", "/page.js", headers={"Authorization": f"Bearer {self._token()}"})
        except (ApiException, *UNREACHABLE) as error:
            return message_of(error)
        return ""

    def _answer(self, request: Request) -> Response:
        try:
            return self._admitted(request)
        except HTTPException as error:
            return Response(f"{error.description}\n", status=error.code)

    def _admitted(self, request: Request) -> Response:
        if request.host not in self._hosts:
            raise Forbidden("this is not the address that phalanx ui printed")
        if request.method != "GET" and (request.method, request.path) != DRY_RUN:
            raise MethodNotAllowed
        # If another server on this machine has the same host name, requests from its pages carry this cookie too.
        if urlsplit(request.headers.get("Origin", f"http://{request.host}")).netloc not in self._hosts:
            raise Forbidden("only the page that phalanx ui has opened may ask")
        if request.path not in PATHS and (request.method, request.path) != DRY_RUN:
            raise NotFound
        cookie = f"phalanx-{request.host.rpartition(':')[2]}"
        if secrets.compare_digest(request.args.get("key", "").encode(), self.key.encode()):
            answer = redirect(request.path, HTTPStatus.SEE_OTHER, Response)
            answer.set_cookie(cookie, self.key, httponly=True, samesite="Strict")
            return answer
        if not secrets.compare_digest(request.cookies.get(cookie, "").encode(), self.key.encode()):
            raise Forbidden("open the address that phalanx ui printed")
        if (request.content_length or 0) > LARGEST_BODY:
            raise RequestEntityTooLarge
        return self._ask(request)

    def _ask(self, request: Request) -> Response:
        query = request.query_string.decode("latin-1")
        try:
            answer = self._webhook.request(
                request.method,
                f"{request.path}?{query}" if query else request.path,
                body=request.get_data() if request.method == "POST" else None,
                headers={"Authorization": f"Bearer {self._token()}", "Accept-Encoding": "gzip"},
            )
        except (ApiException, *UNREACHABLE) as error:
            return Response(f"the webhook cannot be asked: {message_of(error)}\n", status=HTTPStatus.BAD_GATEWAY)
        headers = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
        return Response(answer.data, answer.status, headers)


def own_host() -> str:
    """Return a random host name below `localhost` for one run, which browsers resolve to this machine (RFC 6761).

    On macOS, return the loopback address if the system does not resolve such a name.
    """
    name = f"phalanx-{secrets.token_hex(8)}.localhost"
    if sys.platform == "darwin":  # Safari resolves names by the system, and older versions do not resolve them
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            return LOOPBACK
    return name
