"""Our own Topology objects: named levels over node labels, widest first, the node implied."""

import re
from collections.abc import Sequence

from gangs.findings import Findings
from gangs.manifests import MalformedError, decode, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.phalanx.spec import LevelSpec, TopologySpec
from kube.topology import HOSTNAME_LABEL, Level, Topology

KIND = "Topology"
NODE_LEVEL = "node"
MAX_LEVELS = 16
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def topology_of(manifest: Manifest, findings: Findings) -> Topology | None:
    """The topology that a manifest describes, None where it is wrong; what is wrong goes to `findings`."""
    ref = ref_of(manifest)
    try:
        spec = decode(manifest.get("spec"), TopologySpec, ref, "spec")
    except MalformedError as error:
        findings.take([error.fault])
        return None
    before = len(findings.faults)
    _check(ref, spec.levels, findings)
    if len(findings.faults) > before:
        return None
    levels = [Level(each.name, (each.node_label,)) for each in spec.levels]
    if levels[-1].label_keys != (HOSTNAME_LABEL,):
        taken = any(each.named_by(NODE_LEVEL) for each in levels)
        levels.append(Level(HOSTNAME_LABEL if taken else NODE_LEVEL, (HOSTNAME_LABEL,)))
    return Topology(ref.name, KIND, tuple(levels))


def _check(ref: ObjectRef, levels: Sequence[LevelSpec], findings: Findings) -> None:
    if not 1 <= len(levels) <= MAX_LEVELS:
        findings.fault(ref, "spec.levels", f"has {len(levels)} levels", f"list 1 to {MAX_LEVELS}, widest first")
    names: dict[str, int] = {}
    for position, level in enumerate(levels):
        at = f"spec.levels[{position}]"
        if not level.name:
            findings.fault(ref, f"{at}.name", "is empty", "name the level")
        if not _is_label_key(level.node_label):
            problem = f'"{level.node_label}" cannot be the key of a node label'
            findings.fault(ref, f"{at}.nodeLabel", problem, "write a key such as example.com/rack")
        if level.node_label == HOSTNAME_LABEL and position < len(levels) - 1:
            findings.fault(ref, f"{at}.nodeLabel", f"{HOSTNAME_LABEL} is the node", "put it last or leave it out")
        for key, text in (("name", level.name), ("nodeLabel", level.node_label)):
            if names.setdefault(text, position) != position:
                problem = f'"{text}" stands for spec.levels[{names[text]}] too'
                findings.fault(ref, f"{at}.{key}", problem, "give each level a name and a label of its own")


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not slash or (len(prefix) <= 253 and bool(_PREFIX.fullmatch(prefix))))  # noqa: PLR2004 -- the API's limit on prefixes
