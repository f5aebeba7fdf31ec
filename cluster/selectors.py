"""Evaluates label selectors, node selectors and node affinities as the API server and the stock scheduler do.

Source of the rules: `k8s.io/apimachinery/pkg/labels` and `k8s.io/component-helpers/scheduling/corev1/nodeaffinity`.
"""

import re
from collections.abc import Iterable, Mapping

from kube.objects import LabelSelector, Node, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, Requirement

_INTEGER = re.compile(r"[+-]?[0-9]+")


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet one requirement of a selector. False for an unknown operator."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    """Whether a label's value meets a Gt or Lt requirement. False unless both sides are whole numbers."""
    if value is None or len(requirement.values) != 1:
        return False
    wanted = requirement.values[0]
    if not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(wanted):
        return False
    return int(value) > int(wanted) if requirement.operator == "Gt" else int(value) < int(wanted)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches the labels. None matches nothing, an empty selector everything."""
    if selector is None:
        return False
    if not selector.match_labels.items() <= labels.items():
        return False
    return all(requirement_holds(each, labels) for each in selector.match_expressions)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether the node meets all requirements of the term. A term without requirements matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(requirement_holds(each, node.metadata.labels) for each in term.match_expressions) and all(
        _field_holds(each, node) for each in term.match_fields
    )


def _field_holds(requirement: Requirement, node: Node) -> bool:
    """Whether the node meets a requirement of `matchFields`.

    As in Kubernetes, only the field `metadata.name` with the operators In and NotIn is supported.
    """
    if requirement.operator not in ("In", "NotIn"):
        return False
    fields = {"metadata.name": node.metadata.name}
    return requirement_holds(requirement, fields)


def node_selected(selector: NodeSelector, node: Node) -> bool:
    """Whether at least one term of the node selector matches the node."""
    return any(term_matches(each, node) for each in selector.node_selector_terms)


def wants_node(pod: Pod, node: Node) -> bool:
    """Whether the node meets the pod's `nodeSelector` and required node affinity."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity
    return affinity is None or affinity_allows(affinity.node_affinity, node)


def chooses(pod: Pod) -> bool:
    """Whether the pod has a `nodeSelector` or a required node affinity."""
    affinity = pod.spec.affinity
    return bool(pod.spec.node_selector) or (affinity is not None and requires(affinity.node_affinity))


def requires(affinity: NodeAffinity | None) -> bool:
    """Whether a node affinity has a required part."""
    return affinity is not None and affinity.required is not None


def affinity_allows(affinity: NodeAffinity | None, node: Node) -> bool:
    """Whether the node meets the required part of a node affinity. True if there is no such part."""
    return affinity is None or affinity.required is None or node_selected(affinity.required, node)


def weight(affinities: Iterable[NodeAffinity | None], node: Node) -> int:
    """Return the sum of the weights of the preferred terms of these node affinities that the node meets."""
    return sum(
        term.weight
        for affinity in affinities
        if affinity is not None
        for term in affinity.preferred
        if term_matches(term.preference, node)
    )
