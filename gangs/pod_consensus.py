"""What the pods of a gang must agree on where they say it themselves, and whose word counts where they do not.

A controller whose template has changed makes pods that say something else than those before them. They cannot be
refused: nobody could write the old words on them any more. So the newest pod of one controller speaks for all; pods
of several owners have to agree.
"""

from collections.abc import Iterable, Sequence

from gangs.findings import Findings
from gangs.manifests import pod_ref
from gangs.workloads.jobs import controller_of
from kube.objects import Pod


def speakers(pods: Sequence[Pod]) -> Sequence[Pod]:
    """The pods whose word counts, the first one's before the others': the newest of one controller's, else all.

    :param pods: in order of age, the oldest first.
    """
    owners = {owner.uid if (owner := controller_of(pod)) is not None else "" for pod in pods}
    return pods[-1:] if len(owners) == 1 and "" not in owners else pods


def check_alike(pods: Sequence[Pod], annotations: Iterable[str], remedy: str, findings: Findings) -> None:
    """Note annotations that differ: those of other speakers are faults, of those older than a lone one advice on it.

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
    """Tell a lone speaker of older pods that say something else.

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
