"""Every write of the controller to the cluster, each one request. The result of a write is a value, not an exception.

A write to an existing object names the resourceVersion that was read. If another client, such as another leader, has
changed the object, the write has no effect (CONFLICT), and the next reconcile reads the object again. The only
exception is `LeadershipLostError`. The transport raises it when the leader's term is over, so that nothing more is
written.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, Protocol, TypeVar

from kubernetes.client.exceptions import ApiException, ConflictException, NotFoundException

from cluster.api.transport import (
    MERGE_PATCH,
    ONLY_METADATA,
    STRATEGIC_MERGE_PATCH,
    UNREACHABLE,
    Transport,
    asked_to_wait,
    message_of,
    over_budget,
)
from controller.defaults import WRITES
from controller.writes.read_your_writes import ReadYourWrites
from kube.devices import GROUP as RESOURCE_GROUP
from kube.devices import ResourceClaim
from kube.keys import API_VERSION, COUNTED_AGAIN, FIELD_MANAGER, PLAN, PLANNED_NODE, SPARED, TAKEN_BACK
from kube.objects import Pod, Struct
from timing.clock import SYSTEM_CLOCK, Clock

_QUERY = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Ignore"}
"""The query of patches and creations. By default the API server also looks for unknown and duplicate fields of each
body, and reports them in a header `Warning` that is not read here. It drops unknown fields in either case. The search
takes it 0.1 to 0.4 ms of CPU for a patch of a pod.
"""
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer of an allocated claim. kube-scheduler writes it, too, and the claim controller removes it."""


