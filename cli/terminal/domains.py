"""The domains of a live cluster's topologies, with their capacity and their gangs, in the order of the tree."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.topology.domain_room import DomainRoom, rooms_under
from cluster.topology.tree import Path, domains
from gangs.dialects.claims import dialect_of
from gangs.dialects.topologies import topologies
from gangs.incremental.reading_apart import read_apart
from gangs.model import GangKey
from kube.names import natural_key
from kube.topology import Topology
from planning.dry_run import Live


@dataclass(frozen=True, slots=True)
class DomainShown:
    """One domain of a topology, with its capacity.

    `gangs`: by gang, how many of its members are bound or have reserved capacity there, the largest number first.
    """

    path: Path
    room: DomainRoom
    gangs: Mapping[GangKey, int]


@dataclass(frozen=True, slots=True)
class TopologyShown:
    """A topology with all its domains, parents before children. The first domain is the whole cluster, with an empty
    path.

    `outside`: by name of each node outside the topology, the label that it lacks.
    """

    topology: Topology
    domains: tuple[DomainShown, ...]
    outside: Mapping[str, str]

    def down_to(self, depth: int) -> "TopologyShown":
        """Return this topology with only the domains of its `depth` widest levels."""
        return replace(self, domains=tuple(each for each in self.domains if len(each.path) <= depth))

    def level_of(self, domain: DomainShown) -> str:
        """Return the name of the domain's level; "" for the whole cluster."""
        return self.topology.levels[len(domain.path) - 1].name if domain.path else ""


def pictures(live: Live) -> list[TopologyShown]:
    """Return all topologies of the cluster with their domains.

    If the cluster has no Topology object, return one topology with the levels that well-known node labels describe.
    """
    known, _ = topologies(live.sources)
    return [_picture(each, live) for each in known]


def _picture(topology: Topology, live: Live) -> TopologyShown:
    tree = domains(topology, (state.node for state in live.snapshot.nodes))
    rooms = rooms_under(tree, live.snapshot.nodes)
    there: dict[Path, Counter[GangKey]] = {path: Counter() for path in rooms}
    for node, key in _placed(live):
        if (path := tree.path_of.get(node)) is not None:
            for depth in range(len(path) + 1):
                there[path[:depth]][key] += 1
            there[*path, node][key] += 1
    order = sorted(rooms, key=lambda path: [natural_key(each) for each in path])
    found = tuple(DomainShown(path, rooms[path], _most_first(there[path])) for path in order)
    return TopologyShown(topology, found, tree.outside)


def _placed(live: Live) -> Sequence[tuple[str, GangKey]]:
    """Return the node of each member that is bound or has reserved capacity, with the key of its gang."""
    gang_of = {name: gang.key for gang in read_apart(live.sources).gangs for name in gang.names}
    placed = []
    for state in live.snapshot.nodes:
        for tenant in state.tenants:
            claim = None if tenant.terminating else dialect_of(tenant.pod)
            if claim is not None:
                placed.append((state.name, gang_of.get(claim[1], claim[1])))
    return placed


def _most_first(counts: Counter[GangKey]) -> dict[GangKey, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], natural_key(str(each[0])))))
