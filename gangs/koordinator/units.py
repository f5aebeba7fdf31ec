"""Units: the gangs in Koordinator's sense, one for each PodGroup, or for each gang name on pods without a PodGroup.

In Phalanx, units that form a GangGroup are one gang (`gangs.koordinator.groups`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gangs.findings import Findings
from gangs.koordinator import NAME, keys
from gangs.koordinator.strategy import NO_WISH, Strategy, parse
from gangs.manifests import advise_unknown, decode, integer, json_of, metadata_of, pod_ref, ref_of
from gangs.membership import age, live
from gangs.model import GangKey, Manifest, ObjectRef
from gangs.pod_consensus import advise_older, decisive_pods
from kube.objects import Pod

_DURATION = re.compile(r"([0-9]*\.?[0-9]+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 2**63 * 1e-9
"""The longest duration in seconds. Go counts nanoseconds in 63 bits, and rejects longer ones."""
STRICT, NON_STRICT = "Strict", "NonStrict"
MODES = (STRICT, NON_STRICT)
ONCE_SATISFIED, ONLY_WAITING = "once-satisfied", "only-waiting"
POLICIES = (ONCE_SATISFIED, ONLY_WAITING, "waiting-and-running")


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a PodGroup: the fields that have an effect. `minResources` has none, as in Koordinator."""

    min_member: int | None = None
    schedule_timeout_seconds: int | None = None


_SPEC_FIELDS = ("minMember", "minResources", "scheduleTimeoutSeconds")


@dataclass(frozen=True, slots=True)
class Unit:
    """A gang in Koordinator's sense: a PodGroup, or a gang name on pods. Several may form a GangGroup.

    `ref`: its PodGroup, or its first decisive pod if it has none. `declared`: its total-number; None if it states none.
    `groups`: the keys of the units that it is grouped with, its own included. `listed`: the keys of the units that its
    annotation lists; units of other namespaces among them may not have agreed. `policy`: its match policy.
    `waiting_for`: its missing PodGroup, if pods name one.
    """

    key: GangKey
    ref: ObjectRef
    created: str
    pods: tuple[Pod, ...]
    minimum: int = 0
    declared: int | None = None
    timeout: int | None = None
    groups: frozenset[GangKey] = frozenset()
    listed: frozenset[GangKey] = frozenset()
    strategy: Strategy = NO_WISH
    policy: str = ONCE_SATISFIED
    mode: str = STRICT
    waiting_for: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    """The missing agreements of other namespaces, for messages. The unit waits for them."""


def annotation(key: str) -> str:
    """Return the path of an annotation, `metadata.annotations[<key>]`, for messages."""
    return f"metadata.annotations[{key}]"


def gang_of(pod: Pod) -> GangKey | None:
    """Return the gang in Koordinator's sense (unit) that a pod names: by the PodGroup's label, else by the label or
    annotation with a gang's name.

    Return None if the pod has none of these keys.
    """
    meta = pod.metadata
    name = meta.labels.get(keys.POD_GROUP) or meta.labels.get(keys.LIGHT_NAME) or meta.annotations.get(keys.GANG_NAME)
    return GangKey(NAME, meta.namespace, name) if name else None


def unit_of_group(manifest: Manifest, pods: Sequence[Pod], findings: Findings) -> Unit:
    """Return a PodGroup with its pods as a unit: a gang in Koordinator's sense. Faults go to `findings`. Raises
    `MalformedError`.

    :param pods: the pods that name the PodGroup.
    """
    ref, meta = ref_of(manifest), metadata_of(manifest)
    key = GangKey(NAME, ref.namespace, ref.name)
    written = manifest.get("spec") or {}
    spec = decode(written, PodGroupSpec, ref, "spec")
    advise_unknown(written, _SPEC_FIELDS, ref, "spec", findings)
    _advise_annotations(meta.annotations, keys.ON_GROUPS, ref, findings)
    for pod in pods:
        _check_member_keys(pod, findings)
    if spec.min_member is None or spec.min_member < 1:
        shown = "is missing" if spec.min_member is None else f"{spec.min_member} is less than 1"
        findings.fault(ref, "spec.minMember", shown, "write the number of pods that must start together")
    minimum = spec.min_member or 0
    timeout = spec.schedule_timeout_seconds
    if timeout is not None and timeout < 1:
        findings.advise(ref, "spec.scheduleTimeoutSeconds", f"{timeout} is ignored: the gang waits for ever")
        timeout = None
    return Unit(
        key=key,
        ref=ref,
        created=meta.creation_timestamp or "",
        pods=tuple(live(pods)),
        minimum=minimum,
        declared=_total(meta.annotations, minimum, "spec.minMember", ref, findings),
        timeout=timeout,
        groups=(grouped := _groups(meta.annotations, key, ref, findings)),
        listed=grouped,
        strategy=_strategy(meta.annotations, ref, findings),
        policy=_policy(meta.annotations, meta.labels, ref, findings),
        mode=meta.annotations.get(keys.MODE, STRICT),
        waiting_for=(),
    )


