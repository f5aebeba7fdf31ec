"""Whether capacity is reserved for the pods that a workload creates only after others of its pods run.

Capacity is reserved unless the workload's annotation `phalanx.dev/placeholders` or the controller's flag
`--no-placeholders` disables it (docs/decisions/0022). Then the gang waits until all its pods exist, and a message says
how to make the workload create them at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gangs.findings import Findings
from gangs.manifests import metadata_of, ref_of
from gangs.model import Gang, Later, Manifest, ObjectRef, Unwanted
from gangs.workloads.jobs import INDEX_KEY
from gangs.workloads.kind_table import row_of
from gangs.workloads.later_pods import start_order
from gangs.workloads.pod_templates import POD_INDEX, WORKER_INDEX
from kube.keys import PLACEHOLDERS
from kube.objects import Pod

BY_ANNOTATION = Unwanted(f"as its annotation {PLACEHOLDERS} says", "remove the annotation")
BY_SETTING = Unwanted("as the controller's --no-placeholders says", "have the controller run without it")


def wanted(manifest: Manifest) -> bool:
    """Whether Phalanx may reserve capacity for the workload's expected pods. Raises `MalformedError`.

    It may unless the annotation `phalanx.dev/placeholders` is "false".
    """
    return metadata_of(manifest).annotations.get(PLACEHOLDERS) != "false"


def check(ref: ObjectRef, annotations: Mapping[str, str], findings: Findings) -> None:
    """Report a value of the annotation `phalanx.dev/placeholders` that is neither "true" nor "false"."""
    if (value := annotations.get(PLACEHOLDERS, "true")) not in ("true", "false"):
        remedy = 'write "false" to have no room held for pods that the workload makes later, or leave it out'
        field = f"metadata.annotations[{PLACEHOLDERS}]"
        findings.fault(ref, field, f'"{value}" is neither "true" nor "false"', remedy)


def later_of(manifest: Manifest) -> Later | None:
    """Return information on the pods that the workload creates only after others run, with the remedy to change this.

    Return None if it creates all pods at once. Raises `MalformedError`.
    """
    if not start_order.later_roles(manifest):
        return None
    return Later(" and ".join(_at_once(manifest)))


def _at_once(manifest: Manifest) -> Iterator[str]:
    """Yield remedies, for messages, that make the workload create all pods at once; none if its kind has no setting."""
    yield from (order.at_once for order, _ in start_order.orders_of(manifest))
    row = row_of(manifest)
    for each in row.fields if row is not None and not row.user_defined_by else ():
        if each.later_if:
            yield f"leave out {each.later_if.rpartition('.')[2]}"


def first_made(manifest: Manifest, pods: Iterable[tuple[str, Pod]]) -> Iterator[Pod]:
    """Yield the pods among `pods` that a workload creates before any of its pods runs. Raises `MalformedError`.

    :param pods: all expected pods of the workload, as (role, pod).
    """
    later, after_others = start_order.later_roles(manifest), start_order.after_others(manifest)
    number = {"StatefulSet": POD_INDEX, "LeaderWorkerSet": WORKER_INDEX, "JobSet": INDEX_KEY}.get(ref_of(manifest).kind)
    if not later:
        yield from (pod for _, pod in pods)
        return
    for role, pod in pods:
        first = role not in after_others and number is not None and pod.metadata.labels.get(number) == "0"
        if role not in later or first:
            yield pod


def without_room(gang: Gang, why: Unwanted) -> Gang:
    """Return a gang with expected pods as it is if no capacity is reserved for them; any other gang unchanged.

    If the existing pods reach the gang's minimum, they alone are its members. Otherwise the gang waits for the expected
    pods.

    :param why: the reason, for messages.
    """
    if gang.later is None or gang.later.unwanted is not None:
        return gang
    gang = replace(gang, later=replace(gang.later, unwanted=why))
    return replace(gang, members=gang.counted) if gang.suffice(gang.counted) else gang


def by_setting(gang: Gang, *, placeholders: bool) -> Gang:
    """Return the gang, changed by `without_room` if the controller runs with `--no-placeholders`."""
    return gang if placeholders else without_room(gang, BY_SETTING)
