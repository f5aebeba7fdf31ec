"""Kueue's Topology: node labels, widest first. Its rules are those of Kueue's own definition of the kind."""

import re
from collections.abc import Sequence

import msgspec

from gangs.findings import Findings
from gangs.kueue import keys
from gangs.manifests import MalformedError, advise_unknown, decode, ref_of
from gangs.model import Manifest, ObjectRef
from kube.topology import HOSTNAME_LABEL, Level, Topology

MAX_LEVELS = 16
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class LevelSpec(msgspec.Struct, frozen=True, rename="camel"):
    """One level."""

    node_label: str


class TopologySpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Topology."""

    levels: tuple[LevelSpec, ...]


def topology_of(manifest: Manifest, findings: Findings) -> Topology | None:
    """The topology that a manifest describes, None where it is wrong; what is wrong goes to `findings`.

    A level goes by its node label. The node is the last level, whether or not it is listed.
    """
    ref = ref_of(manifest)
    try:
        spec = decode(manifest.get("spec"), TopologySpec, ref, "spec")
    except MalformedError as error:
        findings.take([error.fault])
        return None
    advise_unknown(manifest.get("spec"), ("levels",), ref, "spec", findings)
    before = len(findings.faults)
    labels = [each.node_label for each in spec.levels]
    _check(ref, labels, findings)
    if len(findings.faults) > before:
        return None
    if labels[-1] != HOSTNAME_LABEL:
        labels.append(HOSTNAME_LABEL)
    return Topology(ref.name, keys.TOPOLOGY_KIND, tuple(Level(label, (label,)) for label in labels))


def lowest_level(manifest: Manifest) -> str | None:
    """The label of the narrowest level that a valid Topology lists; where it lists nothing usable, None."""
    levels = (manifest.get("spec") or {}).get("levels") or ()
    return levels[-1].get("nodeLabel") if levels else None


def _check(ref: ObjectRef, labels: Sequence[str], findings: Findings) -> None:
    if not 1 <= len(labels) <= MAX_LEVELS:
        findings.fault(ref, "spec.levels", f"has {len(labels)} levels", f"list 1 to {MAX_LEVELS}, widest first")
    for position, label in enumerate(labels):
        at = f"spec.levels[{position}].nodeLabel"
        if not _LABEL_KEY.fullmatch(label):
            problem = f'"{label}" cannot be the key of a node label'
            findings.fault(ref, at, problem, "write a key such as example.com/rack")
        if label in labels[:position]:
            problem = f'"{label}" is spec.levels[{labels.index(label)}] already'
            findings.fault(ref, at, problem, "give each level a label of its own")
        if label == HOSTNAME_LABEL and position < len(labels) - 1:
            findings.fault(ref, at, f"{HOSTNAME_LABEL} is the node", "put it last or leave it out")
