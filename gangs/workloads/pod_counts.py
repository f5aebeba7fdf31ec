"""The number of pods that a workload creates from each of its pod templates, by the rules of its kind.

- JobSet: `replicas` Jobs of each replicated job, each of `parallelism` pods, but at most its `completions`.
- KubeRay: one head and, for each worker group, `replicas` workers on `numOfHosts` hosts each. `replicas` is limited to
  the range from `minReplicas` to `maxReplicas`. With the autoscaler, `minReplicas` must run.
- MPIJob: one launcher. Without `replicas` it has no worker.
- LeaderWorkerSet: `replicas` groups of `size` pods each, of which one is the leader.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gangs.manifests import MalformedError, decode, ref_of
from gangs.model import Fault, Manifest, ObjectRef
from gangs.workloads.kind_table import ANY, KindRow, Layout, layout_of, row_of

LAUNCHER = "launcher"
"""The pod set of an MPIJob's launcher."""
LEADER_TEMPLATE = "leaderTemplate"
"""The field of a LeaderWorkerSet's leader template. Without it, leaders are created from the worker template."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of pods of one pod template of a workload.

    `in_each`: the number of pods in each Job or group. `least`: the number of pods that must run; None: not stated.
    """

    count: int
    in_each: int = 1
    least: int | None = None
    first: int = 0
    """The index in its group of the template's first pod: 1 for the workers of a group with a leader."""


def counted(manifest: Manifest, way: Sequence[str]) -> Counted:
    """Return the number of pods that a workload of a built-in kind creates from one pod template.

    Raises `MalformedError`.

    :param way: the path of the template, as a sequence of keys and list positions.
    """
    row = row_of(manifest)
    if row is not None and row.rules is not None:
        return Counted(row.rules.size(manifest))
    parts = _along(manifest, way)
    at = field_of(way[:-1])
    match layout := layout_of(manifest):
        case Layout.JOBS:
            return _of_jobs(manifest, parts[3], parts[-2], way)
        case Layout.LEADERS_AND_WORKERS:
            return _of_groups(manifest, parts[1], parts[-2], way)
        case Layout.HEAD_AND_GROUPS:
            return Counted(1) if "headGroupSpec" in way else _of_group(manifest, parts[-2], at)
        case Layout.LAUNCHER_AND_WORKERS if way[-2].lower() == LAUNCHER:
            return Counted(1)
    replicas = _number(manifest, parts[-2], at, "replicas")
    default = 0 if layout is Layout.LAUNCHER_AND_WORKERS else 1
    return Counted(default if replicas is None else replicas)


def by_fields(manifest: Manifest, row: KindRow, pattern: str, way: Sequence[str]) -> Counted:
    """Return the number of pods of one pod template, for a kind with `KindRow.fields`. Raises `MalformedError`.

    :param pattern: the path of the template in `row`, with its `*`.
    :param way: the path of the template in the manifest, as a sequence of keys and list positions.
    """
    fields = next(each for each in row.fields if each.template == pattern)
    replicas, least = (_written(manifest, path, way) for path in (fields.replicas, fields.least))
    parts = _written(manifest, row.parts, ())
    count = max(1, least or 0) if replicas is None else replicas
    if least is not None and least > count > 0:
        at = field_of(beside(manifest, fields.least, way)[0])
        problem = f"{least} is more than the {count} replicas"
        raise MalformedError(Fault(ref_of(manifest), at, problem, f"lower it to {count} or raise the replicas"))
    least, parts = None if least is None else min(least, count), 1 if parts is None else parts
    return Counted(parts * count, count, least) if row.part_by else Counted(count, least=least)


def _written(manifest: Manifest, path: str, way: Sequence[str]) -> int | None:
    """Return the number in a field that belongs to one pod template; None if the field is absent. Raises
    `MalformedError`.

    Each `*` in `path` is replaced by the step of `way`, the path of the template, at the same position (`beside`).
    """
    if not path:
        return None
    steps, part = beside(manifest, path, way)
    return number(part, ref_of(manifest), field_of(steps))