class Result(Enum):
    """The result of a write.

    `CONFLICT`: the object has changed since it was read. `GONE`: the object does not exist.
    `REFUSED`: a disruption budget does not allow the eviction now. `LATER`: the API server was overloaded or could not
    be reached, so the write may be sent again. `FAILED`: any other error; the same write would fail again.
    """

    DONE = "done"
    CONFLICT = "conflict"
    GONE = "gone"
    REFUSED = "refused"
    LATER = "later"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Written:
    """The API server's answer to one write.

    `uid` and `version`: of the object after the write (`metadata.uid`, `metadata.resourceVersion`); "" if the answer
    does not name them. `message`: the error message; "" without an error.
    """

    result: Result
    uid: str = ""
    version: str = ""
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether the API server has accepted the write."""
        return self.result is Result.DONE

    @property
    def over(self) -> bool:
        """Whether the write succeeded or the object does not exist, so that it need not be sent again."""
        return self.result in (Result.DONE, Result.GONE)


Value = TypeVar("Value")


class _WrittenMetadata(Struct, frozen=True):
    uid: str = ""
    resource_version: str = ""


class _WrittenObject(Struct, frozen=True):
    """The fields of an answer that are decoded. To decode the whole object costs a third of the request itself."""

    metadata: _WrittenMetadata = _WrittenMetadata()


class Write(Protocol):
    """A write that has not been sent yet: a call without arguments that sends it."""

    def __call__(self) -> Written:
        """Send the write and return its result."""


class Writer:
    """Sends the controller's writes to the API server, in parallel. The results are values, not exceptions.

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
        """The number of write requests that have succeeded since the start of the term."""
        self.read_your_writes = ReadYourWrites(clock)

    @property
    def pause(self) -> float:
        """The seconds until the API server accepts requests again, from the last `Retry-After`; usually 0."""
        return max(0.0, self._not_before - self._clock.monotonic())

    def all(self, writes: Iterable[Write]) -> list[Written]:
        """Send the writes in parallel and wait for all of them, even if the term ends. Return the results in order."""
        return self.each(writes)

    def each(self, calls: Iterable[Callable[[], Value]]) -> list[Value]:
        """Run these calls in parallel and wait for all of them. Each call sends writes. The results are in the order of
        the calls.
        """
        begun = [self._pool.submit(call) for call in calls]
        if begun:
            wait(begun)
        return [each.result() for each in begun]

    def close(self) -> None:
        """Start no further write. A write that is being sent is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def nominate(
        self,
        pod: Pod,
        node: str,
        plan_id: str,
        condition: Mapping[str, str] | None = None,
        *,
        counted_again: str = "",
    ) -> Written:
        """Nominate a member for its node: write `nominatedNodeName`, and the plan as annotations.

        :param condition: a pod condition to write in the same request; None for none.
        :param counted_again: a text that no earlier call has written, so that the pod changes even if it is nominated
            already; "" if that is not needed.
        """
        status: dict[str, Any] = {"nominatedNodeName": node}
        if condition:
            status["conditions"] = [dict(condition)]
        more: dict[str, str | None] = {TAKEN_BACK: None} if TAKEN_BACK in pod.metadata.annotations else {}
        if counted_again:
            more[COUNTED_AGAIN] = counted_again
        return self._patch_status(pod, {PLAN: plan_id, PLANNED_NODE: node, **more}, status)

    def clear(self, pod: Pod) -> Written:
        """Remove a member's nomination, which frees its capacity."""
        return self._patch_status(pod, {PLAN: None, PLANNED_NODE: None}, {"nominatedNodeName": None})

    def take_back(self, pod: Pod, time: str) -> Written:
        """Remove the nomination of a released member that no scheduler tried, and record the time on the pod.

        :param time: the present time, RFC 3339.
        """
        annotations = {PLAN: None, PLANNED_NODE: None, TAKEN_BACK: time}
        return self._patch_status(pod, annotations, {"nominatedNodeName": None})

    def condition(self, pod: Pod, condition: Mapping[str, str]) -> Written:
        """Write one condition of a pod that is not bound."""
        return self._patch_status(pod, {}, {"conditions": [dict(condition)]})

    def release(self, pod: Pod, patch: Mapping[str, Any]) -> Written:
        """Release a member by this patch, which pins it and removes its gate (`controller.release.patches`)."""
        return self._send("PATCH", _pod_path(pod.metadata.namespace, pod.metadata.name), patch, MERGE_PATCH)

    def evict(self, namespace: str, name: str, uid: str, *, version: str = "", dry_run: bool = False) -> Written:
        """Evict one pod through the Eviction API. REFUSED: a disruption budget does not allow it now.

        :param version: the resourceVersion that was read. CONFLICT if the pod has changed since. "" for any version.
        :param dry_run: only ask the API server whether it would accept the eviction.
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
        """Read the collection at `path`, and make the next reconcile wait until the caches show these versions.

        Used for objects that the API server itself has changed because of the controller's requests, such as
        disruption budgets. If the read fails, the next reconcile uses the caches as they are.
        """
        try:
            answer = self._transport.request("GET", path)
        except (ApiException, *UNREACHABLE):
            return
        for each in answer.get("items") or ():
            self.read_your_writes.expect(path, (each.get("metadata") or {}).get("resourceVersion", ""))

    def spare(self, pod: Pod, plan_id: str) -> Written:
        """Change an annotation of a pod, so that evictions which name its old resourceVersion fail.

        Used for a victim that is not to be evicted after all.

        :param plan_id: the invalidated plan, as the value of the annotation.
        """
        meta = pod.metadata
        same = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": {**same, "annotations": {SPARED: plan_id}}}
        return self._send("PATCH", _pod_path(meta.namespace, meta.name), patch, MERGE_PATCH)

    def annotate(self, pod: Pod, annotations: Mapping[str, str | None]) -> Written:
        """Write annotations of a pod, whatever its resourceVersion; the value None removes an annotation.

        The version is not a precondition, because a kubelet often updates the status of a pod that starts.
        """
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": dict(annotations)}}
        return self._send("PATCH", _pod_path(meta.namespace, meta.name), patch, MERGE_PATCH)

    def allocate(self, claim: ResourceClaim, status: Mapping[str, Any], plan_id: str) -> list[Written]:
        """Allocate devices to a claim by two writes: first the mark and the finalizer that protects the allocation,
        then the status. Return the results of both.

        The first write names the version of the claim that was read, and the second one the version that the first has
        created.

        :param status: the fields of the status (`controller.release.devices.allocation_status`).
        :param plan_id: the value of the mark, the annotation `phalanx.dev/plan`.
        """
        written, meta = list[Written](), claim.metadata
        version = meta.resource_version
        if CLAIM_FINALIZER not in meta.finalizers or PLAN not in meta.annotations:
            finalizers = list(dict.fromkeys((*meta.finalizers, CLAIM_FINALIZER)))
            marked = {"uid": meta.uid, "resourceVersion": version, "finalizers": finalizers}
            patch: dict[str, Any] = {"metadata": {**marked, "annotations": {PLAN: plan_id}}}
            written.append(self._send("PATCH", claim_path(meta.namespace, meta.name), patch, MERGE_PATCH))
            if not written[-1].done:
                return written
            version = written[-1].version
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": version}, "status": dict(status)}
        path = f"{claim_path(meta.namespace, meta.name)}/status"
        return [*written, self._send("PATCH", path, patch, MERGE_PATCH)]

    def give_up(self, claim: ResourceClaim, pods: Collection[str]) -> Written:
        """Free a claim from these pods. If it is reserved for no other pod, also take its devices away, in one write.

        The API server refuses to deallocate a claim that is reserved, so both are one write. An allocation without a
        reservation would keep the devices for ever.

        :param pods: UIDs of gated pods.
        """
        meta, kept = claim.metadata, [each for each in claim.status.reserved_for if each.uid not in pods]
        status: dict[str, Any] = {"allocation": None, "reservedFor": None}
        if kept:
            status = {"reservedFor": [{"resource": e.resource, "name": e.name, "uid": e.uid} for e in kept]}
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
        return self._send("PATCH", f"{claim_path(meta.namespace, meta.name)}/status", patch, MERGE_PATCH)

    def create(self, path: str, manifest: Mapping[str, Any]) -> Written:
        """Create an object in the collection at `path`."""
        return self._send("POST", path, manifest)

    def merge(self, path: str, patch: Mapping[str, Any], seen: Mapping[str, Any]) -> Written:
        """Merge-patch the object at `path`.

        :param seen: the object as it was read. CONFLICT if it has changed since.
        """
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
        query = query or {} if method == "DELETE" else {**_QUERY, **(query or {})}
        try:
            answer: _WrittenObject = self._transport.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                headers={"Accept": ONLY_METADATA} if method == "PATCH" else None,
                kind=_WrittenObject,
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


def claim_path(namespace: str, name: str = "") -> str:
    """Return the API path of a ResourceClaim, or of the collection if `name` is ""."""
    base = f"/apis/{RESOURCE_GROUP}/v1/namespaces/{namespace}/resourceclaims"
    return f"{base}/{name}" if name else base


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
