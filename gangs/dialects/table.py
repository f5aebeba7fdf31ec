"""The table of dialects: the dialects in the order in which they are tried, and the kinds of objects to watch.

A dialect is a package beside this one and a line in `DIALECTS`. `gangs.dialects.protocol` defines its members.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gangs.ack.dialect import AckDialect
from gangs.coexistence.ownership import EVIDENCE_KINDS
from gangs.coexistence.running_schedulers import KNOWN
from gangs.dialects.protocol import Dialect, Grouping, Wording
from gangs.kai.dialect import KaiDialect
from gangs.koordinator.dialect import KoordinatorDialect
from gangs.kueue.dialect import KueueDialect
from gangs.model import Manifest
from gangs.native.dialect import NativeDialect
from gangs.no_room import Words
from gangs.phalanx.dialect import PhalanxDialect
from gangs.resource_kinds import ResourceKind
from gangs.runai.dialect import RunaiDialect
from gangs.workloads.kind_table import WATCHED
from gangs.workloads.pod_templates import carries
from gangs.workloads.train_jobs import RUNTIMES
from gangs.workloads.user_defined_kinds import resources_of

DIALECTS: tuple[Dialect, ...] = (
    PhalanxDialect(),
    RunaiDialect(),
    AckDialect(),
    KoordinatorDialect(),
    KaiDialect(),
    KueueDialect(),
    NativeDialect(),
)
"""All dialects in order of precedence: if a pod names gangs in several dialects, the first of them claims it."""

OWN = PhalanxDialect.name
"""The name of Phalanx's own dialect, in which users ask for gangs by Gang objects and `phalanx.dev` annotations."""

GROUPING: Mapping[str, Grouping] = {each.name: each for each in DIALECTS if isinstance(each, Grouping)}
"""By name: the dialects in which several keys can name one gang (`Grouping`)."""

WORDS: Mapping[str, Words] = {each.name: each.no_room_messages for each in DIALECTS if isinstance(each, Wording)}
"""By dialect name (`Gang.messages`): the function that words messages about a lack of capacity as its system does."""

_POD_KEYS = frozenset(key for each in DIALECTS for key in (*each.pod_keys.labels, *each.pod_keys.annotations))


def all_kinds() -> tuple[ResourceKind, ...]:
    """Return every kind to watch, besides pods, nodes and namespaces.

    These are group objects, workloads, the runtimes of TrainJobs, topologies, webhook configurations (by which other
    scheduling systems are detected), and a ConfigMap about schedulers.
    """
    of_dialects = (kind for each in DIALECTS for kind in (*each.group_kinds, *each.topology_kinds))
    kept = (replace(kind, keeps=_asks) if kind in WATCHED else kind for kind in of_dialects)
    kept = (kind if kind.user_defined is None else replace(kind, user_defined=_user_defined) for kind in kept)
    return tuple(dict.fromkeys((*kept, *RUNTIMES, *EVIDENCE_KINDS, KNOWN)))


def _user_defined(described: Sequence[Manifest]) -> Iterator[ResourceKind]:
    """Yield the kinds that these WorkloadKinds describe, restricted to objects with a key that asks for a gang."""
    return (replace(kind, keeps=_asks) for kind in resources_of(described))


def _asks(workload: Manifest) -> bool:
    """Whether a workload, or a pod template of it, has a label or annotation by which pods ask for gangs."""
    return carries(workload, _POD_KEYS)
