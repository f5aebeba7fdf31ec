"""Group objects, topologies and workloads at admission: refused where they contradict themselves, else forecast."""

from collections.abc import Callable

from gangs import dialects
from gangs.manifests import MalformedError
from gangs.model import Manifest
from gangs.sources import Sources
from webhook.patches import PatchBuilder
from webhook.reviews import Admitted, Decision, Refused
from webhook.warnings import lines

Forecast = Callable[[Manifest], tuple[str, ...]]
"""Sentences about what would become of the gang that an object describes."""


def workload_created(manifest: Manifest, sources: Sources) -> Decision:
    """Label the pod template of a workload that asks to be a gang, so that its pods are known as members.

    One that was written suspended for its queue to start it is started.
    """
    patch = PatchBuilder(manifest)
    try:
        for key, value in dialects.template_labels(manifest, sources).items():
            patch.set(("spec", "template", "metadata", "labels", key), value)
        _resume(manifest, sources, patch)
    except MalformedError as error:
        return Refused(str(error.fault))
    return Admitted(patch.build())


def workload_updated(manifest: Manifest, sources: Sources) -> Decision:
    """Keep a workload going that is suspended for its queue: the same manifest can be applied again."""
    patch = PatchBuilder(manifest)
    try:
        _resume(manifest, sources, patch)
    except MalformedError as error:
        return Refused(str(error.fault))
    return Admitted(patch.build())


def _resume(manifest: Manifest, sources: Sources, patch: PatchBuilder) -> None:
    if (manifest.get("spec") or {}).get("suspend") and dialects.resumed(manifest, sources):
        patch.set(("spec", "suspend"), value=False)


def checked(manifest: Manifest, old: Manifest | None, sources: Sources, forecast: Forecast) -> Decision:
    """Refuse an object for what is wrong with it; admit it with advice and, at CREATE, with a forecast.

    :param old: the object before an UPDATE. What was wrong with it already only warns, so that an object which
        became wrong by others (a topology that lost a level, say) can still be labelled, finalised, and mended.
    """
    if (manifest.get("metadata") or {}).get("deletionTimestamp"):
        return Admitted()
    faults, advice = dialects.review(manifest, sources)
    known = {str(each) for each in dialects.review(old, sources)[0]} if old is not None and faults else set()
    new = [each for each in faults if str(each) not in known]
    if new:
        return Refused("; ".join(map(str, new)), lines(advice))
    told = forecast(manifest) if old is None and not faults else ()
    said = {f"waits for {each.awaited}" for each in advice}
    more = [text for text in told if text.partition(": ")[2] not in said]
    return Admitted(warnings=lines([*faults, *advice, *more]))
