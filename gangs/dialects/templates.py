"""What a workload's pod template gets at its admission, so that its pods are known as a gang's.

A workload and the sources come in; labels, or the workload as it is once admitted, go out.
"""

from collections.abc import Sequence

from gangs.coexistence.ownership import left_to
from gangs.dialects.claims import dialect_of
from gangs.dialects.protocol import Dialect, Resuming
from gangs.dialects.table import DIALECTS
from gangs.model import Manifest
from gangs.sources import Sources
from gangs.workloads.jobs import example_pod, is_job
from gangs.workloads.pod_templates import shape_of, with_labels
from gangs.workloads.pods_to_come import example_pods
from kube import keys
from kube.objects import Pod


def examples(workload: Manifest) -> tuple[Pod, ...]:
    """A pod of each template, as the workload makes them. Raises `MalformedError`."""
    return (example_pod(workload),) if is_job(workload) else example_pods(workload)


def template_labels(manifest: Manifest, sources: Sources) -> dict[str, str]:
    """Labels that a workload's pod template gets at its admission, so that its pods are known as a gang's.

    Empty for everything that is no workload or asks for nothing. Raises `MalformedError`.
    """
    if not is_job(manifest):
        return {} if shape_of(manifest) is None else _labels(_ours(sources), manifest, sources, claimed=True)
    ours = _ours(sources)
    others = [each for each in DIALECTS if each not in ours and asks_in(each, manifest, sources)]
    claimed = bool(others) or dialect_of(example_pod(manifest)) is not None
    # What is asked for in so many words goes before what is automatic.
    asked = _labels(ours, manifest, sources, claimed=True)
    return asked if asked or claimed else _labels(ours, manifest, sources, claimed=False)


def queued(manifest: Manifest, sources: Sources) -> bool:
    """Whether a workload is in a queue of ours: one that is suspended from the start is so for its queue to resume it.

    Raises `MalformedError`.
    """
    return any(isinstance(each, Resuming) and each.resumes(manifest) for each in _ours(sources))


def as_admitted(manifest: Manifest, sources: Sources) -> Manifest:
    """The object as it is after admission: a workload that asks for a gang has its template labelled."""
    labels = template_labels(manifest, sources)
    if labels and _started(manifest, sources):
        manifest = {**manifest, "spec": {**manifest["spec"], "suspend": False}}
    if not labels:
        return manifest
    if not is_job(manifest):
        return with_labels(manifest, labels)
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    labelled = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
    return {**manifest, "spec": {**spec, "template": {**template, "metadata": labelled}}}


def asks_in(dialect: Dialect, workload: Manifest, sources: Sources) -> bool:
    """Whether a workload would ask to be a gang in this dialect, whoever runs in the cluster."""
    asked = dialect.template_labels(workload, sources, claimed=True)
    return bool(asked) or any(dialect.gang_of(pod) is not None for pod in examples(workload))


def _ours(sources: Sources) -> list[Dialect]:
    """The dialects that are not left to another system."""
    left = left_to(sources)
    return [each for each in DIALECTS if each.name not in left]


def _labels(dialects: Sequence[Dialect], manifest: Manifest, sources: Sources, *, claimed: bool) -> dict[str, str]:
    labels: dict[str, str] = {}
    for dialect in dialects:
        labels.update(dialect.template_labels(manifest, sources, claimed=claimed))
    return labels


def _started(manifest: Manifest, sources: Sources) -> bool:
    """Whether a workload that is suspended starts all the same. One that was admitted before is so by its user."""
    metadata, suspended = manifest["metadata"], (manifest.get("spec") or {}).get("suspend")
    admitted = metadata.get("uid") and keys.CREATED_SUSPENDED in (metadata.get("annotations") or {})
    return bool(suspended) and not admitted and queued(manifest, sources)
