"""Texts of decisions for users: one line, short enough for an admission warning if the names allow it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gangs.model import CreationDelay, Gang, GangKey
from gangs.workloads.jobs import controller_of
from kube.names import natural_key
from planning.decision import Assignment, Eviction, LevelUse
from planning.devices.counts import DeviceCount, short
from planning.framing.stranded import Stranded
from planning.message import Count, Message, Names, because, joined
from planning.messages.shortfalls import Misfits, Reasons
from solver.objective import criterion
from solver.plan import NearDomain, NextDoor, NoPlan, Proof

DEVICE_COLUMNS = ("DOMAIN", "REQUEST", "DEVICES", "MATCH", "FREE", "NEEDED", "MISSING")
NEAREST_COLUMNS = ("NEAREST", "FITS", "NODES", "EXCLUDED")
_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")
_RUNS_SHOWN = 4
_VICTIMS_SHOWN = 3
_DOMAINS_SHOWN = 3
_NEAREST_SHOWN = 3
_STRANDED_SHOWN = 3
_GANGS_SHOWN = 3
_NO_TIME = "not proven optimal in the time given"
_IN_PART = "not proven optimal"
_ONE_BY_ONE = "not proven optimal (gangs of one priority were planned one after the other)"


def pods(count: int) -> str:
    """Return a number of pods as text: `1 pod`, `4 pods`."""
    return f"{count} pod" if count == 1 else f"{count} pods"


def compressed(names: Iterable[str], shown: int = _RUNS_SHOWN) -> str:
    """Return names as text, in natural order, with consecutive numbers joined: `node-5..8`.

    After `shown` runs of names, the remaining names are counted: `a1..3, b and 5 more`.
    """
    runs = _runs(sorted(set(names), key=natural_key))
    texts = [_run_text(run) for run in runs[:shown]]
    rest = sum(len(run) for run in runs[shown:])
    return ", ".join(texts) + (f" and {rest} more" if rest else "")


def devices_text(devices: Iterable[tuple[str, str, Mapping[str, Any]]]) -> str:
    """Return devices by request as text: `gpu: gpu-0..1; nic: nic-0 with 3Gi of memory`.

    :param devices: for each device the request that gets it, its name, and what the claim consumes of the capacities of
        a shared device.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for request, name, consumed in devices:
        parts = [f"{consumed[each]} of {each}" for each in sorted(consumed) if str(consumed[each]) != "0"]
        share = f" with {listed(parts)}" if parts else ""
        found.setdefault(request, {}).setdefault(share, []).append(name)
    return "; ".join(
        f"{request}: {', '.join(f'{compressed(names)}{share}' for share, names in by_share.items())}"
        for request, by_share in found.items()
    )


