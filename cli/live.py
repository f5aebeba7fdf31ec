"""Reads all objects that planning needs from the live cluster of the kubeconfig."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from cli.asking.progress import waiting
from cluster.api.connecting import connect
from cluster.api.transport import UNREACHABLE, Transport, message_of
from cluster.caches.cache import ClusterCache
from gangs.dialects.protection import protection
from gangs.dialects.table import all_kinds
from gangs.sources import Sources
from planning.dry_run import Live

PATIENCE = 60.0
"""The most seconds to wait until every resource has been listed once."""


def live_cluster(kubeconfig: str | None) -> Live:
    """Read all objects that planning needs from the cluster of the kubeconfig; None: of the default one.

    :raises click.ClickException: the cluster does not answer.
    """
    return live_picture(kubeconfig)[1]


def live_picture(kubeconfig: str | None) -> tuple[Transport, Live]:
    """Read all objects that planning needs from the cluster of the kubeconfig. Return a transport to this cluster, and
    the objects.

    :raises click.ClickException: the cluster does not answer.
    """
    with watched_cluster(kubeconfig) as (transport, cache):
        return transport, picture_of(cache)


@contextmanager
def watched_cluster(kubeconfig: str | None) -> Iterator[tuple[Transport, ClusterCache]]:
    """Yield a transport, and watch caches that are complete and stay current until the `with` block ends.

    :raises click.ClickException: the cluster does not answer.
    """
    with waiting("asking the cluster"):
        transport = _transport(kubeconfig)
    cache = ClusterCache(transport, all_kinds(), protecting=protection)
    cache.start()
    try:
        with waiting("reading nodes, pods and what asks for gangs"):
            synced = cache.wait_synced(PATIENCE)
        if not synced:
            raise click.ClickException(f"the cluster did not answer for: {', '.join(cache.unsynced())}")
        yield transport, cache
    finally:
        cache.stop()


def picture_of(cache: ClusterCache) -> Live:
    """Return the snapshot and all objects of the caches at one instant."""
    with cache.still():
        return Live(
            cache.snapshot(),
            Sources(cache.pods(), cache.objects(), cache.namespaces(), cache.found(), cache.tried(), cache.sharing()),
        )


def _transport(kubeconfig: str | None) -> Transport:
    """Return a transport to the cluster. Its version is read once, so that a wrong kubeconfig fails at once.

    :raises click.ClickException: there is no cluster, or it does not answer.
    """
    try:
        transport = connect(kubeconfig)
        transport.request("GET", "/version")
    except ConfigException as error:
        raise click.ClickException(f"no cluster: {error}") from error
    except (ApiException, *UNREACHABLE) as error:
        raise click.ClickException(f"the cluster does not answer: {message_of(error)}") from error
    return transport
