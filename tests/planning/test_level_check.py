"""The check of levels below the node refuses devices in several domains, even if the search chose them."""

import device_scenes as devices
import pytest
import scenes
from test_levels_below_the_node import ATTRIBUTE, cluster, decided, members

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from planning.devices import allotment
from planning.messages import outcomes


def test_devices_in_two_domains_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is made to choose wrongly."""

    def crossed(*_: object) -> allotment.Allocations:
        def claim(pod: str, *gpus: str) -> tuple[ClaimAllocation, ...]:
            got = tuple(AllocatedDevice("gpu", DeviceId(devices.DRIVER, "n1", each)) for each in gpus)
            return (ClaimAllocation("default", "", "n1", got, (pod,), "gpu"),)

        return {"default/llm-0": claim("llm-0", "gpu-0", "gpu-2"), "default/llm-1": claim("llm-1", "gpu-1", "gpu-3")}

    parts = [*cluster(n1="0011"), scenes.gang(minMember=2, required="nvlink"), *members(2)]
    assert decided(*parts).proof == "Optimal"
    monkeypatch.setattr(outcomes, "allotted", crossed)
    assert (decided(*parts).outcome.value, decided(*parts).proof) == ("Unplaceable", "Unproven")
    free = [*cluster(n1="0011"), scenes.gang(minMember=2, preferred="nvlink"), *members(2)]
    assert decided(*free).outcome.value == "Placed"


def test_a_level_may_be_required_by_its_attribute() -> None:
    decision = decided(cluster(n1="0011"), scenes.gang(minMember=2, required=ATTRIBUTE), members(2))
    assert [(each.level, each.mode, len(each.domains)) for each in decision.device_levels] == [
        ("nvlink", "required", 2)
    ]
