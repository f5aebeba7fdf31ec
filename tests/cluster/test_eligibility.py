"""Which nodes a pod may use: one row for every reason that the stock scheduler has, and for its limits."""

from typing import Any

import pytest
from cluster_objects import apart, expression, near, node, pod, required_nodes, spread

from cluster.capturing import snapshot_of
from cluster.eligibility.nodes import Eligibility, exclusion, preference
from kube.objects import Node, NodeAffinity, Pod

UNSCHEDULABLE = "node(s) were unschedulable"
NOT_READY = "node(s) were not ready"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
GANG = "node(s) didn't match the Gang's nodeAffinity"
PORTS = "node(s) didn't have free ports for the requested pod ports"
NEAR = "node(s) didn't match pod affinity rules"
APART = "node(s) didn't match pod anti-affinity rules"
KEPT_OFF = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
ELIGIBLE = ""


def reason(asked: Pod, where: Node, *others: Node, pods: tuple[Pod, ...] = (), **options: Any) -> str:
    snapshot = snapshot_of([where, *others], pods, **{k: options.pop(k) for k in ("namespaces",) if k in options})
    state = next(each for each in snapshot.nodes if each.name == where.metadata.name)
    return Eligibility(asked, snapshot, **options).exclusion(state)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


def tolerates(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [toleration]}


def untolerated(taint: str) -> str:
    return f"node(s) had untolerated taint {{{taint}}}"


NO_GPU = untolerated("gpu: yes")
CORDONED = node("n", unschedulable=True)
TAINTED = node("n", taints=[taint("gpu", "yes")])
EVICTING = node("n", taints=[taint("gpu", "yes", "NoExecute")])
SMALL = node("n", taints=[taint("memory", "9")])
TWICE = node("n", taints=[taint("a"), taint("b")])
AVOIDED = node("n", taints=[taint("gpu", "yes", "PreferNoSchedule")])


@pytest.mark.parametrize(
    ("where", "spec", "expected"),
    [
        (CORDONED, {}, UNSCHEDULABLE),
        (CORDONED, tolerates(key="node.kubernetes.io/unschedulable", operator="Exists"), ELIGIBLE),
        (CORDONED, tolerates(key="node.kubernetes.io/unschedulable"), ELIGIBLE),
        (TAINTED, {}, NO_GPU),
        (EVICTING, {}, NO_GPU),
        (AVOIDED, {}, ELIGIBLE),
        (TAINTED, tolerates(key="gpu", value="yes"), ELIGIBLE),
        (TAINTED, tolerates(key="gpu", value="no"), NO_GPU),
        (TAINTED, tolerates(key="gpu", operator="Exists"), ELIGIBLE),
        (TAINTED, tolerates(operator="Exists"), ELIGIBLE),
        (TAINTED, tolerates(key="other", operator="Exists"), NO_GPU),
        (TAINTED, tolerates(key="gpu", operator="Exists", effect="NoSchedule"), ELIGIBLE),
        (EVICTING, tolerates(key="gpu", operator="Exists", effect="NoSchedule"), NO_GPU),
        (SMALL, tolerates(key="memory", operator="Gt", value="5"), untolerated("memory: 9")),
        (TWICE, tolerates(key="a", operator="Exists"), untolerated("b: ")),
        (node("n", conditions=[{"type": "Ready", "status": "False"}]), {}, NOT_READY),
        (node("n", conditions=[{"type": "Ready", "status": "Unknown"}]), {}, NOT_READY),
        (node("n", conditions=[{"type": "Ready", "status": "True"}]), {}, ELIGIBLE),
        (node("n", conditions=[{"type": "MemoryPressure", "status": "False"}]), {}, ELIGIBLE),
        (node("n"), {}, ELIGIBLE),
    ],
)  # fmt: skip
def test_the_state_of_the_node_decides(where: Node, spec: dict[str, Any], expected: str) -> None:
    assert reason(pod(**spec), where) == expected


DOWN = [{"type": "Ready", "status": "Unknown"}]
UNREACHABLE = [taint("node.kubernetes.io/unreachable"), taint("node.kubernetes.io/unreachable", effect="NoExecute")]


