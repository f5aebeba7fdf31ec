"""Workloads other than Jobs whose pods name a topology policy but no PodGroup.

As in KAI Scheduler, all pods of a StatefulSet or of a training job are one gang. Each pod of a Deployment is a gang of
its own. For kinds of which the pods cannot be counted, the policy is a fault.
"""

from collections.abc import Sequence
from dataclasses import replace

from gangs.findings import Findings
from gangs.kai import keys, members
from gangs.kai.groups import Unit
from gangs.manifests import group_of, metadata_of, pod_ref, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.sources import Sources
from gangs.workloads import pod_templates
from gangs.workloads.child_workloads import copies_labels_to_child
from gangs.workloads.kind_table import Made
from gangs.workloads.pod_templates import Template
from kube.objects import Pod
from kube.text import with_article

TO_GROUP = (
    f"make a {keys.POD_GROUP_KIND} with minMember, and write {keys.POD_GROUP}: <its name> on all its pod templates "
    "instead"
)
"""The remedy by which pods of several pod templates become one gang, whatever the kind of their workload."""


def asks(template: Template) -> bool:
    """Whether the pods of a template name a topology policy, and no PodGroup."""
    return keys.POLICY in template.annotations and not members.named_by(template.annotations)


def unit_of_workload(unit: Unit, pods: Sequence[Pod], sources: Sources, findings: Findings) -> Unit | None:
    """Return the data about the gang of pods that a workload may control, before its levels are looked up; None if
    there is a fault.

    The minimum is the workload's number of pods. If the workload does not exist, the gang waits for it. Raises
    `MalformedError`.

    :param unit: the data about the gang that follow from its pods alone.
    """
    maker = pod_templates.maker_of(pods[0])
    if maker is None:
        return unit
    if maker.made is Made.UNREAD:
        for pod in pods:
            problem = f"pods of {maker.kind}s ({maker.name}) are not read as one group yet"
            findings.fault(pod_ref(pod), "metadata.ownerReferences", problem, TO_GROUP)
        return None
    if maker.made is not Made.TOGETHER:
        findings.advise(unit.ref, members.annotation(keys.POLICY), _alone(maker.kind))
        return unit
    ref = ObjectRef(maker.api_version, maker.kind, unit.key.namespace, maker.name)
    manifest = sources.get(group_of(maker.api_version), maker.kind, ref.namespace, ref.name)
    if manifest is None:
        return replace(unit, waiting_for=(str(ref),))
    count = sum(each.count for each in pod_templates.templates(manifest) if asks(each))
    return replace(
        unit,
        ref=ref_of(manifest),
        minimum=max(1, count),
        expected=max(1, count, len(pods)),
        created=metadata_of(manifest).creation_timestamp or "",
    )


def check(manifest: Manifest, pods: Sequence[Pod], findings: Findings) -> None:
    """Report a workload other than a Job whose pods name a topology policy but are not one gang.

    Raises `MalformedError`.

    :param pods: existing pods, possibly of other owners, too.
    """
    made, ref, found = pod_templates.made_by(manifest), ref_of(manifest), pod_templates.templates(manifest)
    if made is None or pod_templates.controlled(manifest) or copies_labels_to_child(manifest):
        return
    asking = [each for each in found if asks(each)]
    if not asking:
        named = any(members.named_by(each.annotations) for each in found)
        if made is Made.UNREAD and keys.POLICY in metadata_of(manifest).annotations and not named:
            text = f"does not reach the pods, and pods of {ref.kind}s are not read as one group yet: {TO_GROUP}"
            findings.advise(ref, members.annotation(keys.POLICY), text)
        return
    at = f"{asking[0].path}.{members.annotation(keys.POLICY)}"
    if ref.kind == "JobSet" and made is Made.UNREAD:
        findings.advise(ref, at, f"makes each of its Jobs a gang of its own; for one gang {TO_GROUP}")
    elif made is Made.UNREAD:
        findings.fault(ref, at, f"pods of {ref.kind}s are not read as one group yet", TO_GROUP)
    elif made is Made.ALONE:
        findings.advise(ref, at, _alone(ref.kind))
    pod_templates.check_parallel(manifest, sum(each.count for each in asking), pods, findings)


def _alone(kind: str) -> str:
    """Return the advice for a kind of workload whose pods are placed one by one, and how to get one gang of them."""
    own_group = f"as in KAI Scheduler each pod of {with_article(kind)} is its own group"
    return f"places each pod alone: {own_group}; for one gang {TO_GROUP}"
