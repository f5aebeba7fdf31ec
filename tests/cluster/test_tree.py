"""Nodes in a tree of domains."""

import pytest
from cluster_objects import node

from cluster.topology.tree import domains
from kube.objects import Node
from kube.topology import HOSTNAME_LABEL, Level, Topology, Unlabelled

NODE = Level("node", (HOSTNAME_LABEL,))


def topology(*levels: Level) -> Topology:
    return Topology("t", "Topology", (*levels, NODE))


TWO_LEVELS = topology(Level("block", ("block",)), Level("rack", ("rack",)))


def placed(name: str, block: str = "", rack: str = "") -> Node:
    return node(name, {key: value for key, value in (("block", block), ("rack", rack)) if value})


#            b2              b10             (outside)
#         ┌───┴───┐           │
#        r1      r2          r1              n7: no rack
#       ┌─┴─┐     │        ┌──┴──┐           n8: no block
#      n2  n10    n1       n3    n4
NODES = [
    placed("n10", "b2", "r1"),
    placed("n4", "b10", "r1"),
    placed("n1", "b2", "r2"),
    placed("n8", "", "r1"),
    placed("n2", "b2", "r1"),
    placed("n3", "b10", "r1"),
    placed("n7", "b2"),
]


def test_nodes_lie_where_their_labels_say_in_natural_order() -> None:
    tree = domains(TWO_LEVELS, NODES)
    assert list(tree.path_of.items()) == [
        ("n2", ("b2", "r1")),
        ("n10", ("b2", "r1")),
        ("n1", ("b2", "r2")),
        ("n3", ("b10", "r1")),
        ("n4", ("b10", "r1")),
    ]


def test_a_node_without_a_label_is_outside_and_the_label_is_named() -> None:
    assert domains(TWO_LEVELS, NODES).outside == {"n8": "block", "n7": "rack"}


def test_a_domain_is_its_whole_path() -> None:
    tree = domains(TWO_LEVELS, NODES)
    assert tree.paths(1) == (("b2", "r1"), ("b2", "r2"), ("b10", "r1"))
    assert tree.nodes_under(("b10", "r1")) == ("n3", "n4")


def test_nodes_are_counted_under_every_domain() -> None:
    assert domains(TWO_LEVELS, NODES).counts == {
        (): 5,
        ("b2",): 3,
        ("b2", "r1"): 2,
        ("b2", "r2"): 1,
        ("b10",): 2,
        ("b10", "r1"): 2,
    }


def test_the_last_level_is_the_nodes_themselves() -> None:
    tree = domains(TWO_LEVELS, NODES)
    assert tree.paths(2)[0] == ("b2", "r1", "n2")
    assert tree.nodes_under(("b2", "r1", "n2")) == ("n2",)


def test_the_order_does_not_depend_on_the_order_of_the_nodes() -> None:
    assert domains(TWO_LEVELS, NODES) == domains(TWO_LEVELS, NODES[::-1])
    assert list(domains(TWO_LEVELS, NODES).path_of) == list(domains(TWO_LEVELS, NODES[::-1]).path_of)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        (Unlabelled.OUTSIDE, None),
        (Unlabelled.OWN_DOMAIN, ("b1", "n1")),
        (Unlabelled.DEFAULT_DOMAIN, ("b1", "DefaultTopologyName")),
    ],
)
def test_an_unlabelled_node_follows_the_rule_of_the_level(rule: Unlabelled, path: tuple[str, ...] | None) -> None:
    levels = topology(Level("block", ("block",)), Level("rack", ("rack",), rule))
    assert domains(levels, [placed("n1", "b1")]).path_of.get("n1") == path


@pytest.mark.parametrize(
    ("labels", "domain"),
    [({"new": "a", "old": "b"}, "a"), ({"old": "b"}, "b"), ({"new": "", "old": "b"}, "b")],
)
def test_the_first_label_that_is_set_names_the_domain(labels: dict[str, str], domain: str) -> None:
    assert domains(topology(Level("rack", ("new", "old"))), [node("n1", labels)]).path_of == {"n1": (domain,)}


def test_a_topology_of_nodes_alone_has_one_empty_path() -> None:
    tree = domains(topology(), [node("n2"), node("n1")])
    assert tree.path_of == {"n1": (), "n2": ()}
    assert tree.paths(0) == (("n1",), ("n2",))
