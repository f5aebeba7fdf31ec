"""What keeps pods to certain nodes without standing in their specs, with the words to tell people of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube.objects import NodeSelector, NodeSelectorTerm, Requirement


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A rule about nodes that something other than the pods' own specs lays down: a group's scope, a pool, a flavor.

    `reason`: what is said of a node that it keeps out, as kube-scheduler would word it: "node(s) had no label rack".
    `lift`: the change after which it would let the node in, as the end of "would fit if"; "" where there is none.
    """

    selector: NodeSelector
    reason: str
    lift: str = ""


def any_of(choices: Iterable[Sequence[Requirement]]) -> NodeSelector:
    """The selector of nodes that fulfil one of several lists of requirements, none of them empty."""
    return NodeSelector(
        node_selector_terms=tuple(NodeSelectorTerm(match_expressions=tuple(choice)) for choice in choices)
    )


def labelled(label: str, value: str, reason: str, lift: str = "") -> NodeRule:
    """The rule that a node must carry a label with a value."""
    return NodeRule(any_of([[Requirement(key=label, operator="In", values=(value,))]]), reason, lift)
