"""The schedulers that run in the cluster, which decide whether a gang's pod may keep its own (docs/decisions/0010).

The stock scheduler always runs. The scheduler of a system that Phalanx knows runs if the system runs
(`gangs.coexistence.ownership`). Any other name is a profile of the stock scheduler or an unknown scheduler. It runs if
it has tried pods. A ConfigMap of Phalanx, which all servers read, overrides these rules. It holds the schedulers for
which pods waited in vain, and the entries of the cluster administrator.
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
"""The ConfigMap about schedulers, as a resource to watch."""

FIELD = "spec.schedulerName"

WHERE = f"{CONFIG_KIND} {keys.SYSTEM_NAMESPACE}/{keys.SCHEDULERS}"

RUNS, ABSENT, UNTRIED = "runs", "absent", "untried"
"""The ConfigMap's values for a scheduler. A person writes the first two. The controller writes the last, with a time.
"""

_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""The pattern for keys of a ConfigMap's data."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """The record that pods waited for a scheduler in vain. `since`: RFC 3339 time; `times`: how often it happened."""

    since: str
    times: int = 1

    def __str__(self) -> str:
        """Return the value for the ConfigMap."""
        return f"{UNTRIED} {self.since} {self.times}"


def runs(name: str, sources: Sources) -> bool:
    """Whether the scheduler of this name runs in the cluster, by the ConfigMap or the observed evidence."""
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
    """Return the record that pods waited for this scheduler in vain; None if there is none."""
    word, _, rest = _reason(name, sources).partition(" ")
    since, _, times = rest.partition(" ")
    return Learnt(since, int(times) if times.isascii() and times.isdigit() else 1) if word == UNTRIED else None


def learnable(name: str, sources: Sources) -> bool:
    """Whether the controller may record this scheduler: the name is a valid key, and no person has decided about it."""
    return bool(_NAME.fullmatch(name)) and _reason(name, sources) not in (RUNS, ABSENT)


def scheduler_to_use(name: str, pod_keys: PodKeys, sources: Sources) -> str:
    """Return the scheduler for a gang's pod whose manifest names this one, in the dialect with these keys."""
    stands_for_stock = name == "" or name in pod_keys.scheduler_names
    return name if not stands_for_stock and runs(name, sources) else keys.STOCK_SCHEDULER


def unread(name: str, pod_keys: PodKeys, listed: Callable[[str], bool]) -> str:
    """Return the resource that must still be listed before `scheduler_to_use` is reliable; "" if none is missing.

    :param listed: whether the objects of a resource, by its plural, have been listed.
    """
    if name in (keys.STOCK_SCHEDULER, "", *pod_keys.scheduler_names):
        return ""
    return next(
        (each for each in (*(kind.plural for kind in (*EVIDENCE_KINDS, KNOWN)), "pods") if not listed(each)), ""
    )


def advice_on(name: str, pod_keys: PodKeys, sources: Sources) -> str:
    """Return advice for the user of such a pod; "" if it names the stock scheduler or its own system's scheduler."""
    if name in (keys.STOCK_SCHEDULER, "", *pod_keys.scheduler_names):
        return ""
    if scheduler_to_use(name, pod_keys, sources) == name:
        return (
            f'"{name}" runs here, so the gang\'s pods are left to it once they are released; '
            "no capacity is reserved for it there"
        )
    text = f'"{name}" does not run here: {keys.STOCK_SCHEDULER} starts the gang'
    if any(name in each.schedulers for each in SYSTEMS) or not learnable(name, sources):
        return text
    return f"{text}; if it does, write {name}: {RUNS} into the data of {WHERE}"


def waited_for(reading: Reading, sources: Sources) -> Reading:
    """Return the reading, in which gangs with misdirected members wait.

    A gang with gated members whose scheduler does not run here waits until these members are recreated.
    """
    gangs = tuple(_waiting(gang, sources) for gang in reading.gangs)
    return replace(reading, gangs=gangs) if any(map(is_not, gangs, reading.gangs)) else reading


def misdirected(pod: Pod, sources: Sources) -> bool:
    """Whether a member that Phalanx's webhook admitted names a scheduler that does not run here."""
    return names_another_scheduler(pod) and bool(admitted_by_us(pod)) and not runs(pod.spec.scheduler_name, sources)


def _waiting(gang: Gang, sources: Sources) -> Gang:
    pods = (member.pod for member in gang.members)
    held = [pod for pod in pods if pod.spec.scheduling_gates and not pod.bound and misdirected(pod, sources)]
    if not held:
        return gang
    first, more = held[0], f" (and {len(held) - 1} more)" if len(held) > 1 else ""
    name = first.spec.scheduler_name
    what = f"pod {first.metadata.name}{more} to be recreated: it names scheduler {name}, which does not run here"
    return replace(gang, waiting_for=(*gang.waiting_for, what))


def _reason(name: str, sources: Sources) -> str:
    config = sources.get("", CONFIG_KIND, keys.SYSTEM_NAMESPACE, keys.SCHEDULERS)
    data = (config or {}).get("data")
    value = data.get(name, "") if isinstance(data, dict) else ""
    return value.strip() if isinstance(value, str) else ""
