"""Advice on labels and annotations that should ask for a gang, but are misspelt, empty, or in the wrong place.

They have no effect. Admission, the dry run and the doctor report them, together with the advice of `oversights`.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

from gangs.coexistence.ownership import admitted_by_us, systems_ceded_to
from gangs.coexistence.running_schedulers import FIELD, advice_on
from gangs.dialects.claims import dialect_of
from gangs.dialects.oversights import ON_WORKLOADS, oversights
from gangs.dialects.table import DIALECTS
from gangs.manifests import MalformedError, metadata_of, pod_ref, ref_of
from gangs.model import Advice, Fault, Manifest, Misplaced, ObjectRef
from gangs.sources import Sources
from gangs.workloads import pod_templates
from gangs.workloads.kind_table import KindRow, Made, row_of
from gangs.workloads.pod_templates import Template
from kube.keys import WORKLOAD
from kube.objects import ObjectMeta, Pod
from kube.scheduling import names_another_scheduler

_ALIKE = 0.75
"""The least similarity (`SequenceMatcher.ratio`) of a misspelt word to the right one.

Two swapped letters in a short word reach it.
"""

_PLACES = {
    "labels": frozenset(key for each in DIALECTS for key in each.pod_keys.labels) - {WORKLOAD},
    "annotations": frozenset(key for each in DIALECTS for key in each.pod_keys.annotations),
}
"""By place ("labels" or "annotations"): the keys by which pods ask for gangs."""
_MORE = {
    "labels": _PLACES["labels"].union(*(each.pod_keys.more_labels for each in DIALECTS)),
    "annotations": _PLACES["annotations"].union(*(each.pod_keys.more_annotations for each in DIALECTS)),
}
"""By place ("labels" or "annotations"): the keys by which pods ask for gangs or describe them further."""
_OF: dict[str, set[str]] = {
    key: {each.name for each in DIALECTS if key in each.pod_keys.all} for key in frozenset().union(*_MORE.values())
}
"""By key: the names of the dialects that read it."""


def typos(sources: Sources, reported: Iterable[Advice | Fault]) -> list[Advice]:
    """Return advice on all unbound pods and all workloads: misspelt or misplaced keys, and valid but odd settings.

    :param reported: faults and advice that are reported already. Their fields get no second advice.
    """
    return _new(_all_typos(sources), reported)


def typos_of(manifest: Manifest, sources: Sources, reported: Iterable[Advice | Fault]) -> list[Advice]:
    """Return advice on one workload: misspelt or misplaced keys, and odd settings; empty for other objects.

    :param reported: faults and advice that are reported already. Their fields get no second advice.
    """
    theirs = _others(sources)
    return _new((*_of_workload(manifest, theirs), *oversights(manifest, theirs)), reported)


def _others(sources: Sources) -> frozenset[str]:
    """Return the keys that only ceded dialects read. They get no advice, because another system reads them."""
    theirs = systems_ceded_to(sources)
    return frozenset(key for key, names in _OF.items() if names <= theirs.keys())


def _new(found: Iterable[Advice], reported: Iterable[Advice | Fault]) -> list[Advice]:
    known = {(each.object, each.field) for each in reported}
    return [each for each in found if (each.object, each.field) not in known]


def _all_typos(sources: Sources) -> Iterator[Advice]:
    for pod in sources.pods:
        if pod.bound or pod.finished:
            continue
        claim = dialect_of(pod)
        if claim is not None and names_another_scheduler(pod) and not admitted_by_us(pod):
            if text := advice_on(pod.spec.scheduler_name, claim[0].pod_keys, sources):
                yield Advice(pod_ref(pod), FIELD, text)
        elif claim is None:
            yield from _advice(
                pod_ref(pod), "", {"labels": pod.metadata.labels, "annotations": pod.metadata.annotations}
            )
    theirs = _others(sources)
    for manifest in sources.objects.values():
        yield from _of_workload(manifest, theirs)
        yield from oversights(manifest, theirs)


def _of_workload(manifest: Manifest, theirs: Container[str]) -> Iterator[Advice]:
    row = row_of(manifest)
    if row is None or pod_templates.controlled(manifest):
        return
    try:
        found, metadata, ref = pod_templates.templates(manifest), metadata_of(manifest), ref_of(manifest)
        made = pod_templates.made_by(manifest)
    except MalformedError:
        return  # the dialects report the malformed object
    for each in found:
        by_place = {"labels": each.labels, "annotations": each.annotations}
        if dialect_of(Pod(metadata=ObjectMeta(labels=dict(each.labels), annotations=dict(each.annotations)))) is None:
            yield from _advice(ref, f"{each.path}.", by_place)
    places: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
        "metadata": (metadata.labels, metadata.annotations)
    }
    for at in map(pod_templates.job_metadata, found if made is Made.IN_JOBS else ()):
        places[at] = (
            pod_templates.texts_at(manifest, f"{at}.labels"),
            pod_templates.texts_at(manifest, f"{at}.annotations"),
        )
    for at, there in places.items():
        yield from (each for each in _misplaced(ref, at, there, found, row) if _key(each) not in theirs)


def _key(advice: Advice) -> str:
    """Return the label or annotation key that an advice is about, from its field, which has the form
    `metadata.labels[<key>]`.
    """
    return advice.field.partition("[")[2].removesuffix("]")


def _misplaced(
    ref: ObjectRef,
    at: str,
    metadata: tuple[Mapping[str, str], Mapping[str, str]],
    found: tuple[Template, ...],
    row: KindRow,
) -> Iterator[Advice]:
    """Yield advice on keys that dialects read on pods, but that are on the workload itself and not in its templates.

    :param at: the path of `metadata` (labels, annotations) in the object `ref`.
    :param found: the pod templates of the workload.
    """
    for place, written in zip(_MORE, metadata, strict=True):
        for key in written:
            right = next((each for each in (place, *_MORE) if key in _MORE[each]), None)
            if right is None or (place, key) in ON_WORKLOADS or any(key in getattr(each, right) for each in found):
                continue
            paths = [each.path for each in found] or row.templates
            where = " and at ".join(f"{path}.metadata.{right}[{key}]" for path in paths) or f"their metadata.{right}"
            yield Misplaced(ref, f"{at}.{place}[{key}]", f"does not reach the pods: write it at {where}")


def _advice(ref: ObjectRef, at: str, by_place: Mapping[str, Mapping[str, str]]) -> Iterator[Advice]:
    for place, written in by_place.items():
        other = next(each for each in _PLACES if each != place)
        for key, value in written.items():
            field = f"{at}metadata.{place}[{key}]"
            if key in _PLACES[place]:
                if not value:
                    yield Advice(ref, field, "is empty, so that it asks for nothing: name the gang")
            elif key in _PLACES[other]:
                yield Misplaced(ref, field, f"asks for nothing there: write it at {at}metadata.{other}")
            elif known_key := _known_key(key, place):
                yield Advice(ref, field, f"is not known, so that it asks for nothing: {known_key} is")


@lru_cache(maxsize=1024)
def _known_key(key: str, place: str) -> str:
    """Return the key by which pods ask for gangs that an unknown key resembles; "" if it resembles none.

    The result is cached, because many pods have the same keys.
    """
    return next((each for each in sorted(_PLACES[place]) if _alike(key, each)), "")


def _alike(key: str, known: str) -> bool:
    """Whether the prefixes of two keys are equal and their names similar, or the names equal and the prefixes similar.

    In `example.com/rack`, the prefix is `example.com` and the name is `rack`.
    """
    (prefix, _, name), (known_prefix, _, known_name) = key.rpartition("/"), known.rpartition("/")
    if name == known_name:
        return _near(prefix, known_prefix)
    return prefix == known_prefix and _near(name, known_name)


def _near(word: str, known: str) -> bool:
    return SequenceMatcher(None, word, known).ratio() >= _ALIKE
