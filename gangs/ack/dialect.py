"""ACK Lingjun's dialect: the implementation of the protocols in `gangs.dialects.protocol`."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from gangs.ack import NAME, keys, messages
from gangs.ack.members import (
    Group,
    Name,
    check_labels,
    check_numbers,
    example_of,
    gang_of,
    gangs_around,
    groups_of,
    minimum_of,
    network_named,
    touches,
)
from gangs.ack.networks import STRATEGY, Network, network_of
from gangs.assembling import GangWorkload, assemble, of_one_set
from gangs.findings import Findings
from gangs.manifests import ref_of
from gangs.membership import Seat, check_priorities, seated
from gangs.model import Gang, GangKey, Manifest, PlacementRequest, Reading
from gangs.no_room import NoRoom
from gangs.resource_kinds import ResourceKind
from gangs.sources import PodKeys, Sources
from gangs.topology.levels import Settled, settle
from gangs.topology.network_layers import NETWORK_KIND, NETWORK_NAME, Wanted, request_of, wanted
from gangs.workloads.kind_table import WITH_RULES
from kube.keys import SHARES_GROUPS_WITH
from kube.objects import Pod
from kube.topology import Topology

_SET = "main"

_Asked = tuple[Network | None, Settled]
"""The request of a JobNetworkTopology (None if it is invalid or missing), and the topology with its layers."""
_Networks = dict[Name, _Asked]


class AckDialect:
    """ACK Lingjun's dialect: pods, most often of a Job, whose labels name a gang and a JobNetworkTopology."""

    name = NAME
    pod_keys = PodKeys(labels=(keys.JOB_NAME,), more_labels=(keys.JOB_NAMESPACE, keys.GANG_NAME, keys.MIN_AVAILABLE))
    group_kinds: tuple[ResourceKind, ...] = (
        ResourceKind(keys.GROUP, ("v1alpha1",), keys.KIND, "jobnetworktopologies"),
        *WITH_RULES,
    )
    topology_kinds: tuple[ResourceKind, ...] = ()

    def gang_of(self, pod: Pod) -> GangKey | None:
        """Return the gang of a pod that names a JobNetworkTopology; None for any other pod."""
        return gang_of(pod)

    def read(self, sources: Sources, topologies: Sequence[Topology], about: GangKey | None = None) -> Reading:
        """Return one gang for each gang name on pods and Jobs. JobNetworkTopologies without pods are checked, too."""
        findings, gangs = Findings(), list[Gang]()
        groups = [each for each in groups_of(sources, about) if about is None or touches(each, about)]
        named = {network_named(example_of(each)) for each in groups}
        networks: _Networks = {}
        for manifest in _networks(sources, named, about):
            ref = ref_of(manifest)
            networks[ref.namespace, ref.name] = _network(manifest, topologies, findings)
        for group in groups:
            gang = _gang(group, _network_for(group, networks, sources), findings)
            gangs += [] if gang is None else [gang]
        return Reading(tuple(gangs), findings.faults, findings.advice)

    def joined(self, pod: Pod) -> frozenset[GangKey]:  # noqa: ARG002 -- the protocol's signature
        """Return an empty set: in ACK Lingjun's dialect a pod names only its own gang."""
        return frozenset()

    def grouped(self, about: GangKey, linked: Callable[[GangKey], Iterable[GangKey]], sources: Sources) -> set[GangKey]:
        """Return the keys of the gangs whose pods are read for `about`: `about` itself, and the gangs of a Job or
        JobNetworkTopology with its namespace and name.
        """
        del linked
        return gangs_around(about, sources)

    def parts(self, gang: GangKey, pod_sets: Sequence[str]) -> set[GangKey]:
        """Return only the gang's own `GangKey`, because in this dialect all pods of a gang name this key."""
        del pod_sets
        return {gang}

    def company(self, pod: Pod) -> Hashable | None:  # noqa: ARG002 -- the protocol's signature
        """Return None: a pod can be read with the pods of its own gang alone."""
        return None

    def topologies(  # noqa: D102 -- the protocol says it; the ClusterNetworkTopology is read by Koordinator's dialect
        self, sources: Sources, findings: Findings
    ) -> Sequence[Topology]:
        del sources, findings
        return ()

    def no_room_messages(self, no_room: NoRoom) -> Sequence[str] | None:
        """Return one message for each of `no_room.pods`, in the wording of ACK Lingjun's guide.

        Return None if the guide has no message for the case; Phalanx's own message is then used.
        """
        return messages.no_room_messages(no_room)

    def template_labels(  # noqa: D102 -- the protocol says it; the guide's templates carry their labels themselves
        self, manifest: Manifest, sources: Sources, *, claimed: bool
    ) -> Mapping[str, str]:
        del manifest, sources, claimed
        return {}


