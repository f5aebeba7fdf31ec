"""The options of `phalanx controller` and `phalanx webhook` for their logs."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from kube.text import one_line

Command = Callable[..., Any]

FIELDS = "%(asctime)s %(levelname)s %(name)s %(message)s"
_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NAMES = {"asctime": "time", "levelname": "level", "name": "logger"}
_OPTIONS = (
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning"]),
        default="info",
        show_default=True,
        help="The least that is logged.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="json: one object a line, with the gang, the plan and the reason as fields of their own.",
    ),
)


def logging_options(command: Command) -> Command:
    """Decorate a command with the log options. The log is set up before the command runs."""

    @wraps(command)
    def with_logging(*, log_level: str, log_format: str, **others: Any) -> Any:
        set_up(log_level, log_format)
        return command(**others)

    decorated: Command = with_logging
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def set_up(level: str, form: str) -> None:
    """Make Python's logging write to standard error.

    :param level: the least severe level that is written: "debug", "info" or "warning".
    :param form: "text" or "json".
    """
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class _Lines(logging.Formatter):
    """Formats a log record as one line of text, even if it contains line breaks of users. Tracebacks are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the library's name
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 -- the library's name
        return "\n".join(f"    {one_line(line)}" for line in super().formatException(ei).splitlines())


def formatter(form: str) -> logging.Formatter:
    """Return the log formatter for "text" or "json". In JSON, values logged with `extra` become fields."""
    if form == "text":
        return _Lines(_LINE)
    from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415 - not needed by most commands

    return JsonFormatter(FIELDS, rename_fields=_NAMES)
