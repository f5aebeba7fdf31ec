"""ResourceQuotas, and pods that their workload has not made yet: no room is held for pods that would be refused.

A pod that exists has been charged by the API server. For one that is to come a placeholder of ours holds the room
(docs/decisions/0022), which no quota of its namespace counts: without this, whoever may make one pod could keep the
room of thousands from others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cluster.resource_quota_charges import Charge, charge, resource_of
from cluster.snapshot import Snapshot
from gangs.model import Gang
from kube.objects import Pod, ResourceQuota
from kube.placeholders import to_come
from kube.quantities import amount, written


def quotas_in_the_way(gang: Gang, snapshot: Snapshot) -> Iterator[str]:
    """The quotas that leave no room for the pods to come, beside what others of the namespace use of them now, and what
    is held for pods to come of its other gangs; as ends of a sentence.
    """
    there, coming = _parted(gang)
    quotas = snapshot.quotas.get(gang.key.namespace, ()) if coming else ()
    held = _held_for_others(gang, snapshot, quotas) if quotas else []
    for quota, charged in zip(quotas, held, strict=True):
        own = charge(quota, there).amounts
        for name in quota.spec.hard:
            # A quota may be so new that it does not show yet what it is charged for.
            charged[name] += max(amount(resource_of(name), quota.status.used.get(name, 0)), own.get(name, 0))
        yield from _short(quota, charged, charge(quota, coming))


def _held_for_others(gang: Gang, snapshot: Snapshot, quotas: Sequence[ResourceQuota]) -> list[Counter[str]]:
    """What each quota would be charged for the pods to come of other gangs of the namespace."""
    held = snapshot.held_by_namespace.get(gang.key.namespace)
    if held is None:
        return [Counter() for _ in quotas]
    return held.charged_beside({member.pod.key for member in gang.members})


class ChargedTogether:
    """What the quotas of one namespace are charged for gangs, one after the other, whatever others use of them."""

    def __init__(self, quotas: Sequence[ResourceQuota]) -> None:
        self._quotas = quotas
        self._charged = [Counter[str]() for _ in quotas]

    def refusal(self, gang: Gang) -> str:
        """Why its pods to come are refused beside the gangs before it, as an end of a sentence; such a gang does not
        count for those after it. "" where they are not.
        """
        there, coming = _parted(gang)
        own = [(charge(quota, there).amounts, charge(quota, coming)) for quota in self._quotas]
        for quota, before, (existing, more) in zip(self._quotas, self._charged, own, strict=True):
            for why in _short(quota, before + existing, more):
                return why
        for before, (existing, more) in zip(self._charged, own, strict=True):
            before.update(existing)
            before.update(more.amounts)
        return ""


def _parted(gang: Gang) -> tuple[list[Pod], list[Pod]]:
    """Its pods that exist, and those to come; without those that are made again, for which it has been charged."""
    pods = [member.pod for member in gang.not_lost]
    return [pod for pod in pods if not to_come(pod)], [pod for pod in pods if to_come(pod)]


def _short(quota: ResourceQuota, charged: Mapping[str, int], coming: Charge) -> Iterator[str]:
    """Why a quota that is charged for so much refuses some of the pods to come."""
    for name, hard in sorted(quota.spec.hard.items()):
        resource = resource_of(name)
        need = coming.amounts.get(name, 0)
        if not resource or not need:
            continue
        left = max(0, amount(resource, hard) - charged.get(name, 0))
        if need > left:
            more = f"{coming.pods} more pod{'s' * (coming.pods > 1)}"
            amounts = f"{written(resource, need)} needed, {written(resource, left)} of {hard} left"
            yield f"ResourceQuota {quota.metadata.name} to have room for {more} ({name}: {amounts})"
