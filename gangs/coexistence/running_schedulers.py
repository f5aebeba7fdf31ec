"""Which schedulers run in the cluster: whether a gang's pod may keep the one that it names (docs/decisions/0010).

The stock scheduler runs. One of a system that Phalanx knows runs where the system does (`gangs.coexistence.ownership`).
Any other name is a profile of the stock scheduler or a stranger; it runs if it has been seen to try pods. What was
learnt by waiting in vain, and what whoever runs the cluster says himself, stands in a ConfigMap of ours that all
servers read.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import is_not

from gangs.coexistence.ownership import EVIDENCE_KINDS, admitted_by_us, chosen, running
from gangs.coexistence.systems import SYSTEMS
from gangs.model import Gang, Reading
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, Sources
from kube import keys
from kube.objects import Pod
from kube.scheduling import names_another_scheduler

CONFIG_KIND = "ConfigMap"
KNOWN = ResourceKind("", ("v1",), CONFIG_KIND, "configmaps", only=(keys.SYSTEM_NAMESPACE, keys.SCHEDULERS))
"""What is known of schedulers, to be watched."""

FIELD = "spec.schedulerName"

WHERE = f"{CONFIG_KIND} {keys.SYSTEM_NAMESPACE}/{keys.SCHEDULERS}"

RUNS, ABSENT, UNTRIED = "runs", "absent", "untried"
"""What the ConfigMap says of a name: the first two are a person's words, the last is the controller's, with a time."""

_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""What can be a key of a ConfigMap."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """That a scheduler has let pods wait in vain. `since`: when that was noticed (RFC 3339); `times`: how often."""

    since: str
    times: int = 1

    def __str__(self) -> str:
        """As the ConfigMap holds it."""
        return f"{UNTRIED} {self.since} {self.times}"


def runs(name: str, sources: Sources) -> bool:
    """Whether the scheduler of this name runs here, as far as can be seen."""
    if name in (keys.STOCK_SCHEDULER, ""):
        return True
    decided = _reason(name, sources)
    if decided in (RUNS, ABSENT):
        return decided == RUNS
    systems = [each for each in SYSTEMS if name in each.schedulers]
    if systems:
        present = {system.name for system, _ in running(sources)} | set(chosen(sources, keys.LEAVE))
        shown = bool(present & {each.name for each in systems})
    else:
        shown = bool(sources.last_try(name))
    last = learnt(name, sources)
    return shown and (last is None or sources.last_try(name) > last.since)


def learnt(name: str, sources: Sources) -> Learnt | None:
    """What waiting in vain has taught of this scheduler, None where nothing."""
    word, _, rest = _reason(name, sources).partition(" ")
    since, _, times = rest.partition(" ")
    return Learnt(since, int(times) if times.isascii() and times.isdigit() else 1) if word == UNTRIED else None


def learnable(name: str, sources: Sources) -> bool:
    """Whether something can be noted of this scheduler: a person has not decided about it, and its name is one."""
    return bool(_NAME.fullmatch(name)) and _reason(name, sources) not in (RUNS, ABSENT)


def scheduler_to_use(name: str, pod_keys: PodKeys, sources: Sources) -> str:
    """The scheduler that a gang's pod goes to where its manifest names this one, in the dialect with these keys."""
    stands_for_stock = name == "" or name in pod_keys.scheduler_names
    return name if not stands_for_stock and runs(name, sources) else keys.STOCK_SCHEDULER


def unread(name: str, pod_keys: PodKeys, listed: Callable[[str], bool]) -> str:
    """What has to be read before it can be said where such a pod goes, "" where that is known.

    :param listed: whether the objects of a resource, by its plural, have been listed.
    """
    if name in (keys.STOCK_SCHEDULER, "", *pod_keys.scheduler_names):
        return ""
    return next(
        (each for each in (*(kind.plural for kind in (*EVIDENCE_KINDS, KNOWN)), "pods") if not listed(each)), ""
    )


def advice_on(name: str, pod_keys: PodKeys, sources: Sources) -> str:
    """What the user of such a pod is told, "" where he has named the stock scheduler or his own system's."""
    if name in (keys.STOCK_SCHEDULER, "", *pod_keys.scheduler_names):
        return ""
    if scheduler_to_use(name, pod_keys, sources) == name:
        return (
            f'"{name}" runs here, so the gang\'s pods are left to it once they are let go; its room is not held there'
        )
    text = f'"{name}" does not run here: {keys.STOCK_SCHEDULER} starts the gang'
    if any(name in each.schedulers for each in SYSTEMS) or not learnable(name, sources):
        return text
    return f"{text}; if it does, write {name}: {RUNS} into the data of {WHERE}"


def waited_for(reading: Reading, sources: Sources) -> Reading:
    """What was read; gangs with gated members whose scheduler does not run here wait for these to be made again."""
    gangs = tuple(_waiting(gang, sources) for gang in reading.gangs)
    return replace(reading, gangs=gangs) if any(map(is_not, gangs, reading.gangs)) else reading


def misdirected(pod: Pod, sources: Sources) -> bool:
    """Whether a member that came in through us names a scheduler that does not run here."""
    return names_another_scheduler(pod) and bool(admitted_by_us(pod)) and not runs(pod.spec.scheduler_name, sources)


def _waiting(gang: Gang, sources: Sources) -> Gang:
    pods = (member.pod for member in gang.members)
    held = [pod for pod in pods if pod.spec.scheduling_gates and not pod.bound and misdirected(pod, sources)]
    if not held:
        return gang
    first, more = held[0], f" (and {len(held) - 1} more)" if len(held) > 1 else ""
    name = first.spec.scheduler_name
    what = f"pod {first.metadata.name}{more} to be made again: it names scheduler {name}, which does not run here"
    return replace(gang, waiting_for=(*gang.waiting_for, what))


def _reason(name: str, sources: Sources) -> str:
    config = sources.get("", CONFIG_KIND, keys.SYSTEM_NAMESPACE, keys.SCHEDULERS)
    data = (config or {}).get("data")
    value = data.get(name, "") if isinstance(data, dict) else ""
    return value.strip() if isinstance(value, str) else ""
