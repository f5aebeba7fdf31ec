"""Makes any use of real time by product code fail while a simulation runs."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import patch

from simulation.clock import RealTimeError
from timing.clock import SystemClock

PACKAGES = ("cluster", "controller", "gangs", "kube")
"""Product packages in which every time comes from an injected clock."""
PLANNING = "planning"
"""Planning measures its own work by the real time. Here that stands still, so that no limit of it ends a search. The
solver below is ended by `Limits.deterministic` alone (`solving.InlineSolver`).
"""
_READERS = ("monotonic", "perf_counter", "sleep", "thread_time", "time", "time_ns", "clock_gettime")


@contextmanager
def no_real_time(exempt: frozenset[str] = frozenset()) -> Iterator[None]:
    """Within it, reading the real time in a module of `PACKAGES` raises `RealTimeError`.

    :param exempt: names of modules that may read it, because what they read decides nothing.
    """
    with ExitStack() as stack:
        for method in ("monotonic", "since_boot", "wall", "processor", "sleep", "wait"):
            stack.enter_context(patch.object(SystemClock, method, _refusing(f"SystemClock.{method}")))
        for name, module in list(sys.modules.items()):
            package = name.partition(".")[0]
            if package == PLANNING or (package in PACKAGES and name not in exempt):
                reader = _standing if package == PLANNING else _refusing
                for attribute, stand_in in _stand_ins(name, vars(module), reader).items():
                    stack.enter_context(patch.object(module, attribute, stand_in))
        yield


def _stand_ins(module: str, attributes: dict[str, Any], reader: Callable[[str], Callable[..., Any]]) -> dict[str, Any]:
    readers = {id(getattr(time, each)): each for each in _READERS}
    found: dict[str, Any] = {}
    for name, value in attributes.items():
        if value is time:
            found[name] = SimpleNamespace(
                **{key: each for key, each in vars(time).items() if key not in _READERS},
                **{each: reader(f"{module}: time.{each}") for each in _READERS},
            )
        elif value is datetime and reader is _refusing:
            found[name] = _dates(module)
        elif id(value) in readers:
            found[name] = reader(f"{module}: {readers[id(value)]}")
    return found


def _standing(_what: str) -> Callable[..., float]:
    return lambda *_, **__: 0.0


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise RealTimeError(what)

    return refuse


def _dates(module: str) -> type[datetime]:
    class Dates(datetime):
        """A `datetime` that does not know the present."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> NoReturn:  # noqa: ARG003 - the signature of the base class
            """Fail."""
            message = f"{module}: datetime.now"
            raise RealTimeError(message)

    return Dates
