"""What would keep a member from binding whatever node it were given: a gang with such a member must not be let go.

The stock scheduler leaves a pod alone that has a gate, and rejects one whose claim does not exist; its siblings would
start without it. Members that name a scheduler which does not run here: `gangs.coexistence.running_schedulers`.
"""

from collections.abc import Iterator

from cluster.snapshot import Snapshot
from cluster.volumes import claim_names
from gangs.model import Gang
from kube.keys import GATE
from kube.objects import Pod


def holdups(gang: Gang, snapshot: Snapshot) -> list[str]:
    """What the gang waits for besides room, as ends of a sentence; each once."""
    waiting = (member.pod for member in gang.members if not member.pod.bound)
    return list(dict.fromkeys(each for pod in waiting for each in _of_pod(pod, snapshot)))


def _of_pod(pod: Pod, snapshot: Snapshot) -> Iterator[str]:
    name = pod.metadata.name
    for gate in pod.spec.scheduling_gates:
        if gate.name != GATE:
            yield f"gate {gate.name} to be taken from pod {name}"
    if snapshot.version:  # a watched cluster: what is not in it does not exist
        yield from (f"PersistentVolumeClaim {each}" for each in claim_names(pod) if each not in snapshot.volumes)