@pytest.mark.parametrize(
    ("where", "spec", "change"),
    [
        (TAINTED, {}, "taint {gpu: yes} tolerated"),
        (node("n", taints=[taint("gpu", "yes"), taint("gpu", "yes", "NoExecute")]), {}, "taint {gpu: yes} tolerated"),
        (TWICE, {}, ""),
        (TWICE, tolerates(key="a", operator="Exists"), "taint {b: } tolerated"),
        (TAINTED, {"nodeSelector": {"zone": "a"}}, ""),
        (node("n"), {"nodeSelector": {"zone": "a"}}, "node affinity/selector dropped"),
        (CORDONED, {}, "cordon lifted"),
        (node("n", unschedulable=True, taints=[taint("node.kubernetes.io/unschedulable")]), {}, "cordon lifted"),
        (node("n", unschedulable=True, taints=[taint("gpu", "yes")]), {}, ""),
        (node("n", conditions=DOWN), {}, "readiness restored"),
        (node("n", conditions=DOWN, taints=UNREACHABLE), {}, "readiness restored"),
        (node("n", taints=UNREACHABLE), {}, "taint {node.kubernetes.io/unreachable: } tolerated"),
        (node("n", conditions=DOWN, taints=[taint("gpu", "yes")]), {}, ""),
    ],
)  # fmt: skip
def test_one_change_opens_a_node_where_only_one_thing_speaks_against_it(
    where: Node, spec: dict[str, Any], change: str
) -> None:
    snapshot = snapshot_of([where], ())
    assert Eligibility(pod(**spec), snapshot).lift(snapshot.nodes[0]) == change


def test_what_the_pods_there_forbid_is_a_thing_that_speaks_against_a_node() -> None:
    there = pod("there", nodeName="n", containers=port(80))
    asked = pod(containers=port(80))
    plain, tainted = snapshot_of([node("n")], [there]), snapshot_of([TAINTED], [there])
    assert Eligibility(asked, plain).lift(plain.nodes[0]) == f'without "{PORTS}"'
    assert Eligibility(asked, tainted).lift(tainted.nodes[0]) == ""


THIS_NODE = expression("metadata.name", "In", "n1")
LABELLED = node("n1", {"zone": "a", "generation": "7"})


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        ({"matchExpressions": [expression("zone", "In", "a", "b")]}, True),
        ({"matchExpressions": [expression("zone", "In", "b")]}, False),
        ({"matchExpressions": [expression("rack", "In", "b")]}, False),
        ({"matchExpressions": [expression("zone", "NotIn", "b")]}, True),
        ({"matchExpressions": [expression("zone", "NotIn", "a")]}, False),
        ({"matchExpressions": [expression("rack", "NotIn", "a")]}, True),
        ({"matchExpressions": [expression("zone", "Exists")]}, True),
        ({"matchExpressions": [expression("rack", "Exists")]}, False),
        ({"matchExpressions": [expression("zone", "DoesNotExist")]}, False),
        ({"matchExpressions": [expression("rack", "DoesNotExist")]}, True),
        ({"matchExpressions": [expression("generation", "Gt", "6")]}, True),
        ({"matchExpressions": [expression("generation", "Gt", "7")]}, False),
        ({"matchExpressions": [expression("generation", "Lt", "8")]}, True),
        ({"matchExpressions": [expression("zone", "Gt", "1")]}, False),
        ({"matchExpressions": [expression("generation", "Gt", "x")]}, False),
        ({"matchExpressions": [expression("rack", "Lt", "1")]}, False),
        ({"matchExpressions": [expression("zone", "Near", "a")]}, False),
        ({"matchExpressions": [expression("zone", "In", "a"), expression("rack", "Exists")]}, False),
        ({"matchFields": [expression("metadata.name", "In", "n1")]}, True),
        ({"matchFields": [expression("metadata.name", "In", "n2")]}, False),
        ({"matchFields": [expression("metadata.name", "NotIn", "n1")]}, False),
        ({"matchFields": [expression("metadata.name", "NotIn", "n2")]}, True),
        ({"matchFields": [expression("metadata.name", "Exists")]}, False),
        ({"matchFields": [THIS_NODE], "matchExpressions": [expression("zone", "In", "b")]}, False),
        ({"matchFields": [THIS_NODE], "matchExpressions": [expression("zone", "In", "a")]}, True),
        ({}, False),
    ],
)  # fmt: skip
def test_a_node_selector_term_is_read_as_the_api_defines_it(term: dict[str, Any], matches: bool) -> None:  # noqa: FBT001 - a column of the table
    assert reason(pod(affinity=required_nodes(term)), LABELLED) == (ELIGIBLE if matches else AFFINITY)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"zone": "a"}}, ELIGIBLE),
        ({"nodeSelector": {"zone": "b"}}, AFFINITY),
        ({"nodeSelector": {"zone": "a", "rack": "r"}}, AFFINITY),
        ({"affinity": required_nodes()}, AFFINITY),
        (
            {"affinity": required_nodes({}, {"matchExpressions": [expression("zone", "In", "a")]})},
            ELIGIBLE,
        ),
        (
            {
                "nodeSelector": {"zone": "b"},
                "affinity": required_nodes({"matchExpressions": [expression("zone", "In", "a")]}),
            },
            AFFINITY,
        ),
    ],
)
def test_selector_and_one_of_the_terms_must_match(spec: dict[str, Any], expected: str) -> None:
    assert reason(pod(**spec), LABELLED) == expected