def beside(manifest: Manifest, path: str, way: Sequence[str]) -> tuple[Sequence[str], Any]:
    """Look up a field that belongs to one pod template. Return the steps of the field's path, and the value there (None
    if it is absent).

    Each `*` in `path` is replaced by the step of `way`, the path of the template, at the same position. Example: for
    the path `spec.tasks.*.replicas` and `way` = ("spec", "tasks", "0", "template"), the steps are ("spec", "tasks",
    "0", "replicas").
    """
    steps = [way[at] if step == ANY else step for at, step in enumerate(path.split("."))]
    part: Any = manifest
    for step in steps:
        if isinstance(part, list) and step.isdigit():
            part = part[int(step)] if int(step) < len(part) else None
        else:
            part = part.get(step) if isinstance(part, Mapping) else None
    return steps, part


def field_of(way: Sequence[str]) -> str:
    """Format a path that is given as keys and list positions, such as `spec.replicatedJobs[0].template`."""
    return "".join(f"[{each}]" if each.isdigit() else f".{each}" for each in way).lstrip(".")


def number(written: Any, ref: ObjectRef, at: str) -> int | None:
    """Return the value of a field as a number of pods; None if it is None.

    Raises `MalformedError` if it is no whole number from 0 up.

    :param at: the path of the field in the object `ref`.
    """
    if written is None:
        return None
    found = decode(written, int, ref, at)
    if found < 0:
        raise MalformedError(Fault(ref, at, f"{found} is less than 0", "write a number from 0 up"))
    return found


def _along(manifest: Manifest, way: Sequence[str]) -> list[Any]:
    """Return the object, then the value after each step of a path. Example: for the steps ("spec", "replicas"), these
    are the object, its `spec`, and the value of `spec.replicas`.
    """
    parts: list[Any] = [manifest]
    for step in way:
        last = parts[-1]
        parts.append(last[int(step)] if isinstance(last, list) else last[step])
    return parts


def _number(manifest: Manifest, holder: Mapping[str, Any], at: str, name: str) -> int | None:
    return number(holder.get(name), ref_of(manifest), f"{at}.{name}")


def _of_jobs(manifest: Manifest, entry: Mapping[str, Any], job: Mapping[str, Any], way: Sequence[str]) -> Counted:
    replicas = _number(manifest, entry, field_of(way[:3]), "replicas")
    parallelism = _number(manifest, job, field_of(way[:-1]), "parallelism")
    completions = _number(manifest, job, field_of(way[:-1]), "completions")
    in_each = 1 if parallelism is None else parallelism
    in_each = in_each if completions is None else min(in_each, completions)
    return Counted((1 if replicas is None else replicas) * in_each, in_each)


def _of_groups(manifest: Manifest, spec: Mapping[str, Any], group: Mapping[str, Any], way: Sequence[str]) -> Counted:
    replicas = _number(manifest, spec, field_of(way[:1]), "replicas")
    size = _number(manifest, group, field_of(way[:-1]), "size")
    in_each, first = 1 if size is None else size, 0
    if way[-1] == LEADER_TEMPLATE:
        in_each = min(1, in_each)
    elif LEADER_TEMPLATE in group:
        in_each, first = max(0, in_each - 1), 1
    return Counted((1 if replicas is None else replicas) * in_each, in_each, first=first)


def _of_group(manifest: Manifest, group: Mapping[str, Any], at: str) -> Counted:
    replicas, least, most, hosts = (
        _number(manifest, group, at, name) for name in ("replicas", "minReplicas", "maxReplicas", "numOfHosts")
    )
    if group.get("suspend") is True:
        return Counted(0)
    wanted = max(replicas or 0, least or 0)
    wanted = wanted if most is None else min(wanted, most)
    in_each = 1 if hosts is None else hosts
    spec = manifest.get("spec")
    scaled = isinstance(spec, Mapping) and spec.get("enableInTreeAutoscaling") is True
    return Counted(wanted * in_each, in_each, min(wanted, least or 0) * in_each if scaled else None)
