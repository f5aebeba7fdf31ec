"""Spread and affinity rules between members of one gang, and the rules that the product does not model."""

from typing import Any

import pytest
from cluster_objects import apart, near, node, pod, spread

from cluster.capturing import snapshot_of
from cluster.eligibility.member_rules import spread_limits, unmodelled
from cluster.eligibility.nodes import Eligibility

WEB = {"app": "web"}


SOFT = [{"weight": 1, "podAffinityTerm": {"topologyKey": "rack"}}]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ()),
        ({"resourceClaims": [{"name": "gpu"}]}, ("dynamic resource claims (spec.resourceClaims)",)),
        ({"affinity": {"podAffinity": {PREFERRED: SOFT}}}, ("preferred pod affinity",)),
        ({"affinity": {"podAntiAffinity": {PREFERRED: SOFT}}}, ("preferred pod anti-affinity",)),
        (
            {"topologySpreadConstraints": spread("web", "rack", whenUnsatisfiable="ScheduleAnyway")},
            ("soft topology spread (whenUnsatisfiable: ScheduleAnyway)",),
        ),
        (
            {"topologySpreadConstraints": spread("web", "rack")},
            ("topology spread of the gang's own members (rack)",),
        ),
        ({"topologySpreadConstraints": spread("db", "rack")}, ()),
        ({"affinity": near("web", "rack")}, ("pod affinity to members of the same gang (rack)",)),
        ({"affinity": near("db", "rack")}, ()),
        ({"affinity": apart("web", "rack")}, ()),
        (
            {"tolerations": [{"key": "x", "operator": "Gt", "value": "1"}]},
            ("tolerations that compare numbers (operators Lt and Gt)",),
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
            ("how many volumes a node can attach",),
        ),
    ],
)
def test_wishes_that_nobody_reads_are_named(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert unmodelled(pod(labels=WEB, **spec)) == expected


#    r1 (2 web there)   r2 (1)    r3 (0)    no rack
#      ┌────┴───┐          │         │         │
#      a        b          c         d         e
RACKED = [
    node(name, {"rack": rack} if rack else {}) for name, rack in zip("abcde", ("r1", "r1", "r2", "r3", ""), strict=True)
]
WEBS = [pod(f"web-{i}", WEB, nodeName=where) for i, where in enumerate("aac")]


@pytest.mark.parametrize(
    ("labels", "skew", "limits"),
    [
        (WEB, 1, [("rack", ("r1", "r1", "r2", None, None), 0), ("rack", (None, None, None, "r3", None), 1)]),
        (
            WEB,
            2,
            [
                ("rack", ("r1", "r1", None, None, None), 0),
                ("rack", (None, None, "r2", None, None), 1),
                ("rack", (None, None, None, "r3", None), 2),
            ],
        ),
        ({}, 1, [("rack", ("r1", "r1", None, None, None), 0)]),
    ],
)
def test_spread_limits_how_many_more_a_domain_takes(labels: dict[str, str], skew: int, limits: list[Any]) -> None:
    snapshot = snapshot_of(RACKED, WEBS)
    asked = Eligibility(pod(labels=labels, topologySpreadConstraints=spread("web", "rack", skew)), snapshot)
    assert spread_limits(asked.spreads, snapshot.nodes) == limits
