"""Reads the current state of one object, or of the few objects of a kind, from the API server."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes.client.exceptions import ApiException, NotFoundException

from cluster.api.transport import UNREACHABLE, Transport, message_of
from cluster.api.trimming import trim_manifest


class UnreadError(Exception):
    """The API server could not be asked for an object, or refused. The text is the reason, for users."""


def read_one(
    transport: Transport,
    group: str,
    versions: Sequence[str],
    kind: str,
    plural: str,
    *,
    namespace: str,
    name: str,
    seconds: float,
) -> Mapping[str, Any] | None:
    """Return one object, trimmed; None if it does not exist.

    It is read by a list with its name, because Phalanx's service accounts have the permission to list.

    :param versions: the versions in which the kind may be served, best first.
    :param namespace: "" for a cluster-scoped kind.
    :param seconds: the time limit to connect, and between received bytes.
    :raises UnreadError: the object could not be read.
    """
    root = f"/apis/{group}" if group else "/api"
    within = f"namespaces/{namespace}/" if namespace else ""
    query = {"fieldSelector": f"metadata.name={name}"}
    for version in versions:
        path = f"{root}/{version}/{within}{plural}"
        try:
            answer = transport.request("GET", path, query=query, timeout=(seconds, seconds))
        except NotFoundException:
            continue  # the kind is not served in this version: try the next one
        except (ApiException, *UNREACHABLE) as error:
            raise UnreadError(message_of(error)) from error
        items = answer.get("items") or ()
        # the items of a list have neither of these two fields
        typed = {"apiVersion": answer.get("apiVersion", ""), "kind": kind}
        return {**typed, **trim_manifest(items[0])} if items else None
    return None


def read_list(
    transport: Transport, path: str, kind: str, *, seconds: float, most: int = 0
) -> tuple[Mapping[str, Any], ...]:
    """Return the objects of a kind, trimmed.

    :param path: the API path of the collection.
    :param seconds: the time limit to connect, and between received bytes.
    :param most: return at most so many objects; 0: all.
    :raises UnreadError: the objects could not be read.
    """
    query = {"limit": str(most)} if most else None
    try:
        answer = transport.request("GET", path, query=query, timeout=(seconds, seconds))
    except (ApiException, *UNREACHABLE) as error:
        raise UnreadError(message_of(error)) from error
    typed = {"apiVersion": answer.get("apiVersion", ""), "kind": kind}
    return tuple({**typed, **trim_manifest(each)} for each in answer.get("items") or ())
