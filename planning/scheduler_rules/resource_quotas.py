"""Checks expected pods against ResourceQuotas: no capacity is reserved for pods that the API server would reject.

The API server has charged every pod that exists. The capacity of an expected pod is reserved by a placeholder
(docs/decisions/0022), which no quota of the pod's namespace counts. Without this check, a user who may create one pod
could reserve the capacity of thousands.
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
    """Yield the ResourceQuotas that do not suffice for the gang's expected pods, as ends of a sentence.

    The current usage of the namespace and the expected pods of its other gangs are charged first.
    """
    there, coming = _parted(gang)
    quotas = snapshot.quotas.get(gang.key.namespace, ()) if coming else ()
    held = _held_for_others(gang, snapshot, quotas) if quotas else []
    for quota, charged in zip(quotas, held, strict=True):
        own = charge(quota, there).amounts
        for name in quota.spec.hard:
            # The status of a new quota may not show its charges yet.
            charged[name] += max(amount(resource_of(name), quota.status.used.get(name, 0)), own.get(name, 0))
        yield from _short(quota, charged, charge(quota, coming))


def _held_for_others(gang: Gang, snapshot: Snapshot, quotas: Sequence[ResourceQuota]) -> list[Counter[str]]:
    """Return what each quota would be charged for the expected pods of other gangs of the namespace."""
    held = snapshot.held_by_namespace.get(gang.key.namespace)
    if held is None:
        return [Counter() for _ in quotas]
    return held.charged_beside({member.pod.key for member in gang.members})


class ChargedTogether:
    """Charges gangs to the ResourceQuotas of one namespace, one gang after the other. Other usage of the quotas is
    ignored.
    """

    def __init__(self, quotas: Sequence[ResourceQuota]) -> None:
        self._quotas = quotas
        self._charged = [Counter[str]() for _ in quotas]

    def refusal(self, gang: Gang) -> str:
        """Charge the gang, or return why a quota does not suffice for its expected pods after the earlier gangs.

        The reason is the end of a sentence; "" if the quotas suffice. A rejected gang is not charged.
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
    """Return the gang's existing pods and its expected pods.

    Lost members that are being recreated are in neither list, because their quota has been charged already.
    """
    pods = [member.pod for member in gang.not_lost]
    return [pod for pod in pods if not to_come(pod)], [pod for pod in pods if to_come(pod)]


def _short(quota: ResourceQuota, charged: Mapping[str, int], coming: Charge) -> Iterator[str]:
    """Yield the resources of a quota that do not suffice for the expected pods (`coming`), as ends of a sentence.

    `charged`: what the quota is charged for before.
    """
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
