"""Which reason the PodScheduled condition of a gated member has: autoscalers act on Unschedulable."""

from dataclasses import replace

import pytest
from gang_builders import gang, pod, refused
from planning_bench import picture

from controller.status.conditions import GATED, UNSCHEDULABLE, member_conditions
from gangs.ack import NAME as ACK
from gangs.koordinator import NAME as KOORDINATOR


@pytest.mark.parametrize(
    ("messages", "reason"), [("", GATED), ("kai", GATED), (KOORDINATOR, UNSCHEDULABLE), (ACK, UNSCHEDULABLE)]
)
def test_only_dialects_whose_documents_print_it_say_unschedulable(messages: str, reason: str) -> None:
    of = replace(gang(pod("w-0"), pod("w-1")), messages=messages)
    conditions = member_conditions(of, refused(of), picture())
    assert [each["reason"] for _, each in conditions] == [reason, reason]
