"""Tells when this cluster's Kubernetes does less for a gang than Phalanx relies on elsewhere."""

import logging

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, message_of
from controller.telemetry import events
from controller.telemetry.recorder import Recorder
from kube.versions import shortcoming

LOG = logging.getLogger(__name__)


def tell_version(transport: Transport, recorder: Recorder) -> None:
    """Ask the API server what it is; log and record an event where something cannot be promised on it."""
    try:
        version: str = transport.request("GET", "/version")["gitVersion"]
    except (ApiException, *UNREACHABLE) as error:
        LOG.warning("the version of Kubernetes could not be asked for: %s", message_of(error))
        return
    lacking = shortcoming(version)
    if lacking:
        LOG.warning("%s", lacking)
        recorder.record(events.OUR_CONFIGURATION, events.ROOM_NOT_HELD, lacking)
    else:
        LOG.info("Kubernetes %s holds the room of gated pods", version)
