"""Restrictions of pods to certain nodes that are not in the pods' specs, with the messages that explain them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube.objects import NodeSelector, NodeSelectorTerm, Requirement


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A restriction of pods to the nodes that `selector` selects. The gang's group object, a node pool or a flavor
    imposes it.

    `reason`: the message for a node that is not selected, in kube-scheduler's wording ("node(s) had no label rack").
    `lift`: the change that would allow the node, as the end of the sentence "would fit if …"; "" if there is none.
    """

    selector: NodeSelector
    reason: str
    lift: str = ""


def any_of(choices: Iterable[Sequence[Requirement]]) -> NodeSelector:
    """Return the selector of nodes that fulfil all requirements of at least one of these lists. No list is empty."""
    return NodeSelector(
        node_selector_terms=tuple(NodeSelectorTerm(match_expressions=tuple(choice)) for choice in choices)
    )


def labelled(label: str, value: str, reason: str, lift: str = "") -> NodeRule:
    """Return the rule that a node must carry this label with this value."""
    return NodeRule(any_of([[Requirement(key=label, operator="In", values=(value,))]]), reason, lift)
