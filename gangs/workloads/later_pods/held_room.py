"""Whether room is held for the pods that a workload makes only when others of it run, and what to do where it is not.

It is unless the workload says otherwise or the controller was told so (docs/decisions/0022). Then such a gang waits for
all its pods, and is told how they would be made at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gangs.findings import Findings
from gangs.manifests import metadata_of, ref_of
from gangs.model import Gang, Later, Manifest, ObjectRef, Unwanted
from gangs.workloads.jobs import INDEX_KEY
from gangs.workloads.kind_table import shape_of
from gangs.workloads.later_pods import start_order
from gangs.workloads.pod_templates import POD_INDEX, WORKER_INDEX
from kube.keys import PLACEHOLDERS
from kube.objects import Pod

BY_ANNOTATION = Unwanted(f"as its annotation {PLACEHOLDERS} says", "remove the annotation")
BY_SETTING = Unwanted("as the controller's --no-placeholders says", "have the controller run without it")


def wanted(manifest: Manifest) -> bool:
    """Whether the workload leaves it to us to hold room for its later pods. Raises `MalformedError`."""
    return metadata_of(manifest).annotations.get(PLACEHOLDERS) != "false"


def check(ref: ObjectRef, annotations: Mapping[str, str], findings: Findings) -> None:
    """Note a wrong value of the annotation."""
    if (value := annotations.get(PLACEHOLDERS, "true")) not in ("true", "false"):
        remedy = 'write "false" to have no room held for pods that the workload makes later, or leave it out'
        field = f"metadata.annotations[{PLACEHOLDERS}]"
        findings.fault(ref, field, f'"{value}" is neither "true" nor "false"', remedy)


def later_of(manifest: Manifest) -> Later | None:
    """What there is to say of the pods that the workload makes later; None where it makes all at once.

    Raises `MalformedError`.
    """
    if not start_order.later_roles(manifest):
        return None
    return Later(" and ".join(_at_once(manifest)))


def _at_once(manifest: Manifest) -> Iterator[str]:
    """What has the workload make all its pods at once; nothing for kinds that know no other way."""
    yield from (order.at_once for order, _ in start_order.orders_of(manifest))
    shape = shape_of(manifest)
    for each in shape.fields if shape is not None and not shape.taught_by else ():
        if each.later_if:
            yield f"leave out {each.later_if.rpartition('.')[2]}"


def first_made(manifest: Manifest, pods: Iterable[tuple[str, Pod]]) -> Iterator[Pod]:
    """Of pods that a workload has yet to make, those that come before any of it runs. Raises `MalformedError`.

    `pods`: each with its role.
    """
    later, after_others = start_order.later_roles(manifest), start_order.after_others(manifest)
    number = {"StatefulSet": POD_INDEX, "LeaderWorkerSet": WORKER_INDEX, "JobSet": INDEX_KEY}.get(ref_of(manifest).kind)
    for role, pod in pods:
        first = role not in after_others and number is not None and pod.metadata.labels.get(number) == "0"
        if role not in later or first:
            yield pod


def without_room(gang: Gang, why: Unwanted) -> Gang:
    """The gang where no room is to be held for pods that do not exist: it waits for them, unless as many as must start
    together exist.
    """
    if gang.later is None or gang.later.unwanted is not None:
        return gang
    gang = replace(gang, later=replace(gang.later, unwanted=why))
    return replace(gang, members=gang.counted) if gang.suffice(gang.counted) else gang


def by_setting(gang: Gang, *, placeholders: bool) -> Gang:
    """The gang as a controller has it that holds room for pods that do not exist, or was told to hold none."""
    return gang if placeholders else without_room(gang, BY_SETTING)
