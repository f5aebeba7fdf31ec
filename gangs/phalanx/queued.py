"""Gang objects that name a queue: the account whose quota they use, and the topology in which they are placed."""

from collections.abc import Sequence
from dataclasses import replace

from gangs.findings import Findings
from gangs.held_nodes import held_node
from gangs.manifests import pod_ref, ref_of
from gangs.mirrors import flavors_in_force
from gangs.model import Manifest
from gangs.phalanx.checks import check_slice_order
from gangs.phalanx.spec import GangSpec
from gangs.quota_model import Account, Charged
from gangs.sources import Sources
from gangs.topology.levels import NO_TOPOLOGY, Request, Settled, settle
from kube.objects import Pod
from kube.topology import Topology

_FIELD = "spec.queue"


def charged(manifest: Manifest, spec: GangSpec, pods: Sequence[Pod], sources: Sources, findings: Findings) -> Charged:
    """Return the account of the queue that a Gang object names; an empty `Charged` if it names none.

    :param pods: the live pods of the gang. If they name a queue, too, it must be the same.
    """
    if sources.queues is None:
        return Charged()
    for pod in pods:
        _check_same(manifest, spec.queue, pod, sources, findings)
    if not spec.queue:
        return Charged()
    ref = ref_of(manifest)
    found = sources.queues.charged(ref.namespace, spec.queue, pods)
    if not found.dialect:
        text = f"is a label and charges nothing: there is no queue {spec.queue} in {ref.namespace}, nor any quota; "
        findings.advise(ref, _FIELD, f"{text}make the queue, or leave this out")
    if found.account is None:
        return found
    by_flavor = spec.topology is None and bool(_named_by_flavors(found.account))
    account = replace(found.account, used=flavors_in_force(manifest), nearby=False, only_theirs=by_flavor)
    return replace(found, account=account)


def _check_same(manifest: Manifest, queue: str | None, pod: Pod, sources: Sources, findings: Findings) -> None:
    """Report a pod that names another queue than its Gang object, or a queue although the Gang object names none.

    A bound or released pod only gets advice. A fault would make the gang invalid, so a user who may label the pod could
    free quota that is in use.

    :param queue: the queue that the Gang object names; None for none.
    """
    named = sources.queues.named_on(pod) if sources.queues is not None else None
    if named is None or named.queue == queue:
        return
    ref = ref_of(manifest)
    if queue and held_node(pod):
        findings.advise(pod_ref(pod), named.field, f"counts for nothing: it is charged to {queue}, as {ref} says")
    elif queue:
        problem = f'"{named.queue}" differs from "{queue}", the queue of {ref} ({_FIELD})'
        findings.fault(pod_ref(pod), named.field, problem, "write the same in both, or leave one of them out")
    else:
        text = f"is ignored: {ref}, whose member this is, is in no queue; write queue: {named.queue} into its spec"
        findings.advise(pod_ref(pod), named.field, text)


def topology_kind(to: Charged) -> str | None:
    """Return the kind of the topologies in which a Gang object may be placed; None: any kind.

    If a flavor of the gang's queue decides the topology, return `NO_TOPOLOGY`, because no topology applies until a
    flavor is chosen.
    """
    return NO_TOPOLOGY if to.account is not None and to.account.only_theirs else None


def settle_in(
    to: Charged, request: Request, spec: GangSpec, topologies: Sequence[Topology], findings: Findings
) -> Settled:
    """Choose the topology of a Gang object, and check that it has the levels that the spec names.

    If the Gang names no topology and flavors of its queue do, the planner chooses a flavor and thus the topology. Then
    it is enough that one of these topologies has all levels. A gang whose pods are all bound is not checked. Faults go
    to `findings`.

    :param to: the account of the gang.
    :param request: the levels that the spec names.
    """
    if request.topology is None and to.dialect and to.account is None:
        return Settled()  # the queue's flavors, which are not known yet, may decide the topology
    if to.account is None or not to.account.only_theirs:
        return _settled(request, spec, topologies, findings)
    named, kind = _named_by_flavors(to.account), to.account.topology_kind
    known = [each for each in topologies if each.kind == kind and each.name in named]
    if to.waiting_for or len(known) < len(named) or (request.pods and all(pod.bound for pod in request.pods)):
        return Settled()
    tried = []
    for topology in known:
        found = Findings()
        wanted = replace(request, topology=topology.name, kind=kind)
        tried.append((_settled(wanted, spec, topologies, found), found))
    settled, found = min(tried, key=lambda each: len(each[1].faults))
    findings.take(found.faults, found.advice)
    return settled


def _settled(request: Request, spec: GangSpec, topologies: Sequence[Topology], findings: Findings) -> Settled:
    settled = settle(request, topologies, findings)
    if settled.topology is not None:
        check_slice_order(request.ref, spec, settled.topology, findings)
    return settled


def _named_by_flavors(account: Account) -> frozenset[str]:
    return frozenset(each.topology for each in account.flavors if each.topology)
