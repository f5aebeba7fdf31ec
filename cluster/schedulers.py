"""Pods by the scheduler that they name, as far as that is not the stock one: which it has tried, and which wait for it.

Kept up to date pod by pod, so that nobody has to look at all of them to ask.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kube.objects import Pod
from kube.scheduling import names_another_scheduler, tried


class SchedulerIndex:
    """Counts pods as they come and go. Not safe to share between threads."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}
        """By scheduler; nothing is kept of one that no pod names any more."""
        self._named: dict[str, str] = {}
        """By pod, the scheduler that it names."""
        self._latest: Mapping[str, str] = {}

    def put(self, pod: Pod) -> None:
        """This pod is new or changed."""
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
        """This pod is gone."""
        name = self._named.pop(key, None)
        if name is not None:
            use = self._uses[name]
            use.drop(key)
            self._note(name, use)
            if not use.tried and not use.waiting and not use.others:
                del self._uses[name]

    def tried(self) -> Mapping[str, str]:
        """By scheduler, when it was last seen to try a pod. The same object until that changes."""
        return self._latest

    def waiting(self) -> Mapping[str, int]:
        """By scheduler, how many pods it could try and has not."""
        return {name: len(use.waiting) for name, use in self._uses.items() if use.waiting}

    def waiting_for(self, name: str) -> Sequence[Pod]:
        """The pods that a scheduler could try and has not, the longest known first."""
        return tuple(self._uses[name].waiting.values()) if name in self._uses else ()

    def _note(self, name: str, use: "_Use") -> None:
        if self._latest.get(name, "") != use.latest:
            rest = {each: time for each, time in self._latest.items() if each != name}
            self._latest = {**rest, name: use.latest} if use.latest else rest


class _Use:
    """The pods of one scheduler. `tried`: by pod, when that was last; `others`: those that it can do nothing about."""

    def __init__(self) -> None:
        self.tried: dict[str, str] = {}
        self.waiting: dict[str, Pod] = {}
        self.others: set[str] = set()
        self.latest = ""
        self._times: Counter[str] = Counter()
        """How many pods were tried last at each time: seconds, so that there are far fewer than pods."""

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
    """Whether a scheduler could try the pod now and has not."""
    over = pod.bound or pod.finished or pod.terminating or bool(pod.spec.scheduling_gates)
    return not over and not tried(pod)


def tried_of(pods: Iterable[Pod]) -> Mapping[str, str]:
    """What `SchedulerIndex.tried` says of these pods."""
    index = SchedulerIndex()
    for pod in pods:
        index.put(pod)
    return index.tried()
