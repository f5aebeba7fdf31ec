"""One line a record, as text or as an object."""

import json
import logging

import pytest

from cli.options.logs import formatter


def record(**extra: str) -> logging.LogRecord:
    made = logging.LogRecord("controller", logging.INFO, __file__, 1, "gang %s: %s", ("a/llm", "released"), None)
    made.__dict__.update(extra)
    return made


def test_json_has_the_ids_as_fields() -> None:
    line = formatter("json").format(record(gang="a/llm", plan="abc", reason="GangReleased"))
    told = json.loads(line)
    assert "\n" not in line
    assert {"message", "time", "level", "logger"} <= told.keys()
    wanted = {"gang": "a/llm", "plan": "abc", "reason": "GangReleased", "message": "gang a/llm: released"}
    assert wanted.items() <= told.items()


def test_text_is_a_line_for_people() -> None:
    assert formatter("text").format(record()).endswith("INFO controller: gang a/llm: released")


FORGED = "x\n2026-11-22 00:00:00,000 WARNING controller.leadership.election: FORGED\x1b[2J\x1b[31mRED"


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_users_write_forges_no_line(form: str) -> None:
    made = logging.LogRecord("controller", logging.INFO, __file__, 1, "gang %s: %s", (FORGED, FORGED), None)
    line = formatter(form).format(made)
    assert line.isprintable()


def test_a_traceback_with_what_users_wrote_forges_no_line() -> None:
    try:
        int(f"{{{FORGED}")
    except ValueError as error:
        told = (ValueError, ValueError(FORGED), error.__traceback__)
    made = logging.LogRecord("controller", logging.INFO, __file__, 1, "failed", (), told)
    first, *rest = formatter("text").format(made).split("\n")
    assert first.endswith("failed")
    assert rest
    assert all(each.startswith("    ") and each.isprintable() for each in rest)
