"""The times of a reflector: how long it waits for answers, for events and between requests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """How patient a reflector is, in seconds. `page` counts objects.

    `silence`: a watch that brings nothing for so long, not even a bookmark (the API server sends one a minute), is
    opened again: a connection that died without a word looks the same. `answer`: the same for a list; the API server
    gives up after a minute. `missing`: how soon to look again for a resource that is not installed and that nobody says
    is (`wake`), twice as late each time up to `last_missing`. `doubt`: how soon one that has just come to be served is
    listed again, twice as late each time up to `silence`: the API server makes the store of a definition anew when its
    names are accepted, and who watches the old one hears nothing more. `unsynced_retry`: the longest pause before the
    first list succeeds; until then the process does not serve. `overloaded`: how long a server that answers nothing to
    the point is waited for before the resource counts as tried: an aggregated API may be down for good.
    """

    page: int = 500
    watch: float = 240.0
    silence: float = 90.0
    answer: float = 60.0
    connect: float = 5.0
    missing: float = 3.0
    last_missing: float = 120.0
    doubt: float = 5.0
    first_retry: float = 1.0
    unsynced_retry: float = 5.0
    last_retry: float = 30.0
    overloaded: float = 30.0


DEFAULT_TIMING = ReflectorTiming()


@dataclass(frozen=True, slots=True)
class Rest:
    """How long a reflector waits before its next request, in seconds. `until_woken`: `wake` ends the wait early."""

    seconds: float = 0.0
    until_woken: bool = False