def listed(names: Sequence[str]) -> str:
    """Return the names as an enumeration: `a`, `a and b`, `a, b and c`. Expects at least one name."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def placed(
    gang: Gang,
    assignments: Sequence[Assignment],
    levels: Sequence[LevelUse],
    evictions: Sequence[Eviction],
    proof: Proof,
    *,
    in_turn: bool = False,
    in_part: bool = False,
) -> Message:
    """Return the message of a plan: number of pods, domain and nodes, victims, proof, and the preferred level's result.

    `in_turn`: the plan is the best for this gang alone, but other gangs compete for the same nodes. `in_part`: the plan
    is the best under the constraints that were considered; the caller appends the constraints that were not.
    """
    new = [each for each in assignments if not each.held]
    held = len(assignments) - len(new)
    where = _where(levels)
    nodes = compressed(each.node for each in (new or assignments))
    parts: list[Message | Names | str] = [
        _who_fits(gang, len(new), held) + (f" in {where}: {nodes}" if where else f" on {nodes}")
    ]
    if evictions:
        parts.append(Names(_after(evictions), f"after evicting {pods(len(evictions))}"))
    unproven = _ONE_BY_ONE if in_turn else _IN_PART if in_part else _NO_TIME
    parts.append("proven optimal" if proof is Proof.OPTIMAL else unproven)
    parts.extend(_preferred(levels))
    return joined(", ", parts)


def refused(
    needed: int,
    answer: NoPlan,
    required: str | None,
    misfits: Sequence[Misfits] = (),
    kept: Sequence[Names] = (),
    *,
    in_part: bool = False,
) -> Message:
    """Return the message of a rejection: what the gang needs, its pods that fit on no node, the nearest domains, and
    `kept`.

    `needed`: how many members must run together, by the minimums of the gang and its sets. `kept`: texts about the
    reasons why running pods cannot be evicted. `in_part`: whether more time would prove nothing, because not everything
    was considered.
    """
    need = f"needs {pods(needed)}" + (f" in one {required}" if required else "")
    found: list[Message | Names | str] = [*map(_misfit, misfits), *map(_near, answer.nearest[:_NEAREST_SHOWN]), *kept]
    text = Message.of(need, ": ", joined("; ", found)) if found else Message.of(need)
    if answer.proof is Proof.UNPROVEN:
        if in_part:
            return Message.of("no placement found, and not proven that there is none; ", text)
        return Message.of("no placement found in the time given, and not proven that there is none; ", text)
    return text


def never_fits(largest: NearDomain, required: str) -> str:
    """Return the message for a gang that fits nowhere even without other pods. It names the largest domain and its
    size.

    :param required: the name of the level of which one domain must hold the gang; "" if no level is required.
    """
    nodes = "1 node" if largest.nodes == 1 else f"{largest.nodes} nodes"
    where = f"the largest {required}, {domain(largest.path)} ({nodes})," if required else f"the cluster ({nodes})"
    need = f"needs {pods(largest.needed)}" + (f" in one {required}" if required else "")
    if largest.fits < largest.needed:
        reasons = because(largest.excluded)
        holds = f"{where} holds {largest.fits}" + (f" ({reasons})" if reasons else "")
    else:
        holds = f"{where} does not hold the pods of all its sets"
    return f"never fits this cluster, even without other pods: {need}, and {holds}"


def kept(budgets: Sequence[str], overruling: Sequence[str], gangs: Sequence[str] = ()) -> Iterable[Names]:
    """Yield texts about running pods that cannot be evicted.

    `budgets`: disruption budgets that allow too few evictions. `overruling`: budgets that cover the same pod. `gangs`:
    running gangs that could only be evicted as a whole.
    """
    if budgets:
        text = "evictions there are limited by"
        yield Names(f"{text} PodDisruptionBudget {listed(budgets)}", f"{text} {len(budgets)} PodDisruptionBudgets")
    if overruling:
        text = "pods there under two disruption budgets cannot be evicted"
        yield Names(f"{text} ({listed(overruling)})", text)
    if gangs:
        text = "there goes whole or not at all" if len(gangs) == 1 else "there go whole or not at all"
        whose = "gang" if len(gangs) == 1 else "gangs"
        yield Names(f"{whose} {listed(gangs)} {text}", f"{len(gangs)} {whose} {text}")


def planned_after(others: Names, refusal: Message) -> Message:
    """Return the message of a rejection that is unproven because earlier gangs could be placed elsewhere.

    `others`: these gangs. `refusal`: the message of the rejection itself, which comes last.
    """
    return Message.of(
        "not proven that there is no place: planned after ", others, ", which could be elsewhere; ", refusal
    )


def needs_unplaced(others: Names, refusal: Message) -> Message:
    """Return the message of a rejection that is unproven because the gang may need pods of unplaced gangs near it.

    `others`: these gangs. `refusal`: the message of the rejection itself, which comes last.
    """
    before = "not proven that there is no place: it may need pods of "
    return Message.of(before, others, " near it, and there is no place for these yet; ", refusal)


def no_place_beside(others: Names, refusal: Message) -> Message:
    """Return the message of a rejection because earlier gangs of the same priority displace the gang.

    `others`: these gangs. `refusal`: the message of the rejection itself, which comes last.
    """
    return Message.of("no place beside ", others, ", of the same priority and first in line; ", refusal)


def gangs(keys: Sequence[GangKey]) -> Names:
    """Return the text `gang default/a` or `gangs default/a and default/b`; gangs beyond `_GANGS_SHOWN` are counted."""
    rest = len(keys) - _GANGS_SHOWN
    names = [str(each) for each in keys[:_GANGS_SHOWN]]
    shown = f"{', '.join(names)} and {rest} more" if rest > 0 else listed(names)
    return Names(f"gang{'s' if len(keys) > 1 else ''} {shown}", gangs_by_number(len(keys)))


def gangs_by_number(count: int) -> str:
    """Return `another gang` or `2 other gangs`: the text for a reader who may not see the gangs' names."""
    return "another gang" if count == 1 else f"{count} other gangs"


