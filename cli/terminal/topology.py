"""`phalanx topology`: the domains of the live cluster as a tree, each with its capacity and its gangs."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import click

from cli.asking.offered_names import levels
from cli.asking.watching import redraw
from cli.live import live_picture, picture_of, watched_cluster
from cli.options.looking import FORMAT, KUBECONFIG, WATCH
from cli.terminal.domains import DomainShown, TopologyShown, pictures
from cli.text.columns import lines, table
from cli.text.structured import FORMATS, Json, structured
from cluster.topology.capacity import WHOLE, CapacityFigures, CapacityReader, Startable
from kube.keys import API_VERSION
from kube.quantities import written
from kube.topology import Topology
from planning.dry_run import Live
from planning.messages.wording import pods

_SELDOM_SCARCE = ("memory", "ephemeral-storage", "pods")
"""Resources that only `-o wide` shows. Hugepages are shown there only, too."""
_GANGS_SHOWN = 3


@click.command(
    epilog="""\b
Examples:
  phalanx topology
  phalanx topology datacenter --level rack -o wide
  phalanx topology --nodes --watch
  phalanx topology --starts
"""
)
@click.argument("name", required=False)
@click.option("--level", metavar="LEVEL", shell_complete=levels, help="The narrowest level to show.")
@click.option("--nodes", is_flag=True, help="Show each node, too.")
@click.option(
    "--starts", is_flag=True, help="Also show the most pods that could start together now, and the fragmentation."
)
@FORMAT
@WATCH
@KUBECONFIG
def topology(
    name: str | None, *, level: str | None, nodes: bool, starts: bool, output: str, watch: bool, kubeconfig: str | None
) -> None:
    """Show the domains of a topology, or of all topologies: their nodes, free and used capacity, and gangs.

    Free is the capacity that a new pod gets without evictions. Reserved capacity is not free. The capacity of
    terminating pods is free. Free capacity on closed nodes, such as cordoned ones, is shown apart: "56 (+8 closed)".
    Exit status 1: the topology or the level does not exist.

    The last line shows the most pods that could start together in one domain above the nodes now, without evictions.
    With --starts, a table shows them for each level and each size of pods, and the fragmentation. These figures ignore
    taints and the node constraints of pods. The fragmentation of a level is the part of the free capacity that lies in
    partly used domains.
    """
    reader = CapacityReader()

    def rendered(live: Live) -> str:
        chosen = _chosen(pictures(live), name, level, nodes=nodes)
        if not starts and output in FORMATS:
            return _rendered(chosen, output)
        figures = reader.read(live.snapshot, [each.topology for each in chosen])
        return _rendered(chosen, output, figures, starts=starts)

    if not watch:
        click.echo(rendered(live_picture(kubeconfig)[1]), nl=False)
        return
    with watched_cluster(kubeconfig) as (_, cache):
        redraw(lambda: picture_of(cache), lambda live, _: rendered(live))


def _chosen(found: Sequence[TopologyShown], name: str | None, level: str | None, *, nodes: bool) -> list[TopologyShown]:
    """Return the topologies in `found` with this name (None: all), with their domains down to the requested level.

    :param level: the narrowest level; None: the level above the nodes, or the nodes if `nodes`.
    :raises click.ClickException: there is no such topology or level.
    """
    named = [each for each in found if name is None or each.topology.called(name)]
    if not named:
        others = ", ".join(each.topology.full_name for each in found if each.topology.name)
        hint = f"; there are {others}" if others else ""
        raise click.ClickException(f"no topology {name}{hint}" if name else "there is no topology, and no node")
    chosen = []
    for each in named:
        depth = len(each.topology.levels) - (0 if nodes else 1)
        if level is not None:
            position = each.topology.find(level)
            if position is None and len(named) == 1:
                there = ", ".join(one.name for one in each.topology.levels)
                raise click.ClickException(f"{each.topology.title} has no level {level}; it has {there}")
            if position is None:
                continue
            depth = position + 1
        chosen.append(each.down_to(depth))
    return chosen


def _rendered(
    chosen: Sequence[TopologyShown], output: str, figures: CapacityFigures | None = None, *, starts: bool = True
) -> str:
    """Return the topologies as text.

    :param figures: the capacity figures of the snapshot; None: print none.
    :param starts: print the figures of all levels and sizes of pods; False: only one line.
    """
    if output in FORMATS:
        found = [_data(each) | _starts_data(each.topology, figures) for each in chosen]
        return structured({"apiVersion": API_VERSION, "kind": "TopologyReport", "topologies": found}, output)
    below = _starts if starts else _largest_starts
    return "\n".join(_text(each, wide=output == "wide") + below(each.topology, figures) for each in chosen)


def _largest_starts(topology: Topology, figures: CapacityFigures | None) -> str:
    """Return a line with the most pods that could start together now in one domain of the level above the nodes.

    For each resource it says so for the smallest and for the largest size of pods. "" if the nodes have no resource
    that is counted.
    """
    if figures is None or not topology.levels:
        return ""
    level = topology.levels[-2].name if len(topology.levels) > 1 else WHOLE
    known = [each for each in figures.startable if (each.topology, each.level) == (topology.full_name, level)]
    parts = []
    for resource in dict.fromkeys(each.resource for each in known):
        sizes = [each for each in known if each.resource == resource]
        shown = sizes[:1] if len(sizes) == 1 else [sizes[0], sizes[-1]]
        parts += [_start(each) for each in shown]
    where = f"in one {level}" if level != WHOLE else "in the cluster"
    text = f"\nCould start now {where}, without evictions: {'; '.join(parts)}. All levels and sizes: --starts\n"
    return text if parts else ""


def _starts(topology: Topology, figures: CapacityFigures | None) -> str:
    """Return a table with one column for each level, narrower levels to the right.

    A row in its first part is for one size of pods. It has the most pods of this size that could start together now in
    one domain of the level, and this domain. A row in its last part has the fragmentation of one resource.

    :param figures: None: return "".
    """
    if figures is None:
        return ""
    known = [each for each in figures.startable if each.topology == topology.full_name]
    levels = list(dict.fromkeys(each.level for each in known))
    rows = []
    for resource, size in dict.fromkeys((each.resource, each.size) for each in known):
        row = [each for each in known if (each.resource, each.size) == (resource, size)]
        rows.append([f"{written(resource, size)} {resource} each", *map(_best, row)])
    ratios = [each for each in figures.fragmentation if each.topology == topology.full_name]
    for resource in dict.fromkeys(each.resource for each in known):
        shares = {each.level: f"{each.ratio:.0%}" for each in ratios if each.resource == resource}
        rows.append([f"fragmentation, {resource}", *(shares[level] for level in levels)])
    return "\n" + lines(table(["PODS THAT COULD START NOW", *(f"ONE {level.upper()}" for level in levels)], rows))


def _start(startable: Startable) -> str:
    """Return the most pods of one size and their domain, such as "2 pods of 8 nvidia.com/gpu in block-1/rack-03"."""
    text = f"{pods(startable.pods)} of {written(startable.resource, startable.size)} {startable.resource}"
    return f"{text} in {'/'.join(startable.path)}" if startable.path else text


def _best(startable: Startable) -> str:
    """Return how many pods could start together now, and the domain that could hold them, such as "16 in
    block-1/rack-03".
    """
    return f"{startable.pods} in {'/'.join(startable.path)}" if startable.path else str(startable.pods)


def _starts_data(topology: Topology, figures: CapacityFigures | None) -> Json:
    """Return the fields `starts` and `fragmentation` of a TopologyReport. Sizes are integers in base units.

    :param figures: None: return no fields.
    """
    if figures is None:
        return {}
    return {
        "starts": [
            {
                "level": each.level,
                "resource": each.resource,
                "size": each.size,
                "pods": each.pods,
                "path": list(each.path),
            }
            for each in figures.startable
            if each.topology == topology.full_name
        ],
        "fragmentation": [
            {"level": each.level, "resource": each.resource, "ratio": round(each.ratio, 4)}
            for each in figures.fragmentation
            if each.topology == topology.full_name
        ],
    }


def _data(picture: TopologyShown) -> Json:
    """Return a topology as JSON data. Amounts are integers: cpu in millicores, memory in bytes, others in pieces."""
    return {
        "name": picture.topology.name,
        "kind": picture.topology.kind,
        "levels": [{"name": each.name, "labels": list(each.label_keys)} for each in picture.topology.levels],
        "domains": [
            {
                "path": list(each.path),
                "level": picture.level_of(each),
                "nodes": each.room.nodes,
                "closed": each.room.closed,
                "free": each.room.free,
                "freeClosed": each.room.free_closed,
                "used": each.room.used,
                "held": each.room.held,
                "gangs": [
                    {"namespace": key.namespace, "name": key.name, "pods": count} for key, count in each.gangs.items()
                ],
            }
            for each in picture.domains
        ],
        "outside": dict(picture.outside),
    }


def _text(picture: TopologyShown, *, wide: bool) -> str:
    above = " > ".join(each.name for each in picture.topology.levels)
    root = picture.domains[0]
    resources = _resources(root, wide=wide)
    held = {each for each in resources if wide or root.room.held.get(each)}
    titles = ["DOMAIN", "NODES"]
    for resource in resources:
        titles += [f"{resource.upper()} FREE", "USED", *(["HELD"] if resource in held else [])]
    rows = [
        [
            f"{branch}{each.path[-1] if each.path else picture.topology.name or 'nodes'}",
            f"{each.room.nodes} ({each.room.closed} closed)" if each.room.closed else str(each.room.nodes),
            *_amounts(each, resources, held),
            _gangs(each, wide=wide),
        ]
        for each, branch in _branches(picture.domains)
    ]
    texts = lines(table([*titles, "GANGS"], rows))
    lacking = _lacking(picture.outside)
    return f"{picture.topology.title}: {above}\n\n{texts}{lacking}"


def _resources(root: DomainShown, *, wide: bool) -> list[str]:
    """Return the resources that get a column: cpu first, then extended resources such as GPUs.

    With `wide`, resources that are seldom scarce, such as memory, follow.
    """
    there = [each for each in root.room.free if root.room.free[each] or root.room.used.get(each)]
    if not wide:
        there = [each for each in there if each not in _SELDOM_SCARCE and not each.startswith("hugepages-")]
    return sorted(there, key=lambda each: (each != "cpu", each in _SELDOM_SCARCE, each))


def _amounts(domain: DomainShown, resources: Sequence[str], held: Collection[str]) -> Iterator[str]:
    """Yield the cells of each resource: free, used, and reserved if the resource is in `held`.

    The free capacity on closed nodes is shown apart, such as `56 (+8 closed)`.
    """
    room = domain.room
    for resource in resources:
        closed = room.free_closed.get(resource, 0)
        free = written(resource, room.free.get(resource, 0) - closed)
        yield f"{free} (+{written(resource, closed)} closed)" if closed else free
        yield written(resource, room.used.get(resource, 0))
        if resource in held:
            yield written(resource, room.held.get(resource, 0))


def _gangs(domain: DomainShown, *, wide: bool) -> str:
    names = [f"{key} ({count})" for key, count in domain.gangs.items()]
    shown = names if wide else names[:_GANGS_SHOWN]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _branches(domains: Sequence[DomainShown]) -> Iterator[tuple[DomainShown, str]]:
    """Yield each domain with the branch of the tree before its name, such as `│  └─ `.

    The domains are in the order of the tree: each one is followed by all domains below it.
    """
    last: dict[int, bool] = {}
    followed: dict[tuple[str, ...], str] = {each.path[:-1]: each.path[-1] for each in domains if each.path}
    for each in domains:
        depth = len(each.path)
        if not depth:
            yield each, ""
            continue
        last[depth] = followed[each.path[:-1]] == each.path[-1]
        above = "".join("   " if last[level] else "│  " for level in range(1, depth))
        yield each, f"{above}{'└─ ' if last[depth] else '├─ '}"


def _lacking(outside: Mapping[str, str]) -> str:
    """Return lines that say how many nodes are outside the topology, one for each label that they lack.

    "" if none is outside.

    :param outside: by node, the label that it lacks.
    """
    counts: dict[str, int] = {}
    for label in outside.values():
        counts[label] = counts.get(label, 0) + 1
    texts = [f"{count} node{'s' if count > 1 else ''} outside: without {label}\n" for label, count in counts.items()]
    return f"\n{''.join(texts)}" if texts else ""
