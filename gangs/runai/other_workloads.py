"""Run:ai's annotations on workloads that are no Jobs, and on their pod templates: refused where no gang comes of them.

The pods of one controller are one gang (`owned_pods`). What no pod carries, and what several controllers would share
out among themselves, is told before the first pod is refused.
"""

from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.manifests import integer, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.runai import keys
from gangs.runai.wishes import Wish, opted_in
from gangs.sources import Sources
from gangs.workloads import annotated_jobs, pod_templates
from gangs.workloads.annotated_jobs import annotation
from gangs.workloads.kind_table import Made
from gangs.workloads.pod_templates import Template
from kube.keys import GANG

_TO_GANG = f"make a Gang object and label the pod templates {GANG}: <its name> instead"
_SEVERAL = {"JobSet", "LeaderWorkerSet"}
"""Kinds whose pods have several controllers."""
_COUNTED = (Made.TOGETHER, Made.ALONE)


def check(manifest: Manifest, sources: Sources, findings: Findings) -> None:
    """Note what is wrong with a workload and its templates; nothing with one that another object has made.

    Raises `MalformedError`.
    """
    annotations = annotated_jobs.other_workload(manifest, findings)
    if annotations is None or pod_templates.controlled(manifest):
        return
    made, said, ref = pod_templates.made_by(manifest), pod_templates.templates(manifest), ref_of(manifest)
    handed_down = said and all(each.annotations.items() >= _wishes(annotations).items() for each in said)
    if annotations.get(keys.SKIP) != "true" and not handed_down:
        annotated_jobs.refuse_kind(ref, keys.WISHES, annotations, findings, _remedy(ref.kind, made, said))
    asking = [each for each in said if _asks(each)]
    if asking and made is not Made.IN_JOBS:
        _check_templates(manifest, asking, sources, findings)


def _wishes(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in keys.WISHES if key in annotations}


def _asks(template: Template) -> bool:
    written = {key: Wish("", value) for key, value in template.annotations.items()}
    return opted_in(written) and not any(template.annotations.get(key) for key in keys.GROUPED)


def _remedy(kind: str, made: Made | None, said: Sequence[Template]) -> str:
    if made is Made.IN_JOBS:
        return f"write it at {pod_templates.job_metadata(said[0])}.annotations" if said else _TO_GANG
    if kind in _SEVERAL or (not said and made is Made.UNREAD):
        return _TO_GANG
    return f"write it on the pod template, with {keys.MIN_MEMBER}: <pods that must start together>"


def _check_templates(manifest: Manifest, asking: Sequence[Template], sources: Sources, findings: Findings) -> None:
    ref, first = ref_of(manifest), asking[0]
    if ref.kind in _SEVERAL:
        key = next(key for key in keys.WISHES if key in first.annotations)
        problem = f"the pods of a {ref.kind} have several controllers, so that they would be several gangs"
        findings.fault(ref, annotation(key, f"{first.path}."), problem, _TO_GANG)
        return
    for each in asking:
        _check_minimum(ref, each, findings)
    minimum = integer(first.annotations.get(keys.MIN_MEMBER, "")) or 1
    total = sum(each.count for each in asking)
    if pod_templates.made_by(manifest) in _COUNTED and ref.kind not in ("DaemonSet", "Service") and minimum > total > 0:
        problem = f"{minimum} is more than the {total} pods that the {ref.kind} runs"
        findings.fault(ref, annotation(keys.MIN_MEMBER, f"{first.path}."), problem, f"lower it to {total}")
    pod_templates.check_parallel(manifest, min(minimum, total), sources.pods, findings)


def _check_minimum(ref: ObjectRef, template: Template, findings: Findings) -> None:
    written, at = template.annotations.get(keys.MIN_MEMBER), annotation(keys.MIN_MEMBER, f"{template.path}.")
    if written is None:
        problem = f"is missing: how many pods {ref.kind} {ref.name} runs is not read here"
        findings.fault(ref, at, problem, "write on its pod template how many pods must start together")
    elif (integer(written) or 0) < 1:
        findings.fault(ref, at, f'"{written}" is not a number from 1 up', "correct it")
