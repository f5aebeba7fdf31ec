"""Keeps the webhook's certificate valid while this controller leads; the steps are those of `certs.rotation`."""

import logging
import threading

from kubernetes.client.exceptions import ApiException

from certs.cluster_edge import ensure_serving_certificate
from cluster.transport import UNREACHABLE, Transport, message_of

LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
RETRY_SECONDS = 2.0


def keep_certificate(transport: Transport, lost: threading.Event) -> threading.Thread:
    """Take whatever step of the rotation is due, now and every minute, in a thread that ends when `lost` is set."""
    thread = threading.Thread(target=_keep, args=(transport, lost), name="certificates", daemon=True)
    thread.start()
    return thread


def _keep(transport: Transport, lost: threading.Event) -> None:
    pause = 0.0
    while not lost.wait(pause):
        try:
            ensure_serving_certificate(transport)
            pause = INTERVAL_SECONDS
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("the webhook's certificate could not be looked after: %s", message_of(error))
            pause = RETRY_SECONDS
