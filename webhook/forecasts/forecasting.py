"""The plan that a gang would get now, told at the admission of its workload or group object. Nothing is written.

Planned alone on the live snapshot: a forecast, no promise. Other gangs may come first.
"""

from dataclasses import replace

from gangs.dialects.claims import left_alone
from gangs.dialects.expanding import missing_pods
from gangs.dialects.reading import described
from gangs.dialects.templates import as_admitted
from gangs.dialects.topologies import known_topologies
from gangs.manifests import MalformedError
from gangs.model import Gang, Manifest, Reading
from gangs.sources import Sources
from kube.keys import GROUP
from planning.competing.promised_evictions import promised_by, with_promised
from planning.framing.running_gangs import running_gangs
from planning.planner import plan_gang
from planning.quota.usage import usage_of
from solver.problem import Limits
from webhook.forecasts.readings import RecentGangs
from webhook.picture import Picture


def forecast(manifest: Manifest, picture: Picture, others: RecentGangs, seconds: float) -> tuple[str, ...]:
    """What would become of the gang that `manifest` describes, as sentences; none where it describes no gang.

    :param manifest: a group object or a workload as it is about to be stored, free of faults.
    :param others: whom it would stand among.
    :param seconds: how long the solver may take.
    """
    try:
        sources = _as_if_there(manifest, picture.sources_about(manifest))
    except MalformedError as error:  # a Job of too many pods
        return (str(error.fault),)
    gang = described(manifest, sources)
    return () if gang is None else told_of(gang, sources, others.of(picture), picture, seconds)


def told_of(gang: Gang, sources: Sources, others: Reading, picture: Picture, seconds: float) -> tuple[str, ...]:
    """What would become of a gang among others, as sentences.

    Anybody may have asked who reaches the port, and nobody asks the API server who it is: nothing of others is named.

    :param gang: as it would stand; `others` may hold it as it stands now.
    """
    topologies = known_topologies(sources)
    snapshot = with_promised(picture.snapshot(), promised_by(sources.of_kind(GROUP, "Gang")))
    decision = plan_gang(
        gang,
        snapshot,
        topologies,
        running_gangs=running_gangs(others),
        usage=usage_of(others.gangs, snapshot),
        limits=Limits(seconds=seconds),
    )
    return (f"{_title(gang)}: {decision.nameless}", *decision.notes)


def _title(gang: Gang) -> str:
    return f"gang {gang.key}"


def _as_if_there(manifest: Manifest, sources: Sources) -> Sources:
    """The sources with the object, and with the pods that its controller will make."""
    admitted, pods = as_admitted(manifest, sources), tuple(sources.pods)
    missing = missing_pods(admitted, pods, left_alone(sources))
    return replace(sources.having(admitted), pods=(*pods, *missing))
