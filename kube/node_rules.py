"""Rules outside of pods' specs that restrict pods to certain nodes, with the texts that explain them to users."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube.objects import NodeSelector, NodeSelectorTerm, Requirement


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A rule about nodes that does not come from the pods' own specs, but from a group's scope, a pool or a flavor.

    `reason`: the message for an excluded node, in kube-scheduler's wording, such as "node(s) had no label rack".
    `lift`: the change that would allow the node, as the end of "would fit if"; "" if there is none.
    """

    selector: NodeSelector
    reason: str
    lift: str = ""


def any_of(choices: Iterable[Sequence[Requirement]]) -> NodeSelector:
    """Return the selector of nodes that fulfil at least one of several non-empty lists of requirements."""
    return NodeSelector(
        node_selector_terms=tuple(NodeSelectorTerm(match_expressions=tuple(choice)) for choice in choices)
    )


def labelled(label: str, value: str, reason: str, lift: str = "") -> NodeRule:
    """Return the rule that a node must carry this label with this value."""
    return NodeRule(any_of([[Requirement(key=label, operator="In", values=(value,))]]), reason, lift)