def why_here(beside: NextDoor) -> str:
    """Return why the gang is not in another domain: the best plan outside its domain, and the first goal in which that
    plan is worse.

    For example, `rack r2 would cost 3 instead of 2 victims`.
    """
    if not beside.paths:
        return f"no other {beside.level} can hold it"
    where = f"{beside.level} {listed([domain(path) for path in beside.paths[:_DOMAINS_SHOWN]])}"
    if not beside.goal:
        return f"{where} is as good and comes later by name"
    return f"{where} {_loss(beside)}"


def _loss(beside: NextDoor) -> str:
    """Return how much worse the plan outside the gang's domain is in one goal, as the end of a sentence.

    The text is the goal's template `Criterion.loss` (`solver.objective`) with the values of both plans.
    """
    of, level = criterion(beside.goal), beside.goal.partition("/")[2]
    loss = of.loss
    if of.counting and beside.part.startswith(of.counting):
        loss, level = of.counting_loss, beside.part.removeprefix(of.counting)
    return loss.format(both=f"{beside.other_value} instead of {beside.value}", level=level)


def unfulfilled(needed: int, wishes: Sequence[str]) -> str:
    """Return the message for a gang that fits by capacity, but for which no plan was found that keeps the rules between
    its members. `wishes`: these rules, as phrases.
    """
    return f"no placement of {pods(needed)} found, nor proven impossible, that fulfils {listed(wishes)}"


def more_pods(existing: int, needed: int, pod_set: str = "") -> Message:
    """Return the message part about the missing pods of an incomplete gang: `1 more pod: 3 of 4 exist`."""
    missing = needed - existing
    of = f" of {pod_set}" if pod_set else ""
    more = Count(f"{missing} more {'pod' if missing == 1 else 'pods'}")
    return Message.of(more, f"{of}: ", Count(f"{existing} of {needed}"), " exist")


DELAYS = {
    CreationDelay.TERMINATING: "creates them when its terminating pods have ended",
    CreationDelay.BACK_OFF: "creates them after a back-off of up to 10 minutes if pods of it failed or were evicted",
}
"""By reason, when a Job creates its missing pods.

10 minutes are MaxJobPodFailureBackOff of the Job controller (job_controller.go). The back-off begins with 10 s and
doubles with each failed pod, so the eviction of six pods delays the next ones by 5 minutes and 20 s.
"""


def delayed(gang: Gang) -> str:
    """Return when the gang's Job creates missing pods, as the end of a message; "" if its status shows no delay."""
    return f"; {gang.source} {DELAYS[gang.delay]}" if gang.delay is not None else ""


def one_by_one(gang: Gang) -> str:
    """Return why a workload does not create missing pods now, with a remedy if there is one, as the end of a message.

    "" if no reason is known, or if capacity is reserved for the expected pods.
    """
    if gang.delay is not None:
        return delayed(gang)
    later = gang.later
    if later is None:
        return _stateful_sets(gang)
    if later.unwanted is None:
        return ""
    by, instead = later.unwanted
    text = f"; {gang.source} creates pods only when others of it run, and no capacity is reserved for them, {by}: "
    return text + (f"{later.at_once}, so that all are made at once, or {instead}" if later.at_once else instead)


def _stateful_sets(gang: Gang) -> str:
    """Return the remedy for StatefulSets of which only one pod exists, as the end of a message; "" if there are none.

    The remedy is for gangs of which only the pods are known. By default a StatefulSet creates its second pod only when
    the first one runs. A gated first pod never runs.
    """
    owners = [controller_of(member.pod) for member in gang.members if not member.pod.bound]
    names = Counter(owner.name for owner in owners if owner is not None and owner.kind == "StatefulSet")
    alone = [name for name, made in names.items() if made == 1]
    if not alone:
        return ""
    whose, has, it = ("StatefulSet", "has", "it needs") if len(alone) == 1 else ("StatefulSets", "have", "they need")
    who = f"{whose} {listed(alone)} {has} more"
    return f"; if {who}, {it} podManagementPolicy: Parallel to make them before the first runs"