def port(number: int, protocol: str = "TCP", address: str = "") -> list[dict[str, Any]]:
    return [{"name": "c", "ports": [{"hostPort": number, "protocol": protocol, "hostIP": address}]}]


@pytest.mark.parametrize(
    ("wanted", "taken", "expected"),
    [
        (port(80), port(80), PORTS),
        (port(80), port(81), ELIGIBLE),
        (port(80), port(80, "UDP"), ELIGIBLE),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.2"), ELIGIBLE),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.1"), PORTS),
        (port(80, address="10.0.0.1"), port(80), PORTS),
        (port(80), port(80, address="10.0.0.1"), PORTS),
        (port(0), port(0), ELIGIBLE),
    ],
)
def test_a_host_port_is_taken_once(wanted: list[dict[str, Any]], taken: list[dict[str, Any]], expected: str) -> None:
    there = pod("there", nodeName="n", containers=taken)
    assert reason(pod(containers=wanted), node("n"), pods=(there,)) == expected


def test_ports_of_the_host_network_are_host_ports() -> None:
    containers = [{"name": "c", "ports": [{"containerPort": 80}]}]
    there = pod("there", nodeName="n", containers=port(80))
    assert reason(pod(hostNetwork=True, containers=containers), node("n"), pods=(there,)) == PORTS
    assert reason(pod(containers=containers), node("n"), pods=(there,)) == ELIGIBLE


def test_sidecars_have_ports_and_init_containers_do_not() -> None:
    there = pod("there", nodeName="n", containers=port(80))
    init = {**port(80)[0], "name": "init"}
    assert reason(pod(initContainers=[init]), node("n"), pods=(there,)) == ELIGIBLE
    assert reason(pod(initContainers=[{**init, "restartPolicy": "Always"}]), node("n"), pods=(there,)) == PORTS


#     zone a        zone b      no zone
#    ┌──┴──┐          │            │
#   a1     a2        b1           n0
A1, A2 = node("a1", {"zone": "a"}), node("a2", {"zone": "a"})
B1, N0 = node("b1", {"zone": "b"}), node("n0")
ALL = (A1, A2, B1, N0)


def where(asked: Pod, *pods: Pod, **options: Any) -> dict[str, str]:
    snapshot = snapshot_of(ALL, pods, **{k: options.pop(k) for k in ("namespaces",) if k in options})
    eligible = Eligibility(asked, snapshot, **options)
    return {state.name: eligible.exclusion(state) for state in snapshot.nodes}


def running(app: str, on: str, **more: Any) -> Pod:
    metadata = {"namespace": more.pop("namespace", "default"), **more.pop("metadata", {})}
    return pod(f"{app}-{on}", {"app": app}, nodeName=on, metadata=metadata, **more)


def test_affinity_keeps_a_pod_to_the_domains_where_the_others_are() -> None:
    assert where(pod(affinity=near("db", "zone")), running("db", "a1")) == {
        "a1": ELIGIBLE,
        "a2": ELIGIBLE,
        "b1": NEAR,
        "n0": NEAR,
    }


def test_affinity_to_nobody_there_closes_every_node() -> None:
    assert set(where(pod(affinity=near("db", "zone"))).values()) == {NEAR}


def test_the_first_of_pods_that_want_one_another_may_start_anywhere_with_the_label() -> None:
    first = pod(labels={"app": "db"}, affinity=near("db", "zone"))
    assert where(first) == {"a1": ELIGIBLE, "a2": ELIGIBLE, "b1": ELIGIBLE, "n0": NEAR}


def test_the_second_of_them_follows_the_first() -> None:
    second = pod(labels={"app": "db"}, affinity=near("db", "zone"))
    assert where(second, running("db", "b1"))["a1"] == NEAR


