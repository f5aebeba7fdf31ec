"""The annotations and labels of Run:ai on workloads and pods, and the checks of them that need no topology."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gangs.findings import Findings
from gangs.manifests import group_of, metadata_of
from gangs.model import Manifest, ObjectRef, PlacementRequest
from gangs.runai import keys
from gangs.topology.levels import LevelWish, Request, Settled, Span
from gangs.workloads import pod_templates
from gangs.workloads.annotations import annotation
from gangs.workloads.jobs import JOB_GROUP
from gangs.workloads.kind_table import has_rules
from gangs.workloads.pod_templates import Template
from kube import keys as own
from kube.node_rules import NodeRule, labelled
from kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, Requirement
from kube.topology import Topology

_OWN_WISHES = (own.GANG, own.REQUIRED, own.PREFERRED, own.MIN_MEMBER, own.TOPOLOGY)
_REMEDY = "write it on one of the two, or the same on both"


@dataclass(frozen=True, slots=True)
class Wish:
    """The value of an annotation, and its path, for messages."""

    field: str
    value: str


Wishes = Mapping[str, Wish]
"""By key of an annotation of Run:ai: its value and path."""


def asked_by(manifest: Manifest) -> dict[str, Wish]:
    """Return the annotations of Run:ai that apply to a whole workload. Raises `MalformedError`.

    For a Job they may be on the pod template, too. The annotations of the Job itself take precedence.
    """
    own = of(metadata_of(manifest).annotations)
    if not has_rules(manifest):
        return own
    on_pods = {key: wish for each in pod_templates.templates(manifest) for key, wish in of_template(each).items()}
    return {**on_pods, **own}


def of_template(template: Template) -> dict[str, Wish]:
    """Return the annotations of Run:ai on a pod template."""
    return of(template.annotations, f"{template.path}.")


def of(annotations: Mapping[str, str], at: str = "") -> dict[str, Wish]:
    """Return those annotations whose key begins with `kai.scheduler/`, by key, each with its path.

    :param at: the path of the part that has the metadata, ending with a dot; "" for the object itself.
    """
    return {key: Wish(annotation(key, at), value) for key, value in annotations.items() if key.startswith(keys.PREFIX)}


def of_pod(pod: Pod) -> dict[str, Wish]:
    """Return the annotations of Run:ai on a pod."""
    return of(pod.metadata.annotations)


def propagated_to_templates(manifest: Manifest) -> bool:
    """Whether all pod templates of a workload have the workload's own annotations of Run:ai. Raises `MalformedError`.

    The result is False for a workload without pod templates.
    """
    own = {key: text for key, text in metadata_of(manifest).annotations.items() if key in keys.WISHES}
    templates = pod_templates.templates(manifest)
    return bool(templates) and all(each.annotations.items() >= own.items() for each in templates)


def value_of(wishes: Wishes, key: str) -> str | None:
    """Return the value of an annotation; None if it is absent."""
    return wishes[key].value if key in wishes else None


def level(wishes: Wishes, key: str) -> LevelWish | None:
    """Return the level that an annotation names, with its path; None if it is absent."""
    return LevelWish(wishes[key].field, wishes[key].value) if key in wishes else None


def span_of(wishes: Wishes) -> Span:
    """Return the required and the preferred level. The preferred one must not be the wider one."""
    return Span(level(wishes, keys.REQUIRED), level(wishes, keys.PREFERRED))


def opted_in(wishes: Wishes) -> bool:
    """Whether annotations of Run:ai ask for a gang: one of `keys.WISHES` is enough.

    They do not if the annotation `skip-podgrouper` is "true".
    """
    skipped = keys.SKIP in wishes and wishes[keys.SKIP].value == "true"
    return not skipped and any(key in wishes for key in keys.WISHES)


def request_of(ref: ObjectRef, wishes: Wishes, pod: Pod) -> Request:
    """Return the topology and levels that annotations name, each with the path of its annotation (`levels.Request`).

    :param ref: the object with the annotations.
    :param pod: an example of the gang's pods.
    """
    span, topology = span_of(wishes), wishes.get(keys.TOPOLOGY)
    return Request(
        ref=ref,
        topology_field=topology.field if topology else annotation(keys.TOPOLOGY),
        topology=topology.value if topology else None,
        kind=keys.TOPOLOGY_KIND,
        levels=tuple(each for each in (span.required, span.preferred) if each is not None),
        spans=(span,),
        pods=(pod,),
    )


def in_pool(pod: Pod, pool: str | None) -> Pod:
    """Return the pod with a node selector for a node pool; unchanged if `pool` is None.

    As in KAI Scheduler, a pod with a node pool must run on nodes of this pool.
    """
    if pool is None:
        return pod
    selector = {**pod.spec.node_selector, keys.NODE_POOL: pool}
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_selector=selector))


def affinity_to(pool: str | None) -> NodeAffinity | None:
    """Return the node affinity that requires nodes of a node pool; None if `pool` is None."""
    if pool is None:
        return None
    term = NodeSelectorTerm(match_expressions=(Requirement(key=keys.NODE_POOL, operator="In", values=(pool,)),))
    return NodeAffinity(required=NodeSelector(node_selector_terms=(term,)))


def placement(wishes: Wishes, settled: Settled, pool: str | None) -> PlacementRequest:
    """Return the placement request that results from annotations and a node pool.

    :param settled: the topology that was chosen for the gang. It is used if the annotations name none.
    :param pool: the node pool; None for none.
    """
    return PlacementRequest(
        topology=value_of(wishes, keys.TOPOLOGY) or (settled.topology.name if settled.topology else None),
        topology_kind=keys.TOPOLOGY_KIND,
        required=value_of(wishes, keys.REQUIRED),
        preferred=value_of(wishes, keys.PREFERRED),
        node_affinity=affinity_to(pool),
        node_rules=rules_of(pool),
    )


def rules_of(pool: str | None) -> tuple[NodeRule, ...]:
    """Return the rule that nodes must be in a node pool, with its message, in a tuple; empty if `pool` is None."""
    if pool is None:
        return ()
    reason = f"node(s) were not in node pool {pool} ({keys.NODE_POOL})"
    return (labelled(keys.NODE_POOL, pool, reason, f"label {keys.NODE_POOL}: {pool} left out"),)


def check_alike(
    ref: ObjectRef, own_words: Mapping[str, str], on_pods: Mapping[str, str], at: str, findings: Findings
) -> None:
    """Report annotations of a pod template that differ from the workload's.

    For a workload other than a Job, annotations that only the template has are reported, too.

    :param own_words: the annotations of the workload.
    :param on_pods: the annotations of the template.
    :param at: the path of the template, ending with a dot.
    """
    for key in keys.WISHES:
        if on_pods.get(key) in (None, own_words.get(key)):
            continue
        if key in own_words:
            problem = f'"{on_pods[key]}" differs from "{own_words[key]}" on the {ref.kind}'
            findings.fault(ref, annotation(key, at), problem, _REMEDY)
        elif group_of(ref.api_version) != JOB_GROUP:
            problem = f"is not read here, since the {ref.kind} itself asks to be a gang"
            findings.fault(ref, annotation(key, at), problem, f"write it on the {ref.kind} itself, or leave it out")


def check_rivals(ref: ObjectRef, annotations: Mapping[str, str], findings: Findings) -> bool:
    """Report a workload with annotations of both Run:ai and Phalanx that ask for a gang.

    Return True if no annotation of Phalanx asks for a gang, so that nothing is reported.
    """
    rivals = [key for key in _OWN_WISHES if key in annotations and annotations.get(own.GANG) != "false"]
    for key in rivals:
        problem = "asks for the gang that annotations of kai.scheduler ask for already"
        findings.fault(ref, annotation(key), problem, "keep the annotations of one of the two")
    return not rivals


def check_keys(ref: ObjectRef, wishes: Wishes, no_segments: str, remedy: str, findings: Findings) -> None:
    """Report annotations of Run:ai with an empty value, and those that are unknown or have no effect.

    Segment annotations (`gangs.runai.segments`), which only some pod templates may have, are reported as faults on all
    other objects.

    :param no_segments: why the object cannot have segment annotations, as the problem of a fault; "" if it can.
    :param remedy: the remedy of this fault.
    """
    for key in (keys.TOPOLOGY, keys.REQUIRED, keys.PREFERRED):
        if key in wishes and not wishes[key].value:
            findings.fault(ref, wishes[key].field, "is empty", "write a name, or leave it out")
    for key, wish in wishes.items():
        if key in keys.SEGMENTS:
            if no_segments:
                findings.fault(ref, wish.field, no_segments, remedy)
        elif key in keys.WITHOUT_EFFECT:
            findings.advise(
                ref, wish.field, "is not honoured: victims go when the gang is placed, a gang that runs stays"
            )
        elif key not in (*keys.WISHES, keys.SKIP):
            known = ", ".join((*keys.WISHES, keys.SKIP))
            findings.advise(ref, wish.field, f"is ignored: the known annotations are {known}")


def check_order(ref: ObjectRef, wishes: Wishes, topology: Topology, findings: Findings) -> None:
    """Report a preferred level that equals the required one, so that it has no effect.

    A wider preferred level is reported by `levels.check_span`.
    """
    if keys.REQUIRED not in wishes or keys.PREFERRED not in wishes:
        return
    required, preferred = wishes[keys.REQUIRED], wishes[keys.PREFERRED]
    position = topology.find(required.value)
    if position is None or topology.find(preferred.value) != position:
        return
    problem = f'"{preferred.value}" is the required level "{required.value}" itself'
    below = topology.levels[position + 1 : position + 2]
    remedy = f"prefer a level below it, such as {below[0].name}, or leave it out" if below else "leave it out"
    findings.fault(ref, preferred.field, problem, remedy)


def advise_labels(ref: ObjectRef, at: str, labels: Mapping[str, str], findings: Findings) -> None:
    """Report, as advice, labels of Run:ai that have no effect in Phalanx.

    :param at: the path of the part that has the metadata, ending with a dot; "" for the object itself.
    """
    if keys.PREEMPTIBILITY in labels:
        text = "is not honoured: pods of a lower priority class may be victims, others never"
        findings.advise(ref, f"{at}metadata.labels[{keys.PREEMPTIBILITY}]", text)
    if keys.TASK_PRIORITY in labels:
        text = "is not honoured: members go by their completion index, or by name"
        findings.advise(ref, f"{at}metadata.labels[{keys.TASK_PRIORITY}]", text)
    if "priorityClassName" in labels:
        text = "is not honoured: write spec.template.spec.priorityClassName"
        findings.advise(ref, f"{at}metadata.labels[priorityClassName]", text)
