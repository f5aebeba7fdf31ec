"""Which schedulers run in the cluster. A gang's pod keeps its `schedulerName` only if that scheduler runs.

The stock scheduler always runs. The scheduler of a system that Phalanx knows runs if the system is detected
(`gangs.coexistence.ownership`). Any other scheduler, such as a profile of the stock scheduler, runs if it has tried to
schedule pods. A ConfigMap of Phalanx overrides these rules (docs/decisions/0010). If a scheduler did not try released
pods, the controller writes this scheduler into the ConfigMap. Cluster administrators may write entries, too.
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
"""The kind to watch for the ConfigMap that records which schedulers run (`kube.keys.SCHEDULERS`)."""

FIELD = "spec.schedulerName"

WHERE = f"{CONFIG_KIND} {keys.SYSTEM_NAMESPACE}/{keys.SCHEDULERS}"

RUNS, ABSENT, UNTRIED = "runs", "absent", "untried"
"""The ConfigMap's values for a scheduler. Administrators write "runs" or "absent".

The controller writes "untried", a time and a count (`Learnt`).
"""

_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""The pattern of valid keys in a ConfigMap's data."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """The controller's record that a scheduler did not try released pods, so that it probably does not run.

    `since`: the time (RFC 3339) of the last case. `times`: the number of cases.
    """

    since: str
    times: int = 1

    def __str__(self) -> str:
        """Return the record in the form of its value in the ConfigMap `phalanx-schedulers`."""
        return f"{UNTRIED} {self.since} {self.times}"


def runs(name: str, sources: Sources) -> bool:
    """Whether the scheduler with this name runs in the cluster.

    An administrator's entry in the ConfigMap `phalanx-schedulers` decides. Without an entry, the scheduler runs if its
    system is detected or if it has tried pods. A record of the controller (`Learnt`) is valid until the scheduler tries
    a pod after it.
    """
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
    """Return the controller's record that this scheduler did not try released pods; None if there is none."""
    word, _, rest = _reason(name, sources).partition(" ")
    since, _, times = rest.partition(" ")
    return Learnt(since, int(times) if times.isascii() and times.isdigit() else 1) if word == UNTRIED else None


def learnable(name: str, sources: Sources) -> bool:
    """Whether the controller may write a record about this scheduler into the ConfigMap `phalanx-schedulers`.

    It may if the name is a valid key and no administrator has written an entry for it.
    """
    return bool(_NAME.fullmatch(name)) and _reason(name, sources) not in (RUNS, ABSENT)


def scheduler_to_use(name: str, pod_keys: PodKeys, sources: Sources) -> str:
    """Return the `schedulerName` that admission sets on a gang's pod whose manifest has the scheduler `name`.

    It is `name` if that scheduler runs. It is the stock scheduler if `name` does not run, or if it belongs to the pod's
    own dialect (`PodKeys.scheduler_names`).
    """
    stands_for_stock = name == "" or name in pod_keys.scheduler_names
    return name if not stands_for_stock and runs(name, sources) else keys.STOCK_SCHEDULER


def unread(name: str, pod_keys: PodKeys, listed: Callable[[str], bool]) -> str:
    """Return a resource that a server must still list before it can call `scheduler_to_use`; "" if none is missing.

    :param listed: a function that returns whether the objects of a resource, by its plural, have been listed.
    """
    if name in (keys.STOCK_SCHEDULER, "", *pod_keys.scheduler_names):
        return ""
    return next(
        (each for each in (*(kind.plural for kind in (*EVIDENCE_KINDS, KNOWN)), "pods") if not listed(each)), ""
    )


def advice_on(name: str, pod_keys: PodKeys, sources: Sources) -> str:
    """Return advice for the user of a gang's pod about its `schedulerName`: whether that scheduler gets the pod.

    Return "" for the stock scheduler and for schedulers of the pod's own dialect.
    """
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
    """Return the reading, in which a gang waits if one of its gated members names a scheduler that does not run.

    A pod's `schedulerName` cannot be changed, so the gang waits until the member is recreated.
    """
    gangs = tuple(_waiting(gang, sources) for gang in reading.gangs)
    return replace(reading, gangs=gangs) if any(map(is_not, gangs, reading.gangs)) else reading


def misdirected(pod: Pod, sources: Sources) -> bool:
    """Whether a live pod that Phalanx's webhook admitted names a scheduler that does not run in the cluster."""
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
