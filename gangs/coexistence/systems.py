"""The table of the other scheduling systems that may run in the cluster. The package of each dialect describes the
dialect's own system.
"""

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
"""The names of the systems, and of the dialects that may be ceded to them. Phalanx's own dialect is never ceded."""

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    each.component: each.dialects for each in sorted(SYSTEMS, key=lambda each: each.component) if each.component
}
"""By kustomize component (manifests/without-…): the dialects whose keys it removes from the webhook configuration."""
