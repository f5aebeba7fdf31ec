"""What the pods of a gang must agree on where they say it themselves, and whose word counts where they do not.

A controller whose template has changed makes pods that say something else than those before them. They cannot be
refused: nobody could write the old words on them any more. So the newest pod of one controller speaks for all; pods
of several owners have to agree.
"""

from collections.abc import Iterable, Sequence

from gangs.findings import Findings
from gangs.manifests import pod_ref
from gangs.workloads import controller_of
from kube.objects import Pod


def speakers(pods: Sequence[Pod]) -> Sequence[Pod]:
    """The pods whose word counts, the first one's before the others': the newest of one controller's, else all.

    :param pods: in order of age, the oldest first.
    """
    owners = {owner.uid if (owner := controller_of(pod)) is not None else "" for pod in pods}
    return pods[-1:] if len(owners) == 1 and "" not in owners else pods


def check_alike(pods: Sequence[Pod], annotations: Iterable[str], remedy: str, findings: Findings) -> None:
    """Note annotations that differ from those of the first speaker: a fault of a speaker, advice on a lone one.

    :param pods: as for `speakers`, at least one.
    """
    speaking = speakers(pods)
    first = speaking[0]
    for key in annotations:
        there = first.metadata.annotations.get(key)
        others = [pod for pod in pods if pod.metadata.annotations.get(key) != there]
        if others and len(speaking) == 1:
            older = f"{_said(others[-1].metadata.annotations.get(key))} on Pod {others[-1].key}"
            text = f"{_said(there)}, but {older}: what the newest pod says counts for the whole gang"
            findings.advise(pod_ref(first), f"metadata.annotations[{key}]", text)
            continue
        for pod in others:
            problem = f"{_said(pod.metadata.annotations.get(key))}, but {_said(there)} on Pod {first.key}"
            findings.fault(pod_ref(pod), f"metadata.annotations[{key}]", problem, remedy)


def _said(value: str | None) -> str:
    return "is missing" if value is None else f'is "{value}"'
