"""The estimated start of one gang that waits for quota, as `phalanx queue` and the live page estimate it."""

import time
from datetime import UTC, datetime

import click
from kubernetes.client.exceptions import ForbiddenException

from cli.asking.api_requests import TIMEOUT
from cli.live import live_cluster
from cluster.api.transport import Transport
from gangs.incremental.reading_apart import read_apart
from gangs.model import Manifest
from planning.queue_report import queue_reports
from planning.quota.start_estimates import expected_ends_of
from planning.stories.facts import StartEstimate, shown_key
from planning.stories.line import in_line

KEPT_SECONDS = 60.0
"""For this long `--watch` prints the last estimate again, because each new estimate reads the whole cluster."""
_NEEDED = "/api/v1/nodes", "/api/v1/pods"
"""API paths of the lists that an estimate reads. A user with rights in one namespace only may not read them."""


class Estimates:
    """Estimates the start of one gang, for `phalanx why`. Keeps the last estimate for `KEPT_SECONDS`."""

    def __init__(self, kubeconfig: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._last: StartEstimate | None = None
        self._until = 0.0

    def start(self, transport: Transport, manifest: Manifest) -> StartEstimate | None:
        """Return the estimated start of a gang. None if the gang does not wait, or is in no queue.

        :param manifest: the Gang object.
        """
        if not in_line(manifest) or not (manifest.get("spec") or {}).get("queue"):
            return None
        if self._last is None or time.monotonic() >= self._until:
            self._last = self._estimate(transport, manifest)
            self._until = time.monotonic() + KEPT_SECONDS
        return self._last

    def _estimate(self, transport: Transport, manifest: Manifest) -> StartEstimate:
        """Read the whole cluster and return the estimate; an unknown one, with the reason, if a right is missing."""
        try:
            for path in _NEEDED:
                transport.request("GET", path, query={"limit": 1}, timeout=TIMEOUT)
        except ForbiddenException:
            return StartEstimate(None, "it needs the right to list nodes and pods of all namespaces")
        try:
            live = live_cluster(self._kubeconfig)
        except click.ClickException as error:
            return StartEstimate(None, error.message)
        gangs, now, wanted = read_apart(live.sources).gangs, datetime.now(UTC), shown_key(manifest)
        reports = queue_reports(gangs, live.snapshot, expected_ends_of(gangs, live.sources, now), now)
        waiting = next((each for report in reports for each in report.waiting if each.key == wanted), None)
        if waiting is None:
            return StartEstimate(None, "no queue with a quota has this gang")
        if (at := waiting.estimated_start) is None:
            return StartEstimate(None, "too few gangs with a known end use the quota, or it is free")
        ending = waiting.start_after
        return StartEstimate(at, after="" if ending is None else f"{ending.namespace}/{ending.name}")
