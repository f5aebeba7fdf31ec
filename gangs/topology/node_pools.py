"""Topologies of node pools: which topology describes which nodes, and which topologies a gang's pods can use.

The annotation `phalanx.dev/node-pools` on a topology object restricts it to node pools, such as
`kai.scheduler/node-pool=gb200`. Without the annotation, it describes all nodes. A node pool has at most one topology.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gangs.findings import Findings
from gangs.manifests import group_of, ref_of
from gangs.model import Fault, Manifest, ObjectRef
from gangs.resource_kinds import ResourceKind
from gangs.sources import Sources
from kube import keys
from kube.names import NaturalKey, natural_key
from kube.objects import NodeSelectorTerm, Pod
from kube.topology import NodePool, Topology

FIELD = f"metadata.annotations[{keys.NODE_POOLS}]"
OUT_OF_REACH = "name the topology of a node pool that the pods may use, or let them use one of its own"
"""The remedy for a gang that names a topology of which its pods can use no node."""
_POOL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_./]*)=([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")

_Age = tuple[str, str, NaturalKey]

Described = tuple[Sequence[ResourceKind], Topology]
"""The kinds of objects that may describe a topology, and a topology that an object of one of these kinds describes."""


def tied(described: Iterable[Described], sources: Sources, findings: Findings) -> list[Topology]:
    """Return the topologies with `Topology.pools` set from the annotation `phalanx.dev/node-pools` of their objects.

    A topology is left out, and a fault reported, if its annotation is malformed or an older topology has one of its
    node pools.
    """
    found: list[tuple[_Age, Manifest, Topology]] = []
    left: list[Topology] = []
    for kinds, topology in described:
        manifest = next(_manifests(kinds, topology.name, sources), None)
        own = Findings()
        pools = () if manifest is None else _pools_of(manifest, own)
        findings.take(own.faults)
        if own.faults:
            continue
        left.append(replace(topology, pools=pools) if pools else topology)
        if pools and manifest is not None:
            found.append((_age(manifest), manifest, left[-1]))
    refused = _rivals(sorted(found, key=lambda each: each[0]), findings)
    return [each for each in left if each not in refused]


def refused(kinds: Iterable[ResourceKind], valid: Sequence[Topology], faults: Iterable[Fault]) -> list[Topology]:
    """Return, for each topology object with a fault, a `Topology` without levels in which `refused` has the fault.

    A gang that names it can then report what it waits for.

    :param kinds: the kinds of topology objects.
    :param valid: the valid topologies, for which no such value is returned.
    """
    named = {(kind.group, kind.kind): kind for kind in kinds if kind.describes}
    there = {(each.kind, each.name) for each in valid}
    found: dict[tuple[str, str], Topology] = {}
    for fault in faults:
        kind = named.get((group_of(fault.object.api_version), fault.object.kind))
        if kind is None or (key := (kind.describes, fault.object.name)) in there or key in found:
            continue
        refusal = f"{fault.field}: {fault.problem}"
        found[key] = Topology(key[1], key[0], (), resources=kind.resources, refused=refusal)
    return list(found.values())


def reachable(named: str | None, pods: Sequence[Pod], topologies: Sequence[Topology]) -> Sequence[Topology]:
    """Return the topologies from which one is chosen for a gang: all if it names one, else those that its pods can use.

    If the pods' node selectors restrict them to certain node pools, the result is the topologies of these node pools.
    If no topology has one of these node pools, the result is the topologies without node pools.

    :param named: the name of the topology in the gang's placement request; None if it names none.
    """
    limits = _limits(pods, topologies)
    if named is not None or not limits:
        return topologies
    own = [each for each in topologies if any(pool.value in limits.get(pool.label, ()) for pool in each.pools)]
    return own or [each for each in topologies if not each.pools]


def out_of_reach(topology: Topology, pods: Sequence[Pod], topologies: Sequence[Topology]) -> str:
    """Return why the pods can use no node of the topology, as the problem text of a fault; "" if they can use one."""
    limits = _limits(pods, topologies)
    if _fits(topology, limits):
        return ""
    allowed = ", ".join(f"{label}={'|'.join(sorted(values)) or '-'}" for label, values in sorted(limits.items()))
    pools = ", ".join(map(str, topology.pools))
    return f'"{topology.name}" describes the node pools {pools}, the pods may only use {allowed}'


def _manifests(kinds: Sequence[ResourceKind], name: str, sources: Sources) -> Iterator[Manifest]:
    for kind in kinds:
        if (manifest := sources.get(kind.group, kind.kind, "", name)) is not None:
            yield manifest


def _pools_of(manifest: Manifest, findings: Findings) -> tuple[NodePool, ...]:
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    written = annotations.get(keys.NODE_POOLS) if isinstance(annotations, Mapping) else None
    if written is None:
        return ()
    pools = []
    for part in filter(None, map(str.strip, str(written).split(","))):
        match = _POOL.fullmatch(part)
        if match is None:
            remedy = "write pools such as kai.scheduler/node-pool=gb200, separated by commas"
            findings.fault(ref_of(manifest), FIELD, f'"{part}" is not the label and the value of a node pool', remedy)
        else:
            pools.append(NodePool(match[1], match[2]))
    return tuple(dict.fromkeys(pools))


def _age(manifest: Manifest) -> _Age:
    """Return a sort key that puts the oldest object first, and objects that do not exist yet last."""
    ref, metadata = ref_of(manifest), manifest.get("metadata") or {}
    return str(metadata.get("creationTimestamp") or "~"), ref.api_version, natural_key(ref.name)


def _rivals(found: Iterable[tuple[_Age, Manifest, Topology]], findings: Findings) -> list[Topology]:
    """Return the topologies with a node pool that an older topology has, too. Both objects get a fault.

    :param found: topologies with their age and object, the oldest first.
    """
    holders: dict[NodePool, tuple[ObjectRef, Topology]] = {}
    refused = []
    for _, manifest, topology in found:
        ref = ref_of(manifest)
        taken = [pool for pool in topology.pools if pool in holders]
        for pool in taken:
            holder, other = holders[pool]
            remedy = "a node pool has one topology: remove it from one of the two"
            findings.fault(ref, FIELD, f"{pool} belongs to {other.title} already", remedy)
            findings.fault(holder, FIELD, f"{pool} belongs to {topology.title}, too", remedy)
        if taken:
            refused.append(topology)
        else:
            holders |= dict.fromkeys(topology.pools, (ref, topology))
    return refused


def _limits(pods: Sequence[Pod], topologies: Iterable[Topology]) -> dict[str, frozenset[str]]:
    """Return, by label key of node pools, the values to which the node selectors and the affinity of these pods
    restrict the pods.

    A label key is absent if one of the pods is not restricted by this label.
    """
    labels = {pool.label for each in topologies for pool in each.pools}
    limits = {}
    for label in labels if pods else ():
        allowed = [_values(pod, label) for pod in pods]
        known = [each for each in allowed if each is not None]
        if len(known) == len(allowed):
            limits[label] = frozenset[str]().union(*known)
    return limits


def _values(pod: Pod, label: str) -> frozenset[str] | None:
    """Return the values of a node label that the pod's node selector and required node affinity allow; None: any."""
    chosen = pod.spec.node_selector.get(label)
    found = None if chosen is None else frozenset((chosen,))
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    terms = (
        [_of_term(term, label) for term in affinity.required.node_selector_terms]
        if affinity and affinity.required
        else []
    )
    known = [each for each in terms if each is not None]
    if terms and len(known) == len(terms):
        union = frozenset[str]().union(*known)
        found = union if found is None else found & union
    return found


def _of_term(term: NodeSelectorTerm, label: str) -> frozenset[str] | None:
    sets = [frozenset(each.values) for each in term.match_expressions if (each.key, each.operator) == (label, "In")]
    return frozenset.intersection(*sets) if sets else None


def _fits(topology: Topology, limits: Mapping[str, frozenset[str]]) -> bool:
    """Whether pods with these restrictions (`_limits`) can use a node of the topology."""
    return not topology.pools or any(pool.value in limits.get(pool.label, (pool.value,)) for pool in topology.pools)
