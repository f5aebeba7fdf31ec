"""Forecasts: the plan that a gang would get now, reported at the admission of its workload or group object.

The gang is planned alone on the live snapshot, and nothing is written or reserved. The controller may plan other gangs
first, so the gang may get another plan than its forecast.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from gangs.dialects.claims import ceded_to_others
from gangs.dialects.expanding import missing_pods
from gangs.dialects.reading import described
from gangs.dialects.templates import as_admitted, as_made
from gangs.dialects.topologies import known_topologies
from gangs.manifests import MalformedError, ref_of
from gangs.model import Fault, Gang, Manifest
from gangs.sources import Sources
from gangs.workloads.kind_table import row_of
from gangs.workloads.later_pods.held_room import by_setting
from kube.keys import GROUP
from kube.objects import Pod
from kube.requests import pod_requests
from planning.competing.promised_evictions import promised_by, with_plans, with_promised
from planning.decision import Decision
from planning.planner import plan_gang, waiting
from planning.planning_options import PlanningOptions
from planning.quota.usage import NO_USAGE, usage_of
from solver.problem import Limits
from webhook.forecasts.recent_gangs import RecentGangs, RunningGangsOnDemand
from webhook.picture import Picture


def waits(manifest: Manifest, picture: Picture) -> tuple[str, ...] | None:
    """Return what the gang of a group object waits for, such as missing members, as sentences. No solve is needed.

    Empty if the object describes no gang. None if only `forecast` can answer: the object is a workload that creates
    pods, or the gang waits for nothing.
    """
    if row_of(manifest) is not None:
        return None
    sources = picture.sources_about(manifest)
    gang = described(manifest, sources.having(manifest))
    if gang is None:
        return ()
    decision = waiting(gang, picture.snapshot(), known_topologies(sources))
    return None if decision is None else _sentences(gang, decision)


def forecast(manifest: Manifest, picture: Picture, others: RecentGangs, seconds: float) -> tuple[str, ...]:
    """Return the forecast of the gang that `manifest` describes, as sentences; empty if it describes no gang.

    :param manifest: a group object or a workload as it is about to be stored, free of faults.
    :param others: the other gangs of the cluster. They are read only if the plan depends on them.
    :param seconds: how long reading the other gangs and solving may take.
    :raises BusyError: the other gangs could not be read in that time.
    """
    try:
        manifest = as_made(manifest, picture.sources_of())
        sources = _as_if_there(manifest, picture.sources_about(manifest))
    except MalformedError as error:  # for example, a Job of too many pods
        return (str(error.fault),)
    gang = described(manifest, sources)
    return () if gang is None else messages_for(gang, sources, others, picture, seconds)


def messages_for(
    gang: Gang, sources: Sources, others: RecentGangs, picture: Picture, seconds: float
) -> tuple[str, ...]:
    """Return the forecast of a gang beside the other gangs of the cluster, as sentences.

    Every client that reaches the port can request a forecast without a token. So the sentences name no object of
    another gang.

    :param gang: the gang with the reviewed change, which the same gang in `others` may lack.
    :param seconds: how long reading the other gangs and solving may take: each at most half of the time.
    :raises BusyError: the other gangs could not be read in that time.
    """
    gang = by_setting(gang, placeholders=sources.placeholders)
    topologies, snapshot = known_topologies(sources), picture.snapshot()
    decision = waiting(gang, snapshot, topologies)
    if decision is None:
        snapshot = with_promised(snapshot, promised_by(sources.sought(GROUP, "Gang", with_plans, True)))  # noqa: FBT003 -- the value sought
        half = seconds / 2  # the plan may read the other gangs at any time, before the solve or after it
        known = cache(lambda: others.of(picture, half))
        options = PlanningOptions(
            running_gangs=RunningGangsOnDemand(lambda: known().running),
            usage=NO_USAGE if gang.account is None else usage_of(known().reading.gangs, snapshot),
            limits=Limits(seconds=half),
        )
        decision = plan_gang(gang, snapshot, topologies, options)
    return _sentences(gang, decision)


def _sentences(gang: Gang, decision: Decision) -> tuple[str, ...]:
    return (f"gang {gang.key}: {decision.line.nameless}", *decision.notes)


def _as_if_there(manifest: Manifest, sources: Sources) -> Sources:
    """Return the sources with the object as it will be stored, and with the pods that its controller will create."""
    admitted, pods = as_admitted(manifest, sources), tuple(sources.pods)
    missing = missing_pods(admitted, pods, ceded_to_others(sources), placeholders=sources.placeholders)
    _check_quantities(manifest, missing)
    return replace(sources.having(admitted), pods=(*pods, *missing))


def _check_quantities(manifest: Manifest, made: Sequence[Pod]) -> None:
    """Check that the resource requests of the expected pods are quantities: CRDs of many operators accept any text.

    :param manifest: the workload that will create the pods, which the error names.
    :raises MalformedError: a request is no quantity.
    """
    for pod in {id(each.spec): each for each in made}.values():
        try:
            pod_requests(pod)
        except ValueError as error:
            fault = Fault(ref_of(manifest), "spec", str(error), "write 8, 500m or 64Gi, say")
            raise MalformedError(fault) from error
