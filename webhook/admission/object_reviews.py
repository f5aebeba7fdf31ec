"""Reviews group objects, topologies and workloads: refuses contradictions, labels pod templates, adds forecasts."""

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
        """Return the sources with the current versions of the objects that the review has read (`inputs`)."""

    def arrived(self, sources: Sources, awaited: Iterable[str]) -> Sources:
        """Return the sources, with the objects added that a gang waits for and that exist by now.

        :param awaited: texts of `gangs.model.Gang.waiting_for`, such as `PodGroup team-a/train`.
        """


_ON_TEMPLATE = " spec.template."


def workload_created(manifest: Manifest, sources: Sources) -> Decision:
    """Return the decision on a new workload. If it asks to be a gang, its pod templates are labelled.

    By the labels, its pods are recognised as members. If a workload in a queue is suspended, the suspension is lifted.
    """
    patch = PatchBuilder(manifest)
    try:
        _label(manifest, sources, patch)
        suspending.created(manifest, sources, patch)
    except MalformedError as error:
        return Refused(str(error.fault))
    return Admitted(patch.build())


def workload_changed(manifest: Manifest, old: Manifest, sources: Sources) -> Decision:
    """Put the gang's labels back into pod templates from which an update has removed them.

    Without the labels, new pods would not join their gang. If the old templates had no labels, the workload stays
    unchanged, because a changed template would recreate its running pods. If the WorkloadKind that describes the
    workload's kind is gone, the labels are put back where the old object has them.
    """
    patch = PatchBuilder(manifest)
    try:
        had = templates(old)
        if not frozenset[str]().union(*(each.labels for each in had)).isdisjoint(template_labels(manifest, sources)):
            _label(manifest, sources, patch, {each.entry: each.role for each in had if WORKLOAD in each.labels})
        for path, template_marks in kept(old, manifest) if row_of(manifest) is None else ():
            _write(patch, path, template_marks)
    except MalformedError as error:
        return Refused(str(error.fault))
    return Admitted(patch.build())


def propagated(manifest: Manifest, old: Manifest | None, sources: Sources) -> Decision:
    """Propagate a workload's placement request to its child workload, which is the gang.

    The request is written into a field that the workload's operator copies into the child. If the user changes or
    removes the request later, the field is changed or removed, too. If a new workload in a queue is suspended, the
    suspension is lifted. A workload that already contradicted itself, or that is being deleted, is admitted unchanged,
    because its finalizers and labels must stay writable.

    :param old: the workload before an UPDATE; None at CREATE.
    """
    if (manifest.get("metadata") or {}).get("deletionTimestamp"):
        return Admitted()
    patch = PatchBuilder(manifest)
    try:
        for path, value in fields_for_child(manifest, old, sources):
            if value is None:
                patch.remove(path)
            else:
                patch.set(path, value)
        if old is None:
            suspending.created(manifest, sources, patch)
    except MalformedError as error:
        return Admitted() if old is not None and _fault_of(old, sources) == error.fault else Refused(str(error.fault))
    return Admitted(patch.build())


def _fault_of(manifest: Manifest, sources: Sources) -> Fault | None:
    """Return the fault that prevents the propagation of a workload's placement request; None if there is none."""
    try:
        list(fields_for_child(manifest, None, sources))
    except MalformedError as error:
        return error.fault
    return None


def _label(
    manifest: Manifest, sources: Sources, patch: PatchBuilder, roles: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Label the pod templates of a workload that asks to be a gang, so that its pods are recognised as members.

    :param patch: receives the labels.
    :param roles: the pod set of each template that was labelled before, by the template's entry in the workload. Such
        a template keeps its pod set.
    """
    labels, row = template_labels(manifest, sources), row_of(manifest)
    for each in templates(manifest) if labels else ():
        own = replace(each, role=roles.get(each.entry, each.role))
        _write(patch, (*each.way, *each.metadata), marks(row, own, labels))


def _write(patch: PatchBuilder, metadata: Sequence[str], template_marks: Marks) -> None:
    for part, texts in template_marks.items():
        for key, value in texts.items():
            patch.set((*metadata, part, key), value)


def checked(
    manifest: Manifest, old: Manifest | None, sources: Sources, forecast: Forecast, now: Now | None = None
) -> Decision:
    """Refuse an object that has a new fault. Admit any other object with advice and, at CREATE, with a forecast.

    :param old: the object before an UPDATE; None at CREATE. A fault that the old object already had is only a warning,
        because another object may have caused it, such as a topology that lost a level. The object must stay open to
        labels, finalizers and repair.
    :param now: before a refusal, reads the objects that led to it again. For a new object, it reads the objects that
        its gang waits for. The objects on the API server may be newer than those in the caches. None: only `sources`
        are read.
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
        advice = [replace(each, text=_for_existing_job(each.text)) for each in advice]
        faults = [replace(each, remedy=_for_existing_job(each.remedy)) for each in faults]
        new = [replace(each, remedy=_for_existing_job(each.remedy)) for each in new]
    if new:
        return Refused("; ".join(map(str, new)), lines(advice))
    messages = forecast(manifest) if old is None and not faults else ()
    announced = {f"waits for {what}" for what in {*awaited, *(each.awaited for each in advice)}}
    more = [text for text in messages if text.partition(": ")[2] not in announced]
    return Admitted(warnings=lines([*faults, *advice, *more]))


def _for_existing_job(remedy: str) -> str:
    """Return the remedy in the form for an existing Job. It then says to recreate the Job, because a Job's pod template
    cannot change.

    A remedy that does not concern the pod template is returned as it is.
    """
    return (
        f"{remedy}, in a Job made anew: the template of this one does not change" if _ON_TEMPLATE in remedy else remedy
    )


def _reviewed(
    manifest: Manifest, old: Manifest | None, sources: Sources
) -> tuple[list[Fault], list[Advice], list[Fault]]:
    """Review the object. Return all its faults, the advice, and the faults that the old object did not have."""
    faults, advice = review(manifest, sources, exists=old is not None)
    moved = [] if old is None or faults else requeued(manifest, old, sources)
    known = {str(each) for each in review(old, sources, exists=True)[0]} if old is not None and faults else set()
    return [*faults, *moved], advice, [*moved, *(each for each in faults if str(each) not in known)]
