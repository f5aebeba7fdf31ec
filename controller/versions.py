"""The version of the stock scheduler: how it is found, and how it is reported (docs/decisions/0043)."""

import logging
import threading

from kubernetes.client.exceptions import ApiException

from cluster.api.transport import UNREACHABLE, Transport, message_of
from controller.telemetry import events
from controller.telemetry.recorder import Recorder
from kube.versions import SCHEDULER_PODS, Version, forgets, scheduler_version, shortcoming, version_of, way_of_holding

LOG = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""Seconds between two reads of the version. A control plane may be upgraded or rolled back while Phalanx runs."""
UNKNOWN_SECONDS = 1.0
"""Seconds until the version is read again after a failure, while it is not known at all."""


class SchedulerVersion:
    """The version of the oldest stock scheduler that may run in the cluster, read again and again in a thread.

    :param given: the version that the user has set; "" to read it from the cluster.
    """

    def __init__(self, transport: Transport, given: str = "") -> None:
        self.transport = transport
        self._given = version_of(given) if given else None
        self._version: Version | None = self._given
        self._known = threading.Event()
        if self._given is not None:
            self._known.set()

    def start(self, stop: threading.Event) -> None:
        """Read the version in a thread of its own until `stop` is set. If the user has set it, do nothing."""
        if self._given is None:
            threading.Thread(target=self._follow, args=(stop,), name="scheduler-version", daemon=True).start()

    @property
    def forgets(self) -> bool:
        """Whether the scheduler forgets the nominations of gated pods when it restarts. True while it is not known."""
        return forgets(self._version)

    def wait(self, seconds: float) -> Version | None:
        """Return the version as soon as it has been read, or None after so many seconds."""
        self._known.wait(seconds)
        return self._version

    def read(self) -> None:
        """Read the version from the cluster. After a failure the last known version stays."""
        try:
            api_server = str(self.transport.request("GET", "/version")["gitVersion"])
            pods = self.transport.request("GET", SCHEDULER_PODS)["items"]
        except (ApiException, *UNREACHABLE) as error:
            LOG.warning("the version of the scheduler could not be read: %s", message_of(error))
            return
        found = scheduler_version(api_server, pods)
        if found != self._version:
            LOG.info("%s", way_of_holding(found))
        self._version = found
        self._known.set()

    def _follow(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.read()
            stop.wait(AGAIN_SECONDS if self._known.is_set() else UNKNOWN_SECONDS)


def tell_version(version: SchedulerVersion, recorder: Recorder) -> None:
    """Log how capacity is reserved. If that is not known to work with this version, record an event."""
    found = version.wait(AGAIN_SECONDS)
    lacking = shortcoming(found)
    if lacking:
        LOG.warning("%s", lacking)
        recorder.record(events.OUR_CONFIGURATION, events.ROOM_NOT_HELD, lacking)
    else:
        LOG.info("%s", way_of_holding(found))
