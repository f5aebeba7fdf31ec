"""Evictions that plans in force mean to make, or have made and nobody shows yet: for whoever plans beside them.

They stand in the status of the Gang objects until the plan has been carried out or has fallen.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.snapshot import Snapshot
from gangs.model import Manifest

Promised = tuple[str, str]
"""A victim's uid, and its node."""


def with_plans(gang: Manifest) -> tuple[bool]:
    """By which a Gang object that holds a plan is found among the others (`Sources.sought`)."""
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
    """The picture with these victims marked as leaving, those that run still."""
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
