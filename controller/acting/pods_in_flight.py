"""Waits for pods that the scheduler may be about to bind with devices that no claim shows yet."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kube.objects import Pod
from timing.clock import SYSTEM_CLOCK, Clock

REPORTED_AFTER_SECONDS = 5.0
"""Seconds for which a gang waits for a pod before the gang's status says so.

kube-scheduler writes the claims of most pods within a second. A nominated pod may wait for minutes, such as one that
lacks devices or waits for its victims.
"""
APPEARS_WITHIN_SECONDS = 5.0
"""Seconds within which the nomination of a pod appears that the scheduler tried before the probe.

The scheduler sends the nomination before the condition of the probe. In all of 91 races with a scheduler of 4 requests
a second, the nomination was visible together with the condition. The seconds are a margin.
"""
LONGEST_BINDING_SECONDS = 2100.0
"""Seconds after which a binding cycle of kube-scheduler has ended: its pod is bound, or goes back to the queue.

Plugins may permit a pod for 15 min at most (`maxTimeout`, `runtime/framework.go`). VolumeBinding waits for volumes for
10 min (`bindTimeoutSeconds`), and DynamicResources for devices for 10 min (`bindingTimeout`).
"""


@dataclass(slots=True)
class _Wait:
    """The wait of one plan for pods, by UID. `since`: its beginning, on the monotonic clock."""

    since: float
    pods: set[str] = field(default_factory=set)


class PodsInFlight:
    """Determines for each plan whether a pod may still get a device that the plan takes. The state is not durable.

    A probe shows that the scheduler has seen the taint rules or allocations of the plan. A pod that the scheduler tries
    later cannot choose the devices. A pod that it tried before may have chosen one, and keeps it until its binding
    cycle ends. So only pods count that are nominated within `APPEARS_WITHIN_SECONDS` of the probe, and only for
    `LONGEST_BINDING_SECONDS`.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._waits: dict[str, _Wait] = {}

    def first(self, plan_id: str, pods: Iterable[Pod]) -> Pod | None:
        """Return a pod that may still get a device of the plan, so that the plan must wait for the pod; None if there
        is none.

        Call this only after the scheduler has tried a probe of the plan.

        :param pods: the pods that are nominated to the nodes of the plan and lack devices now.
        """
        now = self._clock.monotonic()
        wait = self._waits.setdefault(plan_id, _Wait(now))
        present = {pod.metadata.uid: pod for pod in pods}
        if now - wait.since <= APPEARS_WITHIN_SECONDS:
            wait.pods |= present.keys()
        wait.pods &= present.keys()
        if now - wait.since >= LONGEST_BINDING_SECONDS or not wait.pods:
            return None
        return present[min(wait.pods)]

    def is_long(self, plan_id: str) -> bool:
        """Return whether the plan has waited for a pod for `REPORTED_AFTER_SECONDS`, so that the gang's status reports
        the wait.
        """
        wait = self._waits.get(plan_id)
        return wait is not None and self._clock.monotonic() - wait.since >= REPORTED_AFTER_SECONDS

    def forget(self, plan_id: str) -> None:
        """Drop the record of how long a plan has waited for pods that the scheduler is binding. The controller has
        written more for the plan, and the scheduler must see these writes first. So the next wait starts anew.
        """
        self._waits.pop(plan_id, None)

    def keep(self, plan_ids: Collection[str]) -> None:
        """Forget all plans except these, because the others are not in force any more."""
        self._waits = {plan_id: wait for plan_id, wait in self._waits.items() if plan_id in plan_ids}
