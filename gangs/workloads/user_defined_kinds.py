"""User-defined kinds: WorkloadKind objects, in which a platform team describes kinds of workloads.

A valid WorkloadKind becomes a `KindRow`, the type of the rows in the table of built-in kinds. An invalid one becomes a
list of its faults. When an object of a user-defined kind is read, its `KindRow` is added to it (`with_row`). Functions
on workloads therefore need no list of the user-defined kinds.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from gangs.manifests import MalformedError, decode, key_of, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.resource_kinds import ResourceKind
from gangs.workloads.kept_fields import kept
from gangs.workloads.kind_table import ANY, ROW, WORKLOADS, KindRow, Made, TemplateFields
from gangs.workloads.pod_templates import role_at
from kube import keys
from kube.objects import Struct

KIND, PLURAL = "WorkloadKind", "workloadkinds"
AGGREGATED = f"{keys.GROUP}/aggregate-to-workload-kinds"
"""Label of ClusterRoles whose rules let Phalanx read user-defined kinds."""
MOST_TEMPLATES = 16
_LONGEST_MARK = 63
"""The most characters of a label's value. `<kind>.<group>` is such a value (`kind_table.mark_of`)."""
_STEP = r"(?![0-9]+(?:\.|$))[A-Za-z0-9_-]+"
"""The pattern of one step of a path. It excludes numbers, because `*` means the entries of a list."""
_PATH = re.compile(rf"{_STEP}(\.({_STEP}|\*))*")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
NOT_ASKED = (keys.GROUP, "kueue.x-k8s.io", "kai.scheduler", "scheduling.run.ai", "scheduling.koordinator.sh")
"""API groups, besides those of Kubernetes, that the webhook does not receive (manifests/webhook/mutating.yaml)."""
_OF_KUBERNETES = ("apps", "batch")
_OWN_RESOURCES = {(group, row.plural) for (group, _), row in WORKLOADS.items()}


class PodTemplateSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of a WorkloadKind for one pod template: its path, and the fields with its number of pods."""

    path: str
    replicas: str = ""
    min_replicas: str = ""
    starts_later: bool = False


class PartSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of a WorkloadKind that makes each part of a workload a gang of its own, such as each group of a
    LeaderWorkerSet.

    `label`: the pod label with the pod's part. `count`: the field with the number of parts; "": none.
    """

    label: str
    count: str = ""


class EndSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of a WorkloadKind for a field by which workloads report their end, and the values that mean this."""

    field: str
    values: tuple[str, ...]


class WorkloadKindSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """The `spec` of a WorkloadKind."""

    group: str
    kind: str
    resource: str
    versions: tuple[str, ...]
    pod_templates: tuple[PodTemplateSpec, ...]
    min_member: str = ""
    rank_key: str = ""
    workload_label: str = ""
    gangs: PartSpec | None = None
    suspended: str = ""
    ended: tuple[EndSpec, ...] = ()


def rows_of(manifests: Iterable[Manifest]) -> Mapping[tuple[str, str], KindRow]:
    """Return the kinds that these WorkloadKinds describe: by API group and kind, the `KindRow`.

    Invalid WorkloadKinds are left out. If two describe the same kind, the older one is used.
    """
    found: dict[tuple[str, str], KindRow] = {}
    for each in sorted(manifests, key=age):
        row = row_or_reasons(each)
        if isinstance(row, KindRow):
            found.setdefault((each["spec"]["group"], each["spec"]["kind"]), row)
    return found


def with_row(manifest: Manifest, rows: Mapping[tuple[str, str], KindRow]) -> Manifest:
    """Return the object. If it is of a user-defined kind, the `KindRow`, which describes its kind, is added under the
    key `ROW`.

    :param rows: the user-defined kinds (`rows_of`).
    """
    row = rows.get(key_of(manifest)[:2])
    return manifest if row is None else {**manifest, ROW: row}


def resources_of(manifests: Sequence[Manifest]) -> Iterator[ResourceKind]:
    """Yield the kinds that these WorkloadKinds describe, as kinds of objects to read from the API server."""
    for (group, kind), row in rows_of(manifests).items():
        as_read = partial(kept, row=row)
        yield ResourceKind(group, row.versions, kind, row.plural, as_read=as_read)


RESOURCE = ResourceKind(keys.GROUP, (keys.VERSION,), KIND, PLURAL, namespaced=False, user_defined=resources_of)
"""The resource of WorkloadKind objects themselves."""


def row_or_reasons(manifest: Manifest) -> KindRow | tuple[tuple[str, str, str], ...]:
    """Return the kind that a WorkloadKind describes; if it is invalid, its faults as (field, problem, remedy)."""
    return _row(ref_of(manifest).name, msgspec.json.encode(manifest.get("spec")))


@lru_cache(maxsize=256)
def _row(name: str, written: bytes) -> KindRow | tuple[tuple[str, str, str], ...]:
    """Return the kind that a WorkloadKind describes; if it is invalid, its faults as (field, problem, remedy).

    The result is cached, because it is needed for every gang that is read.

    :param name: the name of the WorkloadKind.
    :param written: its `spec` as JSON, which can be a key of the cache.
    """
    ref = ObjectRef(keys.API_VERSION, KIND, "", name)
    try:
        spec = decode(msgspec.json.decode(written), WorkloadKindSpec, ref, "spec")
    except MalformedError as error:
        return ((error.fault.field, error.fault.problem, error.fault.remedy),)
    wrong = tuple(dict.fromkeys((*_wrong_kind(name, spec), *_wrong_templates(spec), *_wrong_fields(spec))))
    return wrong or KindRow(
        spec.resource,
        Made.ALONE,
        tuple(each.path for each in spec.pod_templates),
        spec.versions,
        by_annotation=True,
        minimum=spec.min_member,
        named_by=spec.workload_label,
        part_by=spec.gangs.label if spec.gangs else "",
        parts=spec.gangs.count if spec.gangs else "",
        fields=tuple(
            TemplateFields(each.path, each.replicas, each.min_replicas, each.starts_later)
            for each in spec.pod_templates
        ),
        rank=spec.rank_key,
        ended_at=tuple((each.field, each.values) for each in spec.ended),
        suspended_at=spec.suspended,
        user_defined_by=name,
    )


_Wrong = tuple[str, str, str]
"""A fault of a WorkloadKind: (field, problem, remedy)."""


def _wrong_kind(name: str, spec: WorkloadKindSpec) -> Iterator[_Wrong]:
    """Yield the faults in the names that a WorkloadKind gives: its own, and group, kind, resource and versions."""
    if name != f"{spec.resource}.{spec.group}":
        yield "metadata.name", f'"{name}" is not the resource with its group', f"call it {spec.resource}.{spec.group}"
    if (spec.group, spec.kind) in WORKLOADS:
        yield "spec.kind", f"{spec.kind} of {spec.group} is known to Phalanx itself", "delete this WorkloadKind"
    elif (spec.group, spec.resource) in _OWN_RESOURCES:
        problem = f"{spec.resource} of {spec.group} are known to Phalanx itself"
        yield "spec.resource", problem, "delete this WorkloadKind"
    elif not describable(spec.group):
        problem = (
            f'"{spec.group}" is a group of Kubernetes, of Phalanx or of another scheduler, about which Phalanx is '
        )
        problem += "not asked"
        yield "spec.group", problem, "describe kinds of operators; label other templates with a Gang's name"
    if len(f"{spec.kind}.{spec.group}") > _LONGEST_MARK:
        problem = f"with its group it has {len(spec.kind) + 1 + len(spec.group)} letters, and a label has room for 63"
        yield "spec.kind", problem, "label the pod templates of such workloads with a Gang's name"
    if not spec.kind[:1].isupper() or not spec.kind.isalnum():
        yield "spec.kind", f'"{spec.kind}" is no kind', "write it as its manifests do, such as TrainingRun"
    if not spec.versions:
        yield "spec.versions", "is empty", "list the versions whose fields these are"


def _wrong_templates(spec: WorkloadKindSpec) -> Iterator[_Wrong]:
    """Yield the faults of the pod templates' paths, and of the fields that count their pods."""
    if not 0 < len(spec.pod_templates) <= MOST_TEMPLATES:
        problem = f"lists {len(spec.pod_templates)} pod templates"
        yield "spec.podTemplates", problem, f"list 1 to {MOST_TEMPLATES}"
    roles = Counter(role_at(each.path) for each in spec.pod_templates if ANY not in each.path.split("."))
    for position, each in enumerate(spec.pod_templates):
        at = f"spec.podTemplates[{position}]"
        for field, path in (("path", each.path), ("replicas", each.replicas), ("minReplicas", each.min_replicas)):
            if (path or field == "path") and not _PATH.fullmatch(path):
                yield f"{at}.{field}", f'"{path}" is no path', _A_PATH
            elif path and not _along(each.path.split("."), path.split(".")):
                problem = f"{path} has a * that {each.path} has not"
                yield f"{at}.{field}", problem, "write the same fields in both up to the last *"
        if ANY not in each.path.split(".") and roles[role_at(each.path)] > 1:
            problem = f"its pod set would be called {role_at(each.path)}, as that of another template"
            yield f"{at}.path", problem, "label the pod templates of such workloads with a Gang's name"
    if all(each.starts_later for each in spec.pod_templates):
        yield "spec.podTemplates", "all start later", "leave startsLater out where pods are made at once"


