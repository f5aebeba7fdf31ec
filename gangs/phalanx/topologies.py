"""Topology objects of `phalanx.dev`: levels with a name and a node label each. The node level is added if absent."""

from collections.abc import Sequence

from gangs.findings import Findings
from gangs.manifests import ref_of, spec_of
from gangs.model import Manifest, ObjectRef
from gangs.phalanx.spec import LevelSpec, TopologySpec
from gangs.topology.level_labels import check_labels
from kube.topology import HOSTNAME_LABEL, Level, Topology

KIND, PLURAL = "Topology", "topologies"
NODE_LEVEL = "node"


def topology_of(manifest: Manifest, findings: Findings) -> Topology | None:
    """Return the topology that a manifest describes; None if it is invalid. Faults go to `findings`."""
    ref, spec = ref_of(manifest), spec_of(manifest, TopologySpec, findings)
    if spec is None:
        return None
    before = len(findings.faults)
    _check(ref, spec.levels, findings)
    if len(findings.faults) > before:
        return None
    levels = [Level(each.name, (each.node_label,)) for each in spec.levels]
    listed = levels[-1].label_keys == (HOSTNAME_LABEL,)
    if not listed:
        taken = any(each.named_by(NODE_LEVEL) for each in levels)
        levels.append(Level(HOSTNAME_LABEL if taken else NODE_LEVEL, (HOSTNAME_LABEL,)))
    return Topology(ref.name, KIND, tuple(levels), hostname_listed=listed)


def _check(ref: ObjectRef, levels: Sequence[LevelSpec], findings: Findings) -> None:
    check_labels(ref, [each.node_label for each in levels], findings)
    names: dict[str, int] = {}
    for position, level in enumerate(levels):
        at = f"spec.levels[{position}]"
        if not level.name:
            findings.fault(ref, f"{at}.name", "is empty", "name the level")
        for key, text in (("name", level.name), ("nodeLabel", level.node_label)):
            if names.setdefault(text, position) != position:
                problem = f'"{text}" stands for spec.levels[{names[text]}] too'
                findings.fault(ref, f"{at}.{key}", problem, "give each level a name and a label of its own")
