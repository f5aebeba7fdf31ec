"""The refusal of GPU fractions: annotations of KAI Scheduler and Run:ai by which a pod asks for a part of a GPU.

The stock scheduler does not read these annotations. It shares devices only between ResourceClaims (consumable
capacity). A request for a fraction is therefore a fault. It is never ignored, because a pod without the fraction would
share its GPU with other users' pods. Source of the keys: KAI Scheduler's constants (v0.17).
"""

from collections.abc import Mapping
from dataclasses import replace

from gangs.manifests import pod_ref
from gangs.model import Fault, ObjectRef, Reading
from kube.objects import Pod

FRACTION_KEYS = (
    "gpu-fraction",
    "gpu-memory",
    "gpu-fraction-num-devices",
    "gpu-fraction-container-name",
    "gpu-fraction.limit",
    "gpu-memory.limit",
)
_KEYS = frozenset(FRACTION_KEYS)
_PROBLEM = "asks for a part of a GPU, and the stock scheduler, which starts gangs, does not read it"
_REMEDY = (
    "leave it out and ask for whole GPUs (resources.limits), for the devices that MIG makes of one, or for a share of "
    "a device (spec.resourceClaims)"
)


def fractions(ref: ObjectRef, at: str, annotations: Mapping[str, str]) -> list[Fault]:
    """Return a fault for each annotation that requests a GPU fraction.

    :param at: the path of the annotations in the object `ref`.
    """
    if _KEYS.isdisjoint(annotations):
        return []
    return [Fault(ref, f"{at}[{key}]", _PROBLEM, _REMEDY) for key in FRACTION_KEYS if key in annotations]


def without_fractions(reading: Reading) -> Reading:
    """Return the reading with a fault in place of each gang of which a member requests a GPU fraction.

    Bound members are not checked.
    """
    faults: list[Fault] = []
    gangs = []
    for gang in reading.gangs:
        wrong = [fault for member in gang.members if not member.pod.bound for fault in of_pod(member.pod)]
        faults += wrong
        if not wrong:
            gangs.append(gang)
    return replace(reading, gangs=tuple(gangs), faults=(*reading.faults, *faults)) if faults else reading


def of_pod(pod: Pod) -> list[Fault]:
    """Return a fault for each annotation of the pod that requests a GPU fraction."""
    if _KEYS.isdisjoint(pod.metadata.annotations):  # fast path: true of nearly every pod
        return []
    return fractions(pod_ref(pod), "metadata.annotations", pod.metadata.annotations)
