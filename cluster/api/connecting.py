"""Finds the cluster of a Phalanx program, from a kubeconfig or from inside the cluster, and connects to it."""

from collections.abc import Callable
from pathlib import Path

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import Transport

POOL_SIZE = 64
"""The most connections that are kept open: one for each watch, and one for each write in flight."""
IN_CLUSTER_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "default"


def connect(kubeconfig: str | None = None) -> Transport:
    """Return a transport to the cluster of the kubeconfig.

    Without a kubeconfig it uses the pod's service account or, outside a cluster, the user's default kubeconfig. The
    client does not retry requests, so timeouts are exact and the caller gets every error.

    :raises kubernetes.config.ConfigException: the configuration cannot be read, or names no cluster.
    """
    settings = Configuration()
    _load(settings, kubeconfig)
    settings.connection_pool_maxsize = POOL_SIZE
    settings.keep_alive = True
    # Otherwise urllib3 sends a request up to four times, each with the whole timeout, and waits for `Retry-After`.
    settings.retries = False
    return Transport(ApiClient(settings))


def token_of(kubeconfig: str | None = None) -> Callable[[], str]:
    """Return a function that returns the present bearer token; "" if the kubeconfig authenticates in another way.

    :raises kubernetes.config.ConfigException: the configuration cannot be read, or names no cluster.
    """
    settings = Configuration()
    _load(settings, kubeconfig)
    return lambda: (settings.get_api_key_with_prefix("BearerToken") or "").removeprefix("Bearer ")


def namespace_of(kubeconfig: str | None = None) -> str:
    """Return the namespace for requests that name none.

    It is the namespace of the kubeconfig's current context or, in a cluster, of the program's pod; else "default".

    :raises kubernetes.config.ConfigException: the configuration cannot be read, or names no cluster.
    """
    if kubeconfig is None and IN_CLUSTER_NAMESPACE.exists():
        return IN_CLUSTER_NAMESPACE.read_text().strip() or DEFAULT_NAMESPACE
    _, current = config.list_kube_config_contexts(config_file=kubeconfig)  # type: ignore[no-untyped-call]
    return str(current["context"].get("namespace") or DEFAULT_NAMESPACE)


def _load(settings: Configuration, kubeconfig: str | None) -> None:
    if kubeconfig is None:
        try:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except config.ConfigException:
            pass
        else:
            return
    try:
        config.load_kube_config(config_file=kubeconfig, client_configuration=settings)  # type: ignore[no-untyped-call]
    except (OSError, yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError) as error:
        which = f"kubeconfig {kubeconfig}" if kubeconfig else "your kubeconfig"
        raise config.ConfigException(f"{which} cannot be read: {' '.join(str(error).split())}") from error
