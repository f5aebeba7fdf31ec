"""Contrived large scenes: clusters of thousands of nodes, full of pods of lower priority, and gangs that ask for much.

A block has 4 rows of 8 racks of 8 nodes with 8 GPUs, 128 CPUs and 110 places for pods each.
"""

import random
from dataclasses import dataclass

import numpy as np

from solver.nodes import Node, nodes_of
from solver.problem import (
    Cap,
    DisruptionBudget,
    Exclusion,
    Member,
    Multiple,
    PodSet,
    Problem,
    Shape,
    Slice,
    Spread,
    Together,
    Victim,
    VictimGang,
    victim_table,
)

BLOCK, ROW, RACK, NODE = range(4)
LEVELS = ("block", "row", "rack", "node")
RESOURCES = ("cpu", "gpu", "pods")
FULL = (128, 8, 110)
ROWS, RACKS, IN_RACK = 4, 8, 8
PRIORITIES = (0, 100, 1000)


@dataclass(frozen=True)
class Asked:
    """One set: members of each request in turn, (cpu, gpu). `spare`: so many of them beyond the minimum."""

    count: int
    requests: tuple[tuple[int, int], ...] = ((8, 8),)
    required: int | None = None
    slices: tuple[tuple[int, int], ...] = ()
    multiples: tuple[tuple[int, int], ...] = ()
    caps: tuple[tuple[int, int], ...] = ()
    spare: int = 0


@dataclass(frozen=True)
class Scene:
    """A cluster and a gang. `free`: the share of nodes without pods; on all others all GPUs are taken, by pods of these
    sizes (`pods`). `gangs`: the share of them that belong to running gangs, which are of 16 and can spare `spare`.
    `budgets`: how many there are, each over a part of the others, allowing `allowed`. `liked`: the share of nodes that
    members prefer. `protected`: the share of nodes whose pods may not go. `seconds`: the shortest limit asked of it.
    """

    name: str
    nodes: int
    sets: tuple[Asked, ...]
    free: float = 0.0
    pods: tuple[int, ...] = (4, 2, 1, 1)
    gangs: float = 0.0
    spare: int = 0
    budgets: int = 0
    allowed: int = 5
    liked: float = 0.0
    protected: float = 0.0
    required: int | None = None
    together: tuple[int, ...] = ()
    apart: bool = False
    spread: int | None = None
    possible: bool = True
    seconds: float = 1.0


def problem_of(scene: Scene, seed: int = 0) -> Problem:
    """The scene as a problem."""
    draw = random.Random(f"{scene.name}/{seed}")  # noqa: S311 -- a repeatable load, not a secret
    paths = [_path(place) for place in range(scene.nodes)]
    running = {place for place in range(scene.nodes) if draw.random() >= scene.free}
    fixed = {place for place in sorted(running) if draw.random() < scene.protected}
    victims = _victims(scene, draw, sorted(running - fixed))
    nodes = nodes_of(
        Node(f"n{place}", path, (120, 0, 100) if place in running else FULL, (0, 0, 0))
        for place, path in enumerate(paths)
    )
    requests = sorted({each for asked in scene.sets for each in asked.requests})
    liked = {place: 10 for place in range(scene.nodes) if draw.random() < scene.liked}
    everywhere = frozenset(range(scene.nodes))
    sets = tuple(_set(position, asked, requests) for position, asked in enumerate(scene.sets))
    return Problem(
        levels=LEVELS,
        resources=RESOURCES,
        nodes=nodes,
        shapes=tuple(Shape((cpu, gpu, 1), everywhere, preferences=liked) for cpu, gpu in requests),
        sets=sets,
        minimum=sum(each.minimum for each in sets),
        required=scene.required,
        together=(Together(tuple(range(len(sets))), scene.together[0]),) if scene.together else (),
        exclusions=_apart(scene, len(requests)),
        spreads=_spread(scene, paths, len(requests)),
        victims=victim_table(victims),
        victim_gangs=_gangs(scene, victims),
        budgets=_budgets(scene, draw, victims),
    )


def _path(place: int) -> tuple[str, ...]:
    rack = place // IN_RACK
    row = rack // RACKS
    return f"b{row // ROWS}", f"w{row}", f"r{rack}"