def lacking(label: str) -> str:
    """Return why nodes are outside a topology: they lack the label, or are not in the node pool `label=value`."""
    return f"node(s) were not in the topology's node pool {label}" if "=" in label else f"node(s) had no label {label}"


def with_labels(nodes: Sequence[str], labels: Sequence[str], domain_path: Sequence[str]) -> str:
    """Return the text of a label change that would put the nodes into the topology: `node a had the label b`.

    `domain_path`: the domain in which the nodes would be; empty: any domain.
    """
    one = len(nodes) == 1
    who = f"node {nodes[0]}" if one else f"nodes {compressed(nodes)}"
    keys = [each for each in labels if "=" not in each]
    parts = [f"{'was' if one else 'were'} in the topology's node pool {each}" for each in labels if "=" in each]
    parts += [f"had the label{'s' if len(keys) > 1 else ''} {listed(keys)}"] if keys else []
    parts += [f"lay in {domain(domain_path)}"] if domain_path else []
    return f"{who} {listed(parts)}"


def domain(path: Sequence[str]) -> str:
    """Return a domain's path as text, joined by slashes; `the cluster` for the empty path."""
    return "/".join(path) if path else "the cluster"


def _runs(names: Sequence[str]) -> list[list[str]]:
    """Return the sorted names, grouped into runs of names that differ only by one in their last number."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _follows(before: str, name: str) -> bool:
    one, other = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(name)
    if one is None or other is None or (one[1], one[3]) != (other[1], other[3]):
        return False
    return other[2] == str(int(one[2]) + 1).zfill(len(one[2]))


def _run_text(run: Sequence[str]) -> str:
    last = _NUMBERED.fullmatch(run[-1])
    if len(run) == 1 or last is None:
        return run[0]
    return f"{run[0]}..{last[2]}" if not last[3] else f"{run[0]}..{last[2]}{last[3]}"


def _who_fits(gang: Gang, new: int, held: int) -> Message:
    if not new:
        return Message.of(f"{pods(held)} {'stays' if held == 1 else 'stay'}")
    verb = "fits" if new == 1 else "fit"
    if held:
        return Message.of(Count(f"{new} more {'pod' if new == 1 else 'pods'}"), f" {verb} beside {held}")
    if new < (count := len(gang.members)):
        return Message.of(Count(f"{new} of {count}"), f" {'pod' if count == 1 else 'pods'} {verb}")
    return Message.of(f"{pods(new)} {verb}")


def _where(levels: Sequence[LevelUse]) -> str:
    """Return the name of the narrowest domain above the node that holds all members; "" if all members are on one node,
    or without a topology.

    If even the widest level needs several domains, return these domains or their number.
    """
    shared = [level for level in levels if len(level.domains) == 1]
    if shared and shared[-1] is levels[-1]:
        return ""
    if shared:
        return domain(shared[-1].domains[0].path)
    if len(levels) == 1:
        return ""
    paths = [domain(each.path) for each in levels[0].domains]
    return listed(paths) if len(paths) <= _DOMAINS_SHOWN else f"{len(paths)} {levels[0].level} domains"


def _after(evictions: Sequence[Eviction]) -> str:
    """Return the text about the victims: the first `_VICTIMS_SHOWN` by name, and the number of the others."""
    names = [f"{each.namespace}/{each.name}" for each in evictions[:_VICTIMS_SHOWN]]
    rest = len(evictions) - len(names)
    return "after evicting " + (f"{', '.join(names)} and {rest} more" if rest else listed(names))


def _preferred(levels: Sequence[LevelUse]) -> Iterable[str]:
    for position, level in enumerate(levels):
        if level.mode == "preferred" and len(level.domains) > 1:
            kept = next((each.level for each in reversed(levels[:position]) if len(each.domains) == 1), "the cluster")
            yield f"preferred {level.level} widened to {kept} ({len(level.domains)} {level.level} domains)"


def stranded(members: Sequence[Stranded]) -> str:
    """Return the message about members that were released to nodes that can no longer take them; "" for none."""
    if not members:
        return ""
    first, rest = members[0], len(members) - _STRANDED_SHOWN
    if len(members) == 1:
        who = (
            f"pod {first.member.pod.metadata.name} was released to {first.node} and cannot be bound there ({first.why})"
        )
        return f"{who}: make room, or delete it to be planned anew"
    shown = [f"{each.member.pod.metadata.name} to {each.node} ({each.why})" for each in members[:_STRANDED_SHOWN]]
    who = f"{', '.join(shown)} and {rest} more" if rest > 0 else listed(shown)
    return f"pods were released and cannot be bound there, {who}: make room, or delete them to be planned anew"


def _misfit(misfit: Misfits) -> str:
    who = f"pod {misfit.pods[0]} fits" if len(misfit.pods) == 1 else f"pods {compressed(misfit.pods)} fit"
    return f"{who} on no node ({because(misfit.reasons)})"


def fitting(fits: int, needed: int, now: int | None) -> str:
    """Return how many of the needed members a domain holds: `3 of 4`, or `13 of 60 now, 42 after evictions`.

    :param now: the members that it holds without evictions; None if no eviction counts, or if that is not known.
    """
    return f"{fits} of {needed}" if now is None or now >= fits else f"{now} of {needed} now, {fits} after evictions"


def nearest_row(path: Sequence[str], fits: str, nodes: int, excluded: Reasons) -> tuple[str, ...]:
    """Return a near domain as a table row under `NEAREST_COLUMNS`.

    `fits`: how many of the needed members the domain holds, as text, such as `3 of 4`. The reasons are sorted, because
    the API server reorders them in a Gang's status. So a plan and a status give the same row.
    """
    by_count = sorted(excluded.items(), key=lambda each: (-each[1], each[0]))
    reasons = ", ".join(f"{count} {reason}" for reason, count in by_count)
    return domain(path), fits, str(nodes), reasons


def device_row(path: Sequence[str], count: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the devices of one device kind in a near domain as a table row under `DEVICE_COLUMNS`.

    :param count: an entry of `explanation.nearest[].devices[]` in a SolveReport or in a Gang's status.
    """
    tied = [f"({each})" for each in count.get("constraints") or ()]
    what = " ".join((str(count["devices"]).removeprefix("devices of "), *tied))
    numbers = (count["matching"], count["free"], count["needed"], max(0, count["needed"] - count["free"]))
    return (domain(path), ", ".join(count.get("requests") or ()), what, *map(str, numbers))


