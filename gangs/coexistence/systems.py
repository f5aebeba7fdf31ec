"""The systems that may run beside Phalanx: each dialect brings the row of its own."""

from collections.abc import Mapping

from gangs.ack.system import ACK
from gangs.kai.system import KAI
from gangs.koordinator.system import KOORDINATOR
from gangs.kueue.system import KUEUE
from gangs.runai.system import RUNAI
from gangs.system import System

SYSTEMS: tuple[System, ...] = (KUEUE, KOORDINATOR, KAI, RUNAI, ACK)
"""In the order in which they are told of; of two that have one dialect's workloads the first is named."""

CHOICES = tuple(each.name for each in SYSTEMS)
"""What the annotations may name."""

MAY_BE_LEFT = frozenset({*CHOICES, *(name for each in SYSTEMS for name in each.dialects)})
"""Dialects that another system may have: all but our own."""

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    each.component: each.dialects for each in sorted(SYSTEMS, key=lambda each: each.component)
}
"""By the component that has nobody ask about it (manifests/without-…): the dialects whose keys it leaves out."""
