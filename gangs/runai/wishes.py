"""The annotations and labels of Run:ai on workloads and pods, and their faults without regard to topologies."""

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
    """The value of a key, and the field that holds it."""

    field: str
    value: str


Wishes = Mapping[str, Wish]


def asked_by(manifest: Manifest) -> dict[str, Wish]:
    """Return the annotations of Run:ai that hold for a whole workload. Raises `MalformedError`.

    For a kind with rules in code they may be on the pod template, too. The workload's own take precedence.
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
    """Return the annotations of Run:ai among these. `at`: the path before `metadata`, ending with a dot."""
    return {key: Wish(annotation(key, at), value) for key, value in annotations.items() if key.startswith(keys.PREFIX)}


def of_pod(pod: Pod) -> dict[str, Wish]:
    """The annotations of Run:ai that a pod carries."""
    return of(pod.metadata.annotations)


def propagated_to_templates(manifest: Manifest) -> bool:
    """Whether all templates of a workload carry the workload's own annotations. Raises `MalformedError`."""
    own = {key: text for key, text in metadata_of(manifest).annotations.items() if key in keys.WISHES}
    templates = pod_templates.templates(manifest)
    return bool(templates) and all(each.annotations.items() >= own.items() for each in templates)


def value_of(wishes: Wishes, key: str) -> str | None:
    """Return the value of a key; None if it is absent."""
    return wishes[key].value if key in wishes else None


def level(wishes: Wishes, key: str) -> LevelWish | None:
    """Return the level that a key names; None if it is absent."""
    return LevelWish(wishes[key].field, wishes[key].value) if key in wishes else None


def span_of(wishes: Wishes) -> Span:
    """Return the required and the preferred level, which must agree."""
    return Span(level(wishes, keys.REQUIRED), level(wishes, keys.PREFERRED))


def opted_in(wishes: Wishes) -> bool:
    """Whether a Job, or a pod, asks for a gang."""
    skipped = keys.SKIP in wishes and wishes[keys.SKIP].value == "true"
    return not skipped and any(key in wishes for key in keys.WISHES)


def request_of(ref: ObjectRef, wishes: Wishes, pod: Pod) -> Request:
    """Topology and levels that are named, with their fields. `pod`: one as the Job makes them."""
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
    """The pod with the node pool of its label as a node selector: KAI Scheduler keeps it to the nodes of that pool."""
    if pool is None:
        return pod
    selector = {**pod.spec.node_selector, keys.NODE_POOL: pool}
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_selector=selector))


def affinity_to(pool: str | None) -> NodeAffinity | None:
    """Return the required node affinity to a node pool; None without a pool."""
    if pool is None:
        return None
    term = NodeSelectorTerm(match_expressions=(Requirement(key=keys.NODE_POOL, operator="In", values=(pool,)),))
    return NodeAffinity(required=NodeSelector(node_selector_terms=(term,)))


def placement(wishes: Wishes, settled: Settled, pool: str | None) -> PlacementRequest:
    """Return the placement request of these annotations, with the settled topology if they name none."""
    return PlacementRequest(
        topology=value_of(wishes, keys.TOPOLOGY) or (settled.topology.name if settled.topology else None),
        topology_kind=keys.TOPOLOGY_KIND,
        required=value_of(wishes, keys.REQUIRED),
        preferred=value_of(wishes, keys.PREFERRED),
        node_affinity=affinity_to(pool),
        node_rules=rules_of(pool),
    )


def rules_of(pool: str | None) -> tuple[NodeRule, ...]:
    """Return the rule of a node pool with its explanation; empty without a pool."""
    if pool is None:
        return ()
    reason = f"node(s) were not in node pool {pool} ({keys.NODE_POOL})"
    return (labelled(keys.NODE_POOL, pool, reason, f"label {keys.NODE_POOL}: {pool} left out"),)


def check_alike(
    ref: ObjectRef, own_words: Mapping[str, str], on_pods: Mapping[str, str], at: str, findings: Findings
) -> None:
    """Report annotations of a pod template that differ from the workload's. For a workload other than a Job, also
    report annotations that only the template has. `at`: the path of the template.
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
    """Report annotations of Phalanx beside annotations of Run:ai. Return whether there are none."""
    rivals = [key for key in _OWN_WISHES if key in annotations and annotations.get(own.GANG) != "false"]
    for key in rivals:
        problem = "asks for the gang that annotations of kai.scheduler ask for already"
        findings.fault(ref, annotation(key), problem, "keep the annotations of one of the two")
    return not rivals


def check_keys(ref: ObjectRef, wishes: Wishes, no_segments: str, remedy: str, findings: Findings) -> None:
    """Report empty names and keys that are not read.

    `no_segments`, `remedy`: why the workload cannot have segments, and the remedy; "" if it can.
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
    """Report a preferred level that equals the required one. It must be narrower. `check_span` reports a wider one."""
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
    """Warn of labels that have no effect. `at`: the path before `metadata`, ending with a dot."""
    if keys.PREEMPTIBILITY in labels:
        text = "is not honoured: pods of a lower priority class may be victims, others never"
        findings.advise(ref, f"{at}metadata.labels[{keys.PREEMPTIBILITY}]", text)
    if keys.TASK_PRIORITY in labels:
        text = "is not honoured: members go by their completion index, or by name"
        findings.advise(ref, f"{at}metadata.labels[{keys.TASK_PRIORITY}]", text)
    if "priorityClassName" in labels:
        text = "is not honoured: write spec.template.spec.priorityClassName"
        findings.advise(ref, f"{at}metadata.labels[priorityClassName]", text)
