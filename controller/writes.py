"""Every write the controller makes to the cluster, each one request. What it answers is a value, not an exception."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from kubernetes.client.exceptions import ApiException, ConflictException, NotFoundException

from cluster.transport import MERGE_PATCH, STRATEGIC_MERGE_PATCH, UNREACHABLE, Transport, message_of
from controller.echo import Echo
from kube.keys import API_VERSION, FIELD_MANAGER, PLAN, PLANNED_NODE
from kube.objects import Pod

WRITERS = 16
"""Requests in flight at once; more gain nothing on a real API server."""

TOO_MANY_REQUESTS = 429


class Result(Enum):
    """What became of a write."""

    DONE = "done"
    CONFLICT = "conflict"
    GONE = "gone"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to one write. `version`: the object's resourceVersion after it ("" where there is none)."""

    result: Result
    uid: str = ""
    version: str = ""
    message: str = ""

    @property
    def done(self) -> bool:
        """Whether the write happened."""
        return self.result is Result.DONE


class Write(Protocol):
    """One pending write."""

    def __call__(self) -> Written:
        """Make it."""


class Writer:
    """Writes with one identity, several at once."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pool = ThreadPoolExecutor(WRITERS, thread_name_prefix="write")
        self.echo = Echo()

    def all(self, writes: Iterable[Write]) -> list[Written]:
        """Make the writes in parallel and wait for all of them, in their order."""
        return list(self._pool.map(lambda write: write(), writes))

    def close(self) -> None:
        """Let no write begin any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def nominate(self, pod: Pod, node: str, plan_id: str, condition: Mapping[str, str] | None = None) -> Written:
        """Hold room for a member on its node, with the plan in its annotations. A gated or released pod alike."""
        status: dict[str, Any] = {"nominatedNodeName": node}
        if condition:
            status["conditions"] = [dict(condition)]
        return self._patch_status(pod, {PLAN: plan_id, PLANNED_NODE: node}, status)

    def clear(self, pod: Pod) -> Written:
        """Give a member's room back."""
        return self._patch_status(pod, {PLAN: None, PLANNED_NODE: None}, {"nominatedNodeName": None})

    def condition(self, pod: Pod, condition: Mapping[str, str]) -> Written:
        """Write one condition of a pod that is not bound."""
        return self._patch_status(pod, {}, {"conditions": [dict(condition)]})

    def release(self, pod: Pod, patch: Mapping[str, Any]) -> Written:
        """Pin a member and take its gate away."""
        return self._send("PATCH", _pod_path(pod.metadata.namespace, pod.metadata.name), patch, MERGE_PATCH)

    def evict(self, namespace: str, name: str, uid: str, *, version: str = "", dry_run: bool = False) -> Written:
        """Evict one pod through the Eviction API. REFUSED: a disruption budget does not allow it now.

        :param version: its resourceVersion, for a pod that may only go as it was seen: CONFLICT where it has changed.
        """
        same = {"uid": uid, **({"resourceVersion": version} if version else {})}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": same, **({"dryRun": ["All"]} if dry_run else {})},
        }
        query = {"dryRun": "All"} if dry_run else None
        return self._send("POST", f"{_pod_path(namespace, name)}/eviction", body, query=query)

    def create(self, path: str, manifest: Mapping[str, Any]) -> Written:
        """Create an object in the collection at `path`."""
        return self._send("POST", path, manifest)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Written:
        """Merge-patch the object at `path`."""
        return self._send("PATCH", path, patch, MERGE_PATCH)

    def delete(self, path: str, uid: str = "") -> Written:
        """Delete the object at `path`; with a uid, only that very one."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        if uid:
            options["preconditions"] = {"uid": uid}
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
            answer = self._transport.request(method, path, query=query, body=dict(body), content_type=content_type)
        except NotFoundException as error:
            return Written(Result.GONE, message=message_of(error))
        except ConflictException as error:
            return Written(Result.CONFLICT, message=message_of(error))
        except ApiException as error:
            result = Result.REFUSED if error.status == TOO_MANY_REQUESTS else Result.FAILED
            return Written(result, message=message_of(error))
        except UNREACHABLE as error:
            return Written(Result.FAILED, message=message_of(error))
        meta = answer.get("metadata") or {}
        if not query.get("dryRun") and method != "DELETE":
            self.echo.expect(path, meta.get("resourceVersion", ""))
        return Written(Result.DONE, meta.get("uid", ""), meta.get("resourceVersion", ""))


def gang_path(namespace: str, name: str = "") -> str:
    """Path of a Gang, or of the collection."""
    base = f"/apis/{API_VERSION}/namespaces/{namespace}/gangs"
    return f"{base}/{name}" if name else base


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
