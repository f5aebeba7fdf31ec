"""ClusterNetworkTopology objects: a list of layers (levels), each of which names the next wider one as its parent."""

import msgspec

from gangs.findings import Findings
from gangs.koordinator import keys
from gangs.manifests import advise_unknown, ref_of, spec_of
from gangs.model import Manifest, ObjectRef
from kube.topology import HOSTNAME_LABEL, Level, Topology, Unlabelled

_AT = "spec.networkTopologySpec"


class Layer(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `networkTopologySpec`: a layer (level), the next wider layer, and its node labels."""

    topology_layer: str = ""
    parent_topology_layer: str | None = None
    label_key: tuple[str, ...] | None = None

    @property
    def parent(self) -> str:
        """The name of the next wider layer; "" for the widest one."""
        return self.parent_topology_layer or ""


class TopologySpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a ClusterNetworkTopology."""

    network_topology_spec: tuple[Layer, ...]


def topology_of(manifest: Manifest, findings: Findings) -> Topology | None:
    """Return the topology that a manifest describes; None if it is invalid, or if Koordinator would not read it.

    A node without the label of the lowest layer above it is a domain of its own. A node without the label of a higher
    layer is outside the topology. In ACK Lingjun's layers, all nodes without the label share one domain.
    """
    ref, spec = ref_of(manifest), spec_of(manifest, TopologySpec, findings)
    if spec is None:
        return None
    for position, entry in enumerate((manifest.get("spec") or {}).get("networkTopologySpec") or ()):
        advise_unknown(entry, ("topologyLayer", "parentTopologyLayer", "labelKey"), ref, f"{_AT}[{position}]", findings)
    before = len(findings.faults)
    chain = _chain(spec.network_topology_spec, ref, findings)
    if len(findings.faults) > before:
        return None
    if ref.name != keys.TOPOLOGY_NAME:
        findings.advise(ref, "metadata.name", f'is not read: only the one called "{keys.TOPOLOGY_NAME}" is')
        return None
    return Topology(ref.name, keys.TOPOLOGY_KIND, _levels(chain))


def _levels(chain: list[Layer]) -> tuple[Level, ...]:
    """Return the levels of a topology.

    :param chain: the layers from the widest one to the node layer.
    """
    above = chain[:-1]
    levels = [
        Level(each.topology_layer, each.label_key or (), _unlabelled(each, lowest=each is above[-1])) for each in above
    ]
    return (*levels, Level(keys.NODE_LAYER, (HOSTNAME_LABEL,)))


def _unlabelled(layer: Layer, *, lowest: bool) -> Unlabelled:
    """Return how nodes without the layer's label are treated.

    ACK Lingjun's layers, which are recognized by their names or labels, have a rule of their own.

    :param lowest: whether the layer is the lowest one above the node layer.
    """
    if layer.topology_layer in keys.LINGJUN_LAYERS or any(
        key.startswith(keys.LINGJUN_LABELS) for key in layer.label_key or ()
    ):
        return Unlabelled.DEFAULT_DOMAIN
    return Unlabelled.OWN_DOMAIN if lowest else Unlabelled.OUTSIDE


def _chain(layers: tuple[Layer, ...], ref: ObjectRef, findings: Findings) -> list[Layer]:
    """Return the layers from the widest one to the node layer, by their `parentTopologyLayer`.

    The result is empty if there is no node layer. Layers that are not above it are reported.
    """
    _check_entries(layers, ref, findings)
    by_name = {each.topology_layer: each for each in layers}
    node = by_name.get(keys.NODE_LAYER)
    if node is None:
        findings.fault(ref, _AT, f"lacks {keys.NODE_LAYER}", f"add it below the lowest layer: {_example()}")
        return []
    chain, seen = [node], {keys.NODE_LAYER}
    while (parent := by_name.get(chain[-1].parent)) is not None and parent.topology_layer not in seen:
        chain.append(parent)
        seen.add(parent.topology_layer)
    for position, layer in enumerate(layers):
        if layer.topology_layer and layer.topology_layer not in seen:
            problem = f'"{layer.topology_layer}" is not above {keys.NODE_LAYER} on the one chain of layers'
            remedy = "make it the parentTopologyLayer of the layer below it, or remove it"
            findings.fault(ref, f"{_AT}[{position}].topologyLayer", problem, remedy)
    return chain[::-1]


def _example() -> str:
    return f"{{topologyLayer: {keys.NODE_LAYER}, parentTopologyLayer: <the lowest layer>}}"


def _check_entries(layers: tuple[Layer, ...], ref: ObjectRef, findings: Findings) -> None:
    names = [each.topology_layer for each in layers]
    for position, layer in enumerate(layers):
        at = f"{_AT}[{position}]"
        name = layer.topology_layer
        if not name:
            findings.fault(ref, f"{at}.topologyLayer", "is missing", "name the layer")
        elif names.index(name) != position:
            findings.fault(ref, f"{at}.topologyLayer", f'"{name}" is listed twice', "keep one entry a layer")
        if name == keys.ROOT_LAYER:
            findings.fault(ref, f"{at}.topologyLayer", f"{name} is the implicit root", "remove the entry")
        if layer.parent and layer.parent not in names:
            problem = f'"{layer.parent}" is not a layer of this spec'
            findings.fault(ref, f"{at}.parentTopologyLayer", problem, "name a layer, or leave it out at the top")
        elif layer.parent and _circular(name, {each.topology_layer: each.parent for each in layers}):
            findings.fault(ref, f"{at}.parentTopologyLayer", "leads back to itself", "leave it out at the top layer")
        if name == keys.NODE_LAYER:
            if layer.label_key:
                findings.advise(ref, f"{at}.labelKey", "is ignored: the node's own name tells the nodes apart")
        elif not layer.label_key or not all(layer.label_key):
            findings.fault(ref, f"{at}.labelKey", "is empty", "list the node labels that name the domains")


def _circular(start: str, parents: dict[str, str]) -> bool:
    at = parents[start]
    for _ in parents:
        if at in ("", start) or at not in parents:
            break
        at = parents[at]
    return at == start
