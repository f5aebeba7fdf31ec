"""Gangs whose workload cannot be read any more, because the WorkloadKind that described its kind is gone or invalid.

Only their pods are known. The rest of the gang is taken from its mirror (a Gang object), so that a running gang keeps
its minimum. The gang waits for the WorkloadKind.
"""

from collections.abc import Sequence
from dataclasses import replace

from gangs.findings import Findings
from gangs.manifests import MalformedError, decode, group_of, ref_of
from gangs.membership import Seat, given_rank, live, seated
from gangs.mirrors import mirrored_key
from gangs.model import Gang, GangKey, Manifest, PodSet
from gangs.phalanx.gang_objects import KIND, rank_places
from gangs.phalanx.spec import GangSpec
from gangs.sources import Sources
from gangs.workload_kinds import READY
from gangs.workloads import user_defined_kinds
from gangs.workloads.kind_table import WORKLOADS
from gangs.workloads.pod_templates import role_of
from kube import keys
from kube.objects import Pod


def as_mirrored(gang: Gang, pods: Sequence[Pod], sources: Sources) -> Gang:
    """Return the gang of pods whose workload cannot be read, with pod sets, minimum and levels from its mirror.

    A gang of a built-in kind or of a Gang object is returned unchanged.

    :param gang: the gang as derived from its pods alone.
    :param pods: the pods that name it.
    """
    group, kind = group_of(gang.source.api_version), gang.source.kind
    if (group, kind) in WORKLOADS or group == keys.GROUP:
        return gang
    awaited = _awaited(group, kind, sources)
    gang = replace(gang, waiting_for=(awaited,)) if awaited else gang
    before = _shown(gang.key, sources)
    if before is None or not before.pod_sets:
        return gang
    names = [each.name for each in before.pod_sets]
    roles = {pod.key: role if (role := role_of(pod)) in names else names[0] for pod in live(pods)}
    found = Findings()  # discarded: these faults are reported already
    seats = [Seat(pod, roles[pod.key], given_rank(pod, rank_places(pod), found)) for pod in live(pods)]
    there = list(roles.values())
    sets = tuple(
        PodSet(each.name, max(each.count, there.count(each.name)), least)
        for each in before.pod_sets
        for least in [each.count if each.min_count is None else each.min_count]
    )
    return replace(
        gang,
        members=seated(seats, names, found),
        pod_sets=sets,
        expected=sum(each.count for each in sets),
        min_member=before.min_member or gang.min_member,
        topology=before.topology,
        required=before.required,
        preferred=before.preferred,
    )


def _awaited(group: str, kind: str, sources: Sources) -> str:
    """Return the entry of `Gang.waiting_for` about the missing or invalid WorkloadKind of a kind; "" if it is valid."""
    for manifest in sources.of_kind(keys.GROUP, user_defined_kinds.KIND):
        spec = manifest.get("spec") or {}
        if (spec.get("group"), spec.get("kind")) == (group, kind):
            conditions = (manifest.get("status") or {}).get("conditions") or ()
            said: Manifest = next((each for each in conditions if each.get("type") == READY), {})
            return "" if said.get("status") == "True" else f"{ref_of(manifest)} to be in force"
    return f"a {user_defined_kinds.KIND} that describes {kind} of {group}"


def _shown(key: GangKey, sources: Sources) -> GangSpec | None:
    """Return the spec of a gang's mirror (a Gang object); None if there is none, or if it is malformed."""
    for manifest in sources.sought(keys.GROUP, KIND, _mirrored_in, key):
        try:
            return decode(manifest.get("spec") or {}, GangSpec, ref_of(manifest), "spec")
        except MalformedError:
            return None
    return None


def _mirrored_in(manifest: Manifest) -> tuple[GangKey, ...]:
    key = mirrored_key(manifest)
    return () if key is None else (key,)
