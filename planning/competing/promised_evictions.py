"""Evictions of plans in force that the snapshot does not show yet: planned, or sent and not visible. Other plans must
count these victims as leaving.

The status of a Gang object holds them until its plan has been carried out or is invalidated.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.snapshot import Snapshot
from gangs.model import Manifest

Promised = tuple[str, str]
"""A victim's uid, and its node."""


def with_plans(gang: Manifest) -> tuple[bool]:
    """Return the index key of a Gang object: whether it holds a plan (`Sources.sought`)."""
    return (bool((gang.get("status") or {}).get("planId")),)


def promised_by(gangs: Iterable[Manifest]) -> list[Promised]:
    """The victims of the plans that these Gang objects hold."""
    statuses: Iterable[Mapping[str, Any]] = (each.get("status") or {} for each in gangs)
    return [
        (victim["uid"], victim["node"])
        for status in statuses
        if status.get("planId")
        for victim in status.get("victims") or ()
        if victim.get("uid")
    ]


def with_promised(snapshot: Snapshot, victims: Iterable[Promised]) -> Snapshot:
    """Return the snapshot with those of the victims that still run marked as leaving."""
    on_node: dict[str, set[str]] = {}
    for uid, node in victims:
        on_node.setdefault(node, set()).add(uid)
    if not on_node:
        return snapshot
    leaving = frozenset(
        tenant.pod.key
        for state in filter(None, map(snapshot.state, on_node))
        for tenant in state.tenants
        if tenant.pod.metadata.uid in on_node[state.name] and not tenant.pod.terminating
    )
    return snapshot.with_states((), leaving=leaving) if leaving else snapshot
