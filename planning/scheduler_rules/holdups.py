"""Hold-ups: reasons that keep a member from being bound on any node. A gang with such a member must not be released.

The stock scheduler ignores a pod with a gate, and rejects a pod whose PersistentVolumeClaim does not exist. The other
members would start without the pod. For members that name a scheduler that does not run in the cluster, see
`gangs.coexistence.running_schedulers`.
"""

from collections.abc import Iterator

from cluster.snapshot import Snapshot
from cluster.volumes import claim_names
from gangs.model import Gang
from kube.keys import GATE
from kube.objects import Pod


def holdups(gang: Gang, snapshot: Snapshot) -> list[str]:
    """Return what must happen before the gang's members can be bound, as ends of a sentence, each once.

    These are gates of other systems that must be removed, and PersistentVolumeClaims that must be created.
    """
    waiting = (member.pod for member in gang.members if not member.pod.bound)
    return list(dict.fromkeys(each for pod in waiting for each in _of_pod(pod, snapshot)))


def _of_pod(pod: Pod, snapshot: Snapshot) -> Iterator[str]:
    name = pod.metadata.name
    for gate in pod.spec.scheduling_gates:
        if gate.name != GATE:
            yield f"gate {gate.name} to be taken from pod {name}"
    if snapshot.version:  # a watched cluster shows all claims; files may omit them
        yield from (f"PersistentVolumeClaim {each}" for each in claim_names(pod) if each not in snapshot.volumes)
