"""`phalanx uninstall` lists gangs without a plan before it starts their pods, and starts none without consent."""

import sys
from http import HTTPStatus
from typing import Any

import pytest
from click.testing import CliRunner
from kubernetes.client.exceptions import ApiException

from cli import uninstall as uninstalling
from cli.uninstall import SHOWN, gangs_without_plan, uninstall
from cluster.devices.holdings import RULES_PATH
from kube.keys import DEVICE_RULE

Object = dict[str, Any]


class Cluster:
    """An API server with Gang objects and nothing else. It records every request that changes something."""

    def __init__(self, gangs: list[Object] | None) -> None:
        self.gangs = gangs
        self.writes: list[str] = []

    def request(self, method: str, path: str, **_: Any) -> Object:
        """Answer a request. Without gangs, their kind is unknown."""
        if method != "GET":
            self.writes.append(f"{method} {path}")
        if path.endswith("/gangs") and self.gangs is None:
            raise ApiException(status=HTTPStatus.NOT_FOUND)
        if path.endswith("/gangs"):
            return {"items": self.gangs, "metadata": {}}
        if path.endswith(("/pods", "/priorityclasses")):
            return {"items": [], "metadata": {}}
        raise ApiException(status=HTTPStatus.NOT_FOUND)


def gang(name: str, phase: str, reason: str = "", existing: int = 4, bound: int = 0) -> Object:
    """A Gang object."""
    members = {"expected": 4, "existing": existing, "placed": 0, "bound": bound}
    status = {"phase": phase, "reason": reason, "message": f"why {name} waits", "members": members}
    return {"metadata": {"namespace": "default", "name": name}, "status": status}


GANGS = [
    gang("quota", "Waiting", "QuotaExhausted"),
    gang("full", "Unplaceable", "NoRoom"),
    gang("wrong", "Invalid", "Invalid"),
    gang("planned", "Nominated"),
    gang("running", "Placed", bound=4),
    gang("empty", "Waiting", "Incomplete", existing=0),
    {"metadata": {"namespace": "default", "name": "new"}},
]


def test_gangs_without_a_plan_are_those_whose_members_exist_and_wait() -> None:
    found = gangs_without_plan(Cluster(GANGS))  # type: ignore[arg-type] # a transport that only lists
    assert [each["metadata"]["name"] for each in found] == ["full", "quota", "wrong"]


def test_a_cluster_without_our_kinds_has_none() -> None:
    assert gangs_without_plan(Cluster(None)) == []  # type: ignore[arg-type] # as above


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two lists of gated pods."""
    monkeypatch.setattr(uninstalling, "SETTLE_SECONDS", 0.0)


def asked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[int, str]:
    """Run the command without a terminal. Return the exit status and both outputs."""
    monkeypatch.setattr(uninstalling, "connect", lambda _: cluster)
    answer = CliRunner().invoke(uninstall, options, input="y\n")
    return answer.exit_code, answer.output


@pytest.mark.usefixtures("quick")
def test_where_nobody_can_be_asked_the_list_is_printed_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(GANGS)
    status, said = asked(cluster, monkeypatch)
    assert status == 2
    assert cluster.writes == []
    for name, phase, reason in (("full", "Unplaceable", "NoRoom"), ("quota", "Waiting", "QuotaExhausted")):
        (line,) = [each for each in said.splitlines() if f"default/{name}" in each]
        assert line.split() == [f"default/{name}", phase, reason, "why", name, "waits"]
    assert "default/planned" not in said
    assert "3 gangs have no plan or no quota" in said
    assert "--yes" in said


@pytest.mark.usefixtures("quick")
def test_with_yes_the_list_is_printed_and_the_removal_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = asked(Cluster([gang(f"g{index:02}", "Waiting") for index in range(SHOWN + 3)]), monkeypatch, "--yes")
    assert status == 0
    assert "… and 3 more" in said
    assert "gates: no pod was waiting" in said


@pytest.mark.usefixtures("quick")
def test_on_a_terminal_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """`CliRunner` replaces standard input: only its question whether that is a terminal is answered for it."""
    cluster = Cluster(GANGS)
    monkeypatch.setattr(uninstalling, "sys", Terminal())
    status, said = asked(cluster, monkeypatch)
    assert status == 0
    assert said.index("default/quota") < said.index("Remove Phalanx? [y/N]: y")


@pytest.mark.usefixtures("quick")
def test_without_such_gangs_an_answer_may_come_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    status, said = asked(Cluster([gang("planned", "Nominated")]), monkeypatch)
    assert status == 0
    assert "no plan" not in said


class Terminal:
    """`sys` of a program whose standard input is a terminal."""

    class stdin:  # noqa: N801 - the name in `sys`
        """Standard input."""

        @staticmethod
        def isatty() -> bool:
            """Return True."""
            return True

    stdout = sys.stdout


@pytest.mark.usefixtures("quick")
def test_the_rules_that_taint_devices_are_deleted_but_none_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that is deleted while a gang takes devices leaves rules, which would taint the pools for ever."""
    rules: list[Object] = [
        {"metadata": {"name": "phalanx-taking-1", "labels": {DEVICE_RULE: "taking"}}},
        {"metadata": {"name": "broken", "labels": {"of": "a-user"}}},
    ]

    class WithRules(Cluster):
        def request(self, method: str, path: str, **more: Any) -> Object:
            if method == "GET" and path.startswith(RULES_PATH):
                named = [each for each in rules if path.endswith(f"/{each['metadata']['name']}")]
                return named[0] if named else {"items": rules, "metadata": {}}
            if method == "DELETE" and path.startswith(RULES_PATH):
                self.writes.append(f"{method} {path}")
                return {}
            return super().request(method, path, **more)

    cluster = WithRules([])
    status, output = asked(cluster, monkeypatch, "--yes")
    assert status == 0, output
    assert "rules that taint devices: 1 removed" in output
    assert cluster.writes == [f"DELETE {RULES_PATH}/phalanx-taking-1"]
