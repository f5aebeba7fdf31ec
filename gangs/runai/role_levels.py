"""Levels of one role beside those of its workload: of a group of a RayCluster, or of a replicated job of a JobSet.

KAI Scheduler makes a subgroup of each, with a topology constraint of its own: it reads that from the pod template of a
Ray group, and from the metadata of a replicated job's Job template, for each Job by itself (pod grouper, v0.17). The
number of pods that must start together in each Job stands there, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gangs.findings import Findings
from gangs.manifests import group_of, integer, metadata_of
from gangs.marked.members import Marked
from gangs.model import Manifest, ObjectRef, PodSet, SliceRule
from gangs.runai import keys, wishes
from gangs.runai.wishes import Wishes
from gangs.topology.levels import LevelWish
from gangs.workloads import pod_templates
from gangs.workloads.annotated_jobs import Most, check_number
from gangs.workloads.pod_templates import Template

RAY_CLUSTER = ("ray.io", "RayCluster")
JOB_SET = ("jobset.x-k8s.io", "JobSet")


@dataclass(frozen=True, slots=True)
class RoleLevels:
    """What is said of one role alone. `in_each`: pods that share the required level; None: all of the role."""

    said: Wishes
    in_each: int | None = None

    @property
    def required(self) -> LevelWish | None:
        """The level that these pods have in common."""
        return wishes.level(self.said, keys.REQUIRED)

    @property
    def preferred(self) -> LevelWish | None:
        """The level that they are to have in common where that can be."""
        return wishes.level(self.said, keys.PREFERRED)

    @property
    def levels(self) -> tuple[LevelWish, ...]:
        """Every level that is named."""
        return tuple(each for each in (self.required, self.preferred) if each is not None)

    def beside(self, asked: Wishes) -> Wishes:
        """What is said of the role, with the level that the workload requires where it has none of its own: the
        preferred one must be below that.
        """
        of_all = {key: wish for key, wish in asked.items() if key == keys.REQUIRED and keys.PREFERRED in self.said}
        return {**of_all, **self.said}

    def of(self, pod_set: PodSet) -> PodSet:
        """The pod set of the role, with its levels."""
        required = self.required.level if self.required else None
        pod_set = replace(pod_set, preferred=self.preferred.level if self.preferred else None)
        if self.in_each is None or required is None:
            return replace(pod_set, required=required)
        return replace(pod_set, slices=(SliceRule(required, self.in_each),))


def _kind(manifest: Manifest) -> tuple[str, str]:
    return group_of(str(manifest.get("apiVersion", ""))), str(manifest.get("kind", ""))


def of_one_role(manifest: Manifest, template: Template) -> Wishes:
    """What is said where KAI Scheduler reads it for the pods of this template alone."""
    if _kind(manifest) == RAY_CLUSTER:
        return wishes.of(template.annotations, f"{template.path}.")
    if _kind(manifest) == JOB_SET:
        at = pod_templates.job_metadata(template)
        return wishes.of(pod_templates.texts_at(manifest, f"{at}.annotations"), at.removesuffix("metadata"))
    return {}


def said_for_all(manifest: Manifest, template: Template) -> Mapping[str, str]:
    """What a pod template says that holds for all pods, so that it may repeat its workload's words and say no other."""
    if _kind(manifest) != RAY_CLUSTER:
        return template.annotations
    return {key: text for key, text in template.annotations.items() if key not in (keys.REQUIRED, keys.PREFERRED)}


def check(marked: Marked, ref: ObjectRef, findings: Findings) -> None:
    """Note what the Jobs of a JobSet say that is wrong, or that holds for all pods."""
    own_words = metadata_of(marked.manifest).annotations
    for each in marked.gated if _in_jobs(marked.manifest) else ():
        said = of_one_role(marked.manifest, each)
        at = pod_templates.job_metadata(each).removesuffix("metadata")
        for_all = {key: wish.value for key, wish in said.items() if key == keys.TOPOLOGY}
        wishes.check_alike(ref, own_words, for_all, at, findings)
        if keys.REQUIRED in said and each.count > each.in_each and _short(own_words, marked):
            problem = "is for each of several Jobs, and fewer pods than all may start together"
            remedy = f"leave {keys.MIN_MEMBER} out: a part of a Job cannot be planned by itself"
            findings.fault(ref, said[keys.REQUIRED].field, problem, remedy)
        wishes.check_keys(ref, said, "divides no Job of a JobSet", "write the level that each Job requires", findings)


def _short(own_words: Mapping[str, str], marked: Marked) -> bool:
    """Whether fewer pods than all may start together."""
    least = integer(own_words.get(keys.MIN_MEMBER, ""))
    return least is not None and least < sum(each.count for each in marked.gated)


def least_of_jobs(marked: Marked) -> int:
    """Pods that must start together where Jobs say so, each for its own: all of the others. 0 where none does."""
    if not _in_jobs(marked.manifest) or all(each.least is None for each in marked.gated):
        return 0
    return sum(each.count if each.least is None else each.least for each in marked.gated)


def role_levels(marked: Marked, asked: Wishes, ref: ObjectRef, findings: Findings) -> Mapping[str, RoleLevels]:
    """The levels of each role that has some of its own. `asked`: what the workload says of all."""
    found = dict[str, RoleLevels]()
    for each in marked.gated:
        said = dict(of_one_role(marked.manifest, each))
        if wishes.value_of(said, keys.REQUIRED) == wishes.value_of(asked, keys.REQUIRED):
            said.pop(keys.REQUIRED, None)  # all pods share such a domain, so these do
        several = _in_jobs(marked.manifest) and each.count > each.in_each
        if several and (preferred := said.pop(keys.PREFERRED, None)) is not None:
            text = "is not honoured where a template has several replicas: each Job would have a wish of its own"
            findings.advise(ref, preferred.field, text)
        levels = RoleLevels(said, each.in_each if several else None)
        if levels.levels:
            found[each.role] = levels
    return found


def _in_jobs(manifest: Manifest) -> bool:
    return _kind(manifest) == JOB_SET


def with_minimums(marked: Marked, ref: ObjectRef, findings: Findings) -> Marked:
    """The workload, with the pods that must start together in the Jobs of a template, where that is written there."""
    return replace(marked, gated=[_with_minimum(marked.manifest, each, ref, findings) for each in marked.gated])


def _with_minimum(manifest: Manifest, template: Template, ref: ObjectRef, findings: Findings) -> Template:
    written = of_one_role(manifest, template).get(keys.MIN_MEMBER) if _in_jobs(manifest) else None
    if written is None or not template.count:
        return template
    check_number(ref, written.field, written.value, Most(template.in_each, "that each Job runs", "raise it"), findings)
    least = integer(written.value)
    if least is None or not 0 < least < template.in_each:
        return template
    if template.in_each < template.count:
        problem = f"{least} of the {template.in_each} pods of each of several Jobs cannot be planned"
        remedy = f"leave it out, or write {keys.MIN_MEMBER} on the {ref.kind} itself for all its pods"
        findings.fault(ref, written.field, problem, remedy)
        return template
    return replace(template, least=least)
