"""Formats planning decisions for a terminal: the result, one line for each pod, and the tree of the used domains."""

import io
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from planning.decision import Assignment, Decision, Explanation, LevelUse, Outcome
from planning.messages.solve_report import device_count, name_of
from planning.messages.wording import (
    DEVICE_COLUMNS,
    NEAREST_COLUMNS,
    compressed,
    device_row,
    devices_text,
    fitting,
    nearest_row,
    pods,
)
from solver.plan import NearDomain

_STYLES = {
    Outcome.PLACED: "bold green",
    Outcome.WAITING: "bold yellow",
    Outcome.UNPLACEABLE: "bold red",
    Outcome.INVALID: "bold red",
}
_UNLIMITED = 100_000
"""The width in columns if the output is no terminal. Lines are not wrapped, so that other programs can read them."""

_INDENT, _GAP = "  ", "   "


def render(decisions: Sequence[Decision]) -> str:
    """Return all decisions as text. If standard output is a terminal, the text is coloured and fits its width."""
    terminal = sys.stdout.isatty()
    console = Console(file=io.StringIO(), force_terminal=terminal, width=None if terminal else _UNLIMITED)
    with console.capture() as capture:
        for position, decision in enumerate(decisions):
            if position:
                console.print()
            for part in _parts(decision):
                console.print(part, soft_wrap=isinstance(part, Text))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _parts(decision: Decision) -> Iterator[RenderableType]:
    yield _headline(decision)
    yield Text(f"  {decision.message}")
    if decision.assignments:
        yield Text()
        yield _members(decision)
    if decision.evictions:
        yield Text()
        yield _victims(decision)
    if len(decision.levels) > 1:
        yield Text()
        yield Padding(_tree(decision), (0, 0, 0, len(_INDENT)), expand=False)
    if decision.explanation.why_here:
        yield Text()
        yield Text(f"  why here: {decision.explanation.why_here}")
    if decision.explanation.only_in:
        yield Text()
        yield Text(f"  may run only in {decision.explanation.only_in}")
    if decision.explanation.nearest:
        yield Text()
        yield _nearest(decision.explanation.nearest)
        if any(decision.explanation.devices):
            yield Text()
            yield _devices_near(decision.explanation)
    if decision.explanation.would_fit_if:
        yield Text()
        yield from (Text(f"  would fit if: {change}") for change in decision.explanation.changes)


def _headline(decision: Decision) -> Text:
    name = f"{decision.key.namespace}/{name_of(decision)}"
    line = Text.assemble((name, "bold"), "  ", (decision.outcome.value, _STYLES[decision.outcome]))
    if decision.proof:
        line.append(f"  {decision.proof.lower()}")
    if decision.seconds:
        steps = ", ".join(f"{step} {seconds * 1000:.1f} ms" for step, seconds in decision.seconds.items())
        line.append(f"  ({steps})", style="dim")
    return line


def _members(decision: Decision) -> Text:
    above = decision.levels[:-1]
    sets = len({each.member.pod_set for each in decision.assignments}) > 1
    paths = {each.path[-1]: each.path for each in decision.levels[-1].domains}
    devices = any(each.devices for each in decision.assignments)
    columns = ["POD", *(["SET"] if sets else []), "NODE", *(level.level.upper() for level in above)]
    columns += ["DEVICES"] if devices else []
    rows = [
        [
            _pod_name(each, decision),
            *([each.member.pod_set] if sets else []),
            each.node,
            *paths[each.node][: len(above)],
            *([_devices(each)] if devices else []),
        ]
        for each in decision.assignments
    ]
    return _columns(columns, rows)


def _devices(assignment: Assignment) -> str:
    """Return the devices of a member by request: `gpu: gpu-0, gpu-1`. The name of a pool that is not the node's is
    written before the device, and what the member consumes of a shared device after it.
    """
    return devices_text(
        (
            each.request,
            each.device.device if each.device.pool == assignment.node else f"{each.device.pool}/{each.device.device}",
            dict(each.consumed),
        )
        for claim in assignment.devices
        for each in claim.devices
    )


def _pod_name(assignment: Assignment, decision: Decision) -> str:
    metadata = assignment.member.pod.metadata
    same = metadata.namespace == decision.key.namespace
    name = metadata.name if same else f"{metadata.namespace}/{metadata.name}"
    return f"{name} (there already)" if assignment.held else name


def _victims(decision: Decision) -> Text:
    rows = [
        [f"{each.namespace}/{each.name}", each.node, str(each.priority), str(each.gang or "")]
        for each in decision.evictions
    ]
    columns = ["VICTIM", "NODE", "PRIORITY", "GANG"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return _columns(columns, rows)


def _tree(decision: Decision) -> Tree:
    """Return the tree of the domains that the plan uses, each with its number of pods.

    The narrowest domains above the nodes also list their nodes.
    """
    above, nodes = decision.levels[:-1], decision.levels[-1]
    root = Tree(Text(f"{' > '.join(level.level for level in above)}: {pods(len(decision.assignments))}"))
    branches: dict[tuple[str, ...], Tree] = {(): root}
    for level in above:
        for use in level.domains:
            text = f"{use.path[-1]}  {pods(use.pods)}"
            if level is above[-1]:
                text += f"  {_nodes_in(use.path, nodes)}"
            branches[use.path] = branches[use.path[:-1]].add(Text(text))
    return root


def _nodes_in(path: tuple[str, ...], nodes: LevelUse) -> str:
    return compressed(each.path[-1] for each in nodes.domains if each.path[: len(path)] == path)


def _nearest(nearest: Iterable[NearDomain]) -> Text:
    rows = [
        nearest_row(each.path, fitting(each.fits, each.needed, each.fits_now), each.nodes, each.excluded)
        for each in nearest
    ]
    return _columns(NEAREST_COLUMNS, rows)


def _devices_near(explanation: Explanation) -> Text:
    """Return a table of the devices in the domains that are nearest to holding the rejected gang."""
    rows = [
        device_row(near.path, device_count(count))
        for near, counts in zip(explanation.nearest, explanation.devices, strict=True)
        for count in counts
    ]
    return _columns(DEVICE_COLUMNS, rows)


def _columns(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Text:
    """Return a table with aligned columns as one text: a line of titles, then one line for each row, never wrapped."""
    widths = [max(map(cell_len, cells)) + len(_GAP) for cells in zip(titles, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=True))
        return f"{_INDENT}{''.join(padded).rstrip()}"

    return Text("\n").join([Text(line(titles), style="dim"), Text("\n".join(map(line, rows)))])
