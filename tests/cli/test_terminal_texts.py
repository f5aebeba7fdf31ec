"""Stories, places in line, trees and columns, from what the cluster holds; and what a terminal gets of it."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import group
from cli.terminal.domains import DomainShown
from cli.terminal.topology import _branches
from cli.text.ages import since
from cli.text.columns import Columns
from cluster.topology.domain_room import DomainRoom
from planning.stories.line import in_line, place
from planning.stories.timeline import story

Json = dict[str, Any]
ASKED = "2026-11-21T11:55:00Z"


def gang(name: str = "llm", created: str = ASKED, **status: Any) -> Json:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": created}
    return {"metadata": metadata, "spec": {}, "status": status}


def event(reason: str, at: str, note: str = "", **more: Any) -> Json:
    return {
        "reason": reason,
        "eventTime": at,
        "message": note,
        "involvedObject": {"kind": "Gang", "name": "llm"},
        **more,
    }


def condition(kind: str, at: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": at, "message": f"{kind} it is"}


def told(manifest: Json, *events: Json) -> list[str]:
    return [f"{step.what} {step.note}".strip() for step in story(manifest, events)]


def test_a_story_is_told_in_its_order_and_members_are_complete_before_they_are_planned() -> None:
    manifest = gang(conditions=[condition("Complete", "2026-11-21T11:55:01Z")])
    waiting = event("GangWaiting", "2026-11-21T11:55:00.900000Z", "waits")
    planned = event("GangPlanned", "2026-11-21T11:55:01.500000Z", "fits")
    late = event("GangWaiting", "2026-11-21T11:55:01.100000Z", "waits for one")
    assert told(manifest, planned, waiting, late) == [
        "asked for Gang default/llm",
        "GangWaiting waits",
        "GangWaiting waits for one",
        "all members exist",
        "GangPlanned fits",
    ]


def test_what_events_have_forgotten_conditions_still_tell() -> None:
    kinds = ("Complete", "Planned", "Released", "Placed")
    manifest = gang(conditions=[condition(kind, f"2026-11-21T11:55:0{at}Z") for at, kind in enumerate(kinds)])
    placed = event("GangPlaced", "2026-11-21T11:55:03.200000Z", "4 pods are bound")
    assert told(manifest, placed) == [
        "asked for Gang default/llm",
        "all members exist",
        "GangPlanned Planned it is",
        "GangReleased Released it is",
        "GangPlaced 4 pods are bound",
    ]


def test_events_of_others_name_them_and_a_series_is_one_step() -> None:
    series = {"count": 7, "lastObservedTime": "2026-11-21T11:59:00.000000Z"}
    pod = {"kind": "Pod", "name": "llm-0"}
    (_, step) = story(
        gang(), [event("FailedMount", ASKED, "no volume", type="Warning", series=series, involvedObject=pod)]
    )
    assert (step.of, step.times, step.warning, step.at.minute) == ("Pod llm-0", 7, True, 59)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h"), (90061, "1d1h")])
def test_how_much_later_something_was(seconds: int, text: str) -> None:
    start = datetime(2026, 11, 21, tzinfo=UTC)
    assert since(start, datetime.fromtimestamp(start.timestamp() + seconds, UTC)) == text


def test_the_line_is_by_priority_then_age_then_name_and_holds_those_that_wait_for_room() -> None:
    old, young = "2026-11-21T11:00:00Z", "2026-11-21T11:30:00Z"
    over = {"conditions": [{"type": "TimedOut", "status": "True"}]}
    gangs = [
        gang("b", young, phase="Unplaceable"),
        gang("a", young, phase="Waiting", reason="NotPlannedYet"),
        gang("late", old, phase="Unplaceable", **over),
        gang("urgent", young, phase="Unplaceable"),
        gang("old", old, phase="Unplaceable"),
        gang("incomplete", old, phase="Waiting", reason="MembersMissing"),
        gang("placed", old, phase="Placed"),
    ]
    priority = {"uid-urgent": 10}
    places = {each["metadata"]["name"]: str(place(each, gangs, priority)) for each in gangs if in_line(each)}
    assert places == {
        "urgent": "1 of 5 for capacity",
        "old": "2 of 5 for capacity, after default/urgent",
        "a": "3 of 5 for capacity, after default/urgent, default/old",
        "b": "4 of 5 for capacity, after default/urgent, default/old, default/a",
        "late": "5 of 5 for capacity, after default/urgent, default/old, default/a and 1 more",
    }


def test_gangs_that_wait_for_a_quota_stand_in_the_line_of_their_queue() -> None:
    """Two wait for the quota of one queue, one for that of another, and one for capacity."""
    created = "2026-11-21T11:00:00Z"
    exhausted = {"phase": "Waiting", "reason": "QuotaExhausted"}
    gangs = [gang(name, created, **exhausted) for name in ("a", "b", "other")] + [
        gang("c", created, phase="Unplaceable")
    ]
    for each, queue in zip(gangs, ("training", "training", "tuning", "training"), strict=True):
        each["spec"] = {"queue": queue}
    assert {each["metadata"]["name"]: str(place(each, gangs, {})) for each in gangs} == {
        "a": "1 of 2 for the quota of queue default/training",
        "b": "2 of 2 for the quota of queue default/training, after default/a",
        "other": "1 of 1 for the quota of queue default/tuning",
        "c": "1 of 1 for capacity",
    }


def test_a_tree_ties_each_domain_to_the_one_around_it() -> None:
    paths = [(), ("a",), ("a", "x"), ("a", "y"), ("b",), ("b", "x")]
    shown = [DomainShown(path, DomainRoom(), {}) for path in paths]
    assert [f"{branch}{each.path[-1] if each.path else 'all'}" for each, branch in _branches(shown)] == [
        "all",
        "├─ a",
        "│  ├─ x",
        "│  └─ y",
        "└─ b",
        "   └─ x",
    ]


def test_a_later_row_keeps_the_columns_of_the_first() -> None:
    columns = Columns(("NAME", "PHASE", "WHY"))
    columns.fit([("a-long-name", "Placed", "")])
    assert columns.head().plain == "NAME          PHASE    WHY"
    row = columns.row(("b", "Placed", "so"))
    assert row.plain == "b             Placed   so"
    assert [(span.start, span.end, span.style) for span in row.spans] == [(14, 20, "green")]


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--gang", "default/llm"), "--gang names a gang of the live cluster: add --cluster live"),
        (("-f", "x", "--add-nodes", "node-1"), "node-1: write COUNT=NODE, such as 4=node-5: 4 more nodes like node-5"),
        (("-f", "x", "--add-nodes", "0=node-1"), "0=node-1: write COUNT=NODE"),
        (("--cluster", "live", "--gang", "llm"), "llm: write it as NAMESPACE/GANG"),
        (("--cluster", "live"), "Missing option '-f' / '--filename'."),
        (("-f", "examples/koordinator", "--drain", "node-nine"), "no node node-nine"),
    ],
)
def test_a_question_that_cannot_be_meant_is_a_mistake_in_the_call(arguments: tuple[str, ...], refusal: str) -> None:
    answer = CliRunner().invoke(group, ["solve", *arguments])
    assert answer.exit_code == 2
    assert refusal in answer.stderr


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o nosort"), ("zsh", "#compdef phalanx"), ("fish", "complete ")]
)
def test_a_shell_is_told_how_to_ask(shell: str, mark: str) -> None:
    answer = CliRunner().invoke(group, ["completion", shell])
    assert answer.exit_code == 0
    assert mark in answer.stdout
    assert f"_PHALANX_COMPLETE={shell}_complete" in answer.stdout


def test_bash_itself_completes_a_command_and_an_option() -> None:
    commands = Path(sys.executable).parent
    script = """
