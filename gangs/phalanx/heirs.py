"""Annotations on workloads whose child workload is the gang (`gangs.workloads.handed_down`).

Faults that the child would have are reported on the parent, before the operator creates the child.
"""

from collections.abc import Sequence
from dataclasses import replace

from gangs.findings import Findings
from gangs.manifests import ref_of
from gangs.marked import inheritance
from gangs.model import Manifest, ObjectRef
from gangs.phalanx import annotated_workloads, gang_annotations
from gangs.phalanx.gang_annotations import KNOWN
from gangs.sources import Sources
from gangs.workloads import handed_down, pod_templates
from gangs.workloads.annotated_jobs import other_workload
from gangs.workloads.template_marks import with_labels
from kube.text import with_article
from kube.topology import Topology


def check(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> None:
    """Report faults of the annotations that a workload propagates, and annotations that it does not propagate.

    A child workload inherits its parent's request. Its faults are reported on the parent only. Raises `MalformedError`.
    """
    annotations = other_workload(manifest, findings) if handed_down.hands_down(manifest) else None
    if annotations is None or pod_templates.controlled(manifest):
        return
    ref = ref_of(manifest)
    if not gang_annotations.opted_in(annotations):
        gang_annotations.advise_unknown(ref, annotations, findings)
        annotated_workloads.advise_misplaced(ref, annotations, pod_templates.templates(manifest), findings)
        _advise_automatic(manifest, ref, sources, findings)
        return
    gang_annotations.check(ref, annotations, findings)
    alone = replace(sources, pods=())

    def read(heir: Manifest, found: Findings) -> None:
        _read(heir, alone, topologies, found)

    inheritance.check(manifest, KNOWN, sources.find, read, findings)


def _read(heir: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> None:
    """Read the child workload as it is after admission. Raises `MalformedError`."""
    labels = annotated_workloads.template_labels(heir, sources, claimed=False)
    annotated_workloads.read_parts((), with_labels(heir, labels), sources, topologies, findings)


def _advise_automatic(manifest: Manifest, ref: ObjectRef, sources: Sources, findings: Findings) -> None:
    """Advise that a workload in an automatic namespace is no gang, unless the namespace makes its child one."""
    if not handed_down.has_automatic_child(manifest) and gang_annotations.automatic(manifest, sources):
        text = f"{with_article(ref.kind)} is not made a gang yet: its pods start one by one"
        findings.advise(ref, "kind", f"the namespace is automatic, but {text}")
