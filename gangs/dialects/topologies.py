"""The topologies that objects of all dialects describe, and the choice of the topology for a gang."""

from collections.abc import Container, Sequence
from dataclasses import replace

from gangs.coexistence.ownership import systems_ceded_to
from gangs.dialects.protocol import Reviewing
from gangs.dialects.table import DIALECTS
from gangs.findings import Findings
from gangs.model import Fault, Gang
from gangs.sources import Sources
from gangs.topology import levels, node_pools
from kube.topology import Topology


def topologies(sources: Sources) -> tuple[list[Topology], list[Fault]]:
    """Return all valid topologies, and the faults of the invalid ones."""
    found, faults = described_topologies(sources)
    return [each for each in found if not each.refused], faults


def described_topologies(sources: Sources) -> tuple[list[Topology], list[Fault]]:
    """Return all topologies, the invalid ones too, and the faults.

    For an invalid object there is a `Topology` without levels, in which `refused` has the fault. A gang that names it
    can then report what it waits for.
    """
    findings = Findings()
    return checked_topologies(sources, findings, systems_ceded_to(sources)), list(findings.faults)


def known_topologies(sources: Sources) -> list[Topology]:
    """Return all valid topologies. Unlike `topologies`, it does not check other objects, such as queues."""
    return [each for each in _all_known(sources, Findings(), systems_ceded_to(sources)) if not each.refused]


def topology_of(gang: Gang, known: Sequence[Topology]) -> Topology | Fault | None:
    """Return the topology in which a gang is placed: the topology that it names, else the only one that exists.

    Return None if there is no topology, or if the named one does not exist yet; the gang then waits for it. Return a
    fault if several exist and the gang names none, if its pods can use no node of the topology, or if the gang names a
    level that the topology lacks.

    :param known: the topologies of all dialects.
    """
    pods = [member.pod for member in gang.members]
    match levels.choose(gang.topology, gang.topology_kind, node_pools.reachable(gang.topology, pods, known)):
        case levels.Ambiguous(names):
            several = f'"{gang.topology}" is the name of several topologies'
            problem = several if gang.topology else "names no topology, and there are several"
            return Fault(gang.source, "spec.topology", problem, f"name one of {', '.join(names)}")
        case Topology() as topology:
            if problem := node_pools.out_of_reach(topology, pods, known):
                return Fault(gang.source, "spec.topology", problem, node_pools.OUT_OF_REACH)
            for name in levels.levels_named(gang):
                if topology.depth(name) is None:
                    return levels.unknown_level(gang.source, levels.LevelWish("spec", name), topology)
            for name in levels.levels_in_rules(gang):
                if topology.find_below(name) is not None:
                    return levels.below_the_node(gang.source, levels.LevelWish("spec", name))
            return topology
        case _:
            return None


def checked_topologies(sources: Sources, findings: Findings, left: Container[str] = ()) -> list[Topology]:
    """Return all topologies, the invalid ones too (`described_topologies`), and check the objects of dialects that are
    neither topologies nor group objects, such as queues.

    :param findings: gets the faults of all these objects.
    :param left: names of ceded dialects, whose objects are not checked.
    """
    for dialect in DIALECTS:
        if isinstance(dialect, Reviewing) and dialect.name not in left:
            dialect.review(sources, findings)
    return _all_known(sources, findings, left)


def _all_known(sources: Sources, findings: Findings, left: Container[str]) -> list[Topology]:
    """Return the topologies that objects of all dialects describe, the invalid ones too (`described_topologies`).

    If gangs have no topology to use by default, the topology from the nodes' labels is added (`Sources.found`). Objects
    of a ceded dialect (`left`) get no faults.
    """
    described: list[node_pools.Described] = []
    wrong, others = Findings(), Findings()
    for dialect in DIALECTS:
        found = dialect.topologies(sources, others if dialect.name in left else wrong)
        resources = {kind.describes: kind.resources for kind in dialect.topology_kinds if kind.describes}
        for each in found:
            listed = resources.get(each.kind, ())
            described.append((dialect.topology_kinds, replace(each, resources=listed) if listed else each))
    all_known = node_pools.tied(described, sources, wrong)
    findings.take(wrong.faults, wrong.advice)
    if wrong.faults or others.faults:
        kinds = [kind for dialect in DIALECTS for kind in dialect.topology_kinds]
        all_known += node_pools.refused(kinds, all_known, (*wrong.faults, *others.faults))
    if sources.found is not None and all(each.implicit for each in all_known):
        all_known.append(sources.found)
    return all_known