def unit_of_pods(key: GangKey, pods: Sequence[Pod], findings: Findings) -> Unit | None:
    """Return, as a unit, the gang of pods that name a gang without a PodGroup; None if no pod is live.

    The annotations and labels of the first decisive pod apply (`gangs.pod_consensus`). If the pods do not state a
    minimum, they name a PodGroup that does not exist, and the unit waits for it.
    """
    live_pods = tuple(sorted(live(pods), key=lambda pod: age(pod.metadata)))
    if not live_pods:
        return None
    first, created = decisive_pods(live_pods)[0], live_pods[0].metadata.creation_timestamp or ""
    ref = pod_ref(first)
    for pod in live_pods:
        _check_member_keys(pod, findings)
    advise_older(live_pods, (keys.LIGHT_MIN_AVAILABLE,), "labels", findings)
    advise_older(live_pods, (keys.MIN_AVAILABLE, keys.WAITING_TIME, *keys.ON_GROUPS), "annotations", findings)
    if any(keys.POD_GROUP in pod.metadata.labels for pod in live_pods) or not any(_min_place(pod) for pod in live_pods):
        missing = (f"{keys.POD_GROUP_KIND} {key}",)
        return Unit(
            key,
            ref,
            created,
            live_pods,
            len(live_pods),
            groups=frozenset({key}),
            listed=frozenset({key}),
            waiting_for=missing,
        )
    annotations = first.metadata.annotations
    minimum, at = _minimum([pod for pod in decisive_pods(live_pods) if _min_place(pod)] or live_pods, findings)
    return Unit(
        key=key,
        ref=ref,
        created=created,
        pods=live_pods,
        minimum=minimum,
        declared=_total(annotations, minimum, at, ref, findings),
        timeout=_waiting_time(annotations, ref, findings),
        groups=(grouped := _groups(annotations, key, ref, findings)),
        listed=grouped,
        strategy=_strategy(annotations, ref, findings),
        policy=_policy(annotations, first.metadata.labels, ref, findings),
        mode=annotations.get(keys.MODE, STRICT),
    )


def _min_place(pod: Pod) -> tuple[str, str] | None:
    """Return path and value of the key `min-available` on a pod, as (path, value); None if it has none. A label takes
    precedence over an annotation.
    """
    meta = pod.metadata
    if keys.LIGHT_MIN_AVAILABLE in meta.labels:
        return f"metadata.labels[{keys.LIGHT_MIN_AVAILABLE}]", meta.labels[keys.LIGHT_MIN_AVAILABLE]
    if keys.MIN_AVAILABLE in meta.annotations:
        return annotation(keys.MIN_AVAILABLE), meta.annotations[keys.MIN_AVAILABLE]
    return None


def _minimum(pods: Sequence[Pod], findings: Findings) -> tuple[int, str]:
    """Return the number of pods that must start together, and the path of the key on the first pod that states it.

    Pods with different numbers are reported. If no pod states a valid number, return (0, "").
    """
    stated: tuple[int, Pod, str] | None = None
    for pod in pods:
        place = _min_place(pod)
        if place is None:
            continue
        at, text = place
        number = integer(text)
        if number is None or number < 1:
            findings.fault(pod_ref(pod), at, f'"{text}" is not a whole number from 1 up', "correct it")
        elif stated is None:
            stated = number, pod, at
        elif number != stated[0]:
            problem = f"{number} differs from {stated[0]} of Pod {stated[1].key}"
            findings.fault(pod_ref(pod), at, problem, "write the same number on every member")
    return (stated[0], stated[2]) if stated else (0, "")


def _total(
    annotations: Mapping[str, str], minimum: int, minimum_field: str, ref: ObjectRef, findings: Findings
) -> int | None:
    text = annotations.get(keys.TOTAL_NUMBER)
    if text is None:
        return None
    total, at = integer(text), annotation(keys.TOTAL_NUMBER)
    if total is None or total < 1:
        findings.fault(ref, at, f'"{text}" is not a whole number from 1 up', "correct it or leave it out")
        return None
    if total < minimum:
        problem = f"{minimum} is more than the {total} of {keys.TOTAL_NUMBER}"
        findings.fault(ref, minimum_field, problem, f"lower it to {total} or raise the total")
    return total


