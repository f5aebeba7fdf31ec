"""Agreement of a gang's pods on their annotations and labels, and the pods that decide if they disagree.

If the template of a controller changes, its new pods differ from the earlier ones. They cannot be refused, because the
controller creates no more pods with the old values. The newest pod of a single controller therefore decides for all.
Pods of several owners must agree.
"""

from collections.abc import Iterable, Sequence

from gangs.findings import Findings
from gangs.manifests import pod_ref
from gangs.workloads.jobs import controller_of
from kube.objects import Pod


def speakers(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return the decisive pods: the newest pod if all pods have one controller, else all. The first one has precedence.

    :param pods: in order of age, the oldest first.
    """
    owners = {owner.uid if (owner := controller_of(pod)) is not None else "" for pod in pods}
    return pods[-1:] if len(owners) == 1 and "" not in owners else pods


def check_alike(pods: Sequence[Pod], annotations: Iterable[str], remedy: str, findings: Findings) -> None:
    """Report annotations that differ: faults on other decisive pods, and advice on a single decisive pod.

    :param pods: as for `speakers`, at least one.
    """
    keys = tuple(annotations)
    first, *others = speakers(pods)
    for key in keys:
        there = first.metadata.annotations.get(key)
        for pod in others:
            if (value := pod.metadata.annotations.get(key)) != there:
                problem = f"{_quoted(value)}, but {_quoted(there)} on Pod {first.key}"
                findings.fault(pod_ref(pod), f"metadata.annotations[{key}]", problem, remedy)
    advise_older(pods, keys, "annotations", findings)


def advise_older(pods: Sequence[Pod], keys: Iterable[str], part: str, findings: Findings) -> None:
    """Report, as advice on a single decisive pod, older pods with different values.

    :param pods: as for `speakers`.
    :param part: "labels" or "annotations".
    """
    speaking = speakers(pods)
    for key in keys if len(speaking) == 1 else ():
        there = getattr(speaking[0].metadata, part).get(key)
        values = [(pod, getattr(pod.metadata, part).get(key)) for pod in pods]
        older = next((f"{_quoted(value)} on Pod {pod.key}" for pod, value in reversed(values) if value != there), None)
        if older is not None:
            text = f"{_quoted(there)}, but {older}: what the newest pod says counts for the whole gang"
            findings.advise(pod_ref(speaking[0]), f"metadata.{part}[{key}]", text)


def _quoted(value: str | None) -> str:
    return "is missing" if value is None else f'is "{value}"'
