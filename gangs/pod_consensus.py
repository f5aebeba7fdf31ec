"""The choice of the pods whose labels and annotations apply to a gang that only pods ask for.

All pods should have equal values. If the pod template of a controller changes, its new pods differ from the earlier
ones. They cannot be refused, because the controller creates no more pods with the old values. If all pods have one
controller, the newest pod therefore decides for all. Otherwise different values are a fault.
"""

from collections.abc import Iterable, Sequence

from gangs.findings import Findings
from gangs.manifests import pod_ref
from gangs.workloads.jobs import controller_of
from kube.objects import Pod


def decisive_pods(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return the pods whose labels and annotations apply to the gang: the newest pod if all have one controller, else
    all.

    If there are several, the values of the first one are used, and different values are a fault.

    :param pods: all pods of the gang, the oldest first.
    """
    owners = {owner.uid if (owner := controller_of(pod)) is not None else "" for pod in pods}
    return pods[-1:] if len(owners) == 1 and "" not in owners else pods


def check_alike(pods: Sequence[Pod], annotations: Iterable[str], remedy: str, findings: Findings) -> None:
    """Report annotations that differ between the pods of a gang.

    Among the decisive pods (`decisive_pods`), a difference from the first pod is a fault. If one pod decides for all, a
    difference from an older pod is advice.

    :param pods: all pods of the gang, the oldest first; at least one.
    """
    keys = tuple(annotations)
    first, *others = decisive_pods(pods)
    for key in keys:
        there = first.metadata.annotations.get(key)
        for pod in others:
            if (value := pod.metadata.annotations.get(key)) != there:
                problem = f"{_quoted(value)}, but {_quoted(there)} on Pod {first.key}"
                findings.fault(pod_ref(pod), f"metadata.annotations[{key}]", problem, remedy)
    advise_older(pods, keys, "annotations", findings)


def advise_older(pods: Sequence[Pod], keys: Iterable[str], part: str, findings: Findings) -> None:
    """If the newest pod decides for all (`decisive_pods`), report as advice on it that an older pod has another value.

    :param pods: all pods of the gang, the oldest first.
    :param keys: the keys to compare.
    :param part: "labels" or "annotations".
    """
    speaking = decisive_pods(pods)
    for key in keys if len(speaking) == 1 else ():
        there = getattr(speaking[0].metadata, part).get(key)
        values = [(pod, getattr(pod.metadata, part).get(key)) for pod in pods]
        older = next((f"{_quoted(value)} on Pod {pod.key}" for pod, value in reversed(values) if value != there), None)
        if older is not None:
            text = f"{_quoted(there)}, but {older}: what the newest pod says counts for the whole gang"
            findings.advise(pod_ref(speaking[0]), f"metadata.{part}[{key}]", text)


def _quoted(value: str | None) -> str:
    return "is missing" if value is None else f'is "{value}"'
