"""The systems that may run beside Phalanx: each dialect brings the row of its own."""

from collections.abc import Mapping

from gangs.ack.system import ACK
from gangs.kai.system import KAI
from gangs.koordinator.system import KOORDINATOR
from gangs.kueue.system import KUEUE
from gangs.native.system import NATIVE
from gangs.runai.system import RUNAI
from gangs.system import System

SYSTEMS: tuple[System, ...] = (KUEUE, KOORDINATOR, KAI, RUNAI, ACK, NATIVE)
"""The systems in the order in which they are reported. If a dialect is ceded to two of them, the first is named."""

CHOICES = tuple(each.name for each in SYSTEMS)
"""Names of systems that the annotations `adopt` and `leave` may contain."""

MAY_BE_LEFT = frozenset({*CHOICES, *(name for each in SYSTEMS for name in each.dialects)})
"""Names of the systems, and of the dialects that may be ceded to them: all dialects except Phalanx's own."""

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    each.component: each.dialects for each in sorted(SYSTEMS, key=lambda each: each.component) if each.component
}
"""By component (manifests/without-…): the dialects whose keys the component removes from the webhook configuration."""
