"""Keeps the webhook's certificate valid and trusted while this controller leads. `certs.rotation` defines the steps."""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from kubernetes.client.exceptions import ApiException

from certs.cluster_edge import ensure_serving_certificate, ensure_trust
from certs.rotation import DEFAULT_SCHEDULE, Schedule
from cluster.api.transport import UNREACHABLE, Transport, message_of
from controller.leadership.election import LeadershipLostError
from timing.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 3.0
"""Seconds between two checks, each of three small reads. A change by another client is repaired in twice this time."""
RETRY_SECONDS = 1.0
"""Seconds after which a check is repeated if the API server failed."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """The source of the webhook's certificate.

    `schedule`: the schedule by which Phalanx issues and replaces the certificate. None if it comes from another source,
    such as cert-manager or files.
    `ca_file`: for a certificate from another source, the CA bundle (PEM) that API servers have to trust. None if
    another program writes the bundle to the webhook configuration.
    """

    schedule: Schedule | None = DEFAULT_SCHEDULE
    ca_file: Path | None = None


def keep_certificate(
    transport: Transport, keeping: Keeping, lost: threading.Event, clock: Clock = SYSTEM_CLOCK
) -> threading.Thread:
    """Check and renew the certificate now and every few seconds, in a thread that ends when `lost` is set."""
    thread = threading.Thread(target=_keep, args=(transport, keeping, lost, clock), name="certificates", daemon=True)
    thread.start()
    return thread


def _keep(transport: Transport, keeping: Keeping, lost: threading.Event, clock: Clock) -> None:
    pause = 0.0
    while not clock.wait(lost, pause):
        try:
            _look(transport, keeping)
            pause = INTERVAL_SECONDS
        except LeadershipLostError:
            return
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("the webhook's certificate could not be looked after: %s", message_of(error))
            pause = RETRY_SECONDS
        except Exception:
            LOG.exception("the webhook's certificate could not be looked after")
            pause = INTERVAL_SECONDS


def _look(transport: Transport, keeping: Keeping) -> None:
    if keeping.schedule is not None:
        ensure_serving_certificate(transport, schedule=keeping.schedule)
    elif keeping.ca_file is not None:
        ensure_trust(transport, keeping.ca_file.read_bytes())
