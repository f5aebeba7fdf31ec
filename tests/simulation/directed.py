"""Directed schedules: one fault at the instant that matters, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

from local_api.resources import PODS
from local_api.server import Request
from local_api.store import Event

from simulation.network import Process
from simulation.objects import GATE, gang_of, node_of, nominated
from simulation.world import World

TWO_RACKS = {"n1": ("r1", 4), "n2": ("r1", 4), "n3": ("r2", 4)}


@dataclass
class Director:
    """Acts at instants of a world's schedule."""

    world: World

    def when(self, holds: Callable[[Event], bool], act: Callable[[], None]) -> None:
        """Act once, as soon as a change of the store fulfils the condition."""
        before = self.world.on_event

        def see(event: Event) -> None:
            before(event)
            if holds(event):
                self.world.on_event = before
                self.world.engine.after(0.0, act)

        self.world.on_event = see

    def after_release(self, count: int, act: Callable[[Process], None]) -> None:
        """Act right after the request that releases the `count`-th member, before its answer travels."""
        seen: list[str] = []

        def look(process: Process, request: Request) -> None:
            if is_release(request):
                seen.append(request.path)
                if len(seen) == count:
                    act(process)

        self.world.network.after_write = look

    def bound(self, gang: str) -> list[str]:
        """The members of a gang that are bound, by name."""
        return sorted(
            each["metadata"]["name"]
            for each in self.world.pods()
            if gang_of(each) == f"default/{gang}" and node_of(each)
        )


def is_release(request: Request) -> bool:
    """Whether the request takes the gate from a pod."""
    if request.method != "PATCH" or "/pods/" not in request.path or request.path.endswith("/status"):
        return False
    gates = (request.body or {}).get("spec", {}).get("schedulingGates")
    return gates is not None and all(each["name"] != GATE for each in gates)


def is_nominated(gang: str) -> Callable[[Event], bool]:
    """Whether a change gives a member of the gang a nominated node."""

    def holds(event: Event) -> bool:
        return event.resource == PODS and gang_of(event.object) == f"default/{gang}" and bool(nominated(event.object))

    return holds


def is_bound(name: str) -> Callable[[Event], bool]:
    """Whether a change binds the pod."""

    def holds(event: Event) -> bool:
        return event.resource == PODS and event.object["metadata"]["name"] == name and bool(node_of(event.object))

    return holds


def directed(seed: int = 0, controllers: int = 2, *, forgets: bool = False) -> World:
    """A furnished world of two racks without latencies or faults, whose controllers have started.

    `forgets`: as in `World`.
    """
    world = World(seed, frozenset(), forgets=forgets)
    world.furnish(TWO_RACKS)
    world.start(*(f"c{number}" for number in range(1, controllers + 1)))
    world.run(1.0)
    return world