def _networks(sources: Sources, named: Iterable[Name], about: GangKey | None) -> Iterator[Manifest]:
    """Yield the existing JobNetworkTopologies: all if `about` is None, else only those that the gang `about` may use.

    :param named: namespaces and names of the JobNetworkTopologies that pods name.
    :param about: the key of a gang. Then only the JobNetworkTopologies in `named`, and the one with the gang's
    namespace and name, are yielded.
    """
    if about is None:
        yield from sources.of_kind(keys.GROUP, keys.KIND)
        return
    for namespace, name in sorted({(about.namespace, about.name), *named}):
        if (manifest := sources.get(keys.GROUP, keys.KIND, namespace, name)) is not None:
            yield manifest


def _network(manifest: Manifest, topologies: Sequence[Topology], findings: Findings) -> _Asked:
    """Return the request of a JobNetworkTopology, and the topology that has the layers which the request names.

    The request is None if the JobNetworkTopology is invalid; the faults then go to `findings`.
    """
    own = Findings()
    network = network_of(manifest, own)
    settled = Settled()
    if network is not None:
        settled = settle(request_of(network.gathers, network.ref, STRATEGY), topologies, own)
        wanted(network.gathers, settled.topology, network.ref, own)
    findings.take(own.faults, own.advice)
    return (None if own.faults else network), settled


def _network_for(group: Group, networks: _Networks, sources: Sources) -> _Asked | None:
    """Return the request of a group's JobNetworkTopology, which the group's pods name. If the object is missing, the
    gang waits for it.

    Return None if the object is invalid and in the group's own namespace. An object in another namespace counts only if
    that namespace allows it (docs/decisions/0013). If that object is invalid, the gang waits, and the faults are
    reported only in the object's namespace.
    """
    (namespace, name), own = network_named(example_of(group)), group.key.namespace
    if not sources.lends(namespace, own):
        closed = f"Namespace {namespace} to share its groups with {own} ({SHARES_GROUPS_WITH})"
        return None, Settled(waiting_for=(closed,))
    there = f"{keys.KIND} {namespace}/{name}"
    if (namespace, name) not in networks:
        return None, Settled(waiting_for=(there,))
    if networks[namespace, name][0] is None:
        return None if namespace == own else (None, Settled(waiting_for=(f"{there} to be corrected",)))
    return networks[namespace, name]


def _gang(group: Group, asked: _Asked | None, findings: Findings) -> Gang | None:
    """Return the gang of a group of pods and Jobs; None if the group or its JobNetworkTopology has faults.

    :param asked: what the JobNetworkTopology requests; None if it is invalid.
    """
    own, name = Findings(), network_named(example_of(group))
    network, settled = asked or (None, Settled())
    check_labels(group, own)
    minimum = minimum_of(group, own)
    check_numbers(group, minimum, "/".join(name), network.workers if network else None, own)
    check_priorities(group.pods, group.source, own)
    members = seated([Seat(pod, _SET) for pod in group.pods], (_SET,), own)
    findings.take(own.faults, own.advice)
    if own.faults or asked is None:
        return None
    gathers = network.gathers if network else ()
    levels = wanted(gathers, settled.topology, group.source, Findings()) if gathers else Wanted()
    if group.expected is not None:
        minimum = max(1, min(minimum, group.expected))
    by_layers = bool(gathers)
    sets = of_one_set(members, _SET, minimum, minimum)
    request = PlacementRequest(
        topology=NETWORK_NAME if by_layers else None,
        topology_kind=NETWORK_KIND if by_layers else None,
        required=levels.required,
        preferred=levels.preferred,
        schedule_timeout_seconds=network.timeout if network else None,
        messages=NAME,
    )
    return assemble(
        group.key,
        GangWorkload(group.source, members, sets, minimum, _created(group), exact_nodes=False),
        request,
        settled.waiting_for + tuple(what for each in group.jobs for what in each.waiting_for),
    )


def _created(group: Group) -> str:
    first = group.jobs[0].job.metadata if group.jobs else group.pods[0].metadata
    return first.creation_timestamp or ""
