"""The gangs of the pods that run already, with the minimum number of members that each needs.

A plan evicts all members of a running gang, or keeps its minimums. If the minimums are not known any more (the gang's
object is gone, or is invalid by now), the gang needs all its running members.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from cluster.snapshot import Snapshot
from gangs.model import Gang, GangKey, PodSet, Reading
from kube.keys import GATE
from solver.problem import IntColumn, VictimGang, VictimSet


@dataclass(frozen=True, slots=True)
class RunningGang:
    """The gang of a running pod, and how many of its members must keep running for the gang to be useful.

    `minimum` None: all members that run. `pod_set`: the pod's own set, of which `set_minimum` members must run.
    """

    key: GangKey
    minimum: int | None
    pod_set: str = ""
    set_minimum: int = 0


RunningGangs = Mapping[str, RunningGang]
"""By the pod's `namespace/name`, its identity within one snapshot."""


def running_gangs(reading: Reading) -> dict[str, RunningGang]:
    """Return the gang of every bound or released pod, by the pod's `namespace/name`.

    This includes gangs of other systems. It also includes pods that name a gang that cannot be read, and pods that name
    a gang without being its members.
    """
    found: dict[str, RunningGang] = {}
    for gang in (*reading.gangs, *reading.neighbours):
        started = [member for member in gang.members if member.pod.bound or not member.pod.gated_by(GATE)]
        if started:
            of_set = {each.name: _member_of(gang, each) for each in gang.pod_sets}
            found |= {member.pod.key: of_set[member.pod_set] for member in started}
    if reading.astray:
        owners = {name: gang for gang in (*reading.gangs, *reading.neighbours) for name in gang.names}
        for pod, key in reading.astray:
            owner = owners.get(key)
            found.setdefault(pod.key, RunningGang(key, None) if owner is None else _member_of(owner, None))
    return found


def _member_of(gang: Gang, pod_set: PodSet | None) -> RunningGang:
    """Return the `RunningGang` entry for a running member of `gang` in `pod_set`; `pod_set` None: the member's set is
    not known.

    If a gang has only one pod set, only the gang's minimum counts. If members of a gang with several sets have
    succeeded, it is not known to which sets they belonged. Each set is then assumed to need all its remaining members,
    up to its minimum.
    """
    if not gang.min_member:
        return RunningGang(gang.key, None)
    minimum = gang.still_needed
    if len(gang.pod_sets) == 1:
        return RunningGang(gang.key, max(minimum, gang.pod_sets[0].min_count - gang.succeeded))
    if pod_set is None:
        return RunningGang(gang.key, minimum)
    needed = pod_set.min_count
    if gang.succeeded:
        needed = min(needed, sum(member.pod_set == pod_set.name for member in gang.members))
    return RunningGang(gang.key, minimum, pod_set.name, needed)


def victim_gangs(
    candidates: Sequence[RunningGang | None], snapshot: Snapshot, running: RunningGangs
) -> tuple[IntColumn, tuple[VictimGang, ...]]:
    """Return, for each candidate, the position of its gang (-1: no gang), and the gangs as the solver's `VictimGang`s.

    There are thousands of running pods but few gangs and sets, so each gang and each set is examined only once.
    """
    distinct = {id(each): each for each in candidates if each is not None}
    known = sorted({each.key for each in distinct.values()})
    if not known:
        return np.full(len(candidates), -1, dtype=np.int64), ()
    order = {key: position for position, key in enumerate(known)}
    of_each = {id(None): -1, **{one: order[each.key] for one, each in distinct.items()}}
    counts = _counted(snapshot, running, known)
    totals = Counter[GangKey]()
    for (key, _), count in counts.items():
        totals[key] += count
    members = {(each.key, each.pod_set): each for each in _distinct(running) if each.key in totals}
    minimums = {each.key: each.minimum for each in members.values() if each.minimum is not None}
    set_entries: dict[GangKey, list[VictimSet]] = {key: [] for key in known}
    for (key, name), set_victims in sorted(_by_set(candidates, distinct, members).items()):
        needed = members[key, name].set_minimum
        set_entries[key].append(VictimSet(name, frozenset(set_victims), counts[key, name], needed))
    return np.fromiter(map(of_each.__getitem__, map(id, candidates)), np.int64, len(candidates)), tuple(
        VictimGang(str(key), totals[key], minimums.get(key, totals[key]), tuple(set_entries[key])) for key in known
    )


def _by_set(
    candidates: Sequence[RunningGang | None],
    distinct: Mapping[int, RunningGang],
    by_set: Mapping[tuple[GangKey, str], RunningGang],
) -> Mapping[tuple[GangKey, str], Sequence[int]]:
    """Return the positions of the candidates in each pod set that has a minimum.

    `distinct`: the candidates' gangs by object identity. `by_set`: the running gang of each set.
    """
    names = {
        one: (each.key, each.pod_set) for one, each in distinct.items() if by_set[each.key, each.pod_set].set_minimum
    }
    found: dict[tuple[GangKey, str], list[int]] = {name: [] for name in names.values()}
    for position, one in enumerate(map(id, candidates)) if names else ():
        if (name := names.get(one)) is not None:
            found[name].append(position)
    return found


def _distinct(running: RunningGangs) -> Iterable[RunningGang]:
    """Return each running gang once. Gangs are ordered by the position of their last pod in `running`."""
    last_entries = {id(each): each for each in reversed(list(running.values()))}
    return reversed(list(last_entries.values()))


def _counted(
    snapshot: Snapshot, running: RunningGangs, keys: Sequence[GangKey], gone: AbstractSet[str] = frozenset()
) -> Counter[tuple[GangKey, str]]:
    """Return how many members run, for each pod set of these gangs.

    Victims of plans in force, terminating pods and the pods in `gone` (`namespace/name`) do not count.
    """
    wanted, absent = frozenset(keys), snapshot.leaving | gone
    pods: Iterable[str] = snapshot.running_keys
    if absent:
        pods = (pod for pod in pods if pod not in absent)
    found = [*map(running.get, pods)]
    distinct = {id(each): each for each in found if each is not None}
    counts = Counter[tuple[GangKey, str]]()
    for one, count in Counter(map(id, found)).items():
        if (each := distinct.get(one)) is not None and each.key in wanted:
            counts[each.key, each.pod_set] += count
    return counts


def cut_short(gone: Collection[str], snapshot: Snapshot, running: RunningGangs) -> str:
    """Return a message about a gang of which evictions would leave fewer members than its minimum, but not none; "" if
    there is no such gang.

    `gone`: the pods (`namespace/name`) that would be evicted in addition to the victims of plans in force.
    """
    keys = sorted({running[pod].key for pod in gone if pod in running})
    staying = _counted(snapshot, running, keys, frozenset(gone)) if keys else Counter[tuple[GangKey, str]]()
    for key in keys:
        left = sum(count for (gang, _), count in staying.items() if gang == key)
        for each in {each for each in running.values() if each.key == key} if left else ():
            unknown = each.minimum is None
            if unknown or left < (each.minimum or 0) or staying[key, each.pod_set] < each.set_minimum:
                return f"gang {key} would be left with fewer members than it needs, and not go as a whole"
    return ""
