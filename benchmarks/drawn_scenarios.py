"""The scenarios of the benchmark: each draws random gangs from a seed, of sizes that suit its cluster's free
capacity.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from benchmarks.arrivals import MEBIBYTES_PER_GPU, MILLICORES_PER_GPU, Ask
from benchmarks.gangs_of import Role, gang
from benchmarks.network import SWITCHES
from benchmarks.room import Room, Slices
from gangs.model import Gang, SliceRule, TogetherRule
from kube.topology import HOSTNAME_LABEL

SIZES = (847, 5_082, 15_246)
"""The numbers of nodes of the benchmark's clusters: the Lingjun cluster once, 6 times and 18 times."""
PREEMPTOR = 500
"""Priority of gangs that may evict. About half of the running pods are below it (`filling.PRIORITIES`)."""
HIGHEST = 2_000
"""Priority of gangs that may evict every pod."""

FILLS = (0.70, 0.80, 0.90, 0.95)
FULL = FILLS[2:]
"""The shares of GPUs in use for scenarios whose gangs need whole hosts. With so many GPUs in use, hardly any host is
free.
"""

_GPUS = (8, 4, 2, 1)
_SPREAD_OVER = (*SWITCHES[1:], HOSTNAME_LABEL)
"""The labels over which gangs are spread."""

