"""Evictions of plans in force that the snapshot does not show yet: they are planned, or sent and not visible.

The status of a Gang object lists these victims until its plan has been carried out or is invalidated. Other plans must
treat these pods as leaving.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.snapshot import Snapshot
from gangs.model import Manifest

Promised = tuple[str, str]
"""A victim of a plan in force, as its uid and its node."""


def with_plans(gang: Manifest) -> tuple[bool]:
    """Return (True,) if the status of a Gang object holds a plan, else (False,).

    It is an index function: `Sources.sought(…, by=with_plans, value=(True,))` returns the Gang objects with a plan.
    """
    return (bool((gang.get("status") or {}).get("planId")),)


def promised_by(gangs: Iterable[Manifest]) -> list[Promised]:
    """Return the victims of the plans in the status of these Gang objects."""
    statuses: Iterable[Mapping[str, Any]] = (each.get("status") or {} for each in gangs)
    return [
        (victim["uid"], victim["node"])
        for status in statuses
        if status.get("planId")
        for victim in status.get("victims") or ()
        if victim.get("uid")
    ]


def with_promised(snapshot: Snapshot, victims: Iterable[Promised]) -> Snapshot:
    """Return the snapshot in which the victims that still run are marked as leaving."""
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
