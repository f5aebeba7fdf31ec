"""Segments: parts of a PyTorchJob's workers, or of a LeaderWorkerSet's group, whose pods share a domain.

KAI Scheduler reads them from the pod template of the workers (pod grouper, v0.17). Pod i is in segment
i // `segment-size`. A segment is in one domain of `segment-topology-required-placement`. In Phalanx, segments are
slices of the pod set.
"""

from dataclasses import dataclass, replace

from gangs.findings import Findings
from gangs.labelled_workloads.members import LabelledWorkload
from gangs.manifests import group_of, integer
from gangs.model import Manifest, ObjectRef, PodSet, SliceRule
from gangs.runai import keys, wishes
from gangs.topology.levels import LevelWish
from gangs.workloads.pod_templates import LEADER, WORKER, Template

_DIVIDED = (("kubeflow.org", "PyTorchJob"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"))
_GANG = "make a Gang object with slices for these pods"


@dataclass(frozen=True, slots=True)
class Segments:
    """The slice rule of a pod set that is divided into segments, and its level with the field that names it."""

    rule: SliceRule
    level: LevelWish

    @property
    def levels(self) -> tuple[LevelWish, ...]:
        """Every level that is named."""
        return (self.level,)

    def of(self, pod_set: PodSet) -> PodSet:
        """Return the pod set with the slice rule."""
        return replace(pod_set, slices=(self.rule,))


def divides(manifest: Manifest, template: Template) -> bool:
    """Whether the pods of a template may be divided into segments."""
    kind = group_of(str(manifest.get("apiVersion", ""))), manifest.get("kind")
    return kind in _DIVIDED and template.role == WORKER


def segments_of(marked: LabelledWorkload, template: Template, ref: ObjectRef, findings: Findings) -> Segments | None:
    """Return the segments of a template's pods; None if they are not divided or have faults."""
    said = wishes.of_template(template)
    size_at, level_at, preferred_at = (said.get(key) for key in keys.SEGMENTS)
    if preferred_at is not None:
        text = f"is not honoured: a segment is in one domain of {keys.SEGMENT_REQUIRED}, or anywhere"
        findings.advise(ref, preferred_at.field, text)
    if size_at is None or level_at is None:
        for at, other in ((size_at, keys.SEGMENT_REQUIRED), (level_at, keys.SEGMENT_SIZE)):
            if at is not None:
                findings.fault(ref, at.field, f"asks for nothing without {other}", "write both, or none")
        return None
    size = integer(size_at.value)
    if size is None or size < 1:
        problem = f'"{size_at.value}" is not a whole number from 1 up'
        findings.fault(ref, size_at.field, problem, "write the number of pods in a segment")
    elif any(each.role == LEADER for each in marked.gated):
        problem = "counts the leader, too, which has a template of its own"
        findings.fault(ref, size_at.field, problem, f"leave spec.leaderWorkerTemplate.leaderTemplate out, or {_GANG}")
    elif template.count % size:
        problem = f"{size} does not divide the {template.count} pods of the template"
        findings.fault(ref, size_at.field, problem, f"write a number that does, or {_GANG}")
    elif not level_at.value:
        findings.fault(ref, level_at.field, "is empty", "write a level")
    else:
        return Segments(SliceRule(level_at.value, size), LevelWish(level_at.field, level_at.value))
    return None