def _victims(scene: Scene, draw: random.Random, running: list[int]) -> list[Victim]:
    found: list[Victim] = []
    sizes = 16
    gang, left = -1, 0
    for node in running:
        priority = draw.choice(PRIORITIES)
        for gpus in scene.pods:
            mine = None
            if draw.random() < scene.gangs:
                if not left:
                    gang, left = gang + 1, sizes
                mine, left = gang, left - 1
            found.append(Victim(f"v{len(found)}", node, priority, (4, gpus, 1), mine, draw.randrange(1000)))
    return found


def _gangs(scene: Scene, victims: list[Victim]) -> tuple[VictimGang, ...]:
    of_gang = np.bincount([each.gang for each in victims if each.gang is not None])
    return tuple(
        VictimGang(f"g{gang}", int(count), max(0, int(count) - scene.spare)) for gang, count in enumerate(of_gang)
    )


def _budgets(scene: Scene, draw: random.Random, victims: list[Victim]) -> tuple[DisruptionBudget, ...]:
    under: list[list[int]] = [[] for _ in range(scene.budgets)]
    for place, victim in enumerate(victims):
        if victim.gang is None and scene.budgets:
            draw.choice(under).append(place)
    return tuple(DisruptionBudget(f"b{number}", frozenset(each), scene.allowed) for number, each in enumerate(under))


def _set(position: int, asked: Asked, requests: list[tuple[int, int]]) -> PodSet:
    shapes = [requests.index(each) for each in asked.requests]
    members = tuple(Member(f"{position}-{rank}", shapes[rank % len(shapes)]) for rank in range(asked.count))
    return PodSet(
        f"set{position}",
        members,
        asked.count - asked.spare,
        asked.required,
        tuple(Slice(*each) for each in asked.slices),
        tuple(Multiple(*each) for each in asked.multiples),
        tuple(Cap(*each) for each in asked.caps),
    )


def _apart(scene: Scene, shapes: int) -> tuple[Exclusion, ...]:
    """No two members on one node."""
    names = tuple(f"n{place}" for place in range(scene.nodes))
    return (Exclusion(tuple(range(shapes)), names),) if scene.apart else ()


def _spread(scene: Scene, paths: list[tuple[str, ...]], shapes: int) -> tuple[Spread, ...]:
    if scene.spread is None:
        return ()
    groups = tuple(path[scene.spread] for path in paths)
    every = tuple(range(shapes))
    return (Spread(every, every, groups, dict.fromkeys(groups, 0), 1),)


