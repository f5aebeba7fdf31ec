"""Gangs that run or wait cost nothing as long as nothing changes for them, however many they are.

In `make test-long`, 1,000 gangs wait and 5,000 run for ten minutes. Only there is the cost of unchanged gangs measured.
In every other run there are fewer gangs, and some change, come and go.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from candidates import LEASE
from many_gangs import GANGS, POD_GROUPS, PODS, Object, Spent, asks_own, crowd, fill, furnish, gang, member, spent
from system import Phalanx

from controlplane.control_plane import wait_until

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(crowd().patience), pytest.mark.timed]

ROUND_SECONDS = 0.1
"""The most that a round without work may take on a machine with a free core."""
START_SECONDS = 1.0
"""The most from the last created pod until both are bound, on a machine with a free core."""
PATIENCE = 10.0
"""How many times slower than that a machine under other load may be before a test fails."""

EMPTY = min(600, crowd().running)
"""PodGroups without pods."""
CHANGES, _WRITERS = 100, 8
"""Objects that change in a second, and by how many at a time."""


@pytest.fixture
def steady(phalanx: Phalanx) -> Iterator[Phalanx]:
    """Phalanx on nodes of its own. Its controller leads and keeps its lease on a busy machine, too.

    The tests do not measure elections.
    """
    phalanx.cluster.program("controller").kill()
    phalanx.cluster.request("DELETE", LEASE)
    phalanx.deployment.start_controller(options=("--lease-seconds", 15))
    furnish(phalanx.cluster)
    start_of(phalanx, "while-it-comes-to-lead", patience=crowd().patience / 2)
    yield phalanx
    phalanx.cluster.program("controller").kill()
    phalanx.cluster.request("DELETE", LEASE)


class Watched:
    """A controller, and the resources that it has used."""

    def __init__(self, phalanx: Phalanx) -> None:
        self._phalanx = phalanx
        account = phalanx.cluster.kubectl("create", "token", "default", "-n", "kube-system", "--duration", "2h")
        self._token = account.strip()
        role = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "kube-system"}
        binding = {
            "metadata": {"name": "test-reads-metrics"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "phalanx-metrics"},
            "subjects": [subject],
        }
        phalanx.cluster.request("POST", role, binding)

    def now(self) -> Spent:
        """So far."""
        pid = self._phalanx.cluster.program("controller").pid
        return spent(self._phalanx.deployment.metrics_url(), self._token, pid)


def told(phalanx: Phalanx) -> bool:
    """Return whether every gang has a Gang object with a phase."""
    gangs = phalanx.cluster.request("GET", GANGS)["items"]
    of = crowd()
    return len(gangs) >= of.waiting + of.running and all((each.get("status") or {}).get("phase") for each in gangs)


def start_of(phalanx: Phalanx, name: str, patience: float = START_SECONDS * PATIENCE) -> float:
    """Seconds from the last pod of a new gang created to all bound; a failure after `patience` seconds."""
    phalanx.cluster.create(GANGS, [gang(name, 2)])
    phalanx.cluster.create(PODS, [member(f"{name}-{index}", asks_own(name)) for index in range(2)])
    began = time.monotonic()
    while not all(
        phalanx.cluster.request("GET", f"{PODS}/{name}-{index}")["spec"].get("nodeName") for index in range(2)
    ):
        assert time.monotonic() - began < patience, f"gang {name} has not started"
        time.sleep(0.02)
    return time.monotonic() - began


def test_gangs_for_which_nothing_changes_cost_nothing(phalanx: Phalanx) -> None:
    of = crowd()
    fill(phalanx.cluster, of)
    deadline = time.monotonic() + of.patience / 2
    while not told(phalanx):
        assert time.monotonic() < deadline, "not every gang is told how it stands"
        time.sleep(1.0)
    watched = Watched(phalanx)
    time.sleep(5.0)
    before = watched.now()
    for number in range(20):  # each is a change of the cluster, and none for any gang
        phalanx.cluster.create(PODS, [member(f"alone-{number}", {}, node="n001")])
        time.sleep(0.2)
    time.sleep(2.0)
    worked = watched.now()
    starts = [start_of(phalanx, f"new-{number}") for number in range(3)]
    settled, ended = watched.now(), time.monotonic() + of.seconds
    while time.monotonic() < ended:
        time.sleep(min(10.0, of.seconds))
    after = watched.now()
    rounds, seconds = worked.rounds - before.rounds, worked.round_seconds - before.round_seconds
    share = (after.processor - settled.processor) / of.seconds
    print(  # noqa: T201 - the figures of the long run
        f"{of}: {rounds:.0f} rounds without work of {1000 * seconds / max(1, rounds):.0f} ms, "
        f"{100 * (worked.within - before.within) / max(1, rounds):.0f} % within 100 ms; new gangs started in "
        f"{', '.join(f'{each:.2f}' for each in starts)} s; idle {100 * share:.1f} % of a core; "
        f"{before.memory:.0f} MiB, {settled.memory:.0f} when it was left alone, {after.memory:.0f} in the end"
    )
    assert rounds > 0
    assert seconds / rounds <= ROUND_SECONDS * PATIENCE
    assert after.memory <= settled.memory * 1.05 + 5


@contextmanager
def changing(phalanx: Phalanx, names: list[str]) -> Iterator[list[float]]:
    """Change the specs of these Gang objects one after the other, so many a second; yield the times of the changes."""
    over, changed, turns = (
        threading.Event(),
        list[float](),
        zip(itertools.cycle(names), itertools.count(), strict=False),
    )
    lock = threading.Lock()

    def write() -> None:
        due = time.monotonic()
        while not over.wait(max(0.0, due - time.monotonic())):
            due = max(due + _WRITERS / CHANGES, time.monotonic() - 1.0)  # catch up on late writes, of at most 1 s
            with lock:
                name, number = next(turns)
            change = {"spec": {"minMember": 2 + number % 7}}
            answer = phalanx.cluster.request("PATCH", f"{GANGS}/{name}", change, "application/merge-patch+json")
            assert answer["metadata"]["name"] == name, answer
            changed.append(time.monotonic())

    writers = [threading.Thread(target=write) for _ in range(_WRITERS)]
    for each in writers:
        each.start()
    try:
        yield changed
    finally:
        over.set()
        for each in writers:
            each.join()


def test_gang_objects_that_change_all_the_time_hold_no_other_gang_up(steady: Phalanx) -> None:
    """Any tenant can create 5,000 Gang objects without pods, of which 100 change a second."""
    of = crowd()
    names = [f"empty-{number}" for number in range(of.running)]
    steady.cluster.create(GANGS, [gang(name, 2) for name in names])
    wait_until(lambda: told_of(steady, names), of.patience / 2, "every gang to be told how it stands")
    quiet = [start_of(steady, f"before-{number}") for number in range(3)]
    with changing(steady, names) as changed:
        began = time.monotonic()
        starts = [start_of(steady, f"beside-{number}") for number in range(of.starts)]
        rate = len(changed) / (time.monotonic() - began)
    print(  # noqa: T201 - the figures of the long run
        f"{len(names)} Gang objects: new gangs started in {min(quiet):.2f} to {max(quiet):.2f} s; while {rate:.0f} of "
        f"them changed a second in {min(starts):.2f} to {max(starts):.2f} s"
    )
    assert max(starts) <= START_SECONDS * PATIENCE


def pod_group(name: str) -> Object:
    """A PodGroup of Koordinator's without pods, which the controller mirrors in a Gang object."""
    named = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**named, "metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": 2}}


