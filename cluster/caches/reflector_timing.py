"""The times of a reflector: how long it waits for answers, for events and between requests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReflectorTiming:
    """Timeouts and pauses of a reflector, which lists and watches one resource. All in seconds, but for `page`.

    `page`: the most objects of one page of a list. `connect`: the timeout to connect. `answer`: the timeout of a list;
    the API server's own is a minute. `watch`: how long one watch lasts before it is opened again. `silence`: a watch
    without events or bookmarks for this time is opened again, because the connection is probably dead: the API server
    sends a bookmark every minute.

    `missing`: the pause before a resource that is not installed is requested again, unless `wake` is called. It
    doubles up to `last_missing`. `doubt`: the pause before a new resource is listed again. It doubles up to `silence`.
    The API server replaces the storage of a CRD when it accepts the names. A watch on the old storage gets no more
    events, so a new resource is listed again.

    `first_retry`: the pause after a failure. It doubles up to `last_retry`, or up to `unsynced_retry` until the first
    list has succeeded, because the process does not serve until then. `overloaded`: how long an overloaded server is
    retried before the resource counts as tried, because an aggregated API may be down for days.
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
    """The pause before a reflector's next request, in seconds. `until_woken`: whether `wake` ends it early."""

    seconds: float = 0.0
    until_woken: bool = False