Draw = Callable[[Random, Room], tuple[Gang, ...]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario of the benchmark.

    `draw`: creates the gangs of one random instance. `instances`: by number of nodes, how many instances a full run
    has. `target_ms`: the limit for 99 % of the instances at 5,082 nodes; None: no limit. `evicting_below`: gangs are
    drawn as if running pods below this priority were gone; None: as if all pods stayed. `fills`: the shares of the GPUs
    in use; instances get them in turn. `pods`: small pods are added until the cluster has this number of pods.
    """

    name: str
    draw: Draw
    instances: Mapping[int, int]
    target_ms: float | None = None
    evicting_below: int | None = None
    fills: tuple[float, ...] = FILLS
    pods: int = 0


def _ask(gpus: int) -> Ask:
    return Ask(gpus, gpus * MILLICORES_PER_GPU, gpus * MEBIBYTES_PER_GPU)


_CPU_ONLY = Ask(0, 8_000, 16 << 10)


def _fitting(rng: Random, room: Room, pods: int, level: str | None, slices: Slices = ()) -> Ask:
    """Return the requests of each of `pods` pods: a random number of GPUs, or fewer if no domain of `level` holds them
    all.
    """
    return _largest(rng.choice(_GPUS), room, pods, level, slices)


def _largest(drawn: int, room: Room, pods: int, level: str | None, slices: Slices = ()) -> Ask:
    for gpus in _GPUS:
        if gpus <= drawn and room.slots(_ask(gpus), level, slices) >= pods:
            return _ask(gpus)
    return _CPU_ONLY


def _of(pods: int | tuple[int, int], required: str | None, preferred: str | None) -> Draw:
    """Return a function that draws a gang of one pod set, with a fixed number of pods or a number from a range."""

    def draw(rng: Random, room: Room) -> tuple[Gang, ...]:
        count = pods if isinstance(pods, int) else rng.randint(*pods)
        role = Role("workers", count, _fitting(rng, room, count, required))
        return (gang("asked", [role], required=required, preferred=preferred),)

    return draw


def _evicting(pods: int, required: str | None, preferred: str | None, priority: int = PREEMPTOR) -> Draw:
    """Return a function that draws a gang whose pods each need a whole host, so that the gang can start only after
    evictions.

    If evictions can free too few hosts, the pods need fewer GPUs.
    """

    def draw(_rng: Random, room: Room) -> tuple[Gang, ...]:
        role = Role("workers", pods, _largest(_GPUS[0], room, pods, required))
        return (gang("asked", [role], required=required, preferred=preferred, priority=priority),)

    return draw


def _spread(workers: int) -> Draw:
    """Return a function that draws a launcher and its workers, spread evenly over pod switches, access switches or
    nodes.
    """

    def draw(rng: Random, room: Room) -> tuple[Gang, ...]:
        roles = [Role("launcher", 1, _CPU_ONLY), Role("workers", workers, _fitting(rng, room, workers + 1, None))]
        return (gang("asked", roles, spread=rng.choice(_SPREAD_OVER)),)

    return draw


def _spread_sets(rng: Random, room: Room) -> tuple[Gang, ...]:
    """Draw a gang of prefill, decode and router pods, all of which together are spread evenly."""
    prefill = _fitting(rng, room, 24, None)
    roles = [
        Role("prefill", rng.randint(4, 8), prefill),
        Role("decode", rng.randint(8, 16), _ask(max(1, prefill.gpus // 2))),
        Role("router", 2, _CPU_ONLY),
    ]
    return (gang("asked", roles, spread=rng.choice(_SPREAD_OVER)),)


def _sets(required: str | None, preferred: str | None) -> Draw:
    """Return a function that draws a gang of prefill, decode and router pods that share nodes.

    The three sets have different requests; the router must be under one pod switch with the prefill pods.
    """

    def draw(rng: Random, room: Room) -> tuple[Gang, ...]:
        prefill = _fitting(rng, room, 24, required)
        half = _ask(max(1, prefill.gpus // 2))
        roles = [
            Role("prefill", rng.randint(4, 8), prefill, required="asw" if required else None),
            Role("decode", rng.randint(8, 16), half),
            Role("router", 2, _CPU_ONLY),
        ]
        together = (TogetherRule(("prefill", "router"), "psw"),)
        return (gang("asked", roles, required=required, preferred=preferred, together=together),)

    return draw


def _slices(required: str | None, preferred: str | None) -> Draw:
    """Return a function that draws a gang of 64 pods. Every eight consecutive pods must be under one access switch, and
    every sixteen under one pod switch.
    """

    def draw(rng: Random, room: Room) -> tuple[Gang, ...]:
        rules = (SliceRule("psw", 16), SliceRule("asw", 8))
        each = _fitting(rng, room, 64, required, tuple((rule.level, rule.size) for rule in reversed(rules)))
        role = Role("workers", 64, each, slices=rules)
        return (gang("asked", [role], required=required, preferred=preferred),)

    return draw


def _joint(required: str | None, preferred: str | None) -> Draw:
    """Return a function that draws 20 gangs of one priority."""

    def draw(rng: Random, room: Room) -> tuple[Gang, ...]:
        found = []
        for number in range(20):
            count = rng.randint(4, 16)
            role = Role("workers", count, _fitting(rng, room, 2 * count, required))
            found.append(gang(f"asked-{number}", [role], required=required, preferred=preferred, number=number))
        return tuple(found)

    return draw


def _hopeless(required: str | None, preferred: str | None, priority: int = 0) -> Draw:
    """Return a function that draws an infeasible gang: it has one to eight pods more than the best domain of the level
    `required` holds.
    """

    def draw(rng: Random, room: Room) -> tuple[Gang, ...]:
        each = _ask(rng.choice(_GPUS if required else _GPUS[:1]))
        count = room.slots(each, required) + rng.randint(1, 8)
        return (
            gang("asked", [Role("workers", count, each)], required=required, preferred=preferred, priority=priority),
        )

    return draw


def _hopeless_sets(required: str) -> Draw:
    """Return a function that draws a gang of two pod sets, each of which alone fits into one domain of the level
    `required`, but not both together.
    """

    def draw(rng: Random, room: Room) -> tuple[Gang, ...]:
        large, small = _ask(4), _ask(1)
        most = room.slots(small, required)
        workers = max(1, room.slots(large, required) * 2 // 3)
        roles = [Role("workers", workers, large), Role("readers", most - 4 * workers + rng.randint(1, 8), small)]
        return (gang("asked", roles, required=required),)

    return draw


def _counts(small: int, middle: int, large: int) -> dict[int, int]:
    return dict(zip(SIZES, (small, middle, large), strict=True))


SCENARIOS = (
    Scenario("small-required", _of((2, 8), "asw", None), _counts(200, 200, 60), 25.0),
    Scenario("small-preferred", _of((2, 8), None, "asw"), _counts(200, 200, 60), 25.0),
    Scenario("gang-64-required", _of(64, "psw", None), _counts(100, 100, 40)),
    Scenario("gang-64-preferred", _of(64, None, "asw"), _counts(100, 100, 40)),
    Scenario("gang-512-required", _of(512, "dsw", None), _counts(60, 100, 30), 300.0),
    Scenario("gang-512-preferred", _of(512, None, "psw"), _counts(60, 100, 30), 300.0),
    Scenario("gang-2048-required", _of(2048, "dsw", None), _counts(20, 20, 12)),
    Scenario("gang-2048-preferred", _of(2048, None, "psw"), _counts(20, 20, 12)),
    Scenario("sets-required", _sets("psw", None), _counts(40, 40, 16)),
    Scenario("sets-preferred", _sets(None, "psw"), _counts(40, 40, 16)),
    Scenario("slices-required", _slices("psw", None), _counts(60, 60, 20)),
    Scenario("slices-preferred", _slices(None, "asw"), _counts(60, 60, 20)),
    Scenario("spread-8", _spread(7), _counts(40, 40, 12)),
    Scenario("spread-64", _spread(63), _counts(40, 40, 12)),
    Scenario("spread-sets", _spread_sets, _counts(40, 40, 12)),
    Scenario("preempt-8-required", _evicting(8, "asw", None), _counts(40, 40, 12), 1000.0, PREEMPTOR, FULL),
    Scenario("preempt-64-required", _evicting(64, "psw", None), _counts(40, 40, 12), 1000.0, PREEMPTOR, FULL),
    Scenario("preempt-64-preferred", _evicting(64, None, "psw"), _counts(40, 40, 12), 1000.0, PREEMPTOR, FULL),
    Scenario(
        "preempt-64-among-100000",
        _evicting(64, "psw", None, HIGHEST),
        {SIZES[-1]: 4},
        evicting_below=HIGHEST,
        fills=FULL,
        pods=100_000,
    ),
    Scenario("joint-20-required", _joint("psw", None), _counts(12, 8, 3)),
    Scenario("joint-20-preferred", _joint(None, "asw"), _counts(12, 8, 3)),
    Scenario("hopeless-required", _hopeless("psw", None), _counts(60, 60, 20), 1000.0),
    Scenario("hopeless-preferred", _hopeless(None, "psw"), _counts(40, 40, 12), 1000.0),
    Scenario("hopeless-sets-required", _hopeless_sets("psw"), _counts(20, 20, 8), 1000.0),
    Scenario(
        "hopeless-preempt-required",
        _hopeless("psw", None, PREEMPTOR),
        _counts(20, 20, 8),
        target_ms=1000.0,
        evicting_below=PREEMPTOR,
    ),
)
