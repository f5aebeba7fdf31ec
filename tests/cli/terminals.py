"""Runs Python scripts on a pseudo-terminal or with pipes, and returns their output."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping

SECONDS = 60
SPINNING = "\x1b[?25l"
"""The escape sequence that hides the cursor: an animation begins with it."""
_OURS = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "TERM", "COLORTERM", "COLUMNS")


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment for a terminal of 200 columns with colours, instead of the current terminal."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "200", **(more or {})}


def on_a_terminal(script: str, more: Mapping[str, str] | None = None) -> str:
    """Run a Python script with a terminal as all of its streams, and return its output. It must exit with 0."""
    mine, its = os.openpty()
    try:
        program = subprocess.Popen(
            [sys.executable, "-c", script], stdin=its, stdout=its, stderr=its, env=environment(more)
        )
    finally:
        os.close(its)
    written = b""
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            if not select.select([mine], [], [], 0.1)[0]:
                continue
            try:
                more_of_it = os.read(mine, 65536)
            except OSError:  # Linux: no process has the terminal open any more
                break
            if not more_of_it:
                break
            written += more_of_it
        status = program.wait(SECONDS)
    finally:
        program.kill()
        os.close(mine)
    text = written.decode().replace("\r\n", "\n")
    assert status == 0, text
    return text


def in_a_pipe(script: str, more: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Run a Python script without a terminal, and return its standard output and standard error."""
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(more), check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout, answer.stderr
