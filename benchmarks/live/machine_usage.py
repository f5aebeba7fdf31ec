"""Measures CPU and memory of programs and their child processes, as Linux counts them."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12
"""The positions of three fields of /proc/PID/stat, counted from 0 after the program's name (proc(5)): the parent's
process id, and the user and system time.
"""
_LOOP_STEPS = 5_000_000
"""Enough for a fraction of a second: longer than a time slice of Linux, so that other processes show."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time and memory of a program with its child processes. `cpu`: seconds so far. `megabytes`: present
    memory.

    Memory pages that processes share count once.
    """

    cpu: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Loop:
    """The seconds of a fixed loop. They tell how fast the machine is (`cpu`) and how busy (`elapsed`, above `cpu`)."""

    elapsed: float
    cpu: float


def usage_of(programs: Mapping[str, int]) -> dict[str, Usage]:
    """Return, by name, what each program uses. `programs`: by name, the process id."""
    children = _children()
    return {name: _with_children(pid, children) for name, pid in programs.items()}


def spent(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> dict[str, float]:
    """Return, by name, the seconds of CPU that were used between two measurements."""
    return {name: after[name].cpu - before[name].cpu for name in before}


def machine() -> str:
    """Return the number and the model of the machine's processors as text."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
        return f"{os.cpu_count()} x {model}"
    return f"{os.cpu_count()} processors"


def timed_loop() -> Loop:
    """Run a fixed loop of additions, and return how long it took."""
    began, used = time.monotonic(), time.thread_time()
    total = 0
    for number in range(_LOOP_STEPS):
        total += number
    return Loop(time.monotonic() - began, time.thread_time() - used)


def _with_children(pid: int, children: Mapping[int, list[int]]) -> Usage:
    family, cpu, kilobytes = [pid], 0, 0
    for each in family:
        family += children.get(each, ())
        with suppress(OSError):
            fields = _fields(each)
            cpu += int(fields[_USER]) + int(fields[_SYSTEM])
            kilobytes += _memory(each)
    return Usage(cpu / _TICKS, kilobytes / 1024)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid in _processes():
        with suppress(OSError):
            found.setdefault(int(_fields(pid)[_PARENT]), []).append(pid)
    return found


def _processes() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def _memory(pid: int) -> int:
    """Return the memory of a process in kilobytes. A page that n processes share counts as an nth for each."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