def _near(near: NearDomain) -> Message:
    reasons = because(near.excluded)
    fits = Count(fitting(near.fits, near.needed, near.fits_now))
    text = Message.of(f"{domain(near.path)} {'fits' if near.path else 'holds'} ", fits)
    return text + f" ({reasons})" if reasons else text


def short_of_devices(nearest: Sequence[NearDomain], counts: Sequence[Sequence[DeviceCount]]) -> str:
    """Return how many devices match, and how many of them are free, in the near domains that lack devices.

    `counts`: the devices of each domain; empty if the gang asks for none. The result is the end of a message, "" if no
    shown domain lacks devices.
    """
    by_kind: dict[str, list[str]] = {}
    for near, every in zip(nearest[:_NEAREST_SHOWN], counts, strict=False):
        for each in short(every):
            has = f"{each.matching or 'none'} in {domain(near.path)}"
            has += f", {each.free} of them free" if each.free < each.matching else ""
            tied = f" with {listed(each.constraints)} in each claim" if each.constraints else ""
            by_kind.setdefault(each.devices, []).append(f"{has}, {each.needed}{tied} needed")
    return "; ".join(f"{devices}: {'; '.join(found)}" for devices, found in by_kind.items())


def unmodelled(wishes: Sequence[str]) -> str:
    """Return the end of a message that lists the constraints `wishes`, which planning did not consider; "" for none."""
    return f"; not considered: {listed(wishes)}" if wishes else ""


def levels_dropped(names: Sequence[str]) -> str:
    """Return the words for the change that drops these required levels, as the end of a sentence."""
    return f"required level{'s' if len(names) > 1 else ''} {listed(names)} dropped"


def left_behind(names: Sequence[str]) -> str:
    """Return the text about members that are pinned beside siblings which are gone, as the end of a message; "" for
    none.
    """
    if not names:
        return ""
    who, it = (f"pod {names[0]} was", "it") if len(names) == 1 else (f"pods {compressed(names)} were", "them")
    return f"; {who} tied to siblings that are gone: delete {it} to be recreated without that"
