"""Segments: equal parts of a PyTorchJob's workers, or of a LeaderWorkerSet's group, whose pods must share one domain.

As in KAI Scheduler (pod grouper, v0.17), annotations on the workers' pod template ask for them. The pod with the rank i
is in segment i // `segment-size`. The pods of a segment share one domain of the level
`segment-topology-required-placement`. In Phalanx, segments are slices of the pod set.
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
    """The slices that result from the segment annotations on a pod template, and their level with its field."""

    rule: SliceRule
    level: LevelWish

    @property
    def levels(self) -> tuple[LevelWish, ...]:
        """The level of the segments, in a tuple of one entry."""
        return (self.level,)

    def of(self, pod_set: PodSet) -> PodSet:
        """Return the pod set with these slices added."""
        return replace(pod_set, slices=(self.rule,))


def divides(manifest: Manifest, template: Template) -> bool:
    """Whether a pod template may have segment annotations: the workers of a PyTorchJob or LeaderWorkerSet."""
    kind = group_of(str(manifest.get("apiVersion", ""))), manifest.get("kind")
    return kind in _DIVIDED and template.role == WORKER


def segments_of(marked: LabelledWorkload, template: Template, ref: ObjectRef, findings: Findings) -> Segments | None:
    """Return the segments that a pod template's annotations ask for; None if there are none, or if there are faults.

    :param ref: the workload, for messages.
    """
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