def test_one_pod_must_match_all_affinity_terms() -> None:
    one, two = near("db", "zone")["podAffinity"], near("web", "zone")["podAffinity"]
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    both = pod(affinity={"podAffinity": {key: one[key] + two[key]}})
    assert set(where(both, running("db", "a1"), running("web", "a2")).values()) == {NEAR}


def test_anti_affinity_closes_the_domains_where_the_others_are() -> None:
    assert where(pod(affinity=apart("db", "zone")), running("db", "a1")) == {
        "a1": APART,
        "a2": APART,
        "b1": ELIGIBLE,
        "n0": ELIGIBLE,
    }


def test_anti_affinity_of_the_pods_there_keeps_a_newcomer_off() -> None:
    shy = running("db", "a1", affinity=apart("web", "zone"))
    assert where(pod(labels={"app": "web"}), shy) == {"a1": KEPT_OFF, "a2": KEPT_OFF, "b1": ELIGIBLE, "n0": ELIGIBLE}
    assert set(where(pod(labels={"app": "other"}), shy).values()) == {ELIGIBLE}


LABELS_OF_NAMESPACES = {"default": {}, "team": {"owner": "x"}}


@pytest.mark.parametrize(
    ("scope", "namespace", "expected"),
    [
        ({}, "default", APART),
        ({}, "team", ELIGIBLE),
        ({"namespaces": ["team"]}, "team", APART),
        ({"namespaces": ["team"]}, "default", ELIGIBLE),
        ({"namespaceSelector": {}}, "team", APART),
        ({"namespaceSelector": {"matchLabels": {"owner": "x"}}}, "team", APART),
        ({"namespaceSelector": {"matchLabels": {"owner": "x"}}}, "default", ELIGIBLE),
        ({"namespaceSelector": {"matchLabels": {"owner": "x"}}, "namespaces": ["default"]}, "default", APART),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "unseen"}}}, "unseen", APART),
    ],
)
def test_a_term_speaks_of_the_namespaces_it_names(scope: dict[str, Any], namespace: str, expected: str) -> None:
    there = running("db", "a1", namespace=namespace)
    found = where(pod(affinity=apart("db", "zone", **scope)), there, namespaces=LABELS_OF_NAMESPACES)
    assert found["a1"] == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"matchLabelKeys": ["run"]}, {"old": ELIGIBLE, "new": APART}),
        ({"mismatchLabelKeys": ["run"]}, {"old": APART, "new": ELIGIBLE}),
        ({"matchLabelKeys": ["none"]}, {"old": APART, "new": APART}),
    ],
)
def test_label_keys_narrow_a_term_to_pods_like_or_unlike_this_one(
    keys: dict[str, Any], expected: dict[str, str]
) -> None:
    asked = pod(labels={"run": "new"}, affinity=apart("db", "zone", **keys))
    for run, result in expected.items():
        there = pod("there", {"app": "db", "run": run}, nodeName="a1")
        assert where(asked, there)["a1"] == result


def test_spread_closes_the_domains_that_are_ahead() -> None:
    asked = pod(labels={"app": "web"}, topologySpreadConstraints=spread("web", "zone"))
    assert where(asked, running("web", "a1")) == {"a1": SPREAD, "a2": SPREAD, "b1": ELIGIBLE, "n0": SPREAD_LABEL}


@pytest.mark.parametrize(
    ("labels", "constraint", "expected"),
    [
        ({"app": "web"}, spread("web", "zone", 2), ELIGIBLE),
        ({}, spread("web", "zone", 1), ELIGIBLE),
        ({"app": "web"}, spread("web", "zone", 1, minDomains=3), SPREAD),
        ({"app": "web"}, spread("web", "zone", 1, whenUnsatisfiable="ScheduleAnyway"), ELIGIBLE),
        ({"app": "web", "run": "new"}, spread("web", "zone", 1, matchLabelKeys=["run"]), ELIGIBLE),
        ({"app": "web"}, spread("web", "zone", 1, labelSelector={}), ELIGIBLE),
    ],
    ids=["a wider skew", "not counted itself", "few domains", "a soft one", "another revision", "an empty selector"],
)
def test_spread_counts_as_the_stock_scheduler_does(
    labels: dict[str, str], constraint: list[dict[str, Any]], expected: str
) -> None:
    asked = pod(labels=labels, topologySpreadConstraints=constraint)
    assert where(asked, running("web", "a1"))["a1"] == expected


