"""The checks of a Gang object's spec: those that need the spec alone, and those that need its topology."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import lcm

from gangs.findings import Findings
from gangs.model import RESTART, WAIT, ObjectRef
from gangs.phalanx.spec import CapSpec, GangSpec, MultipleSpec, PodSetSpec, SliceSpec
from gangs.topology.levels import LevelWish, Request, Span
from kube.objects import Pod
from kube.topology import Topology

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


MAX_RESTARTS = 6
"""The default of `maxRestarts`. It equals a Job's default number of retries (batch/v1, `backoffLimit`)."""


def max_restarts(spec: GangSpec) -> int:
    """Return how often a Gang may be restarted as a whole; 0 unless its `onFailure` is Restart."""
    if spec.on_failure != RESTART:
        return 0
    return MAX_RESTARTS if spec.max_restarts is None else spec.max_restarts


def check_spec(ref: ObjectRef, spec: GangSpec, findings: Findings) -> None:
    """Report the invalid and contradictory fields in a Gang's spec that are visible without its topology."""
    _check_restarts(ref, spec, findings)
    if spec.schedule_timeout_seconds is not None and spec.schedule_timeout_seconds < 1:
        problem = f"{spec.schedule_timeout_seconds} is less than 1"
        findings.fault(ref, "spec.scheduleTimeoutSeconds", problem, "leave it out to wait for ever")
    sets = spec.pod_sets or ()
    _check_minimum(ref, spec, sets, findings)
    for name, times in Counter(each.name for each in sets).items():
        if times > 1:
            findings.fault(ref, "spec.podSets", f'{times} sets are called "{name}"', "give each a name of its own")
    for position, pod_set in enumerate(sets):
        _check_set(ref, f"spec.podSets[{position}]", pod_set, findings)
    _check_together(ref, spec, sets, findings)
    most = sum(each.count for each in sets) or spec.min_member or 0
    _check_rules(ref, "spec", spec.multiples or (), (), findings)
    _check_multiples(ref, "spec", spec.multiples or (), (spec.min_member or most, most), findings)


def _check_restarts(ref: ObjectRef, spec: GangSpec, findings: Findings) -> None:
    if spec.on_failure not in (None, WAIT, RESTART):
        findings.fault(ref, "spec.onFailure", f'"{spec.on_failure}" is not known', f"write {WAIT} or {RESTART}")
    if spec.max_restarts is None:
        return
    if spec.max_restarts < 0:
        findings.fault(ref, "spec.maxRestarts", f"{spec.max_restarts} is less than 0", "write a number from 0 up")
    elif spec.on_failure != RESTART:
        problem = f"is for gangs that are restarted, and this one waits (spec.onFailure: {spec.on_failure or WAIT})"
        findings.fault(ref, "spec.maxRestarts", problem, f"leave it out, or write onFailure: {RESTART}")


def _check_minimum(ref: ObjectRef, spec: GangSpec, sets: Sequence[PodSetSpec], findings: Findings) -> None:
    total = sum(each.count for each in sets)
    if spec.min_member is None and not sets:
        remedy = "write how many pods must start together, or spec.podSets with the count of each set"
        findings.fault(ref, "spec.minMember", "is not set, and there are no podSets: the gang has no number", remedy)
    elif spec.min_member is None:
        for position, each in enumerate(sets):
            if each.min_count is not None and each.min_count < each.count:
                text = f"has no effect: spec.minMember is absent, so all {total} members must start together"
                findings.advise(ref, f"spec.podSets[{position}].minCount", text)
    elif spec.min_member < 1:
        findings.fault(ref, "spec.minMember", f"{spec.min_member} is less than 1", "write 1 or more")
    elif sets and spec.min_member > total:
        remedy = f"lower it to {total} or raise the counts"
        problem = f"{spec.min_member} is more than the {total} members of all pod sets"
        findings.fault(ref, "spec.minMember", problem, remedy)


def _check_set(ref: ObjectRef, at: str, pod_set: PodSetSpec, findings: Findings) -> None:
    if not _LABEL_VALUE.fullmatch(pod_set.name):
        problem = f'"{pod_set.name}" cannot be the value of a label'
        findings.fault(ref, f"{at}.name", problem, "use up to 63 letters, digits, dashes, dots and underscores")
    if pod_set.count < 1:
        findings.fault(ref, f"{at}.count", f"{pod_set.count} is less than 1", "write the number of members")
        return
    if pod_set.min_count is not None and not 0 <= pod_set.min_count <= pod_set.count:
        problem = f"{pod_set.min_count} is not between 0 and the count, {pod_set.count}"
        findings.fault(ref, f"{at}.minCount", problem, "correct it or leave it out")
    _check_slices(ref, at, pod_set, findings)
    _check_rules(ref, at, pod_set.multiples or (), pod_set.max_per_domain or (), findings)
    least = pod_set.count if pod_set.min_count is None else min(pod_set.min_count, pod_set.count)
    _check_multiples(ref, at, pod_set.multiples or (), (least, pod_set.count), findings)