def _groups(annotations: Mapping[str, str], key: GangKey, ref: ObjectRef, findings: Findings) -> frozenset[GangKey]:
    """Return the keys of the units (PodGroups) that the annotation `groups` lists; only `key` if there is no valid
    list.
    """
    alone = frozenset({key})
    text, at = annotations.get(keys.GROUPS), annotation(keys.GROUPS)
    if text is None:
        return alone
    remedy = f'write a list such as ["{key}", "{key.namespace}/…"]'
    names, problem = json_of(text)
    if problem:
        findings.fault(ref, at, problem, remedy)
        return alone
    keys_listed = _keys_of(names)
    if keys_listed is None:
        findings.fault(ref, at, 'is not a list of "namespace/name"', remedy)
        return alone
    if keys_listed and key not in keys_listed:
        findings.fault(ref, at, f"does not list {key} itself", remedy)
    return keys_listed or alone


def listed(annotations: Mapping[str, Any]) -> frozenset[GangKey]:
    """Return the keys of the units (PodGroups) that the annotation `groups` lists; empty if there is no valid list."""
    text = annotations.get(keys.GROUPS)
    return (_keys_of(json_of(text)[0]) if isinstance(text, str) else None) or frozenset()


def _keys_of(names: Any) -> frozenset[GangKey] | None:
    """Return the `GangKey`s in a list of texts of the form "namespace/name"; None if the value is no such list."""
    if not isinstance(names, list) or not all(isinstance(each, str) and each.count("/") == 1 for each in names):
        return None
    return frozenset(GangKey(NAME, *each.split("/")) for each in names)


def _strategy(annotations: Mapping[str, str], ref: ObjectRef, findings: Findings) -> Strategy:
    mode = annotations.get(keys.MODE, STRICT)
    if mode not in MODES:
        findings.fault(ref, annotation(keys.MODE), f'"{mode}" is not known', f"write one of {', '.join(MODES)}")
    text = annotations.get(keys.TOPOLOGY_SPEC)
    return NO_WISH if text is None else parse(text, ref, findings)


def _policy(annotations: Mapping[str, str], labels: Mapping[str, str], ref: ObjectRef, findings: Findings) -> str:
    """Return the match policy of a unit (PodGroup): that of the annotation
    `gang.scheduling.koordinator.sh/match-policy`, else of the older annotation or label
    `pod-group.scheduling.sigs.k8s.io/match-policy`.

    The default is once-satisfied. Unknown policies are reported.
    """
    for where, mapping, key in (
        ("annotations", annotations, keys.MATCH_POLICY),
        ("annotations", annotations, keys.LIGHT_MATCH_POLICY),
        ("labels", labels, keys.LIGHT_MATCH_POLICY),
    ):
        value = mapping.get(key)
        if value is not None and value not in POLICIES:
            problem = f'"{value}" is not known'
            findings.fault(ref, f"metadata.{where}[{key}]", problem, f"write one of {', '.join(POLICIES)}")
        elif value is not None:
            return value
    return ONCE_SATISFIED


def _waiting_time(annotations: Mapping[str, str], ref: ObjectRef, findings: Findings) -> int | None:
    text = annotations.get(keys.WAITING_TIME)
    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds is None or seconds <= 0:
        problem = f'"{text}" is not a duration above 0'
        findings.fault(ref, annotation(keys.WAITING_TIME), problem, 'write one such as "600s" or "10m"')
        return None
    return max(1, round(seconds))


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration in Go's notation ("1h30m", "100s"); None if the text is no duration."""
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    seconds = sum(float(part[1]) * _SECONDS[part[2]] for part in parts)
    return seconds if seconds <= _LONGEST else None


def _check_member_keys(pod: Pod, findings: Findings) -> None:
    """Report, as advice, Koordinator's gang annotations and labels on a pod that have no effect there."""
    ref, annotations = pod_ref(pod), pod.metadata.annotations
    _advise_annotations(annotations, keys.ON_PODS, ref, findings)
    for key in pod.metadata.labels:
        if key.startswith(f"{keys.POD_GROUP}/") and key not in keys.LIGHT_LABELS:
            text = f"is ignored: the known ones are {', '.join(keys.LIGHT_LABELS)}"
            findings.advise(ref, f"metadata.labels[{key}]", text)
    if keys.POD_GROUP not in pod.metadata.labels:
        return
    for key in keys.ON_GROUPS:
        if key in annotations:
            findings.advise(ref, annotation(key), "is ignored on a pod of a PodGroup: write it on the PodGroup")


def _advise_annotations(
    annotations: Mapping[str, str], known: Sequence[str], ref: ObjectRef, findings: Findings
) -> None:
    for key in annotations:
        if key.startswith(keys.GANG_PREFIX) and key not in known:
            findings.advise(ref, annotation(key), f"is ignored: the known ones are {', '.join(known)}")
