"""Every write of the controller to the cluster, each one request. The result of a write is a value, not an exception.

A write to an existing object names the resourceVersion that was read. If another client, such as another leader, has
changed the object, the write has no effect (CONFLICT), and the next reconcile reads the object again. The only
exception is `LeadershipLostError`. The transport raises it when the leader's term is over, so that nothing more is
written.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, Protocol, TypeVar

from kubernetes.client.exceptions import ApiException, ConflictException, NotFoundException

from cluster.api.transport import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    UNREACHABLE,
    Transport,
    asked_to_wait,
    message_of,
    over_budget,
)
from controller.defaults import WRITES
from controller.writes.read_your_writes import ReadYourWrites
from kube.keys import API_VERSION, FIELD_MANAGER, PLAN, PLANNED_NODE, SPARED, TAKEN_BACK
from kube.objects import Pod, Struct
from timing.clock import SYSTEM_CLOCK, Clock


class Result(Enum):
    """The result of a write.

    `REFUSED`: a disruption budget does not allow the eviction now. `LATER`: the API server was overloaded or could not
    be reached, so the write may be sent again. `FAILED`: the write would fail again.
    """

    DONE = "done"
    CONFLICT = "conflict"
    GONE = "gone"
    REFUSED = "refused"
    LATER = "later"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to one write. `version`: the object's resourceVersion after the write; "" if there is none."""

    result: Result
    uid: str = ""
    version: str = ""
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether the write happened."""
        return self.result is Result.DONE

    @property
    def over(self) -> bool:
        """Whether the write happened, or the object does not exist any more."""
        return self.result in (Result.DONE, Result.GONE)


Value = TypeVar("Value")


class _WrittenMetadata(Struct, frozen=True):
    uid: str = ""
    resource_version: str = ""


class _WrittenObject(Struct, frozen=True):
    """The fields of an answer that are decoded. To decode the whole object costs a third of the request itself."""

    metadata: _WrittenMetadata = _WrittenMetadata()


class Write(Protocol):
    """One pending write."""

    def __call__(self) -> Written:
        """Send the write and return its result."""


class Writer:
    """Sends writes with one identity.

    :param at_once: the most requests in flight at a time.
    :param executor: runs the requests in place of `at_once` threads of the writer's own. `close` shuts it down.
    """

    def __init__(
        self,
        transport: Transport,
        at_once: int = WRITES,
        *,
        executor: Executor | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._pool = executor or ThreadPoolExecutor(at_once, thread_name_prefix="write")
        self._not_before = 0.0
        self._done = count()
        self.done = 0
        """The number of requests that succeeded."""
        self.read_your_writes = ReadYourWrites(clock)

    @property
    def pause(self) -> float:
        """The seconds until the API server accepts requests again, from the last `Retry-After`; usually 0."""
        return max(0.0, self._not_before - self._clock.monotonic())

    def all(self, writes: Iterable[Write]) -> list[Written]:
        """Send the writes in parallel and wait for all of them, even if the term ends. Return the results in order."""
        return self.each(writes)

    def each(self, calls: Iterable[Callable[[], Value]]) -> list[Value]:
        """Run calls that send writes, in parallel, and wait for all of them. Return their results in order."""
        begun = [self._pool.submit(call) for call in calls]
        wait(begun)
        return [each.result() for each in begun]

    def close(self) -> None:
        """Start no further write."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def nominate(self, pod: Pod, node: str, plan_id: str, condition: Mapping[str, str] | None = None) -> Written:
        """Nominate a gated or released member for its node, with the plan in its annotations."""
        status: dict[str, Any] = {"nominatedNodeName": node}
        if condition:
            status["conditions"] = [dict(condition)]
        back = {TAKEN_BACK: None} if TAKEN_BACK in pod.metadata.annotations else {}
        return self._patch_status(pod, {PLAN: plan_id, PLANNED_NODE: node, **back}, status)

    def clear(self, pod: Pod) -> Written:
        """Remove a member's nomination, which frees its capacity."""
        return self._patch_status(pod, {PLAN: None, PLANNED_NODE: None}, {"nominatedNodeName": None})

    def take_back(self, pod: Pod, time: str) -> Written:
        """Free the capacity of a released member, and record that on the pod. `time`: now, RFC 3339."""
        annotations = {PLAN: None, PLANNED_NODE: None, TAKEN_BACK: time}
        return self._patch_status(pod, annotations, {"nominatedNodeName": None})

    def condition(self, pod: Pod, condition: Mapping[str, str]) -> Written:
        """Write one condition of a pod that is not bound."""
        return self._patch_status(pod, {}, {"conditions": [dict(condition)]})

    def release(self, pod: Pod, patch: Mapping[str, Any]) -> Written:
        """Release a member: pin it and remove its gate."""
        return self._send("PATCH", _pod_path(pod.metadata.namespace, pod.metadata.name), patch, MERGE_PATCH)

    def evict(self, namespace: str, name: str, uid: str, *, version: str = "", dry_run: bool = False) -> Written:
        """Evict one pod through the Eviction API. REFUSED: a disruption budget does not allow it now. LATER: retry.

        :param version: the resourceVersion that was read. CONFLICT if the pod has changed since. "" for any version.
        """
        same = {"uid": uid, **({"resourceVersion": version} if version else {})}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": same, **({"dryRun": ["All"]} if dry_run else {})},
        }
        query = {"dryRun": "All"} if dry_run else None
        written = self._send("POST", f"{_pod_path(namespace, name)}/eviction", body, query=query)
        if written.done and not dry_run:
            self.read_your_writes.expect_end(namespace, name, uid)
        return written

    def read_back(self, path: str) -> None:
        """Make the next reconcile wait until the caches show the present objects of the collection at `path`.

        The API server has written to them because of the controller's requests. If the read fails, the next reconcile
        uses the caches as they are.
        """
        try:
            answer = self._transport.request("GET", path)
        except (ApiException, *UNREACHABLE):
            return
        for each in answer.get("items") or ():
            self.read_your_writes.expect(path, (each.get("metadata") or {}).get("resourceVersion", ""))

    def spare(self, pod: Pod, plan_id: str) -> Written:
        """Change a pod that is not evicted after all, so that pending evictions of its old version fail."""
        meta = pod.metadata
        same = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": {**same, "annotations": {SPARED: plan_id}}}
        return self._send("PATCH", _pod_path(meta.namespace, meta.name), patch, MERGE_PATCH)

    def annotate(self, pod: Pod, annotations: Mapping[str, str | None]) -> Written:
        """Write annotations of a pod in its present version; None removes one.

        The resourceVersion is not a precondition, because a kubelet often updates the status of a pod that starts.
        """
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": dict(annotations)}}
        return self._send("PATCH", _pod_path(meta.namespace, meta.name), patch, MERGE_PATCH)

    def create(self, path: str, manifest: Mapping[str, Any]) -> Written:
        """Create an object in the collection at `path`."""
        return self._send("POST", path, manifest)

    def merge(self, path: str, patch: Mapping[str, Any], seen: Mapping[str, Any]) -> Written:
        """Merge-patch the object at `path`. `seen`: the object as read. CONFLICT if it has changed since."""
        metadata = {**patch.get("metadata", {}), "resourceVersion": seen["metadata"]["resourceVersion"]}
        return self._send("PATCH", path, {**patch, "metadata": metadata}, MERGE_PATCH)

    def delete(self, path: str, uid: str, *, version: str = "") -> Written:
        """Delete the object at `path` only if it has this UID, and with `version` only if it is in this version."""
        same = {"uid": uid, **({"resourceVersion": version} if version else {})}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": same}
        return self._send("DELETE", path, options)

    def _patch_status(self, pod: Pod, annotations: Mapping[str, Any], status: Mapping[str, Any]) -> Written:
        meta = pod.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": annotations},
            "status": status,
        }
        return self._send("PATCH", f"{_pod_path(meta.namespace, meta.name)}/status", patch, STRATEGIC_MERGE_PATCH)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Written:
        query = {**(query or {}), **({} if method == "DELETE" else {"fieldManager": FIELD_MANAGER})}
        try:
            answer: _WrittenObject = self._transport.request(
                method, path, query=query, body=body, content_type=content_type, kind=_WrittenObject
            )
        except NotFoundException as error:
            return Written(Result.GONE, message=message_of(error))
        except ConflictException as error:
            return Written(Result.CONFLICT, message=message_of(error))
        except ApiException as error:
            return Written(self._refused(error), message=message_of(error))
        except UNREACHABLE as error:
            return Written(Result.LATER, message=message_of(error))
        self.done = next(self._done) + 1
        meta = answer.metadata
        if not query.get("dryRun") and method != "DELETE":
            self.read_your_writes.expect(path, meta.resource_version)
        return Written(Result.DONE, meta.uid, meta.resource_version)

    def _refused(self, error: ApiException) -> Result:
        if over_budget(error):
            return Result.REFUSED
        seconds = asked_to_wait(error)
        if seconds is None:
            return Result.FAILED
        self._not_before = max(self._not_before, self._clock.monotonic() + seconds)
        return Result.LATER


def gang_path(namespace: str, name: str = "") -> str:
    """Return the API path of a Gang, or of the collection if `name` is ""."""
    base = f"/apis/{API_VERSION}/namespaces/{namespace}/gangs"
    return f"{base}/{name}" if name else base


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