def _check_rules(
    ref: ObjectRef, at: str, multiples: Sequence[MultipleSpec], caps: Sequence[CapSpec], findings: Findings
) -> None:
    numbers = [(f"{at}.multiples[{i}].of", each.of) for i, each in enumerate(multiples)]
    numbers += [(f"{at}.maxPerDomain[{i}].count", each.count) for i, each in enumerate(caps)]
    for field, number in numbers:
        if number < 1:
            findings.fault(ref, field, f"{number} is less than 1", "write 1 or more, or remove the rule")
    for key, rules in (("multiples", multiples), ("maxPerDomain", caps)):
        for level, times in Counter(rule.level for rule in rules).items():
            if times > 1:
                findings.fault(ref, f"{at}.{key}", f'names level "{level}" {times} times', "keep one rule a level")


def _check_slices(ref: ObjectRef, at: str, pod_set: PodSetSpec, findings: Findings) -> None:
    slices = pod_set.slices or ()
    for position, each in enumerate(slices):
        if each.size < 1:
            findings.fault(ref, f"{at}.slices[{position}].size", f"{each.size} is less than 1", "write 1 or more")
            return
    if slices and pod_set.count % slices[0].size:
        problem = f"{slices[0].size} does not divide the count, {pod_set.count}"
        findings.fault(ref, f"{at}.slices[0].size", problem, "choose a size that divides it")
    for position, (wider, narrower) in enumerate(pairwise(slices), start=1):
        if wider.size % narrower.size:
            problem = f"{narrower.size} does not divide {wider.size}, the size before it"
            findings.fault(ref, f"{at}.slices[{position}].size", problem, "choose sizes that divide each other")


def _check_multiples(
    ref: ObjectRef, at: str, rules: Sequence[MultipleSpec], members: tuple[int, int], findings: Findings
) -> None:
    """Report constraints on multiples (`multiples`) that no possible number of members can meet.

    The number of members in each domain is a multiple of a number, so the number of all placed members is a multiple of
    it, too.

    :param at: the path of the field that contains `multiples`.
    :param members: the lowest and the highest number of members that may be placed; (0, 0) if unknown.
    """
    least, most = members
    if not rules or not most or any(each.of < 1 for each in rules):
        return
    step = lcm(*(each.of for each in rules))
    if most // step * step < least:
        problem = f"no number of members from {least} to {most} is a multiple of {step}"
        counted = "spec.minMember" if at == "spec" else "the minCount"
        findings.fault(ref, f"{at}.multiples", problem, f"change the count, {counted} or the multiples")


def _check_together(ref: ObjectRef, spec: GangSpec, sets: Sequence[PodSetSpec], findings: Findings) -> None:
    names = {each.name for each in sets}
    for position, rule in enumerate(spec.together or ()):
        at = f"spec.together[{position}].podSets"
        for unknown in (name for name in rule.pod_sets if name not in names):
            findings.fault(ref, at, f'"{unknown}" is not a pod set of this gang', "name sets of spec.podSets")
        if len(set(rule.pod_sets)) < 2:  # noqa: PLR2004 -- one set alone is together with nothing
            findings.fault(ref, at, "names fewer than two sets", "name two or more, or use the set's own required")


def request_of(ref: ObjectRef, spec: GangSpec, pods: Sequence[Pod]) -> Request:
    """Return the topology and all levels that a Gang's spec names, each with the field that names it
    (`levels.Request`).

    :param ref: the Gang object.
    :param pods: its live pods.
    """
    required = _wish("spec.required", spec.required)
    preferred = _wish("spec.preferred", spec.preferred)
    levels = [required, preferred]
    spans = [Span(required, preferred)]
    for position, pod_set in enumerate(spec.pod_sets or ()):
        at = f"spec.podSets[{position}]"
        own, soft = _wish(f"{at}.required", pod_set.required), _wish(f"{at}.preferred", pod_set.preferred)
        levels += [own, soft]
        spans += [Span(own, soft), Span(required, soft)]
        levels += _rules(f"{at}.slices", [rule.level for rule in pod_set.slices or ()])
        levels += _rules(f"{at}.multiples", [rule.level for rule in pod_set.multiples or ()])
        levels += _rules(f"{at}.maxPerDomain", [rule.level for rule in pod_set.max_per_domain or ()])
    levels += _rules("spec.together", [rule.level for rule in spec.together or ()])
    levels += _rules("spec.multiples", [rule.level for rule in spec.multiples or ()])
    named = tuple(each for each in levels if each is not None)
    return Request(ref, "spec.topology", spec.topology, levels=named, spans=tuple(spans), pods=tuple(pods))


def _rules(field: str, levels: Sequence[str]) -> list[LevelWish]:
    return [LevelWish(f"{field}[{position}].level", level, of_nodes=True) for position, level in enumerate(levels)]


def _wish(field: str, level: str | None) -> LevelWish | None:
    return None if level is None else LevelWish(field, level)


def check_slice_order(ref: ObjectRef, spec: GangSpec, topology: Topology, findings: Findings) -> None:
    """Report slices of a pod set whose level is not narrower than the level of the slices listed before."""
    for position, pod_set in enumerate(spec.pod_sets or ()):
        for index, (wider, narrower) in enumerate(pairwise(pod_set.slices or ()), start=1):
            if _out_of_order(wider, narrower, topology):
                at = f"spec.podSets[{position}].slices[{index}].level"
                problem = f'"{narrower.level}" is not narrower than "{wider.level}" before it'
                findings.fault(ref, at, problem, "list slices from the widest level to the narrowest")


def _out_of_order(wider: SliceSpec, narrower: SliceSpec, topology: Topology) -> bool:
    first, second = topology.depth(wider.level), topology.depth(narrower.level)
    return first is not None and second is not None and second <= first
