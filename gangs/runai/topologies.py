"""Topology objects of kai.scheduler, which Run:ai uses: node labels, the widest level first, with optional aliases.

The rules are those of KAI Scheduler's CRD and of its validating webhook.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from gangs.findings import Findings
from gangs.manifests import advise_unknown, ref_of, spec_of
from gangs.model import Manifest, ObjectRef
from gangs.runai import keys
from gangs.topology.level_labels import check_each_once, check_labels
from kube.topology import HOSTNAME_LABEL, Level, Topology

NODE_LEVEL = "node"


class LevelSpec(msgspec.Struct, frozen=True, rename="camel"):
    """One level of a Topology object of kai.scheduler: its node label, and another name for it."""

    node_label: str
    alias: str | None = None


class TopologySpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Topology object of kai.scheduler."""

    levels: tuple[LevelSpec, ...]


def topology_of(manifest: Manifest, findings: Findings) -> Topology | None:
    """Return the topology that a manifest describes; None if it is invalid. Faults go to `findings`.

    Users may name a level by its label, its alias, or the last part of the label. The level with the label
    `cloud.provider.com/topology-rack` is also called `topology-rack` and `rack`, unless another level has that name.
    The node level is the last one, whether or not the object lists it.
    """
    ref, spec = ref_of(manifest), spec_of(manifest, TopologySpec, findings)
    if spec is None:
        return None
    for position, entry in enumerate(manifest["spec"]["levels"]):
        advise_unknown(entry, ("nodeLabel", "alias"), ref, f"spec.levels[{position}]", findings)
    before = len(findings.faults)
    _check(ref, spec.levels, findings)
    if len(findings.faults) > before:
        return None
    levels = list(spec.levels)
    listed = levels[-1].node_label == HOSTNAME_LABEL
    if not listed:
        levels.append(LevelSpec(HOSTNAME_LABEL))
    return Topology(ref.name, keys.TOPOLOGY_KIND, _levels(levels), hostname_listed=listed)


def _levels(written: Sequence[LevelSpec]) -> tuple[Level, ...]:
    """Return the levels, each with its name and its aliases. A name that two levels would share is left out.

    The name of a level is its alias, else its shortest name, else its label.
    """
    offered = [_names(each) for each in written]
    times = Counter(name for names in offered for name in set(names))
    fixed = {name for each in written for name in (each.alias, each.node_label) if name}
    levels = []
    for each, names in zip(written, offered, strict=True):
        own = [name for name in names if name == each.alias or (times[name] == 1 and name not in fixed)]
        first = own[-1] if own and each.alias is None else each.alias or each.node_label
        levels.append(Level(first, (each.node_label,), aliases=tuple(name for name in own if name != first)))
    return tuple(levels)


def _names(level: LevelSpec) -> list[str]:
    """Return the possible names of a level: its alias, the last part of its label, and this part without
    `topology-`.
    """
    if level.node_label == HOSTNAME_LABEL:
        parts = ["hostname", NODE_LEVEL]
    else:
        last = level.node_label.rpartition("/")[2]
        parts = [last, last.removeprefix("topology-")]
    return list(dict.fromkeys(each for each in (level.alias, *parts) if each))


def _check(ref: ObjectRef, levels: Sequence[LevelSpec], findings: Findings) -> None:
    labels, aliases = [each.node_label for each in levels], [each.alias for each in levels]
    check_labels(ref, labels, findings)
    check_each_once(ref, "nodeLabel", labels, findings)
    check_each_once(ref, "alias", aliases, findings)
    for position, alias in enumerate(aliases):
        if alias in labels:
            problem = f'"{alias}" is the nodeLabel of spec.levels[{labels.index(alias)}]'
            findings.fault(ref, f"spec.levels[{position}].alias", problem, "choose a name that is no level's label")
