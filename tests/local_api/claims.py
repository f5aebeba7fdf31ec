"""The API server's own rules for the status of ResourceClaims, and the policy of manifests/devices/guard.yaml.

The rules are those of pkg/apis/resource/validation (`ValidateResourceClaimStatusUpdate`): an allocation may be removed,
but not be replaced by another one, and only an allocated claim can be reserved.
"""

from local_api.resources import Address
from local_api.store import Object, RefusedError, about, invalid

_SYSTEM = "phalanx-system"


def checked(at: Address, old: Object, new: Object) -> Object:
    """Return the claim with its new status. Raise `RefusedError` if the status is not allowed."""
    before = (old.get("status") or {}).get("allocation")
    status = new.get("status") or {}
    after = status.get("allocation")
    if after and at.namespace == _SYSTEM:
        message = "no claim in the namespace of Phalanx is allocated, because its pods never run"
        raise RefusedError(403, "Forbidden", message, **about(at))
    if before and after and before != after:
        raise invalid(at, "status.allocation", "FieldValueInvalid", "Invalid value: field is immutable")
    if status.get("reservedFor") and not after:
        why = "Forbidden: may not be specified when `allocated` is not set"
        raise invalid(at, "status.reservedFor", "FieldValueForbidden", why)
    return new
