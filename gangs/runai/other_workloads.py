"""The review of Run:ai's annotations on workloads other than Jobs, and on their pod templates.

A workload with the annotations on itself is one gang (`workloads`). If its pods have them, the pods of each controller
are one gang (`owned_pods`). Annotations that make no gang, or that would make several gangs of one workload, are
reported on the workload, before its pods would be refused.
"""

from collections.abc import Sequence

from gangs.findings import Findings
from gangs.manifests import integer, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.runai import keys, owned_pods, wishes, workloads
from gangs.sources import Sources
from gangs.workloads import pod_templates
from gangs.workloads.annotations import other_workload, refuse_kind
from gangs.workloads.kind_table import Made, row_of
from gangs.workloads.pod_templates import Template
from kube.keys import GANG
from kube.text import with_article
from kube.topology import Topology

_TO_GANG = f"make a Gang object and label the pod templates {GANG}: <its name> instead"
_SEVERAL = {"JobSet", "LeaderWorkerSet", "MPIJob", "SparkApplication"}
"""Kinds whose pods have several controllers, such as the Jobs of a JobSet."""
_COUNTED = (Made.TOGETHER, Made.ALONE)


def check(manifest: Manifest, sources: Sources, topologies: Sequence[Topology], findings: Findings) -> None:
    """Report faults of Run:ai's annotations on a workload other than a Job, and on its pod templates.

    A workload that another one created is not checked. Raises `MalformedError`.
    """
    annotations = other_workload(manifest, findings)
    if annotations is None or pod_templates.controlled(manifest):
        return
    if workloads.asks(manifest) or workloads.check_propagation(manifest, sources, topologies, findings):
        return
    made, templates, ref = pod_templates.made_by(manifest), pod_templates.templates(manifest), ref_of(manifest)
    if annotations.get(keys.SKIP) != "true" and not wishes.propagated_to_templates(manifest):
        remedy, row = _remedy(ref.kind, made, templates), row_of(manifest)
        refuse_kind(ref, keys.WISHES, annotations, findings, remedy, row=row)
    asking = owned_pods.asking(manifest)
    if asking and made is not Made.IN_JOBS:
        _check_templates(manifest, asking, sources, findings)


def _remedy(kind: str, made: Made | None, templates: Sequence[Template]) -> str:
    if made is Made.IN_JOBS:
        return f"write it at {pod_templates.job_metadata(templates[0])}.annotations" if templates else _TO_GANG
    if kind in _SEVERAL or (not templates and made is Made.UNREAD):
        return _TO_GANG
    return f"write it on the pod template, with {keys.MIN_MEMBER}: <pods that must start together>"


def _advise_silent(
    ref: ObjectRef, asking: Sequence[Template], templates: Sequence[Template], findings: Findings
) -> None:
    """Report, as advice, pod templates of a gang's workload that lack Run:ai's annotations.

    Their pods are no members of the gang, so they start by themselves.

    :param asking: the templates that have Run:ai's annotations.
    """
    for each in templates:
        elsewhere = GANG in each.labels or any(each.annotations.get(key) for key in keys.GROUPED)
        if each.count and each not in asking and not elsewhere:
            text = f"names no level: its pods start by themselves, without the gang {ref.name}"
            findings.advise(ref, each.metadata_at, text)


def _check_templates(manifest: Manifest, asking: Sequence[Template], sources: Sources, findings: Findings) -> None:
    ref, first = ref_of(manifest), asking[0]
    if ref.kind in _SEVERAL:
        key = next(key for key in keys.WISHES if key in first.annotations)
        problem = f"the pods of {with_article(ref.kind)} have several controllers, so that they would be several gangs"
        findings.fault(ref, first.annotation(key), problem, f"write it on the {ref.kind} itself instead")
        return
    _advise_silent(ref, asking, pod_templates.templates(manifest), findings)
    for each in asking:
        _check_minimum(manifest, each, findings)
    total = sum(each.count for each in asking)
    minimum = integer(first.annotations.get(keys.MIN_MEMBER, "")) or (total if owned_pods.counted(manifest) else 1)
    if pod_templates.made_by(manifest) in _COUNTED and ref.kind not in ("DaemonSet", "Service") and minimum > total > 0:
        problem = f"{minimum} is more than the {total} pods that the {ref.kind} runs"
        findings.fault(ref, first.annotation(keys.MIN_MEMBER), problem, f"lower it to {total}")
    pod_templates.check_parallel(manifest, min(minimum, total), sources.pods, findings)


def _check_minimum(manifest: Manifest, template: Template, findings: Findings) -> None:
    ref, written = ref_of(manifest), template.annotations.get(keys.MIN_MEMBER)
    at = template.annotation(keys.MIN_MEMBER)
    if written is None and owned_pods.counted(manifest):
        return
    if written is None:
        problem = f"is missing: how many pods {ref.kind} {ref.name} runs is not read here"
        findings.fault(ref, at, problem, "write on its pod template how many pods must start together")
    elif (integer(written) or 0) < 1:
        findings.fault(ref, at, f'"{written}" is not a number from 1 up', "correct it")
