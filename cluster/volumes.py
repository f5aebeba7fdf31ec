"""Which nodes a pod's volumes exclude (the rules of kube-scheduler's VolumeBinding and VolumeZone)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.selectors import node_selected
from kube.objects import Node, NodeSelector, ObjectMeta, Pod, Struct

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
ZONE_CONFLICT = "node(s) had no available volume zone"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_STATIC = ("", "kubernetes.io/no-provisioner")
_GENERAL = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Zone and region labels that Kubernetes has renamed: the current name by the old one."""
_ZONE_LABELS = (*_GENERAL, *_GENERAL.values())


class ClaimSpec(Struct, frozen=True):
    """core/v1 PersistentVolumeClaimSpec."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaim(Struct, frozen=True):
    """core/v1 PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class VolumeNodeAffinity(Struct, frozen=True):
    """core/v1 VolumeNodeAffinity."""

    required: NodeSelector | None = None


class VolumeSpec(Struct, frozen=True):
    """core/v1 PersistentVolumeSpec."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Struct, frozen=True):
    """core/v1 PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeSpec = VolumeSpec()


class TopologyLabel(Struct, frozen=True):
    """core/v1 TopologySelectorLabelRequirement."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    """core/v1 TopologySelectorTerm: requirements that must all hold."""

    match_label_expressions: tuple[TopologyLabel, ...] = ()


class StorageClass(Struct, frozen=True):
    """storage.k8s.io/v1 StorageClass."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim with its node constraints.

    `refusal`: why the volume claim excludes every node; "" if it does not. Otherwise a node must match the other
    fields. `node_affinity` and `zones` (zone labels) are those of the bound volume. `selected_node` and `allowed`
    (allowed topologies of the storage class) concern a volume that is yet to be created. `unmodelled`: a rule of the
    volume claim that no other field states and that Phalanx does not check, as a phrase for messages; "" if there is
    none.
    """

    refusal: str = ""
    node_affinity: NodeSelector | None = None
    zones: Mapping[str, frozenset[str]] = field(default_factory=dict)
    selected_node: str = ""
    allowed: tuple[TopologySelectorTerm, ...] = ()
    unmodelled: str = ""

    def exclusion(self, node: Node) -> str:
        """Return why the volume claim excludes the node for its pod; "" if it does not."""
        if self.refusal:
            return self.refusal
        if self.node_affinity is not None and not node_selected(self.node_affinity, node):
            return NODE_CONFLICT
        if self.selected_node and self.selected_node != node.metadata.name:
            return BIND_CONFLICT
        if self.allowed and not any(_term_holds(each, node) for each in self.allowed):
            return BIND_CONFLICT
        return "" if self._in_zone(node) else ZONE_CONFLICT

    def _in_zone(self, node: Node) -> bool:
        labels = node.metadata.labels
        if not any(key in labels for key in _ZONE_LABELS):
            return True
        return all(labels.get(key, labels.get(_GENERAL.get(key, key))) in values for key, values in self.zones.items())


def _term_holds(term: TopologySelectorTerm, node: Node) -> bool:
    return all(node.metadata.labels.get(each.key) in each.values for each in term.match_label_expressions)


def claims_of(
    claims: Iterable[PersistentVolumeClaim],
    volumes: Iterable[PersistentVolume],
    classes: Iterable[StorageClass],
) -> dict[str, Claim]:
    """Return the node constraints of every volume claim, by its name (`namespace/name`). They come from the claim's
    volume or, if the claim is not bound yet, from its storage class.
    """
    by_name = {each.metadata.name: each for each in volumes}
    class_by_name = {each.metadata.name: each for each in classes}
    return {
        f"{each.metadata.namespace}/{each.metadata.name}": _resolve(each, by_name, class_by_name) for each in claims
    }


def _resolve(
    claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume], classes: Mapping[str, StorageClass]
) -> Claim:
    unmodelled = "volumes for a single pod" if "ReadWriteOncePod" in claim.spec.access_modes else ""
    if claim.spec.volume_name:
        volume = volumes.get(claim.spec.volume_name)
        return Claim(refusal=VOLUME_GONE) if volume is None else _bound(volume, unmodelled)
    name = claim.metadata.annotations.get(_CLASS_ANNOTATION, claim.spec.storage_class_name or "")
    storage_class = classes.get(name)
    if storage_class is None or storage_class.volume_binding_mode != "WaitForFirstConsumer":
        return Claim(refusal=UNBOUND)
    if storage_class.provisioner in _STATIC:
        return Claim(unmodelled="which of the volumes made beforehand a claim will bind")
    return Claim(
        selected_node=claim.metadata.annotations.get(_SELECTED_NODE, ""),
        allowed=storage_class.allowed_topologies,
        unmodelled=unmodelled,
    )


def _bound(volume: PersistentVolume, unmodelled: str) -> Claim:
    affinity = volume.spec.node_affinity
    labels = volume.metadata.labels
    return Claim(
        node_affinity=affinity.required if affinity is not None else None,
        # The label of a volume that spans zones lists them, joined by two underscores.
        zones={key: frozenset(labels[key].split("__")) for key in _ZONE_LABELS if key in labels},
        unmodelled=unmodelled,
    )


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the `namespace/name` of every volume claim that the pod's volumes name, including ephemeral volumes."""
    if not pod.spec.volumes:
        return ()
    return tuple(
        f"{pod.metadata.namespace}/{name}" for volume in pod.spec.volumes if (name := _claim_name(pod, volume))
    )


def _claim_name(pod: Pod, volume: Mapping[str, Any]) -> str:
    source = volume.get("persistentVolumeClaim")
    if isinstance(source, dict):
        return str(source.get("claimName", ""))
    return f"{pod.metadata.name}-{volume.get('name', '')}" if "ephemeral" in volume else ""
