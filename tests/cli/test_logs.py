"""One line a record, as text or as an object."""

import json
import logging

from cli.logs import formatter


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
