"""Finds pods that their scheduler does not try to bind: released members of gangs, and pods that belong to no gang.

The functions are pure: they take a snapshot of the cluster and return findings.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from cluster.schedulers import waits
from gangs.coexistence.running_schedulers import runs
from gangs.dialects.claims import dialect_of
from gangs.sources import Sources
from kube.keys import DIALECT, STOCK_SCHEDULER
from kube.names import natural_key
from kube.objects import Pod
from kube.scheduling import names_another_scheduler, released
from planning.doctor.finding import Finding, Severity
from planning.messages.wording import pods as counted

PATIENCE_SECONDS = 30
_SHOWN = 5
"""How many names a finding lists at most. Further names are counted."""
_REMEDY = (
    f"recreate them with schedulerName: {STOCK_SCHEDULER} or none; "
    "manifests/absent-schedulers hands new ones to it by itself"
)


def untried(sources: Sources, now: datetime | None) -> Iterator[Finding]:
    """Yield a finding for each gang with released pods that their scheduler has not tried to bind.

    Also yield a finding for each scheduler that does not run but is named by pods that belong to no gang. Each finding
    lists the pods. A pod is listed only if it has waited for its scheduler for more than `PATIENCE_SECONDS`.

    :param now: the current time; None: pods are reported at once.
    """
    gangs: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    strangers: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in sources.pods:
        if not waits(pod) or not _long(pod, now):
            continue
        name, claim = pod.spec.scheduler_name, dialect_of(pod)
        if released(pod) and claim is not None:
            gangs[str(claim[1]), name].append(pod)
        elif names_another_scheduler(pod) and DIALECT not in pod.metadata.labels and not runs(name, sources):
            strangers[name].append(pod)
    for (gang, name), pods in sorted(gangs.items()):
        were = "was" if len(pods) == 1 else "were"
        text = f"{name} has not tried {counted(len(pods))} that {were} released: {_names(pods)}"
        yield Finding(Severity.ERROR, f"Gang {gang}", text, f"phalanx why {gang} says what follows")
    for name, pods in sorted(strangers.items()):
        wait = "waits" if len(pods) == 1 else "wait"
        text = f"does not run here, and {counted(len(pods))} of no gang {wait} for it: {_names(pods)}"
        yield Finding(Severity.WARNING, f"Scheduler {name}", text, _REMEDY)


def _long(pod: Pod, now: datetime | None) -> bool:
    """Whether the pod has waited longer for its scheduler than `PATIENCE_SECONDS`."""
    since = released(pod) or pod.metadata.creation_timestamp or ""
    try:
        return now is None or (now - datetime.fromisoformat(since)).total_seconds() > PATIENCE_SECONDS
    except (ValueError, TypeError):
        return False


def _names(pods: Sequence[Pod]) -> str:
    names = sorted((pod.key for pod in pods), key=natural_key)
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
