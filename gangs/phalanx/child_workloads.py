"""The check of Phalanx's annotations on a workload whose child workload is the gang, such as a TrainJob.

Faults that the child would have are reported on the parent, before the operator creates the child
(`gangs.workloads.child_workloads`).
"""

from collections.abc import Sequence
from functools import partial

from gangs.findings import Findings
from gangs.labelled_workloads import child_checks
from gangs.manifests import ref_of
from gangs.model import Manifest, ObjectRef
from gangs.phalanx import annotated_workloads, gang_annotations
from gangs.phalanx.gang_annotations import KNOWN
from gangs.sources import Sources
from gangs.workloads import child_workloads, pod_templates
from gangs.workloads.annotations import other_workload
from kube.text import with_article
from kube.topology import Topology


def check(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> None:
    """Report faults and advice on a workload whose child workload is or could be the gang; nothing on other objects.

    A workload that another one created is not checked, because its parent is. Raises `MalformedError`.
    """
    annotations = other_workload(manifest, findings) if child_workloads.has_child(manifest) else None
    if annotations is None or pod_templates.controlled(manifest):
        return
    ref = ref_of(manifest)
    if not gang_annotations.opted_in(annotations):
        gang_annotations.advise_unknown(ref, annotations, findings)
        annotated_workloads.advise_misplaced(ref, annotations, pod_templates.templates(manifest), findings)
        _advise_automatic(manifest, ref, sources, findings)
        return
    gang_annotations.check(ref, annotations, findings)

    def read(child: Manifest, without_pods: Sources, found: Findings) -> None:
        annotated_workloads.read_parts((), child, without_pods, topologies, found)

    labels_of = partial(annotated_workloads.template_labels, claimed=False)
    child_checks.check(manifest, KNOWN, sources, child_checks.Reader(labels_of, read), findings)


def _advise_automatic(manifest: Manifest, ref: ObjectRef, sources: Sources, findings: Findings) -> None:
    """Report, as advice, a workload in an automatic namespace if neither the workload nor its child becomes a gang.

    Otherwise a user of the namespace would expect a gang, but the pods start one by one.
    """
    if not child_workloads.has_automatic_child(manifest) and gang_annotations.automatic(manifest, sources):
        text = f"{with_article(ref.kind)} is not made a gang yet: its pods start one by one"
        findings.advise(ref, "kind", f"the namespace is automatic, but {text}")
