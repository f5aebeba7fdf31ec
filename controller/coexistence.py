"""Reports when Phalanx begins to cede workloads to another scheduling system, and when it begins to place them. Phalanx
does not touch ceded workloads, because the system whose keys they carry runs in the cluster.
"""

from collections.abc import Mapping

from controller.cluster_view import ClusterView
from controller.telemetry import events
from controller.telemetry.events import OUR_CONFIGURATION
from controller.telemetry.recorder import Recorder
from gangs.coexistence.ownership import Neighbour
from kube import keys


class CoexistenceReporter:
    """Records an event when Phalanx begins or ceases to cede workloads to another system, such as Kueue.

    It remembers the reported systems in memory only, so a new leader reports the present ones again.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._reported: Mapping[str, Neighbour] = {}

    def tell(self, cluster_view: ClusterView) -> None:
        """Record an event for every system to which workloads are newly ceded, or are no longer ceded."""
        now = {each.system: each for each in cluster_view.left.to.values() if not each.by_default}
        for name in sorted(now.keys() - self._reported.keys()):
            whose = ", ".join(sorted(dialect for dialect, each in cluster_view.left.to.items() if each.system == name))
            note = (
                f"gangs asked for in the keys of {whose} are left to {now[name]}; those that Phalanx has begun are "
                f"carried to their end; to have it place them all, annotate {OUR_CONFIGURATION} with "
                f"{keys.ADOPT}: {name}"
            )
            self._recorder.record(
                now[name].evidence or OUR_CONFIGURATION, events.SYSTEM_LEFT, note, related=OUR_CONFIGURATION
            )
        for name in sorted(self._reported.keys() - now.keys()):
            note = f"gangs asked for in the keys of {self._reported[name].title} are placed from now on"
            self._recorder.record(OUR_CONFIGURATION, events.SYSTEM_TAKEN, note)
        self._reported = now
