"""Kueue's Topology objects, which list node labels, the widest level first. Kueue's CRD has the rules."""

import msgspec

from gangs.findings import Findings
from gangs.kueue import keys
from gangs.manifests import MalformedError, advise_unknown, decode, ref_of, spec_of
from gangs.model import Manifest
from gangs.topology.level_labels import check_each_once, check_labels
from kube.topology import HOSTNAME_LABEL, Level, Topology


class LevelSpec(msgspec.Struct, frozen=True, rename="camel"):
    """One level of a Topology object of Kueue."""

    node_label: str


class TopologySpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Topology object of Kueue."""

    levels: tuple[LevelSpec, ...]


def topology_of(manifest: Manifest, findings: Findings) -> Topology | None:
    """Return the topology that a manifest describes; None if it is invalid. Faults go to `findings`.

    The name of a level is its node label. The node level is the last one, whether or not the object lists it.
    """
    ref, spec = ref_of(manifest), spec_of(manifest, TopologySpec, findings)
    if spec is None:
        return None
    advise_unknown(manifest.get("spec"), ("levels",), ref, "spec", findings)
    before = len(findings.faults)
    labels = [each.node_label for each in spec.levels]
    check_labels(ref, labels, findings)
    check_each_once(ref, "nodeLabel", labels, findings)
    if len(findings.faults) > before:
        return None
    listed = labels[-1] == HOSTNAME_LABEL
    if not listed:
        labels.append(HOSTNAME_LABEL)
    levels = tuple(Level(label, (label,)) for label in labels)
    return Topology(ref.name, keys.TOPOLOGY_KIND, levels, hostname_listed=listed)


def lowest_level(manifest: Manifest) -> str | None:
    """Return the label of the narrowest level that a Topology object lists; None if it is malformed or lists none."""
    try:
        spec = decode(manifest.get("spec"), TopologySpec, ref_of(manifest), "spec")
    except MalformedError:
        return None
    return spec.levels[-1].node_label if spec.levels else None
