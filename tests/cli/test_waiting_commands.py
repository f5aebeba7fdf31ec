"""Something moves on a terminal where a command takes longer than two seconds, and nowhere else."""

import pytest
from terminals import SPINNING, in_a_pipe, on_a_terminal

from cli.asking import progress

HASTE = "from cli.asking import progress\nprogress.PATIENCE = 0.05\nimport time\n"
"""The patience of a test."""
TAKES_LONG = """
with progress.waiting("counting sheep"):
    time.sleep(0.6)
print("done")
"""
GOES_WRONG = """
try:
    with progress.waiting("sheep"):
        time.sleep(0.4)
        raise OSError
except OSError:
    print("no")
"""
SLOW = """
DELAY = 0.12
class Slow:
    def request(self, method, path, **_):
        time.sleep(DELAY)
        return {"items": [], "metadata": {}, "gitVersion": "v1.36.1"}
"""
"""An API server that knows of nothing and takes its time."""
OPENS_GATES = "DELAY = 0.02  # it asks two hundred times\nfrom cli.uninstall import _remove\n_remove(Slow(), [])\n"
ASKS_FIRST = """
import io, sys
from cli.uninstall import _confirm
sys.stdin = io.StringIO("y\\n")
_confirm(Slow(), [])
"""
CHECKS = """
from cli import doctor
from planning.dry_run import Live
from cluster.snapshot import Snapshot
from gangs.sources import Sources
doctor.live_picture = lambda _: (Slow(), Live(Snapshot(()), Sources([], {}, {})))
try:
    doctor.doctor([])
except SystemExit:
    pass
"""
LISTS = """
from cli.terminal import gangs
gangs.asked = lambda _: Slow()
gangs.gangs(["-A"], standalone_mode=False)
"""
TELLS = """
from cli.terminal import events
class One(Slow):
    def request(self, method, path, **more):
        meta = {"name": "llm", "namespace": "default", "uid": "u", "creationTimestamp": "2026-11-21T11:55:00Z"}
        answer = super().request(method, path, **more)
        if path.endswith("/gangs"):
            return {**answer, "items": [{"metadata": meta}]}
        return {**answer, "metadata": meta}
events.asked = lambda _: One()
events.events(["default/llm"], standalone_mode=False)
"""


def test_two_seconds_are_nobodys_patience() -> None:
    assert progress.PATIENCE == 2.0


def test_what_takes_long_is_said_on_a_terminal_and_taken_away_again() -> None:
    shown = on_a_terminal(HASTE + TAKES_LONG)
    before, spinning, after = shown.partition(SPINNING)
    assert (before, spinning) == ("", SPINNING)
    assert "counting sheep" in after
    assert "\x1b[?25h" in after, "the cursor is back"
    assert after.endswith("\x1b[2Kdone\n"), "the line is empty again"


def test_what_is_done_at_once_says_nothing() -> None:
    assert on_a_terminal(HASTE.replace("0.05", "30") + TAKES_LONG) == "done\n"


def test_what_goes_wrong_stops_it() -> None:
    shown = on_a_terminal(HASTE + GOES_WRONG)
    assert "sheep" in shown
    assert "\x1b[?25h" in shown
    assert shown.endswith("no\n")


def test_in_a_pipe_nothing_moves() -> None:
    assert in_a_pipe(HASTE + TAKES_LONG) == ("done\n", "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "said"),
    [
        (OPENS_GATES, ("removing webhook configurations and policies", "opening gates", "removing roles")),
        (ASKS_FIRST, ("counting what is there",)),
        (CHECKS, ("checking webhooks, certificates and nodes",)),
        (LISTS, ("asking the cluster",)),
        (TELLS, ("reading what has happened",)),
    ],
    ids=("uninstall", "uninstall asks", "doctor", "gangs", "events"),
)
def test_a_command_that_waits_for_the_cluster_says_so(script: str, said: tuple[str, ...]) -> None:
    shown = on_a_terminal(HASTE + SLOW + script)
    assert [each for each in said if each not in shown] == []
    assert SPINNING not in "".join(in_a_pipe(HASTE + SLOW + script))
