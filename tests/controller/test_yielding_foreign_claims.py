"""If the scheduler has allocated a device to two claims, the controller writes nothing, and its message names both."""

from dataclasses import replace

from local_api.direct import DirectTransport
from local_api.server import local_api
from protocol_scenes import gang, pod, situation
from test_device_steps import BARE, claim, device, member, plan, view

from controller.acting.holding import DeviceHolder
from controller.reconcile_state import ReconcileState
from controller.release.next_step import Yield, next_step
from controller.writes.writer import Writer


def test_claims_that_the_scheduler_has_allocated_are_named_and_not_changed() -> None:
    """A running pod uses the claim that the member a uses, too. The scheduler allocated it as planned meanwhile."""
    theirs, rival = claim("a-gpu", device("n1"), ["other"]), claim("rival", device("n1"), ["r"])
    of = gang(member("a"), member("b"))
    seen = view((theirs, rival, BARE[1]), taints=False)
    found = situation(of, plan(), pod("other", bound="n1", cpu="0"), pod("r", bound="n1", cpu="0"))
    step = next_step(replace(found, devices=seen))
    assert isinstance(step, Yield)
    with local_api() as api:
        writer = Writer(DirectTransport(api))
        effects = DeviceHolder(writer).yield_devices(ReconcileState(of, {}, plan(), step), step.devices, step.doubled)
        writer.close()
        assert api.writes() == []
    assert effects.awaited == (
        "device gpu-0 of pool n1 is allocated to ResourceClaim default/a-gpu and to ResourceClaim default/rival: "
        "delete the pods of one of them"
    )