source <(phalanx completion bash)
for words in "phalanx top" "phalanx gangs --wat"; do
  COMP_WORDS=($words)
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _phalanx_completion phalanx
  echo "${COMPREPLY[@]}"
done
"""
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert answer.stdout.split() == ["topology", "--watch"]


ASKING: dict[str, tuple[str, tuple[str, ...]]] = {
    "zsh": (
        """
compdef() { true; }
_describe() { local each; for each in "${(@P)3}"; do print -r -- "${each%%:*}"; done }
compadd() { print -rl -- "${(@P)@[-1]}"; }
source <(phalanx completion zsh)
for line in "phalanx top" "phalanx gangs --wat"; do
  words=(${=line}); CURRENT=$#words; _phalanx_completion
done
""",
        ("-f", "-c"),
    ),
    "fish": (
        """
phalanx completion fish | source
complete -C "phalanx top" | string split -f1 \\t
complete -C "phalanx gangs --wat" | string split -f1 \\t
""",
        ("--no-config", "-c"),
    ),
}
"""By shell: a script that completes two lines, and the options that start the shell without a user's settings."""
PROTOCOL = {
    "zsh": {"COMP_CWORD": ("1", "2"), "told": ("plain\ntopology\n", "plain\n--watch\n")},
    "fish": {"COMP_CWORD": ("top", "--wat"), "told": ("plain,topology\t", "plain,--watch\t")},
}
"""By shell: the variables that its completion script sends, and the beginnings of the answers."""


@pytest.mark.parametrize("shell", ASKING)
def test_another_shell_completes_a_command_and_an_option(shell: str) -> None:
    """The test runs the shell itself if it is installed. In any case it tests the protocol of the shell's script."""
    commands = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    if found := shutil.which(shell):
        script, options = ASKING[shell]
        answer = subprocess.run([found, *options, script], capture_output=True, text=True, env=environment, check=True)
        assert answer.stdout.split() == ["topology", "--watch"]
    source = CliRunner().invoke(group, ["completion", shell]).stdout
    for name in ("_PHALANX_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        assert name in source, "what the program is asked by"
    lines = ("phalanx top", "phalanx gangs --wat")
    for words, at, told in zip(lines, PROTOCOL[shell]["COMP_CWORD"], PROTOCOL[shell]["told"], strict=True):
        asked = {"_PHALANX_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": at}
        answer = subprocess.run(["phalanx"], capture_output=True, text=True, env={**environment, **asked}, check=True)
        assert answer.stdout.startswith(told)
