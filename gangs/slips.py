"""Pods that are in no gang for a slip of the pen. No webhook is asked about them, so that only a dry run can tell."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

from gangs.dialects import DIALECTS, dialect_of
from gangs.manifests import key_of, pod_ref, ref_of
from gangs.model import Advice, ObjectRef
from gangs.sources import Sources
from gangs.workloads import WORKLOAD_KINDS, template_says
from kube.keys import WORKLOAD
from kube.objects import ObjectMeta, Pod

_ALIKE = 0.75
"""From here on two words are taken for one: two letters that have changed places in a short one."""

_PLACES = {
    "labels": frozenset(key for each in DIALECTS for key in each.pod_keys.labels) - {WORKLOAD},
    "annotations": frozenset(key for each in DIALECTS for key in each.pod_keys.annotations),
}
"""The keys by which pods ask for gangs."""


def slips(sources: Sources, advice: Iterable[Advice]) -> list[Advice]:
    """What pods without a node, and templates of workloads, say that would ask for a gang but for a slip of the pen.

    `advice`: what is told already; of no field is anything told twice.
    """
    told = {(each.object, each.field) for each in advice}
    return [each for each in _slips(sources) if (each.object, each.field) not in told]


def _slips(sources: Sources) -> Iterator[Advice]:
    for pod in sources.pods:
        if not pod.bound and not pod.finished and dialect_of(pod) is None:
            yield from _told(pod_ref(pod), "", {"labels": pod.metadata.labels, "annotations": pod.metadata.annotations})
    for manifest in sources.objects.values():
        group, kind, _, _ = key_of(manifest)
        if kind in WORKLOAD_KINDS.get(group, ()):
            labels, annotations = (dict(template_says(manifest, place)) for place in ("labels", "annotations"))
            if dialect_of(Pod(metadata=ObjectMeta(labels=labels, annotations=annotations))) is None:
                said = {"labels": labels, "annotations": annotations}
                yield from _told(ref_of(manifest), "spec.template.", said)


def _told(ref: ObjectRef, at: str, said: Mapping[str, Mapping[str, str]]) -> Iterator[Advice]:
    for place, written in said.items():
        other = next(each for each in _PLACES if each != place)
        for key, value in written.items():
            field = f"{at}metadata.{place}[{key}]"
            if key in _PLACES[place]:
                if not value:
                    yield Advice(ref, field, "is empty, so that it asks for nothing: name the gang")
            elif key in _PLACES[other]:
                yield Advice(ref, field, f"asks for nothing there: write it at {at}metadata.{other}")
            elif meant := _meant(key, place):
                yield Advice(ref, field, f"is not known, so that it asks for nothing: {meant} is")


@lru_cache(maxsize=1024)
def _meant(key: str, place: str) -> str:
    """The known key that one of a label or annotation is a slip for; "" for any other. Many pods have the same ones."""
    return next((each for each in sorted(_PLACES[place]) if _alike(key, each)), "")


def _alike(key: str, known: str) -> bool:
    """Whether one of the two halves of a key is the same and the other nearly so."""
    (prefix, _, name), (known_prefix, _, known_name) = key.rpartition("/"), known.rpartition("/")
    if name == known_name:
        return _near(prefix, known_prefix)
    return prefix == known_prefix and _near(name, known_name)


def _near(word: str, known: str) -> bool:
    return SequenceMatcher(None, word, known).ratio() >= _ALIKE
