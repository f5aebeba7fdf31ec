"""Reports when this cluster's version of Kubernetes lacks a guarantee that Phalanx uses on newer versions."""

import logging

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, message_of
from controller.telemetry import events
from controller.telemetry.recorder import Recorder
from kube.versions import shortcoming

LOG = logging.getLogger(__name__)


def tell_version(transport: Transport, recorder: Recorder) -> None:
    """Read the API server's version. If it lacks a guarantee, log a warning and record an event."""
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
        LOG.info("Kubernetes %s reserves capacity for gated pods", version)
