"""Advice on workloads that ask to be gangs: settings that are valid but that their user may not have intended.

Admission, the dry run and the doctor report this advice.
"""

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress

from gangs.dialects.claims import dialect_of
from gangs.dialects.table import DIALECTS
from gangs.dialects.templates import template_labels
from gangs.manifests import MalformedError, metadata_of, ref_of
from gangs.model import Advice, Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads import pod_templates
from gangs.workloads.kind_table import KindRow, row_of
from gangs.workloads.later_pods.pods_to_come import example_pods
from gangs.workloads.later_pods.start_order import exclusive_at
from gangs.workloads.pod_counts import beside, field_of
from gangs.workloads.pod_templates import Template, at_path
from kube.keys import GANG, WORKLOAD
from kube.objects import ObjectMeta

ON_WORKLOADS = frozenset(found for each in DIALECTS for found in each.pod_keys.on_workloads)
"""The keys that a dialect reads, or refuses, on workloads themselves, as ("labels" or "annotations", key)."""
_MADE_OF = {
    "PyTorchJob": ("Master", "Worker"),
    "TFJob": ("Chief", "Master", "PS", "Worker", "Evaluator"),
    "XGBoostJob": ("Master", "Worker"),
    "PaddleJob": ("Master", "Worker"),
    "JAXJob": ("Worker",),
    "MPIJob": ("Launcher", "Worker"),
}
"""By kind: the replica types for which Kubeflow's operators create pods. Upper and lower case do not matter."""
_MPI_REPLICAS = "spec.mpiReplicaSpecs.*.replicas"
_VOLCANO = "batch.volcano.sh"


def oversights(manifest: Manifest, theirs: Container[str] = ()) -> Iterator[Advice]:
    """Yield advice on a workload that asks to be a gang; none for other objects and for objects with a controller.

    :param theirs: keys of ceded dialects. They are ignored, because another system reads them.
    """
    row = row_of(manifest)
    if row is None or pod_templates.controlled(manifest):
        return
    with suppress(MalformedError):  # the dialects report the malformed object
        ref, asks = ref_of(manifest), _asks(metadata_of(manifest), theirs)
        of_jobs = ref.kind == "JobSet"
        if not (asks or of_jobs):
            return
        templates = pod_templates.templates(manifest)
        yield from _on_jobs(manifest, templates if of_jobs else (), theirs)
        if not asks:
            return
        if templates and not any(each.count for each in templates):
            yield Advice(ref, "spec", f"the {ref.kind} makes no pods as it is written: it is a gang once it does")
        yield from _uncounted(manifest, ref, row, templates)
        yield from _never_made(ref, templates)
        if (at := exclusive_at(manifest)) is not None:
            text = "is kept by the operator, on the pods that it makes: pods that do not exist yet are planned without "
            yield Advice(ref, at, f"{text}it, and planned again where they must part")
        if ref.api_version.startswith(f"{_VOLCANO}/") and at_path(manifest, "spec.schedulerName") in (None, "volcano"):
            text = "is volcano where nothing else is written: its pods are a gang where it is default-scheduler"
            yield Advice(ref, "spec.schedulerName", text)


def not_asking(sources: Sources) -> Iterator[Advice]:
    """Yield advice on each Volcano Job that does not ask Phalanx for a gang, because its user may expect that it is
    one, as in Volcano.
    """
    for manifest in sources.of_kind(_VOLCANO, "Job"):
        with suppress(MalformedError):  # the dialects report the malformed object
            asks = _asks(metadata_of(manifest), ()) or any(map(dialect_of, example_pods(manifest)))
            if not asks and not pod_templates.controlled(manifest):
                text = f'lacks {GANG}: the Volcano Job is no gang here; write {GANG}: "true"'
                yield Advice(ref_of(manifest), "metadata.annotations", text)


def _asks(metadata: ObjectMeta, theirs: Container[str]) -> bool:
    """Whether the labels or annotations of the workload itself ask for a gang.

    They do not if the annotation `phalanx.dev/gang` is "false".
    """
    asked = any(key not in theirs for _, key in _written(metadata, ON_WORKLOADS))
    return asked and metadata.annotations.get(GANG) != "false"


def _written(metadata: ObjectMeta, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of `keys` that the metadata contain. Each key is ("labels" or "annotations", key)."""
    there = {"labels": metadata.labels, "annotations": metadata.annotations}
    return [(place, key) for place, key in keys if key in there[place]]


def _on_jobs(manifest: Manifest, templates: tuple[Template, ...], theirs: Container[str]) -> Iterator[Advice]:
    """Yield advice on keys that ask for a gang but are in the Job templates of a workload, such as a JobSet.

    Such a key makes each Job a gang of its own. If the workload itself asks to be a gang, the key has no effect.
    """
    ref, found = ref_of(manifest), list[tuple[str, str, str]]()
    for each in templates:
        at = pod_templates.job_metadata(each)
        for place in ("labels", "annotations"):
            there = pod_templates.texts_at(manifest, f"{at}.{place}")
            found += ((at, place, key) for key in there if (place, key) in ON_WORKLOADS and key not in theirs)
    if not found:
        return
    mark = template_labels(manifest, Sources()).get(WORKLOAD, "")
    speaks = [each.pod_keys for each in DIALECTS if each.name == mark.partition(".")[0]]
    read = {key for each in speaks for key in each.on_jobs_of_gangs}
    text = f"makes a gang of each Job: for one of all its pods let the {ref.kind} itself ask"
    if mark:
        text = f"is not read: the {ref.kind} itself asks to be a gang"
    yield from (Advice(ref, f"{at}.{place}[{key}]", text) for at, place, key in found if (place, key) not in read)


def _uncounted(manifest: Manifest, ref: ObjectRef, row: KindRow, templates: tuple[Template, ...]) -> Iterator[Advice]:
    """Yield advice on pod templates whose field for the number of pods is missing."""
    fields = {each.template: each.replicas for each in row.fields} if row.user_defined_by else {}
    for each in templates:
        if path := fields.get(each.pattern, ""):
            way, written = beside(manifest, path, each.way)
            if written is None:
                text = f"is missing, so that the pods of {each.role} are counted as {each.count}: write it, or correct "
                yield Advice(ref, field_of(way), f"{text}the path in WorkloadKind {row.user_defined_by}")
        elif ref.kind == "MPIJob" and not each.count and beside(manifest, _MPI_REPLICAS, each.way)[1] is None:
            yield Advice(
                ref, field_of((*each.way[:-1], "replicas")), f"is missing, so that no {each.role} is made: write it"
            )


def _never_made(ref: ObjectRef, templates: tuple[Template, ...]) -> Iterator[Advice]:
    """Yield advice on replica types for which the kind's operator creates no pods, because of a typo for example."""
    known = _MADE_OF.get(ref.kind, ())
    for each in templates if known else ():
        if each.way[-2].lower() not in {name.lower() for name in known}:
            text = f"is no replica type of {ref.kind}s: no pod is made of it, and the gang would wait for them; "
            yield Advice(ref, field_of(each.way[:-1]), f"{text}write {' or '.join(known)}")
