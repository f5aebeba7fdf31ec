"""The additional columns of `-o wide`, and colours: output has colours only on a terminal that asks for them."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from terminals import in_a_pipe, on_a_terminal

from cli.terminal.domains import DomainShown, TopologyShown
from cli.terminal.events import EventPrinter
from cli.terminal.gangs import Listing
from cli.terminal.topology import _rendered
from cluster.topology.domain_room import DomainRoom
from gangs.model import GangKey
from kube.topology import Level, Topology

Json = dict[str, Any]
WIDE = """\
NAME   PHASE         PODS   DOMAIN   REASON   AGE   REQUIRED   PREFERRED   DIALECT       PROOF        MESSAGE
llm    Placed        4/4    s0/r1             0s    rack                   koordinator   Optimal      bound
own    Unplaceable                   NoRoom   0s    rack       spine       phalanx       Infeasible   no rack
"""
WIDE_TOPOLOGY = """\
Topology dc: rack > node

DOMAIN   NODES          CPU FREE        USED   HELD   MEMORY FREE   USED   HELD   GANGS
dc       2 (1 closed)   3 (+1 closed)   8      2      8Gi           2Gi    0      a/g0 (2), a/g1 (2), a/g2 (2), a/g3 (2)
└─ r0    2 (1 closed)   3 (+1 closed)   8      2      8Gi           2Gi    0      a/g0 (2), a/g1 (2), a/g2 (2), a/g3 (2)
"""
MIRROR = {"phalanx.dev/mirrors": "koordinator/default/llm"}


def gang(name: str, **status: Any) -> Json:
    """A Gang object, made now."""
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": made}
    return {"metadata": metadata, "spec": {"required": "rack"}, "status": status}


def aged(text: str) -> list[str]:
    """The lines, with the age of what was made a moment ago as it was then."""
    return re.sub(r"\b\ds\b", "0s", text).splitlines()


def gangs() -> list[Json]:
    """Return two Gang objects: the mirror of a gang of another dialect, and a Phalanx gang that waits."""
    summary = {"pods": "4/4", "domain": "s0/r1"}
    placed = gang("llm", phase="Placed", proof="Optimal", message="bound", summary=summary)
    placed["metadata"]["annotations"] = MIRROR
    waits = gang("own", phase="Unplaceable", reason="NoRoom", proof="Infeasible", message="no rack")
    waits["spec"]["preferred"] = "spine"
    return [placed, waits]


def test_gangs_have_more_columns_in_wide(capsys: pytest.CaptureFixture[str]) -> None:
    Listing("wide", namespaces=False).show(gangs(), "default")
    assert aged(capsys.readouterr().out) == WIDE.splitlines()
    Listing("table", namespaces=True).show(gangs(), None)
    assert aged(capsys.readouterr().out) == [
        "NAMESPACE   NAME   PHASE         PODS   DOMAIN   REASON   AGE",
        "default     llm    Placed        4/4    s0/r1             0s",
        "default     own    Unplaceable                   NoRoom   0s",
    ]


def topology(*, held: bool = True) -> TopologyShown:
    """One rack in which there are four gangs, more than a table shows."""
    free, used = {"cpu": 4000, "memory": 8 << 30}, {"cpu": 8000, "memory": 2 << 30}
    room = DomainRoom(2, 1, free, used, {"cpu": 2000} if held else {}, {"cpu": 1000})
    inside = {GangKey("phalanx", "a", f"g{at}"): 2 for at in range(4)}
    levels = (Level("rack", ("example.com/rack",)), Level("node", ("kubernetes.io/hostname",)))
    shown = (DomainShown((), room, inside), DomainShown(("r0",), room, inside))
    return TopologyShown(Topology("dc", "Topology", levels), shown, {})


def test_a_topology_shows_memory_what_is_held_and_every_gang_in_wide() -> None:
    """The plain table shows reserved capacity only if there is any."""
    assert _rendered([topology()], "wide") == WIDE_TOPOLOGY
    assert _rendered([topology()], "table").splitlines()[2:4] == [
        "DOMAIN   NODES          CPU FREE        USED   HELD   GANGS",
        "dc       2 (1 closed)   3 (+1 closed)   8      2      a/g0 (2), a/g1 (2), a/g2 (2) and 1 more",
    ]
    assert "HELD" not in _rendered([topology(held=False)], "table")


def test_a_story_tells_times_and_objects_in_wide(capsys: pytest.CaptureFixture[str]) -> None:
    told = gang("llm", phase="Waiting", message="waits")
    told["metadata"]["creationTimestamp"] = "2026-11-21T11:55:00Z"
    warning = {
        "reason": "FailedMount",
        "eventTime": "2026-11-21T11:56:05Z",
        "message": "no volume",
        "type": "Warning",
        "series": {"count": 7, "lastObservedTime": "2026-11-21T11:56:05Z"},
        "involvedObject": {"kind": "Pod", "name": "llm-0"},
    }
    EventPrinter(told, "wide").show([warning])
    assert capsys.readouterr().out.splitlines() == [
        "default/llm  Waiting  waits",
        "",
        "  TIME                   AFTER   WHAT          OBJECT      NOTE",
        "  2026-11-21T11:55:00Z   0s      asked for                 Gang default/llm",
        "  2026-11-21T11:56:05Z   1m5s    FailedMount   Pod llm-0   no volume (x7)",
    ]
    EventPrinter(told, "table").show([warning])
    assert capsys.readouterr().out.splitlines()[-1] == "  1m5s    FailedMount   Pod llm-0: no volume (x7)"


LISTS = """
from cli.terminal.gangs import Listing
meta = {"name": "llm", "namespace": "default", "creationTimestamp": "2026-11-21T11:55:00Z"}
Listing("wide", namespaces=False).show([{"metadata": meta, "status": {"phase": "Placed"}}], None)
"""
CHECKS = """
from cli import doctor
from planning.doctor.finding import Finding, Severity
from types import SimpleNamespace
doctor.live_picture = lambda _: (None, SimpleNamespace(sources=None, snapshot=None))
doctor.ceded_beside_kubernetes = lambda _: {}
doctor._installation = lambda *_: [Finding(Severity.WARNING, "Kubernetes", "is old")]
doctor.check_up = lambda *_: []
doctor.doctor([], standalone_mode=False)
"""


@pytest.mark.parametrize(
    ("script", "in_colour"),
    [
        pytest.param(LISTS, "\x1b[32mPlaced\x1b[0m", id="gangs"),
        pytest.param(CHECKS, "\x1b[33mwarning \x1b[0m Kubernetes: is old\n", id="doctor", marks=pytest.mark.long),
    ],
)
def test_colours_are_for_a_terminal_that_wants_them(script: str, in_colour: str) -> None:
    """Doctor's were there where NO_COLOR was set."""
    assert in_colour in on_a_terminal(script)
    plain, _ = in_a_pipe(script)
    assert "\x1b" not in plain
    assert "\x1b[3" not in on_a_terminal(script, {"NO_COLOR": "1"}), "no colour; weight is none"