MIXED = ((8, 1), (16, 2), (4, 0), (32, 4), (2, 1))
SCENES = (
    Scene("alike, all must go", 847, (Asked(64),)),
    Scene("alike, all must go, many nodes", 5082, (Asked(128),)),
    Scene("alike, few free", 5082, (Asked(512),), free=0.05, gangs=0.3, spare=2),
    Scene("a thousand alike", 5082, (Asked(1000, ((8, 4),)),), free=0.2, gangs=0.2),
    Scene("slices", 5082, (Asked(128, slices=((RACK, 4),)),), required=BLOCK, gangs=0.3),
    Scene("slices in a row", 5082, (Asked(48, slices=((RACK, 4),)),), required=ROW, gangs=0.3, budgets=9, allowed=90),
    Scene("slices in slices", 5082, (Asked(256, ((8, 4),), slices=((ROW, 32), (RACK, 8))),), gangs=0.3, spare=4),
    Scene("slices of mixed requests", 5082, (Asked(128, MIXED, slices=((RACK, 8),)),), gangs=0.3),
    Scene("many slices of mixed requests", 847, (Asked(512, MIXED, slices=((RACK, 4),)),), free=0.1, gangs=0.2),
    Scene("mixed", 847, (Asked(256, MIXED),), gangs=0.3),
    Scene("mixed, many nodes", 5082, (Asked(1024, MIXED),), free=0.02, gangs=0.3, budgets=50, allowed=30),
    Scene("mixed, without victims", 5082, (Asked(2048, MIXED),), free=0.5, protected=1.0),
    Scene("mixed, in one block", 5082, (Asked(400, MIXED),), free=0.1, gangs=0.3, required=BLOCK),
    Scene("two sets", 5082, (Asked(64), Asked(64, ((16, 2),))), required=BLOCK, gangs=0.3),
    Scene("sets side by side", 5082, (Asked(4), Asked(16, ((16, 2),))), together=(RACK,), gangs=0.2),
    Scene(
        "four sets with rules",
        5082,
        (
            Asked(64, slices=((RACK, 4),)),
            Asked(32, ((8, 2),), required=ROW),
            Asked(48, ((4, 1),), caps=((RACK, 6),)),
            Asked(16, ((2, 0), (4, 0)), spare=4),
        ),
        gangs=0.3,
        budgets=10,
        allowed=60,
    ),
    Scene("multiples", 5082, (Asked(64, multiples=((ROW, 8),)),), gangs=0.2),
    Scene("apart", 5082, (Asked(200, ((8, 1), (8, 2))),), apart=True, gangs=0.3),
    Scene("spread", 847, (Asked(60, ((8, 1), (8, 2))),), spread=ROW, free=0.1),
    Scene("roles, spread", 5082, (Asked(1, ((8, 0),)), Asked(63, ((8, 2),))), spread=ROW, free=0.3, gangs=0.2),
    Scene("preferences", 5082, (Asked(100, ((8, 4), (8, 2))),), liked=0.3, free=0.05, gangs=0.2),
    Scene("preferences, alike", 5082, (Asked(256),), liked=0.3, gangs=0.2),
    Scene("budgets", 5082, (Asked(128),), budgets=200, allowed=3, gangs=0.1),
    Scene("budgets that forbid nearly all", 847, (Asked(64, MIXED),), budgets=3, allowed=20, gangs=0.3),
    Scene("gangs everywhere", 5082, (Asked(256, ((8, 8), (8, 4))),), gangs=1.0),
    Scene("gangs that can spare", 5082, (Asked(256, ((8, 8), (8, 4))),), gangs=1.0, spare=8),
    Scene("extras", 5082, (Asked(300, ((8, 4), (8, 2)), spare=200),), free=0.02, gangs=0.3),
    Scene("thousands, mixed", 847, (Asked(4000, ((8, 1), (4, 1), (8, 0))),), free=0.3, gangs=0.2, seconds=2.0),
    Scene(
        "ten thousand, mixed", 1016, (Asked(10_000, ((4, 1), (8, 0), (2, 0), (6, 1), (3, 0))),), gangs=0.1, seconds=4.0
    ),
    Scene("ten thousand, mixed, many nodes", 5082, (Asked(10_000, MIXED),), free=0.3, gangs=0.3, seconds=4.0),
    Scene("ten thousand alike", 5082, (Asked(10_000, ((8, 1),)),), gangs=0.2, free=0.05, seconds=4.0),
    Scene(
        "ten thousand in slices", 5082, (Asked(10_000, ((8, 1), (4, 1)), slices=((RACK, 10),)),), free=0.3, seconds=4.0
    ),
    Scene("too many", 847, (Asked(900),), possible=False),
    Scene("too many in slices", 5082, (Asked(1100, slices=((RACK, 8),)),), required=BLOCK, possible=False),
    Scene("too many mixed", 847, (Asked(3000, ((8, 4), (8, 2))),), possible=False),
    Scene("mixed, three times as many nodes", 15_246, (Asked(256, MIXED),), gangs=0.3),
    Scene(
        "slices of mixed requests, three times as many nodes",
        15_246,
        (Asked(512, MIXED, slices=((RACK, 4),)),),
        free=0.1,
        gangs=0.2,
    ),
    Scene(
        "budgets that forbid nearly all, three times as many nodes",
        15_246,
        (Asked(64, MIXED),),
        budgets=3,
        allowed=20,
        gangs=0.3,
    ),
)
EACH = tuple((2 + number, 1 + number % 4) for number in range(100))
HARD = (
    Scene("each different", 15_246, (Asked(400, EACH),), gangs=0.3),
    Scene("slices of members that all differ", 15_246, (Asked(400, EACH, slices=((RACK, 4),)),), gangs=0.3, budgets=20),
    Scene("more than can be apart", 15_246, (Asked(16_000, ((8, 1), (8, 2))),), apart=True, gangs=0.3),
    Scene("more than budgets allow", 15_246, (Asked(3000, ((8, 8), (8, 4))),), gangs=0.3, budgets=5, allowed=2),
    Scene(
        "more roles than are counted, spread",
        5082,
        (Asked(16, ((8, 1),)), Asked(16, ((8, 2),)), Asked(16, ((8, 4),))),
        spread=ROW,
        free=0.3,
        gangs=0.2,
    ),
    Scene("multiples of seven", 15_246, (Asked(300, multiples=((RACK, 7),)),), required=BLOCK, gangs=0.3),
)
"""Scenes for which one second may give neither a plan nor a rejection. The solver must keep the limit nevertheless."""
