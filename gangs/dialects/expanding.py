"""The pods that workloads have not made yet: what a dry run and a forecast plan with."""

from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from gangs.coexistence.ownership import Left
from gangs.dialects.claims import dialect_of, left_alone
from gangs.dialects.protocol import ByWorkload
from gangs.dialects.table import DIALECTS
from gangs.dialects.templates import as_admitted
from gangs.manifests import MalformedError, key_of, metadata_of, ref_of
from gangs.model import Advice, Fault, Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads import jobs, pod_templates, pods_to_come
from gangs.workloads.jobs import JOB_GROUP, JOB_KIND, job_of
from gangs.workloads.kind_table import WORKLOADS, Made
from kube.keys import WORKLOAD
from kube.objects import Pod

_BY_KINDS = {each.name for each in DIALECTS if isinstance(each, ByWorkload)}
"""Dialects that group pods by the kind of their workload."""
_NOT_HERE = {"CronJob", "JobSet", "LeaderWorkerSet", "DaemonSet", "Service"}
"""Kinds whose number of pods their templates do not say, or whose pods come later."""


def expanded(sources: Sources) -> tuple[Sources, list[Fault]]:
    """The sources as a cluster would soon show them: workloads admitted, and the pods made that gangs still lack.

    Only workloads whose pods name a gang are expanded. A malformed one is left out and noted.
    """
    objects, faults, pods = dict(sources.objects), list[Fault](), list(sources.pods)
    left = left_alone(sources)
    for manifest in sources.of_kind(JOB_GROUP, JOB_KIND):
        try:
            job = as_admitted(manifest, sources)
            objects[key_of(job)] = job
            pods += missing_pods(job, sources.pods_of(job_of(job)), left)
        except MalformedError as error:
            objects.pop(key_of(manifest), None)
            faults.append(error.fault)
    for group, kind in WORKLOADS:
        for manifest in sources.of_kind(group, kind) if kind != JOB_KIND else ():
            try:
                workload = as_admitted(manifest, sources)
                objects[key_of(workload)] = workload
                pods += missing_pods(workload, sources.pods, left)
            except MalformedError as error:
                objects.pop(key_of(manifest), None)
                faults.append(error.fault)
    return replace(sources, objects=objects, pods=pods), faults


def unforeseen(sources: Sources, mentioned: Container[ObjectRef]) -> Iterator[Advice]:
    """Of workloads whose pods name gangs and cannot be foreseen: what will happen to these. `mentioned`: the objects of
    which something has been said already.
    """
    left = left_alone(sources)
    for manifest in (each for at in WORKLOADS if at[1] in _NOT_HERE for each in sources.of_kind(*at)):
        ref = ref_of(manifest)
        if ref in mentioned or pod_templates.controlled(manifest):
            continue
        with suppress(MalformedError):
            if _marked(manifest):
                continue
            pods = zip(pod_templates.templates(manifest), pods_to_come.example_pods(manifest), strict=True)
            claims = ((template, dialect_of(pod, left)) for template, pod in pods)
            template, claim = next((each for each in claims if each[1] is not None), (None, None))
            if template is not None and claim is not None:
                text = f"names gang {claim[1]}, and the pods of a {ref.kind} are not planned before they exist: each "
                text += "is held back when it is made, until as many exist as must start together"
                yield Advice(ref, f"{template.path}.metadata", text)


def missing_pods(manifest: Manifest, existing: Sequence[Pod], left: Left) -> tuple[Pod, ...]:
    """The pods that a workload would still make and that name a gang of ours. Raises `MalformedError`.

    None where nobody reads how many there are: the workload is refused then.
    """
    if jobs.is_job(manifest):
        claimed = dialect_of(jobs.example_pod(manifest), left) is not None
        return jobs.missing_pods(manifest, existing) if claimed else ()
    if not _marked(manifest) and (manifest.get("kind") in _NOT_HERE or pod_templates.controlled(manifest)):
        return ()
    claims = [dialect_of(pod, left) for pod in pods_to_come.example_pods(manifest)]
    if not any(claims):
        return ()
    workload, unread = metadata_of(manifest).name, pod_templates.made_by(manifest) is Made.UNREAD
    if unread and any(claim and claim[0].name in _BY_KINDS and claim[1].name == workload for claim in claims):
        return ()
    return tuple(pod for pod in pods_to_come.missing_pods(manifest, existing) if dialect_of(pod, left) is not None)


def _marked(manifest: Manifest) -> bool:
    """Whether the workload's templates have the label by which our own annotations make a gang of their pods."""
    return any(WORKLOAD in each.labels for each in pod_templates.templates(manifest))
