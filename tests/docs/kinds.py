"""The tables of kinds, read off the code and off what it makes of the examples.

`python tests/docs/kinds.py` writes them into docs/reference/kinds.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from written_blocks import with_block

from gangs.manifests import group_of
from gangs.workloads.kind_table import ANY, WORKLOADS, KindRow, Made
from gangs.workloads.later_pods.pods_to_come import missing_pods
from gangs.workloads.pod_templates import templates
from gangs.workloads.start_orders import StartOrder

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "kinds.md"
EXAMPLES = ROOT / "examples" / "workloads"
BLOCKS = ("kinds", "counts", "later")

Manifest = dict[str, Any]
Way = tuple[str | int, ...]

_OTHERS = {
    Made.TOGETHER: "one gang, each template a pod set",
    Made.ALONE: "each pod alone",
    Made.IN_JOBS: "each of its Jobs",
    Made.UNREAD: "refused: name a group on the templates",
}
_POD = "| `Pod` | `core` v1 | member by label | each pod alone, or in the group that it names | - | - | - |"


def block(name: str) -> str:
    """The lines of one table."""
    tables = {"kinds": _kinds, "counts": _counts, "later": _later}
    return "\n".join([*tables[name](), ""])


def page() -> str:
    """The page with its tables as the code has them."""
    text = PAGE.read_text()
    for name in BLOCKS:
        text = with_block(text, name, block(name))
    return text


def _written(values: Sequence[str]) -> str:
    """Fields as the page shows them."""
    return ", ".join(f"`{each}`" for each in values if each) or "-"


def _kinds() -> Iterator[str]:
    yield (
        "| kind | API group | our annotations | other systems' keys on its pods | pod templates | minimum | "
        "suspended for a queue |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    yield _POD
    yield from (_kind(group, kind, row) for (group, kind), row in WORKLOADS.items())


def _kind(group: str, kind: str, row: KindRow) -> str:
    own = "one gang" if row.by_annotation else "refused"
    child = "" if row.child is None else "only workload" if row.child.is_whole_object else row.child.kind
    if child:
        own = f"handed down to its {child}"
    versions = f" {'/'.join(row.versions)}" if row.versions else ""
    others = _OTHERS[row.made]
    if row.queued and row.made is Made.UNREAD:
        others = "one gang where it names Kueue's queue itself; on its templates refused"
    if child and row.made is Made.UNREAD:
        others = f"as its {child}, Kueue's queue named on itself"
    minimum = _written((row.minimum, row.least_workers, row.minimum_of_roles))
    cells = (f"`{kind}`", f"`{group or 'core'}`{versions}", own, others, _written(row.templates), minimum)
    return f"| {' | '.join((*cells, _written((row.suspended_at,))))} |"


def _counts() -> Iterator[str]:
    yield "| kind | its pods are counted by | rank of a pod | one gang is | over by |"
    yield "| --- | --- | --- | --- | --- |"
    examples = _examples()
    for (group, kind), row in WORKLOADS.items():
        if (group, kind) not in examples or row.child:
            continue
        found = examples[group, kind]
        parts = f"each part that the label `{row.part_by}` tells" if row.part_by else "the whole"
        over = ", ".join(f"`{field}`: {', '.join(values)}" for field, values in row.ended_at) or "its conditions"
        name = f"`{kind}`" if kind != "Job" else f"`{kind}` of `{group}`"
        ranks = _written(sorted({each for manifest in found for each in _ranks(manifest, row)}))
        fields = _written(sorted({each for manifest in found for each in _counted_by(manifest)}))
        yield f"| {name} | {fields} | {ranks} | {parts} | {over} |"


def _later() -> Iterator[str]:
    yield "| kind | where it says so | made later |"
    yield "| --- | --- | --- |"
    for (group, kind), row in WORKLOADS.items():
        name = kind if kind != "Job" else f"Job of `{group}`"
        for order in row.start_orders:
            yield f"| {name} | {_said(order)} | {order.later.value} |"
        for each in row.fields:
            if each.later or each.later_if:
                where = f"`{each.later_if}`" if each.later_if else "always"
                yield f"| {name} | {where} | the pods of {'that ' * bool(each.later_if)}`{each.template}` |"


def _said(order: StartOrder) -> str:
    if order.annotation:
        return f"annotation `{order.at}`"
    if order.unless:
        return f"`{order.at}` absent or other than `{order.unless}`"
    return f"`{order.at}: {order.says}`" if order.says else f"`{order.at}`"


def _examples() -> Mapping[tuple[str, str], list[Manifest]]:
    found: dict[tuple[str, str], list[Manifest]] = {}
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            found.setdefault((group_of(each["apiVersion"]), each["kind"]), []).append(each)
    return found


def _numbers(part: Any, way: Way = ()) -> Iterator[tuple[Way, int]]:
    """Where a manifest has whole numbers, and which."""
    steps: Any = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for step, below in steps:
        yield from _numbers(below, (*way, step))
    if isinstance(part, int) and not isinstance(part, bool):
        yield way, part


def _changed(manifest: Manifest, changes: Mapping[Way, int]) -> Manifest:
    other = deepcopy(manifest)
    for way, value in changes.items():
        part: Any = other
        for step in way[:-1]:
            part = part[step]
        part[way[-1]] = value
    return other


def _pods(manifest: Manifest) -> tuple[int, ...]:
    """How many pods it makes, template by template."""
    return tuple(each.count for each in templates(manifest))


def _counted_by(manifest: Manifest) -> Iterator[str]:
    """The fields of which another number is another number of pods, limits of other fields out of the way."""
    numbers = dict(_numbers(manifest["spec"], ("spec",)))
    roomy = {way: value + 2 if way[-1] == "maxReplicas" else value for way, value in numbers.items()}
    free = {way: 0 if way[-1] == "minReplicas" else value for way, value in roomy.items()}
    for base in (numbers, roomy, free):
        before = _pods(_changed(manifest, base))
        for way, value in base.items():
            if any(_pods(_changed(manifest, {**base, way: each})) != before for each in (max(0, value - 1), value + 1)):
                yield ".".join(ANY if isinstance(step, int) or step[:1].isupper() else step for step in way)


def _ranks(manifest: Manifest, row: KindRow) -> set[str]:
    """The labels by which its pods are numbered."""
    made = missing_pods(manifest, ())
    return {key for pod in made for key, value in pod.metadata.labels.items() if value.isdigit()} - {row.part_by}


if __name__ == "__main__":
    PAGE.write_text(page())
