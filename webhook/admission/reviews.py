"""Decodes AdmissionReview requests of the API server, and encodes the webhook's responses (v1).

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

import base64
from dataclasses import dataclass
from typing import Any

import msgspec

from kube.objects import OwnerReference, Struct
from webhook.admission.patch_builder import Operation
from webhook.errors import BadReview

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
REFUSAL_CODE = 422
REFUSAL_REASON = "Invalid"


class GroupVersionResource(Struct, frozen=True):
    """metav1.GroupVersionResource: the resource of an object, by API group, version and plural."""

    group: str = ""
    version: str = ""
    resource: str = ""


class Options(Struct, frozen=True):
    """The fields that Phalanx reads of the options of the reviewed API call (CreateOptions, UpdateOptions,
    PatchOptions).
    """

    field_manager: str = ""


class ManagedFields(Struct, frozen=True):
    """The fields of metav1.ManagedFieldsEntry that Phalanx reads."""

    manager: str | None = None
    operation: str | None = None
    subresource: str | None = None
    fields_v1: dict[str, Any] | None = None


class Metadata(Struct, frozen=True):
    """The fields of metav1.ObjectMeta that Phalanx reads, with the types that every API server guarantees. Unset fields
    are null.

    The values of labels and annotations may have any type here. They are checked later, where the message can name a
    remedy.
    """

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    managed_fields: tuple[ManagedFields, ...] | None = None


class Identity(Struct, frozen=True):
    """The fields that objects of every kind have: apiVersion, kind and metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata | None = None


class AdmissionRequest(Struct, frozen=True):
    """The fields of AdmissionRequest, the API server's call, that Phalanx reads.

    `object` and `old_object`: the object after and before the change, as plain dicts; None if there is none.
    """

    uid: str
    operation: str
    resource: GroupVersionResource
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    dry_run: bool = False
    options: Options | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class Review(Struct, frozen=True):
    """The AdmissionReview v1 that the API server sends."""

    api_version: str
    kind: str
    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class Admitted:
    """The object is admitted. `patch`: the changes to make to it; empty for none. Users see the `warnings`."""

    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The object is refused, because it contradicts itself or its topology.

    `message` names the object, the field, the fault and a remedy. The API server shows it and `warnings` to the user.
    """

    message: str
    warnings: tuple[str, ...] = ()


Decision = Admitted | Refused

_decoder = msgspec.json.Decoder(Review)


def decode(body: bytes) -> AdmissionRequest:
    """Decode the body of an admission call. Return its request.

    :raises BadReview: the body is no AdmissionReview v1, or its objects lack the form of Kubernetes objects.
    """
    try:
        review = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadReview(f"not an AdmissionReview: {error}") from error
    except RecursionError as error:
        raise BadReview("not an AdmissionReview: it nests too deep") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise BadReview(f"expected {API_VERSION} {KIND}, got {review.api_version} {review.kind}")
    for name, each in (("object", review.request.object), ("oldObject", review.request.old_object)):
        try:
            if each is not None:
                msgspec.convert(each, Identity)
        except msgspec.ValidationError as error:
            raise BadReview(f"request.{name} is no object of Kubernetes: {error}") from error
    return review.request


def encode(uid: str, decision: Decision) -> bytes:
    """Encode a decision as an AdmissionReview response to the request with this `uid` (`AdmissionRequest.uid`)."""
    response: dict[str, Any] = {"uid": uid, "allowed": isinstance(decision, Admitted)}
    match decision:
        case Admitted(patch=patch) if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
        case Refused(message=message):
            response["status"] = {"code": REFUSAL_CODE, "reason": REFUSAL_REASON, "message": message}
    if decision.warnings:
        response["warnings"] = decision.warnings
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