def test_spread_ignores_domains_that_the_pod_cannot_use_unless_told_otherwise() -> None:
    only_a: dict[str, Any] = {"labels": {"app": "web"}, "nodeSelector": {"zone": "a"}}
    honoured = pod(**only_a, topologySpreadConstraints=spread("web", "zone"))
    ignored = pod(**only_a, topologySpreadConstraints=spread("web", "zone", nodeAffinityPolicy="Ignore"))
    assert where(honoured, running("web", "a1"))["a1"] == ELIGIBLE
    assert where(ignored, running("web", "a1"))["a1"] == SPREAD


def test_tainted_domains_count_for_spread_unless_taints_are_honoured() -> None:
    tainted = node("b1", {"zone": "b"}, taints=[taint("x")])
    counted = pod(labels={"app": "web"}, topologySpreadConstraints=spread("web", "zone"))
    honoured = pod(labels={"app": "web"}, topologySpreadConstraints=spread("web", "zone", nodeTaintsPolicy="Honor"))
    assert reason(counted, A1, tainted, pods=(running("web", "a1"),)) == SPREAD
    assert reason(honoured, A1, tainted, pods=(running("web", "a1"),)) == ELIGIBLE


LEAVING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


def test_a_pod_on_its_way_out_counts_as_gone_until_the_last_check() -> None:
    there = running("db", "a1", **LEAVING, containers=port(80))
    asked = pod(affinity=apart("db", "zone"), containers=port(80))
    assert where(asked, there)["a1"] == ELIGIBLE
    assert where(asked, there, until_gone=True)["a1"] == PORTS
    assert where(asked, there, until_gone=True)["a2"] == APART


@pytest.mark.parametrize(("priority", "expected"), [(1, ELIGIBLE), (5, APART), (9, APART)])
def test_a_reservation_of_lower_priority_does_not_stand_in_the_way(priority: int, expected: str) -> None:
    gated = [{"name": "phalanx.dev/gang"}]
    status = {"nominatedNodeName": "a1"}
    held = pod("held", {"app": "db"}, priority=priority, schedulingGates=gated, status=status)
    assert where(pod(priority=5, affinity=apart("db", "zone")), held)["a1"] == expected


def test_members_being_planned_do_not_stand_in_each_others_way() -> None:
    own = running("db", "a1", metadata={"uid": "u1"})
    asked = pod(affinity=apart("db", "zone"))
    assert where(asked, own, ignoring={"u1"})["a1"] == ELIGIBLE
    assert where(asked, own, ignoring={"default/db-a1"})["a1"] == ELIGIBLE
    assert where(asked, own, ignoring={"u2"})["a1"] == APART


def test_a_node_affinity_of_the_gang_holds_beside_the_pods_own() -> None:
    also = NodeAffinity(required=_selector("zone", "a"))
    assert where(pod(), also=also) == {"a1": ELIGIBLE, "a2": ELIGIBLE, "b1": GANG, "n0": GANG}
    assert set(where(pod(nodeSelector={"zone": "b"}), also=also).values()) == {AFFINITY, GANG}


def _selector(key: str, value: str) -> Any:
    affinity = pod(affinity=required_nodes({"matchExpressions": [expression(key, "In", value)]})).spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    return affinity.node_affinity.required


def test_preferences_add_up() -> None:
    terms = [
        {"weight": 10, "preference": {"matchExpressions": [expression("zone", "In", "a")]}},
        {"weight": 3, "preference": {"matchExpressions": [expression("zone", "Exists")]}},
        {"weight": 50, "preference": {}},
    ]
    asked = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}})
    states = snapshot_of(ALL, []).nodes
    assert {state.name: preference(asked, state) for state in states} == {"a1": 13, "a2": 13, "b1": 3, "n0": 0}
    assert Eligibility(asked, snapshot_of(ALL, [])).preferences(states[:1]) == [13]


def test_the_first_reason_is_the_stock_schedulers_first() -> None:
    asked = pod(nodeSelector={"zone": "a"}, containers=port(80))
    there = running("x", "n", containers=port(80))
    assert reason(asked, node("n", unschedulable=True, taints=[taint("t")]), pods=(there,)) == UNSCHEDULABLE
    assert reason(asked, node("n", taints=[taint("t")]), pods=(there,)).startswith("node(s) had untolerated")
    assert reason(asked, node("n"), pods=(there,)) == AFFINITY
    assert reason(asked, node("n", {"zone": "a"}), pods=(there,)) == PORTS


def test_one_question_about_one_node() -> None:
    snapshot = snapshot_of([CORDONED], [])
    assert exclusion(pod(), snapshot.nodes[0], snapshot) == UNSCHEDULABLE
