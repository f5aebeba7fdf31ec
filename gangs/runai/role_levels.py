"""The levels that one role of a workload requests in addition to the levels of the whole workload.

A role is a pod set: a group of a RayCluster, or a replicated job of a JobSet. As KAI Scheduler (pod grouper, v0.17),
Phalanx reads the levels of a RayCluster's group from its pod template. It reads those of a JobSet's replicated job from
the metadata of the Job template, and they apply to each Job by itself. These metadata may also have the number of pods
that must start together in each Job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gangs.findings import Findings
from gangs.labelled_workloads.members import LabelledWorkload
from gangs.manifests import group_of, integer, metadata_of
from gangs.model import Manifest, ObjectRef, PodSet, SliceRule
from gangs.runai import keys, wishes
from gangs.runai.wishes import Wishes
from gangs.topology.levels import LevelWish
from gangs.workloads import pod_templates
from gangs.workloads.annotations import LargestMinimum, check_number
from gangs.workloads.pod_templates import Template

RAY_CLUSTER = ("ray.io", "RayCluster")
JOB_SET = ("jobset.x-k8s.io", "JobSet")


@dataclass(frozen=True, slots=True)
class RoleLevels:
    """The levels that one role (pod set) of a workload requests for itself.

    `said`: Run:ai's annotations of the role. `in_each`: the number of consecutive pods that must share one domain of
    the required level, which is the size of a Job; None: all pods of the role.
    """

    said: Wishes
    in_each: int | None = None

    @property
    def required(self) -> LevelWish | None:
        """The level of which the pods must share one domain; None if there is none."""
        return wishes.level(self.said, keys.REQUIRED)

    @property
    def preferred(self) -> LevelWish | None:
        """The level of which the pods should share one domain; None if there is none."""
        return wishes.level(self.said, keys.PREFERRED)

    @property
    def levels(self) -> tuple[LevelWish, ...]:
        """The required and the preferred level, without None."""
        return tuple(each for each in (self.required, self.preferred) if each is not None)

    def beside(self, asked: Wishes) -> Wishes:
        """Return the role's annotations, with the workload's required level if the role only prefers a level.

        The result is used to check that the preferred level is narrower than the required one.

        :param asked: the workload's annotations.
        """
        of_all = {key: wish for key, wish in asked.items() if key == keys.REQUIRED and keys.PREFERRED in self.said}
        return {**of_all, **self.said}

    def of(self, pod_set: PodSet) -> PodSet:
        """Return the role's pod set with the levels added that the role requests for itself."""
        required = self.required.level if self.required else None
        pod_set = replace(pod_set, preferred=self.preferred.level if self.preferred else None)
        if self.in_each is None or required is None:
            return replace(pod_set, required=required)
        return replace(pod_set, slices=(SliceRule(required, self.in_each),))


def _kind(manifest: Manifest) -> tuple[str, str]:
    return group_of(str(manifest.get("apiVersion", ""))), str(manifest.get("kind", ""))


def of_one_role(manifest: Manifest, template: Template) -> Wishes:
    """Return the annotations of Run:ai that apply only to the pods of this template, as in KAI Scheduler.

    The result is empty for kinds other than RayCluster and JobSet.
    """
    if _kind(manifest) == RAY_CLUSTER:
        return wishes.of_template(template)
    if _kind(manifest) == JOB_SET:
        at = pod_templates.job_metadata(template)
        return wishes.of(pod_templates.texts_at(manifest, f"{at}.annotations"), at.removesuffix("metadata"))
    return {}


def said_for_all(manifest: Manifest, template: Template) -> Mapping[str, str]:
    """Return the annotations of a pod template that apply to all pods of the workload.

    They may repeat the workload's own annotations, but must not contradict them. For a RayCluster, levels on a template
    apply to its own pods only, so they are left out.
    """
    if _kind(manifest) != RAY_CLUSTER:
        return template.annotations
    return {key: text for key, text in template.annotations.items() if key not in (keys.REQUIRED, keys.PREFERRED)}


def check(marked: LabelledWorkload, ref: ObjectRef, findings: Findings) -> None:
    """Report faults of Run:ai's annotations on the Job templates of a JobSet.

    :param marked: the JobSet; a workload of another kind is not checked.
    :param ref: the workload, for messages.
    """
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


def _short(own_words: Mapping[str, str], marked: LabelledWorkload) -> bool:
    """Whether the workload's annotation `batch-min-member` is lower than the number of the gang's pods.

    :param own_words: the annotations on the workload itself.
    """
    least = integer(own_words.get(keys.MIN_MEMBER, ""))
    return least is not None and least < sum(each.count for each in marked.gated)


def least_of_jobs(marked: LabelledWorkload) -> int:
    """Return the number of a JobSet's pods that must start together, if a Job template states a minimum; else 0.

    Of the templates without a minimum, all pods must start.
    """
    if not _in_jobs(marked.manifest) or all(each.least is None for each in marked.gated):
        return 0
    return sum(each.count if each.least is None else each.least for each in marked.gated)


def role_levels(
    marked: LabelledWorkload, asked: Wishes, ref: ObjectRef, findings: Findings
) -> Mapping[str, RoleLevels]:
    """Return, by role (name of the pod set), its levels, for roles that request levels of their own.

    :param asked: the workload's annotations.
    :param ref: the workload, for messages.
    """
    found = dict[str, RoleLevels]()
    for each in marked.gated:
        said = dict(of_one_role(marked.manifest, each))
        if wishes.value_of(said, keys.REQUIRED) == wishes.value_of(asked, keys.REQUIRED):
            said.pop(keys.REQUIRED, None)  # adds nothing: all pods of the workload share this domain
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


def with_minimums(marked: LabelledWorkload, ref: ObjectRef, findings: Findings) -> LabelledWorkload:
    """Return the workload with the minimums in the annotations of its Job templates, if it is a JobSet."""
    return replace(marked, gated=[_with_minimum(marked.manifest, each, ref, findings) for each in marked.gated])


def _with_minimum(manifest: Manifest, template: Template, ref: ObjectRef, findings: Findings) -> Template:
    written = of_one_role(manifest, template).get(keys.MIN_MEMBER) if _in_jobs(manifest) else None
    if written is None or not template.count:
        return template
    check_number(
        ref, written.field, written.value, LargestMinimum(template.in_each, "that each Job runs", "raise it"), findings
    )
    least = integer(written.value)
    if least is None or not 0 < least < template.in_each:
        return template
    if template.in_each < template.count:
        problem = f"{least} of the {template.in_each} pods of each of several Jobs cannot be planned"
        remedy = f"leave it out, or write {keys.MIN_MEMBER} on the {ref.kind} itself for all its pods"
        findings.fault(ref, written.field, problem, remedy)
        return template
    return replace(template, least=least)
