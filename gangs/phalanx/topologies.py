"""Topology objects of `phalanx.dev`: levels with a name and a node label each. The node level is added if absent.

Levels below the node have a device attribute in place of the label, and come last.
"""

import re
from collections.abc import Sequence

from gangs.findings import Findings
from gangs.manifests import ref_of, spec_of
from gangs.model import Fault, Manifest, ObjectRef
from gangs.phalanx.spec import LevelSpec, TopologySpec
from gangs.topology.level_labels import check_label_keys, check_number
from kube.kept_objects import computed_once
from kube.topology import HOSTNAME_LABEL, DeviceLevel, Level, Topology

_ATTRIBUTE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/[A-Za-z_][A-Za-z0-9_]{0,31}")
"""Domain and name of a device attribute: a DNS subdomain and a C identifier (API documentation of QualifiedName)."""

KIND, PLURAL = "Topology", "topologies"
NODE_LEVEL = "node"


def topology_of(manifest: Manifest, findings: Findings) -> Topology | None:
    """Return the topology that a manifest describes; None if it is invalid. Faults go to `findings`."""
    topology, faults = _described(manifest)
    findings.take(faults)
    return topology


@computed_once
def _described(manifest: Manifest) -> tuple[Topology | None, Sequence[Fault]]:
    """Return the topology that a manifest describes, or None if it is invalid, and the faults of the manifest."""
    findings = Findings()
    ref, spec = ref_of(manifest), spec_of(manifest, TopologySpec, findings)
    if spec is not None:
        _check(ref, spec.levels, findings)
    if spec is None or findings.faults:
        return None, findings.faults
    levels = [Level(each.name, (each.node_label,)) for each in spec.levels if each.node_label]
    below = tuple(DeviceLevel(each.name, (each.device_attribute,)) for each in spec.levels if each.device_attribute)
    listed = bool(levels) and levels[-1].label_keys == (HOSTNAME_LABEL,)
    if not listed:
        taken = any(each.named_by(NODE_LEVEL) for each in levels) or any(each.named_by(NODE_LEVEL) for each in below)
        levels.append(Level(HOSTNAME_LABEL if taken else NODE_LEVEL, (HOSTNAME_LABEL,)))
    return Topology(ref.name, KIND, tuple(levels), hostname_listed=listed, below=below), ()


def _check(ref: ObjectRef, levels: Sequence[LevelSpec], findings: Findings) -> None:
    below = next((position for position, each in enumerate(levels) if each.device_attribute), len(levels))
    check_number(ref, len(levels), findings)
    unlabelled = [position for position, each in enumerate(levels[:below]) if not each.node_label]
    for position in unlabelled:
        findings.fault(
            ref, f"spec.levels[{position}].nodeLabel", "is missing", "set it, or deviceAttribute below the node"
        )
    if not unlabelled:
        check_label_keys(ref, [each.node_label for each in levels[:below]], findings)
    names: dict[str, int] = {}
    for position, level in enumerate(levels):
        at = f"spec.levels[{position}]"
        if not level.name:
            findings.fault(ref, f"{at}.name", "is empty", "name the level")
        if position >= below:
            _check_attribute(ref, at, level, findings)
        texts = (("name", level.name), ("nodeLabel", level.node_label), ("deviceAttribute", level.device_attribute))
        for key, text in texts:
            if text and names.setdefault(text, position) != position:
                problem = f'"{text}" stands for spec.levels[{names[text]}] too'
                what = "an attribute" if level.device_attribute else "a label"
                findings.fault(ref, f"{at}.{key}", problem, f"give each level a name and {what} of its own")


def _check_attribute(ref: ObjectRef, at: str, level: LevelSpec, findings: Findings) -> None:
    """Report what is wrong with a level that is listed at or after the first level below the node."""
    attribute = level.device_attribute
    if not attribute:
        problem = "names a level of nodes after a level below the node"
        findings.fault(ref, f"{at}.nodeLabel", problem, "list the levels with a deviceAttribute last")
    elif level.node_label:
        findings.fault(ref, at, "has a nodeLabel and a deviceAttribute", "keep one of them")
    elif not _ATTRIBUTE.fullmatch(attribute):
        problem = f'"{attribute}" cannot be the name of a device attribute with its domain'
        findings.fault(ref, f"{at}.deviceAttribute", problem, "write a name such as gpu.example.com/nvlinkDomain")
