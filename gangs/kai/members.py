"""The gang, the role and the topology policy that a pod's annotations name, and their checks."""

import re
from collections.abc import Callable, Mapping, Sequence

from gangs.findings import Findings
from gangs.kai import NAME, keys
from gangs.kai.settings import TITLE, Settings
from gangs.manifests import pod_ref
from gangs.membership import Seat, age, given_rank
from gangs.model import GangKey
from gangs.pod_consensus import advise_older, decisive_pods
from gangs.workloads.jobs import job_owner
from gangs.workloads.pod_templates import shared_name
from kube import keys as own
from kube.names import natural_key
from kube.objects import Pod

MAIN = "main"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def annotation(key: str) -> str:
    """Return the path of an annotation, `metadata.annotations[<key>]`, for messages."""
    return f"metadata.annotations[{key}]"


def named_by(annotations: Mapping[str, str]) -> str:
    """Return the PodGroup that a pod's annotations name; "" if they name none."""
    return annotations.get(keys.POD_GROUP) or annotations.get(keys.POD_GROUP_NAME) or ""


def group_of(pod: Pod) -> str:
    """Return the PodGroup that the pod names; "" if it names none."""
    return named_by(pod.metadata.annotations)


def gang_of(pod: Pod) -> GangKey | None:
    """Return the gang of the pod's PodGroup; None if the pod names neither a PodGroup nor a topology policy.

    If the pod names only a policy, the result is the gang of the pod's workload, or a gang of this pod alone.
    """
    meta = pod.metadata
    if not meta.annotations:
        return None
    name = group_of(pod)
    if not name and keys.POLICY in meta.annotations:
        name = shared_name(pod) or meta.name or meta.generate_name
    return GangKey(NAME, meta.namespace, name) if name else None


def job_of(pod: Pod) -> str:
    """Return the name of the Job that controls the pod; "" if there is none."""
    owner = job_owner(pod)
    return owner.name if owner is not None else ""


def role_of(pod: Pod) -> str:
    """Return the name of the pod set to which the pod belongs: its role, or `MAIN`."""
    return pod.metadata.annotations.get(keys.ROLE) or MAIN


def roles_of(pods: Sequence[Pod]) -> tuple[str, ...]:
    """Return the names of the pods' pod sets, ordered by name, but `MAIN` (pods without a role) first."""
    return tuple(sorted({role_of(pod) for pod in pods}, key=lambda role: (role != MAIN, natural_key(role))))


def policy_of(pods: Sequence[Pod], settings: Settings, findings: Findings) -> tuple[str | None, tuple[str, ...]]:
    """Return the topology policy that a gang's pods name (None for none), and what the gang waits for because of it.

    The gang waits if the ConfigMap with the policies does not exist. All decisive pods (`gangs.pod_consensus`) must
    name the same policy.
    """
    naming = [
        pod for pod in sorted(pods, key=lambda each: age(each.metadata)) if keys.POLICY in pod.metadata.annotations
    ]
    if not naming:
        return None, ()
    (first, *others), at = decisive_pods(naming), annotation(keys.POLICY)
    name = first.metadata.annotations[keys.POLICY]
    advise_older(naming, (keys.POLICY,), "annotations", findings)
    for pod in others:
        other = pod.metadata.annotations[keys.POLICY]
        if other != name:
            problem = f'"{other}" differs from "{name}" of Pod {first.key}'
            findings.fault(pod_ref(pod), at, problem, "name one policy on all members")
    if not settings.there:
        return name, (f'{TITLE} with a policy "{name}"',)
    if settings.policy(name) is None:
        findings.fault(pod_ref(first), at, f'"{name}" is not a policy of {TITLE}', known_policies(settings))
    return name, ()


def known_policies(settings: Settings) -> str:
    """Return the remedy for an unknown topology policy: the list of known ones."""
    return f"its policies are {', '.join(each.name for each in settings.policies) or 'none'}"


def seats_of(pods: Sequence[Pod], set_of: Callable[[Pod], str], findings: Findings) -> list[Seat]:
    """Return the pods with their pod sets and with the ranks that users gave them.

    :param set_of: a function from a pod to the name of its pod set.
    """
    return [Seat(pod, set_of(pod), given_rank(pod, _rank_places(pod), findings)) for pod in pods]


def check_annotations(pods: Sequence[Pod], findings: Findings) -> None:
    """Report invalid roles and contradicting PodGroups as faults, and unknown annotations as advice."""
    for pod in pods:
        ref, annotations = pod_ref(pod), pod.metadata.annotations
        role = annotations.get(keys.ROLE)
        if role is not None and not _LABEL_VALUE.fullmatch(role):
            remedy = f"write {' or '.join(keys.ROLES)}, or another word of letters, digits and dashes"
            findings.fault(ref, annotation(keys.ROLE), f'"{role}" cannot name a pod set', remedy)
        elif role is not None and role not in keys.ROLES:
            text = f'"{role}" is a pod set of its own; the guide knows {" and ".join(keys.ROLES)}'
            findings.advise(ref, annotation(keys.ROLE), text)
        both = {annotations[key] for key in (keys.POD_GROUP, keys.POD_GROUP_NAME) if annotations.get(key)}
        if len(both) > 1:
            problem = f"differs from {annotation(keys.POD_GROUP)}"
            findings.fault(ref, annotation(keys.POD_GROUP_NAME), problem, "name one PodGroup")
        for key in annotations:
            if key.startswith(keys.PREFIX) and key not in keys.ON_PODS:
                findings.advise(ref, annotation(key), f"is ignored: the known ones are {', '.join(keys.ON_PODS)}")


def _rank_places(pod: Pod) -> tuple[tuple[str, dict[str, str], str], ...]:
    meta = pod.metadata
    return (
        ("metadata.annotations", meta.annotations, own.INDEX),
        ("metadata.labels", meta.labels, own.INDEX),
    )
