"""The reason and the message in a gang's status while its plan waits for claims or devices."""

from controller.gang_status import CLAIMS_MISSING, DEVICES_LEAVING
from controller.release.next_step import AwaitClaims, AwaitDevices, Step
from controller.release.records import PlanRecord
from gangs.model import Gang
from planning.messages.wording import compressed, listed

_NAMED = 3
"""The most claims that a message names."""


def about_devices(step: Step) -> tuple[str, str]:
    """Return the reason and the message for a step that waits for claims or devices; ("", "") for any other step."""
    if isinstance(step, AwaitClaims) and not step.missing:
        return CLAIMS_MISSING, (
            "capacity is reserved, but Phalanx cannot read ResourceClaims: install the component manifests/devices"
        )
    if isinstance(step, AwaitClaims):
        names = _some([each.text for each in step.missing])
        return CLAIMS_MISSING, f"capacity is reserved; waits for {names} to be created"
    if isinstance(step, AwaitDevices):
        holders = _some([f"ResourceClaim {claim.key} to free {device.device}" for device, claim in step.holders])
        return DEVICES_LEAVING, f"capacity is reserved; waits for {holders}"
    return "", ""


def devices_not_held(gang: Gang, record: PlanRecord | None) -> str:
    """Return the message that no devices are allocated to expected pods yet, because their claims do not exist; "" if
    no expected pod needs devices.
    """
    coming = [member.pod.metadata.name for member in gang.to_come]
    if record is None or not coming:
        return ""
    needing = {name for claim in record.claims if set(claim.pods) <= set(coming) for name in claim.pods}
    names = [name for name in coming if name in needing]
    if not names:
        return ""
    return f"the devices of {compressed(names)} are not held before {'it exists' if len(names) == 1 else 'they exist'}"


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return listed([*names[:_NAMED], *([f"{more} more"] if more > 0 else [])])
