"""How many pods a workload makes of each of its pod templates, by the rules of its kind.

JobSet makes `replicas` Jobs of each entry, each of `parallelism` pods, never more than its `completions`. KubeRay makes
one head and, of each group, `replicas` workers on `numOfHosts` hosts each, `replicas` held between `minReplicas` and
`maxReplicas`; with its autoscaler `minReplicas` are as many as it must have. MPIJobs have one launcher, and no worker
where no number is written. LeaderWorkerSet makes `replicas` groups of `size` pods each, of which one is the
leader.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gangs.manifests import MalformedError, decode, ref_of
from gangs.model import Fault, Manifest, ObjectRef
from gangs.workloads.kind_table import ANY, WorkloadKind

LAUNCHER = "launcher"
"""The pod set of an MPIJob's launcher."""
LEADER_TEMPLATE = "leaderTemplate"
"""Where the template of a LeaderWorkerSet's leaders stands; without it they are made of the workers' one."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Pods of a template. `in_each`: of how many each of its Jobs or groups consists; `least`: as many as must run,
    None: all.
    """

    count: int
    in_each: int = 1
    least: int | None = None
    first: int = 0
    """The place in its group of the first pod that is made of the template."""


def counted(manifest: Manifest, way: Sequence[str]) -> Counted:
    """How many pods the workload makes of the template at the end of the way. Raises `MalformedError`."""
    parts = _along(manifest, way)
    at = field_of(way[:-1])
    match str(manifest.get("kind")):
        case "JobSet":
            return _of_jobs(manifest, parts[3], parts[-2], way)
        case "LeaderWorkerSet":
            return _of_groups(manifest, parts[1], parts[-2], way)
        case "RayCluster" | "RayJob" | "RayService":
            return Counted(1) if "headGroupSpec" in way else _of_group(manifest, parts[-2], at)
        case "MPIJob" if way[-2].lower() == LAUNCHER:
            return Counted(1)
    replicas = _number(manifest, parts[-2], at, "replicas")
    default = 0 if manifest.get("kind") == "MPIJob" else 1
    return Counted(default if replicas is None else replicas)


def by_fields(manifest: Manifest, shape: WorkloadKind, pattern: str, way: Sequence[str]) -> Counted:
    """The same of a kind whose row names the fields. Raises `MalformedError`.

    :param pattern: the path of the template, with its `*`.
    """
    fields = next(each for each in shape.fields if each.template == pattern)
    replicas, least = (_written(manifest, path, way) for path in (fields.replicas, fields.least))
    parts = _written(manifest, shape.parts, ())
    count = max(1, least or 0) if replicas is None else replicas
    if least is not None and least > count > 0:
        at = field_of(beside(manifest, fields.least, way)[0])
        problem = f"{least} is more than the {count} replicas"
        raise MalformedError(Fault(ref_of(manifest), at, problem, f"lower it to {count} or raise the replicas"))
    least, parts = None if least is None else min(least, count), 1 if parts is None else parts
    return Counted(parts * count, count, least) if shape.part_by else Counted(count, least=least)


def _written(manifest: Manifest, path: str, way: Sequence[str]) -> int | None:
    """The number at a field whose `*` are those of this way; None where nothing is written. Raises `MalformedError`."""
    if not path:
        return None
    steps, part = beside(manifest, path, way)
    return number(part, ref_of(manifest), field_of(steps))


def beside(manifest: Manifest, path: str, way: Sequence[str]) -> tuple[Sequence[str], Any]:
    """The way to a field whose `*` are those of this way, and what is written there, None for nothing."""
    steps = [way[at] if step == ANY else step for at, step in enumerate(path.split("."))]
    part: Any = manifest
    for step in steps:
        if isinstance(part, list) and step.isdigit():
            part = part[int(step)] if int(step) < len(part) else None
        else:
            part = part.get(step) if isinstance(part, Mapping) else None
    return steps, part


def field_of(way: Sequence[str]) -> str:
    """A field as people write it: `spec.replicatedJobs[0].template`."""
    return "".join(f"[{each}]" if each.isdigit() else f".{each}" for each in way).lstrip(".")


def number(written: Any, ref: ObjectRef, at: str) -> int | None:
    """A number of pods as a field says it, None where it says nothing. Raises `MalformedError` where it is none."""
    if written is None:
        return None
    found = decode(written, int, ref, at)
    if found < 0:
        raise MalformedError(Fault(ref, at, f"{found} is less than 0", "write a number from 0 up"))
    return found


def _along(manifest: Manifest, way: Sequence[str]) -> list[Any]:
    """The object and everything on the way below it."""
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
