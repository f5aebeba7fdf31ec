"""Index of the pods that name another scheduler than the stock scheduler: which of them their scheduler has tried.

A scheduler has tried a pod if it has changed the pod's PodScheduled condition (`kube.scheduling.tried`). The index is
updated pod by pod, so that no query has to read all pods.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kube.objects import Pod
from kube.scheduling import names_another_scheduler, tried


class SchedulerIndex:
    """Indexes pods by the scheduler that they name, as they are added and removed. For one thread only."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}
        """The pods of each scheduler. A scheduler that no pod names any more is removed."""
        self._named: dict[str, str] = {}
        """The scheduler that each pod names, by `namespace/name`."""
        self._latest: Mapping[str, str] = {}

    def put(self, pod: Pod) -> None:
        """Add or update a pod."""
        if not names_another_scheduler(pod):
            self.drop(pod.key)
            return
        name, time = pod.spec.scheduler_name, tried(pod)
        if self._named.get(pod.key, name) != name:
            self.drop(pod.key)
        self._named[pod.key] = name
        use = self._uses.setdefault(name, _Use())
        use.put(pod, time)
        self._note(name, use)

    def drop(self, key: str) -> None:
        """Remove the pod `namespace/name`."""
        name = self._named.pop(key, None)
        if name is not None:
            use = self._uses[name]
            use.drop(key)
            self._note(name, use)
            if not use.tried and not use.waiting and not use.others:
                del self._uses[name]

    def tried(self) -> Mapping[str, str]:
        """Return, for each scheduler, the last time (RFC 3339) that it tried a pod.

        The returned object stays the same until one of the times changes.
        """
        return self._latest

    def waiting(self) -> Mapping[str, int]:
        """Return, for each scheduler, how many pods it could try and has not tried. Schedulers without such pods are
        left out.
        """
        return {name: len(use.waiting) for name, use in self._uses.items() if use.waiting}

    def waiting_for(self, name: str) -> Sequence[Pod]:
        """Return the pods that a scheduler could try and has not tried, the longest known first."""
        return tuple(self._uses[name].waiting.values()) if name in self._uses else ()

    def _note(self, name: str, use: "_Use") -> None:
        if self._latest.get(name, "") != use.latest:
            rest = {each: time for each, time in self._latest.items() if each != name}
            self._latest = {**rest, name: use.latest} if use.latest else rest


class _Use:
    """The pods that name one scheduler, by `namespace/name`.

    `tried`: the last time (RFC 3339) that it tried each pod. `waiting`: the pods that it could try and has not tried.
    `others`: the pods that it cannot try, for example because they are gated. `latest`: the last of the times; "" if
    there is none.
    """

    def __init__(self) -> None:
        self.tried: dict[str, str] = {}
        self.waiting: dict[str, Pod] = {}
        self.others: set[str] = set()
        self.latest = ""
        self._times: Counter[str] = Counter()
        """Number of pods by the time of their last try. Times are seconds, so there are far fewer times than pods."""

    def put(self, pod: Pod, time: str) -> None:
        key = pod.key
        if key in self.tried and self.tried[key] != time:
            self._forget(key)
        if time:
            self.waiting.pop(key, None)
            self.others.discard(key)
            if key not in self.tried:
                self.tried[key] = time
                self._times[time] += 1
                self.latest = max(self.latest, time)
        elif waits(pod):
            self.others.discard(key)
            self.waiting[key] = pod
        else:
            self.waiting.pop(key, None)
            self.others.add(key)

    def drop(self, key: str) -> None:
        self.waiting.pop(key, None)
        self.others.discard(key)
        if key in self.tried:
            self._forget(key)

    def _forget(self, key: str) -> None:
        time = self.tried.pop(key)
        self._times[time] -= 1
        if not self._times[time]:
            del self._times[time]
            if time == self.latest:
                self.latest = max(self._times, default="")


def waits(pod: Pod) -> bool:
    """Whether a scheduler could try the pod now and has not tried it: the pod is unbound, ungated and alive."""
    over = pod.bound or pod.finished or pod.terminating or bool(pod.spec.scheduling_gates)
    return not over and not tried(pod)


def tried_of(pods: Iterable[Pod]) -> Mapping[str, str]:
    """Return, for each scheduler other than the stock one, the last time (RFC 3339) that it tried one of these pods."""
    index = SchedulerIndex()
    for pod in pods:
        index.put(pod)
    return index.tried()
