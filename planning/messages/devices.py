"""The message for a gang that stays gated because Phalanx cannot plan the devices that its pods request."""

from kube.keys import IGNORE_CLAIMS
from planning.messages.wording import compressed, listed
from planning.scheduler_rules.resource_claims import ClaimTooLarge, UnplannedDevices


def unplanned(devices: UnplannedDevices) -> str:
    """Return a part of a message: why the gang stays gated, and how the user can release it without a plan for
    devices.
    """
    if devices.level:
        return (
            f'stays gated: level "{devices.level}" is a level of devices, and no pod has resource claims '
            "(spec.resourceClaims); claim the devices, or require a level of nodes"
        )
    if devices.too_large is not None:
        return f"stays gated: {_too_large(devices.too_large)}"
    needs = []
    if devices.claiming:
        with_what = f" with {devices.because}" if devices.because else ""
        needs.append(f"{_pods(devices.claiming, 'has', 'have')} resource claims (spec.resourceClaims){with_what}")
    if devices.asking:
        resources = listed([f"{resource} (DeviceClass {name})" for resource, name in devices.resources])
        needs.append(f"{_pods(devices.asking, 'asks', 'ask')} for {resources}, which no node's status.allocatable has")
    what = "that" if devices.because and not devices.asking else "devices"
    cause, first = f"Phalanx does not plan {what} yet", ""
    if devices.converts and devices.asking and not devices.claiming:
        cause = "such requests become resource claims only when pods are created"
        first = "delete these pods so that they are recreated; "
    without = "without a plan for its devices" if first else "without that plan"
    return (
        f"stays gated: {' and '.join(needs)}, and {cause}; {first}to release the gang {without}, "
        f'annotate {devices.source} {IGNORE_CLAIMS}: "true"'
    )


def _too_large(claim: ClaimTooLarge) -> str:
    """Return which claim is too large, and how the user can split it. No annotation helps, because the stock scheduler
    could not serve the claim either.
    """
    if claim.unit == "pods":
        several = f"{_pods(claim.pods, 'uses', 'use')} {claim.written_in} (spec.resourceClaims)"
        return f"{several}, and at most {claim.most} pods can use one claim; use several claims, or a template"
    number = str(claim.number) if claim.number else f"more than {claim.most}"
    what = f"{number} devices in one claim ({claim.written_in}"
    remedy = "ask for fewer devices"
    if claim.unit == "requests":
        what = f"devices in {number} requests, one for each resource of each container ({claim.written_in}"
        remedy = "request devices in fewer containers"
    becomes = ", which becomes one ResourceClaim" if claim.converted else ""
    limit = f"one claim can have at most {claim.most} {claim.unit}"
    asking = _pods(claim.pods, "asks", "ask")
    return f"{asking} for {what}{becomes}), and {limit}; {remedy}, or use several claims (spec.resourceClaims)"


def _pods(names: tuple[str, ...], one: str, several: str) -> str:
    return f"pod {names[0]} {one}" if len(names) == 1 else f"pods {compressed(names)} {several}"
