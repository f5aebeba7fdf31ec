"""Requests to the API server with the permissions of the command's user. Errors become one line."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import click
from kubernetes.client.exceptions import ApiException, NotFoundException
from kubernetes.config import ConfigException

from cluster.api.connecting import connect, namespace_of
from cluster.api.transport import UNREACHABLE, Transport, message_of
from gangs.model import Manifest
from kube.keys import API_VERSION
from kube.text import one_line_each

TIMEOUT = (5.0, 30.0)
PAGE = 500
NOT_INSTALLED = f"this cluster knows no Gang objects ({API_VERSION}): is Phalanx installed?"


@contextlib.contextmanager
def told_in_a_line() -> Iterator[None]:
    """Turn errors of requests in the `with` block into a `click.ClickException`, which click prints as one line."""
    try:
        yield
    except ConfigException as error:
        raise click.ClickException(f"no cluster: {error}") from error
    except (ApiException, *UNREACHABLE) as error:
        raise click.ClickException(f"the cluster does not answer: {message_of(error)}") from error


def asked(kubeconfig: str | None) -> Transport:
    """Return a transport to the cluster of the kubeconfig; None: of the default one.

    :raises click.ClickException: there is no cluster.
    """
    with told_in_a_line():
        return connect(kubeconfig)


def own_namespace(kubeconfig: str | None) -> str:
    """Return the namespace for a command whose user names none.

    It is the namespace of the kubeconfig's context or, in a cluster, of the program's pod; else "default".

    :raises click.ClickException: the kubeconfig cannot be read.
    """
    with told_in_a_line():
        return namespace_of(kubeconfig)


def split(gang: str) -> tuple[str, str]:
    """Return namespace and name from a text of the form NAMESPACE/GANG.

    :raises click.BadParameter: the text has another form.
    """
    namespace, slash, name = gang.partition("/")
    if not (namespace and slash and name):
        raise click.BadParameter("write it as NAMESPACE/GANG, such as default/llm", param_hint="NAMESPACE/GANG")
    return namespace, name


def gangs_path(namespace: str | None) -> str:
    """Return the API path of the Gang objects of a namespace; None: of all namespaces."""
    return f"/apis/{API_VERSION}/{f'namespaces/{namespace}/' if namespace else ''}gangs"


def gang_objects(transport: Transport, namespace: str | None) -> list[Manifest]:
    """Return the Gang objects of a namespace; None: of all. Control characters are escaped for the terminal.

    :raises click.ClickException: the cluster cannot be read, or Phalanx is not installed.
    """
    with told_in_a_line():
        try:
            return list(listed(transport, gangs_path(namespace)))
        except NotFoundException as error:
            raise click.ClickException(NOT_INSTALLED) from error


def listed(transport: Transport, path: str, query: Mapping[str, Any] | None = None) -> Iterator[Manifest]:
    """Yield the objects at an API path, which are read page by page. Control characters are escaped for the terminal.

    For errors, see `Transport.open`.
    """
    token = None
    while True:
        page = transport.request(
            "GET", path, query={**(query or {}), "limit": PAGE, "continue": token}, timeout=TIMEOUT
        )
        yield from one_line_each(page["items"])
        token = page["metadata"].get("continue")
        if not token:
            return
