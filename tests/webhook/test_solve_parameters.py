"""`POST /v1/solve` answers what-if questions, and refuses parameters that it does not know."""

import json
from typing import Any

import msgspec
import pytest
from function_calls import function_calls
from pictures import Manifest, StillPicture, node, pod, pod_group, topology

from cluster.api.token_reviews import Access
from cluster.capturing import snapshot_of
from kube.objects import Node
from planning.what_if import MOST_ADDED, WhatIf, added_nodes
from webhook.app import MOST_ADDED_HERE, create_app
from webhook.metrics import Metrics

HEADERS = {"Authorization": "Bearer any"}
GROUP = "pod-group.scheduling.sigs.k8s.io"


class Everybody:
    """An access check that allows every caller."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Always."""
        del token, verb, path
        return Access.ALLOWED


def gang(name: str, count: int) -> list[Manifest]:
    """A group and its pods of 4 cpu, of which two fit on a node."""
    return [pod_group(name, count), *(pod(f"{name}-{at}", labels={GROUP: name}) for at in range(count))]


def answer(query: str, *objects: Manifest) -> tuple[int, Any]:
    """Asked of two nodes where a gang of six waits."""
    group, *pods = gang("waits", 6)
    picture = StillPicture(
        [topology("rack"), group], nodes=[node(f"node-{at}", rack=f"r{at}") for at in (0, 1)], pods=pods
    )
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}) if objects else ""
    client = create_app(picture, Everybody(), Metrics()).test_client()
    response = client.post(f"/v1/solve?{query}", headers=HEADERS, data=body)
    return response.status_code, response.get_json()


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ("cluster=live", {"node-0", "node-1"}),
        ("cluster=live&cordon=node-0", set()),
        ("cluster=live&cordon=node-0&add-nodes=1%3Dnode-1", {"node-1", "node-1-more-1"}),
        ("cluster=live&drain=node-0,node-1&add-nodes=2=node-0", {"node-0-more-1", "node-0-more-2"}),
    ],
)
def test_the_cluster_is_as_it_would_be(query: str, nodes: set[str]) -> None:
    status, report = answer(query, *gang("asks", 4))
    (found,) = report["gangs"]
    assert (status, {each["node"] for each in found["assignments"]}) == (200, nodes)


def test_gangs_of_the_live_cluster_are_planned_too() -> None:
    status, report = answer("cluster=live&gang=default/waits&add-nodes=1=node-0")
    assert (status, [(each["name"], each["outcome"]) for each in report["gangs"]]) == (200, [("waits", "Placed")])


def test_why_here_is_said_where_it_is_asked() -> None:
    for why in ("false", "true"):
        _, report = answer(f"cluster=live&why={why}", *gang("asks", 1))
        assert ("whyHere" in report["gangs"][0]["explanation"]) == (why == "true")


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("cordom=node-0", "cordom is no parameter; there are add-nodes, cluster, cordon, drain, gang, preemption, "),
        ("preemption=no", "preemption is true or false"),
        ("why=1", "why is true or false"),
        ("cluster=live&cordon=nowhere", "no node nowhere"),
        ("add-nodes=node-0", "add-nodes: node-0: write COUNT=NODE, such as 4=node-5: 4 more nodes like node-5"),
        ("add-nodes=0=node-0", "add-nodes: 0=node-0: write COUNT=NODE, such as 4=node-5"),
        (
            f"add-nodes={MOST_ADDED_HERE}=a&add-nodes=1=b",
            f"add-nodes: 1=b: {MOST_ADDED_HERE} nodes can be added, all together; `phalanx solve --add-nodes` adds",
        ),
        ("gang=default/waits", "gang names a gang of the live cluster: add cluster=live"),
        ("cluster=live&gang=waits", "gang is written as NAMESPACE/GANG"),
    ],
)
def test_what_is_not_understood_is_refused(query: str, error: str) -> None:
    status, found = answer(query, *gang("asks", 1))
    assert (status, found["error"][: len(error)]) == (400, error)


@pytest.mark.parametrize("text", ["", "=a", "1=", "-1=a", "²=a", "1000000000000=a", "1.5=a"])
def test_a_count_is_a_number_of_nodes(text: str) -> None:
    with pytest.raises(ValueError, match="COUNT=NODE"):
        added_nodes([text])


def test_the_command_line_adds_more() -> None:
    assert added_nodes([f"{MOST_ADDED}=a"]) == {"a": MOST_ADDED}
    with pytest.raises(ValueError, match=rf"^1=b: {MOST_ADDED} nodes can be added, all together$"):
        added_nodes([f"{MOST_ADDED}=a", "1=b"])


def test_a_thousand_kinds_of_nodes_cost_what_one_kind_does() -> None:
    """A solve must not go through all nodes for each kind of node."""
    nodes = [msgspec.convert(node(f"n{at}"), Node) for at in range(10_000)]
    there = snapshot_of(nodes, [])

    def cost(what_if: WhatIf) -> int:
        return function_calls(lambda: what_if.snapshot(there))

    one, many = WhatIf({"n0": 1_000}), WhatIf({f"n{at}": 1 for at in range(1_000)})
    assert len(one.snapshot(there).nodes) == len(many.snapshot(there).nodes) == 11_000
    assert cost(many) < 3 * cost(one)
