"""Finds misspelt extended resources: no node has the resource, but a node has one of nearly the same name."""

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import SequenceMatcher

from cluster.snapshot import Snapshot
from gangs.manifests import pod_ref
from gangs.model import Fault, Gang
from kube.objects import Pod
from kube.requests import extended_resources, quantities

_ALIKE = 0.9
"""How similar two resource names must be (difflib, 0 to 1) so that one counts as a misspelling of the other.
`nvidia.com/gpus` and `nvidia.com/gpu` have 0.97, `amd.com/gpu` and `nvidia.com/gpu` 0.72.
"""
_DIGITS = re.compile(r"[0-9]+")


def misspelt_resources(gangs: Iterable[Gang], snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault for each misspelt extended resource that an unbound member requests; none in a cluster without
    nodes.

    Names that differ in their numbers are different resources, such as two MIG profiles.
    """
    known = snapshot.allocatable_resources | snapshot.device_classes.keys()
    for pod in (member.pod for gang in gangs for member in gang.members if not member.pod.bound):
        for resource in dict.fromkeys(extended_resources(pod.spec)):
            meant = "" if resource in known else _nearest(resource, known)
            if meant:
                problem = f"no node has {resource} in status.allocatable"
                yield Fault(pod_ref(pod), _field(pod, resource), problem, f"did you mean {meant}?")


def _nearest(resource: str, known: Collection[str]) -> str:
    """Return the known resource whose name is most similar; "" if none is similar enough or the numbers differ."""
    digits = _DIGITS.findall(resource)
    alike = [(SequenceMatcher(None, resource, each).ratio(), each) for each in known if _DIGITS.findall(each) == digits]
    ratio, name = max(alike, default=(0.0, ""))
    return name if ratio >= _ALIKE else ""


def _field(pod: Pod, resource: str) -> str:
    """Return the path of the pod's field that requests or limits the resource."""
    return next(f"{path}.{name}" for path, name, _ in quantities(pod) if name == resource)