def test_empty_pod_groups_and_their_mirrors_hold_no_other_gang_up(steady: Phalanx) -> None:
    """PodGroups that are about to be mirrored, are mirrored, or are deleted must not delay other gangs.

    600 of each once delayed the start of every other gang by 12 to 16 s.
    """
    names = [f"empty-{number}" for number in range(EMPTY)]
    watched = Watched(steady)

    def starts(stem: str) -> tuple[float, float]:
        """The seconds of the slowest of three gangs, and the seconds of the processor that they took."""
        before = watched.now().processor
        slowest = max(start_of(steady, f"{stem}-{number}") for number in range(3))
        return slowest, watched.now().processor - before

    quiet, quiet_spent = starts("before")
    steady.cluster.create(POD_GROUPS, [pod_group(name) for name in names])
    arriving, _ = starts("while-they-come")
    wait_until(lambda: told_of(steady, names), crowd().patience / 2, "every PodGroup to have its mirror")
    beside, beside_spent = starts("beside")
    steady.cluster.kubectl("delete", "podgroups.scheduling.sigs.k8s.io", "--all", "--wait=false")
    going, _ = starts("while-they-go")
    wait_until(lambda: not there(steady, names), crowd().patience / 2, "the mirrors to go")
    print(  # noqa: T201 - the figures
        f"{quiet:.2f} s without; {EMPTY} empty PodGroups: {arriving:.2f} s as they come, {beside:.2f} s beside them, "
        f"{going:.2f} s as they go; {quiet_spent:.2f} and {beside_spent:.2f} s of a core for three gangs"
    )
    assert beside_spent <= quiet_spent + START_SECONDS
    assert max(arriving, beside, going) <= quiet + START_SECONDS * PATIENCE / 2


def there(phalanx: Phalanx, names: list[str]) -> set[str]:
    """Return the names of these Gang objects that exist."""
    gangs = phalanx.cluster.request("GET", GANGS)["items"]
    return {each["metadata"]["name"] for each in gangs} & set(names)


def told_of(phalanx: Phalanx, names: list[str]) -> bool:
    """Return whether each of these Gang objects has a phase."""
    gangs = phalanx.cluster.request("GET", GANGS)["items"]
    said = {each["metadata"]["name"] for each in gangs if (each.get("status") or {}).get("phase")}
    return said >= set(names)
