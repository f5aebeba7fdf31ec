"""Requests of commands to the webhook, with the token of the user, or of a service account."""

import base64
import ssl
import time
from collections.abc import Callable
from contextlib import nullcontext
from http import HTTPStatus
from urllib.parse import urlsplit

import click
import urllib3
from kubernetes.client.exceptions import ApiException, NotFoundException
from kubernetes.config import ConfigException

from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from cli.port_forward import port_forward
from cluster.api.connecting import connect, token_of
from cluster.api.transport import UNREACHABLE, Transport, message_of

PATIENCE = urllib3.Timeout(connect=5, read=60)
QUICK = urllib3.Timeout(connect=1, read=2)
"""The timeout of a request whose answer is only a hint."""
TOKEN_SECONDS = 3600
"""The requested lifetime of a service account's token. After half of it, a new token is requested."""

NAME = f"{DEFAULT_PLACE.service}.{DEFAULT_PLACE.namespace}.svc"
"""The name of the webhook's certificate, wherever its port is forwarded to."""

Token = Callable[[], str]


class NoWebhookError(click.ClickException):
    """The cluster has no webhook configuration of Phalanx."""


def webhook_at(server: str, authority: str, at_once: int = 1, *, name: str = NAME) -> urllib3.HTTPSConnectionPool:
    """Return a pool of connections to the webhook.

    :param server: the URL at which the webhook is reached, such as a forwarded local port.
    :param authority: the CA certificates (PEM) that verify the webhook's certificate.
    :param at_once: the most concurrent requests.
    :param name: the name or address that its certificate must have.
    """
    there = urlsplit(server)
    return urllib3.HTTPSConnectionPool(
        there.hostname or "",
        there.port,
        timeout=PATIENCE,
        maxsize=at_once,
        retries=False,
        ssl_context=ssl.create_default_context(cadata=authority),
        server_hostname=name,
        assert_hostname=name,
    )


def authority_in(transport: Transport) -> str:
    """Return the CA certificates (PEM) by which API servers trust the webhook, from its webhook configuration.

    :raises click.ClickException: the configuration has no caBundle yet.
    """
    kind, name = CONFIGURATIONS[-1]
    found = transport.request("GET", f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{name}")
    bundles = [each["clientConfig"].get("caBundle", "") for each in found["webhooks"]]
    bundle = next((each for each in bundles if each), "")
    if not bundle:
        raise click.ClickException(f"{kind} {name} holds no caBundle yet; name a file by --ca-file")
    return base64.b64decode(bundle).decode()


def url_in(transport: Transport) -> str:
    """Return the URL, without a path, at which the API server calls a webhook that runs outside the cluster.

    "" if the webhook configuration names a Service.
    """
    kind, name = CONFIGURATIONS[-1]
    found = transport.request("GET", f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/{name}")
    urls = [str(each["clientConfig"].get("url") or "") for each in found["webhooks"]]
    there = urlsplit(next((each for each in urls if each), ""))
    return f"{there.scheme}://{there.netloc}" if there.netloc else ""


def account_token(transport: Transport, account: str) -> Token:
    """Return a function that returns a valid token of a service account, renewed before it expires.

    :param account: `NAMESPACE/NAME` of the service account.
    """
    namespace, _, name = account.partition("/")
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    spec = {"expirationSeconds": TOKEN_SECONDS}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token, until = "", 0.0

    def current() -> str:
        nonlocal token, until
        if time.monotonic() >= until:
            token = transport.request("POST", path, body=body)["status"]["token"]
            until = time.monotonic() + TOKEN_SECONDS / 2
        return token

    return current


def webhook_answer(
    path: str,
    kubeconfig: str | None,
    account: str | None = None,
    server: str | None = None,
    *,
    quick: bool = False,
) -> bytes:
    """Send a GET request to the webhook and return the body of its answer.

    :param account: `NAMESPACE/NAME` of the service account whose token is sent. None: the kubeconfig's token.
    :param server: the URL at which the webhook is reached. None: the URL in its webhook configuration. If the
        configuration names a Service instead, kubectl forwards a port to the Service for the request.
    :param quick: forward no port, and give up soon (`QUICK`), for an answer without which the command is useful.
    :raises NoWebhookError: the webhook is not installed.
    :raises click.ClickException: there is no token, or the webhook cannot be reached or refuses the request.
    """
    try:
        transport = connect(kubeconfig)
        token = account_token(transport, account) if account else token_of(kubeconfig)
        authority, bearer, outside = authority_in(transport), token(), url_in(transport) if not server else ""
    except NotFoundException as error:
        raise NoWebhookError(f"Phalanx' webhook is not installed here: {message_of(error)}") from error
    except (ApiException, ConfigException, *UNREACHABLE) as error:
        raise click.ClickException(message_of(error)) from error
    if not bearer:
        raise click.ClickException("your kubeconfig holds no token: name a --service-account NAMESPACE/NAME")
    if quick and not (server or outside):
        raise click.ClickException("the webhook has no URL, and no port is forwarded to it")
    name = urlsplit(outside).hostname or NAME
    with nullcontext(server or outside) if server or outside else port_forward(kubeconfig) as url:
        connections = webhook_at(url, authority, name=name)
        try:
            headers, timeout = {"Authorization": f"Bearer {bearer}"}, QUICK if quick else PATIENCE
            answer = connections.request("GET", path, headers=headers, timeout=timeout)
        except UNREACHABLE as error:
            raise click.ClickException(f"the webhook does not answer: {message_of(error)}") from error
    if answer.status != HTTPStatus.OK:
        raise click.ClickException(f"the webhook refuses GET {path} ({answer.status}): {_reason(answer.data)}")
    return answer.data


def _reason(data: bytes) -> str:
    return " ".join(data.decode(errors="replace").split())[:300]
