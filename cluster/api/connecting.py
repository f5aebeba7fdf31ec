"""Connects a Phalanx program to its cluster."""

from collections.abc import Callable
from pathlib import Path

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from cluster.api.transport import Transport

POOL_SIZE = 64
"""Connections kept open: one for each watch, and one for each write in flight."""
IN_CLUSTER_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "default"


def connect(kubeconfig: str | None = None) -> Transport:
    """Connect as the kubeconfig says. Without one, connect in-cluster, or else by the user's own kubeconfig.

    The client does not retry requests: timeouts are exact, and the caller gets every error.

    :raises kubernetes.config.ConfigException: there is no cluster to be found that way.
    """
    settings = Configuration()
    _load(settings, kubeconfig)
    settings.connection_pool_maxsize = POOL_SIZE
    settings.keep_alive = True
    # Else urllib3 asks up to four times, each with the whole timeout, and sleeps between as long as `Retry-After` says.
    settings.retries = False
    return Transport(ApiClient(settings))


def token_of(kubeconfig: str | None = None) -> Callable[[], str]:
    """Return a function that returns the kubeconfig's current bearer token; "" if it authenticates in another way.

    :raises kubernetes.config.ConfigException: there is no cluster to be found that way.
    """
    settings = Configuration()
    _load(settings, kubeconfig)
    return lambda: (settings.get_api_key_with_prefix("BearerToken") or "").removeprefix("Bearer ")


def namespace_of(kubeconfig: str | None = None) -> str:
    """Return the namespace of the kubeconfig's current context; in a cluster the program's own; else "default".

    :raises kubernetes.config.ConfigException: there is no cluster to be found that way.
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
