"""Group objects, topologies and workloads at admission: refused if they contradict themselves, else forecast."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from gangs.dialects.reviewing import requeued, review
from gangs.dialects.templates import fields_for_child, template_labels
from gangs.dialects.typos import typos_of
from gangs.incremental.dependencies import OBJECT, ReadInput, ReadSet
from gangs.manifests import MalformedError, key_of
from gangs.model import Advice, Fault, Manifest
from gangs.sources import Sources
from gangs.workloads.kind_table import row_of
from gangs.workloads.pod_templates import templates
from gangs.workloads.template_marks import Marks, kept, marks
from kube.keys import WORKLOAD
from webhook.admission import suspending
from webhook.admission.patch_builder import PatchBuilder
from webhook.admission.reviews import Admitted, Decision, Refused
from webhook.admission.warnings import lines

Forecast = Callable[[Manifest], tuple[str, ...]]
"""Returns the forecast of the gang that an object describes, as sentences."""


class Now(Protocol):
    """Reads objects that may be newer than the caches (`webhook.picture.Picture`).

    Both methods return the given sources unchanged if they read nothing.
    """

    def reread(self, sources: Sources, inputs: Iterable[ReadInput]) -> Sources:
        """The sources with the current version of the objects that the review has read (`inputs`)."""

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """The sources with those awaited objects that exist by now."""


_ON_TEMPLATE = " spec.template."


def workload_created(manifest: Manifest, sources: Sources) -> Decision:
    """Label the pod template of a workload that asks to be a gang, so that its pods are recognised as members.

    If its manifest has the workload suspended for a queue, the suspension is lifted.
    """
    patch = PatchBuilder(manifest)
    try:
        _label(manifest, sources, patch)
        suspending.created(manifest, sources, patch)
    except MalformedError as error:
        return Refused(str(error.fault))
    return Admitted(patch.build())


def workload_changed(manifest: Manifest, old: Manifest, sources: Sources) -> Decision:
    """Put the gang's labels back into pod templates that an update has replaced.

    Without the labels, new pods would not wait for their gang. If the old templates had no labels, the workload stays
    unchanged: with labels, its running pods would be recreated. If the WorkloadKind of the workload's kind is gone,
    the labels stay in their places.
    """
    patch = PatchBuilder(manifest)
    try:
        had = templates(old)
        if not frozenset[str]().union(*(each.labels for each in had)).isdisjoint(template_labels(manifest, sources)):
            _label(manifest, sources, patch, {each.entry: each.role for each in had if WORKLOAD in each.labels})
        for way, said in kept(old, manifest) if row_of(manifest) is None else ():
            _write(patch, way, said)
    except MalformedError as error:
        return Refused(str(error.fault))
    return Admitted(patch.build())


def propagated(manifest: Manifest, old: Manifest | None, sources: Sources) -> Decision:
    """Propagate a workload's placement request to the field that its operator copies into the child workload, the gang.

    If the manifest has a new workload suspended for a queue, the suspension is lifted. If the user changes or removes
    the request later, the propagated values follow. A workload that already contradicted itself, or that is being
    deleted, stays unchanged, because its finalizers and labels must be writable.
    """
    if (manifest.get("metadata") or {}).get("deletionTimestamp"):
        return Admitted()
    patch = PatchBuilder(manifest)
    try:
        for way, value in fields_for_child(manifest, old, sources):
            if value is None:
                patch.remove(way)
            else:
                patch.set(way, value)
        if old is None:
            suspending.created(manifest, sources, patch)
    except MalformedError as error:
        return Admitted() if old is not None and _fault_of(old, sources) == error.fault else Refused(str(error.fault))
    return Admitted(patch.build())


def _fault_of(manifest: Manifest, sources: Sources) -> Fault | None:
    """The fault that prevents the propagation of a workload's placement request. None if there is no fault."""
    try:
        list(fields_for_child(manifest, None, sources))
    except MalformedError as error:
        return error.fault
    return None


def _label(
    manifest: Manifest, sources: Sources, patch: PatchBuilder, roles: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Label the pod templates. `roles`: the pod sets of templates that had labels before, by entry; they keep them."""
    labels, row = template_labels(manifest, sources), row_of(manifest)
    for each in templates(manifest) if labels else ():
        own = replace(each, role=roles.get(each.entry, each.role))
        _write(patch, (*each.way, *each.metadata), marks(row, own, labels))


def _write(patch: PatchBuilder, way: Sequence[str], said: Marks) -> None:
    for place, texts in said.items():
        for key, value in texts.items():
            patch.set((*way, place, key), value)


def checked(
    manifest: Manifest, old: Manifest | None, sources: Sources, forecast: Forecast, now: Now | None = None
) -> Decision:
    """Refuse an object that has a new fault. Admit any other object with advice and, at CREATE, with a forecast.

    :param old: the object before an UPDATE. A fault that it already had is only a warning. Another object's change may
        have caused the fault, for example a topology that lost a level. The object must stay open to labels, finalizers
        and repair.
    :param now: reads the objects again that led to a refusal, and the awaited objects of a new object. They may have
        changed a moment ago. None: only the sources are read.
    """
    if (manifest.get("metadata") or {}).get("deletionTimestamp"):
        return Admitted()
    inputs = ReadSet()
    faults, advice, new = _reviewed(manifest, old, replace(sources, recorder=inputs))
    awaited = {each.awaited for each in advice} - {""} if old is None else set()
    again = sources
    if now is not None and new:
        again = now.reread(sources, inputs.all - {(OBJECT, key_of(manifest))})
    elif now is not None and awaited:
        again = now.arrived(sources, sorted(awaited))
    if again is not sources:
        sources = again
        faults, advice, new = _reviewed(manifest, old, sources)
    advice += typos_of(manifest, sources, (*faults, *advice))
    row = row_of(manifest)
    if old is not None and row is not None and row.fixed_template:
        advice = [replace(each, text=_made_anew(each.text)) for each in advice]
        faults = [replace(each, remedy=_made_anew(each.remedy)) for each in faults]
        new = [replace(each, remedy=_made_anew(each.remedy)) for each in new]
    if new:
        return Refused("; ".join(map(str, new)), lines(advice))
    messages = forecast(manifest) if old is None and not faults else ()
    announced = {f"waits for {what}" for what in {*awaited, *(each.awaited for each in advice)}}
    more = [text for text in messages if text.partition(": ")[2] not in announced]
    return Admitted(warnings=lines([*faults, *advice, *more]))


def _made_anew(remedy: str) -> str:
    """Return the remedy for an existing Job, whose template the API server does not change."""
    return (
        f"{remedy}, in a Job made anew: the template of this one does not change" if _ON_TEMPLATE in remedy else remedy
    )


def _reviewed(
    manifest: Manifest, old: Manifest | None, sources: Sources
) -> tuple[list[Fault], list[Advice], list[Fault]]:
    """All faults, the advice, and those faults that the old object did not have."""
    faults, advice = review(manifest, sources, exists=old is not None)
    moved = [] if old is None or faults else requeued(manifest, old, sources)
    known = {str(each) for each in review(old, sources, exists=True)[0]} if old is not None and faults else set()
    return [*faults, *moved], advice, [*moved, *(each for each in faults if str(each) not in known)]
