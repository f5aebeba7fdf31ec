"""The network that the benchmark plans on: the real Lingjun tree (examples/lingjun), once or in several copies."""

from collections.abc import Iterator
from functools import cache
from itertools import accumulate, islice
from pathlib import Path

import msgspec

from kube.objects import Node, ObjectMeta
from kube.topology import HOSTNAME_LABEL, Level, Topology

HOSTS = 847
"""Hosts of the Lingjun cluster."""
GPUS_PER_HOST = 8
MILLICORES_PER_HOST = 128_000
MEBIBYTES_PER_HOST = 1 << 20
"""The resources of a host, as in examples/lingjun/README.md. They are assumed, because the data set has none."""

_FILE = Path(__file__).parent.parent / "examples" / "lingjun" / "nodes.json"
_LEVELS = ("dsw", "psw", "asw")
SWITCHES = tuple(f"example.com/{name}" for name in _LEVELS)
"""The node labels that name the switches of a host."""

TOPOLOGY = Topology(
    name="lingjun",
    kind="Topology",
    levels=(
        *(Level(name, (key,)) for name, key in zip(_LEVELS, SWITCHES, strict=True)),
        Level("node", (HOSTNAME_LABEL,)),
    ),
)
"""The topology of the Lingjun network. Its levels are core switch, pod switch, access switch and node."""


class _List(msgspec.Struct, frozen=True):
    items: tuple[Node, ...]


def nodes(copies: int) -> tuple[Node, ...]:
    """Return the hosts of several copies of the Lingjun cluster as nodes.

    Each copy has its own switches, and all names are different.
    """
    return tuple(node for copy in range(copies) for node in _copied(copy))


def _copied(copy: int) -> Iterator[Node]:
    for node in _hosts():
        name = f"c{copy}-{node.metadata.name}"
        switches = accumulate((node.metadata.labels[key] for key in SWITCHES), "{}-{}".format, initial=f"c{copy}")
        labels = {**node.metadata.labels, **dict(zip(SWITCHES, islice(switches, 1, None), strict=True))}
        labels[HOSTNAME_LABEL] = name
        yield Node(metadata=ObjectMeta(name=name, labels=labels), spec=node.spec, status=node.status)


@cache
def _hosts() -> tuple[Node, ...]:
    return msgspec.json.decode(_FILE.read_bytes(), type=_List).items
