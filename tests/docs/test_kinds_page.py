"""The page of kinds says of each kind what the table in the code says."""

import re
from pathlib import Path

from gangs.workloads.kind_table import ANY, WORKLOADS, Made, WorkloadKind

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "kinds.md").read_text()
OTHERS = {
    Made.TOGETHER: "one gang, each template a pod set",
    Made.ALONE: "each pod alone",
    Made.IN_JOBS: "each of its Jobs",
    Made.UNREAD: "refused: name a group on the templates",
}


def written(values: tuple[str, ...]) -> str:
    """Fields as the page shows them."""
    return ", ".join(f"`{each}`" for each in values if each) or "-"


def row(group: str, kind: str, shape: WorkloadKind) -> str:
    """The line of a kind."""
    own = "one gang" if shape.by_annotation else "refused"
    if heir := shape.heir[1]:
        own = f"handed down to its {'only workload' if heir == ANY else heir}"
    versions = f" {'/'.join(shape.versions)}" if shape.versions else ""
    others = OTHERS[shape.made]
    if shape.queued and shape.made is Made.UNREAD:
        others = "one gang where it names Kueue's queue itself; on its templates refused"
    minimum = written((shape.minimum, shape.least_workers, shape.minimum_of_roles))
    cells = (f"`{kind}`", f"`{group or 'core'}`{versions}", own, others, written(shape.templates), minimum)
    cells = (*cells, written((shape.suspended_at,)))
    return f"| {' | '.join(cells)} |"


def test_the_table_is_that_of_the_code() -> None:
    lines = [line for line in PAGE.splitlines() if re.match(r"\| `", line)]
    assert lines == [row(group, kind, shape) for (group, kind), shape in WORKLOADS.items()]