_A_PATH = "write fields with a dot between them, and * for every entry of a list or map: spec.roles.*.template"


def _wrong_fields(spec: WorkloadKindSpec) -> Iterator[_Wrong]:
    """Yield the faults of the fields and label keys that a WorkloadKind names, except those of its pod templates."""
    paths = {"minMember": spec.min_member, "suspended": spec.suspended}
    paths |= {"gangs.count": spec.gangs.count} if spec.gangs else {}
    paths |= {f"ended[{position}].field": each.field for position, each in enumerate(spec.ended)}
    for field, path in paths.items():
        if path and (not _PATH.fullmatch(path) or ANY in path.split(".")):
            yield (
                f"spec.{field}",
                f'"{path}" is no path to one field',
                "write fields with a dot between them, without *",
            )
    labels = {"rankKey": spec.rank_key, "workloadLabel": spec.workload_label}
    labels |= {"gangs.label": spec.gangs.label} if spec.gangs else {}
    for field, key in labels.items():
        if (key or field == "gangs.label") and not _KEY.fullmatch(key):
            yield f"spec.{field}", f'"{key}" is no key of a label', "write it as the pods have it: example.com/rank"
        elif key.startswith(f"{keys.GROUP}/"):
            yield f"spec.{field}", f'"{key}" is a key of Phalanx itself', "name one that the operator writes"


def _along(template: Sequence[str], path: Sequence[str]) -> bool:
    """Whether each `*` of a field's path means the same entry as a `*` in the path of the pod template.

    It does if both paths are equal up to the last `*`.
    """
    last = max((at for at, step in enumerate(path) if step == ANY), default=-1)
    return list(path[: last + 1]) == list(template[: last + 1]) and last < len(template) - 1


def describable(group: str) -> bool:
    """Whether kinds of this API group can be user-defined.

    The webhook receives their objects, except for groups of Kubernetes, of Phalanx and of other schedulers.
    """
    return "." in group and group not in (*_OF_KUBERNETES, *NOT_ASKED) and not group.endswith(".k8s.io")


def age(manifest: Manifest) -> tuple[str, str]:
    """Return a sort key that puts the oldest WorkloadKind first, and one that does not exist yet last."""
    metadata: Mapping[str, Any] = manifest["metadata"]
    return str(metadata.get("creationTimestamp") or "~"), str(metadata.get("name", ""))
