"""Measures the API server's work: the requests that it answers, the Event objects that it stores, its CPU profile."""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.live import load
from controlplane.control_plane import ControlPlane

WINDOW_SECONDS = 5
"""The length of one CPU profile. `go tool pprof` adds several profiles up, so a run of any length has whole ones."""
_SLACK_SECONDS = 60.0
"""How much longer than its window a profile may take on a busy machine."""
_REQUESTS = "apiserver_request_total{"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def requests_so_far(plane: ControlPlane) -> Counter[str]:
    """Return the requests that the API server has answered, by verb and resource (`PATCH pods/status`)."""
    return requests_in(plane.request("GET", "/metrics"))


def requests_in(metrics: str) -> Counter[str]:
    """Return the requests by verb and resource from the API server's metrics.

    :param metrics: text in the format of Prometheus, with the counter `apiserver_request_total`.
    """
    counts = Counter[str]()
    for line in metrics.splitlines():
        if line.startswith(_REQUESTS):
            text, _, value = line.rpartition(" ")
            labels = dict(_LABEL.findall(text))
            resource = "/".join(filter(None, (labels.get("resource"), labels.get("subresource"))))
            counts[f"{labels['verb']} {resource}".rstrip()] += int(float(value))
    return counts


def events_of(plane: ControlPlane, prefix: str) -> Counter[str]:
    """Return the Event objects about the objects of one lot, by kind of object and reason (`Pod Scheduled`).

    :param prefix: the beginning of the names of the lot's Jobs; the names of their pods and gangs contain it.
    """
    return counted(plane.request("GET", f"/api/v1/namespaces/{load.NAMESPACE}/events")["items"], prefix)


def counted(events: Iterable[load.Manifest], prefix: str) -> Counter[str]:
    """Return the number of these Event objects by kind of object and reason, if the object's name has `prefix`."""
    subjects = ((event["involvedObject"], event["reason"]) for event in events)
    return Counter(f"{about['kind']} {reason}" for about, reason in subjects if prefix in about["name"])


@contextmanager
def profiled(plane: ControlPlane, folder: Path | None, name: str) -> Iterator[None]:
    """Fetch CPU profiles of the API server, one after the other, while the block runs.

    :param folder: where the files `NAME-NUMBER.pb.gz` are written; None: no profile is fetched.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    over = threading.Event()
    thread = threading.Thread(target=_profile, args=(plane, folder, name, over), name="profile")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _profile(plane: ControlPlane, folder: Path, name: str, over: threading.Event) -> None:
    number = 0
    while not over.is_set():
        path = f"/debug/pprof/profile?seconds={WINDOW_SECONDS}"
        (folder / f"{name}-{number:02}.pb.gz").write_bytes(plane.read(path, seconds=WINDOW_SECONDS + _SLACK_SECONDS))
        number += 1
