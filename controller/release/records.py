"""The plan in force, as the Gang object's status stores it. A restarted controller continues from this record."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.devices.allocation import AllocatedDevice, ClaimAllocation, DeviceId
from controller.release.request_digest import request_digest
from kube.names import natural_key
from kube.objects import ObjectMeta
from planning.decision import Decision
from planning.quota.flavors import settled


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """A member with its node in the plan.

    `uid` is the UID of the pod, so a later pod of the same name does not match. An expected pod has no UID yet, so
    `uid` is its seat (`kube.placeholders`).
    """

    uid: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class PlannedVictim:
    """A pod that must be gone before the members of the plan's gang can be released."""

    uid: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Members and victims of one plan.

    `plan_id` identifies the plan: a digest of members and victims, a dot, and a digest of the gang's placement request.
    Equal plans have equal identities.
    """

    plan_id: str
    members: tuple[PlannedMember, ...]
    victims: tuple[PlannedVictim, ...]
    claims: tuple[ClaimAllocation, ...] = ()
    """The devices of the members' claims; empty for a gang without claims."""
    _nodes: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The planned node by the UID of the member."""

    def __post_init__(self) -> None:
        """Build the index of nodes by UID, because each member is looked up more than once in a reconcile."""
        object.__setattr__(self, "_nodes", {each.uid: each.node for each in self.members})

    @property
    def request(self) -> str:
        """The digest of the gang's placement request for which the plan was made (`request_digest`); "" if it is not
        recorded.
        """
        return self.plan_id.partition(".")[2]

    def node_of(self, uid: str) -> str | None:
        """Return the planned node of the member with this UID; None if the plan has no such member."""
        return self._nodes.get(uid)


def record_of(decision: Decision) -> PlanRecord:
    """Return the plan of a decision as a record: the members that are not bound yet, with their nodes, and the victims.

    :param decision: a decision with the outcome Placed.
    """
    members = tuple(
        PlannedMember(a.member.pod.metadata.uid, a.member.pod.metadata.namespace, a.member.pod.metadata.name, a.node)
        for a in decision.assignments
        if not a.member.pod.bound
    )
    victims = tuple(
        sorted(
            (PlannedVictim(e.uid, e.namespace, e.name, e.node) for e in decision.evictions),
            key=lambda v: (natural_key(v.namespace), natural_key(v.name)),
        )
    )
    claims = tuple(claim for each in decision.assignments for claim in each.devices)
    plan_id = _digest(members, victims, claims)
    if decision.gang is not None:
        plan_id = f"{plan_id}.{request_digest(settled(decision.gang, decision.flavors))}"
    return PlanRecord(plan_id, members, victims, claims)


def record_from(status: Mapping[str, Any]) -> PlanRecord | None:
    """Return the plan that a Gang's status stores; None if it stores none, or stores it in an unknown form.

    Assignments without a UID are left out: they report bound members that the plan does not contain.
    """
    plan_id = status.get("planId")
    try:
        members = [PlannedMember(*_entry(each)) for each in status.get("assignments") or () if each.get("uid")]
        victims = [PlannedVictim(*_entry(each)) for each in status.get("victims") or () if each.get("uid")]
        claims = tuple(map(_claim, status.get("claims") or ()))
    except (AttributeError, KeyError, TypeError):
        return None
    if not plan_id or not isinstance(plan_id, str):
        return None
    return PlanRecord(plan_id, tuple(members), tuple(victims), claims)


def claims_entry(claims: Iterable[ClaimAllocation]) -> list[dict[str, Any]]:
    """Return the status field `claims`: the planned devices of each claim, as `record_from` reads them."""
    return [
        {
            "namespace": each.namespace,
            **({"name": each.name} if each.name else {}),
            **({"podClaim": each.pod_claim} if each.pod_claim else {}),
            "pods": list(each.pods),
            "node": each.node,
            "devices": [
                {
                    "request": device.request,
                    "driver": device.device.driver,
                    "pool": device.device.pool,
                    "device": device.device.device,
                    **({"adminAccess": True} if device.admin_access else {}),
                    **({"consumedCapacity": dict(device.consumed)} if device.shared else {}),
                }
                for device in each.devices
            ],
        }
        for each in claims
    ]


def _claim(entry: Mapping[str, Any]) -> ClaimAllocation:
    devices = tuple(
        AllocatedDevice(
            each["request"],
            DeviceId(each["driver"], each["pool"], each["device"]),
            admin_access=bool(each.get("adminAccess")),
            shared="consumedCapacity" in each,
            consumed=tuple(sorted((each.get("consumedCapacity") or {}).items())),
        )
        for each in entry["devices"]
    )
    name, pod_claim = entry.get("name", ""), entry.get("podClaim", "")
    return ClaimAllocation(entry["namespace"], name, entry["node"], devices, tuple(entry["pods"]), pod_claim)


def _entry(planned: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return planned["uid"], planned["namespace"], planned["pod"], planned["node"]


def successors_patch(status: Mapping[str, Any], successors: Mapping[str, ObjectMeta]) -> dict[str, Any]:
    """Return the status fields to write when arrived pods replace expected pods in the plan.

    :param status: the present status of the Gang object.
    :param successors: the metadata of each arrived pod, by the identifier of the expected pod that it replaces.
    """
    assignments = [
        {**each, "pod": successors[each["uid"]].name, "uid": successors[each["uid"]].uid}
        if each.get("uid") in successors
        else each
        for each in status.get("assignments") or ()
    ]
    return {"assignments": assignments, **_successors_claims(status, successors)}


def _successors_claims(status: Mapping[str, Any], successors: Mapping[str, ObjectMeta]) -> dict[str, Any]:
    """Return the status field `claims`, in which successors take the place of the expected pods that they replace.

    The recorded name of a claim from a ResourceClaimTemplate is removed, because each new pod gets a new claim.
    """
    new = {
        (each["namespace"], each["pod"]): successors[each["uid"]].name
        for each in status.get("assignments") or ()
        if each.get("uid") in successors
    }
    entries = list[dict[str, Any]]()
    for each in status.get("claims") or ():
        pods = [new.get((each["namespace"], pod), pod) for pod in each["pods"]]
        dropped = ("name",) if pods != each["pods"] and each.get("podClaim") else ()
        entries.append({**{key: value for key, value in each.items() if key not in dropped}, "pods": pods})
    return {"claims": entries} if entries else {}


def _digest(
    members: Iterable[PlannedMember], victims: Iterable[PlannedVictim], claims: Iterable[ClaimAllocation]
) -> str:
    text = ";".join([*(f"{m.uid}>{m.node}" for m in members), *(f"-{v.uid}" for v in victims)])
    for claim in claims:
        devices = ",".join("/".join(each.device) for each in claim.devices)
        text += f";{claim.namespace}/{claim.name or claim.pod_claim}:{','.join(claim.pods)}={devices}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
