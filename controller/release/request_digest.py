"""What a plan rests on besides room: where its gang asks to be placed. As a digest, in the identity of the plan.

A digest is read by later versions of this program than the one that wrote it, so its form is explicit: which fields
count, written as JSON with sorted keys, and only those that say something. A field that is added to a gang later leaves
the digests of all gangs that do not use it as they are; a form that is changed gets a number of its own.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from gangs.model import CapRule, Gang, MultipleRule, PodSet, SliceRule, TogetherRule
from kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, Requirement

_SECOND = "2-"
"""Begins digests of the present form. Those of the first form, which hashed a `repr`, are hexadecimal digits alone."""


def request_digest(gang: Gang) -> str:
    """A digest of where the gang asks to be placed and what it is charged to, without who its members are: a plan holds
    only as long as this.

    Sizes that shrink by themselves as a workload nears its end are not part of it.
    """
    return _SECOND + _short(json.dumps(_asked(gang), sort_keys=True, separators=(",", ":")))


def asks_as_in(gang: Gang, digest: str) -> bool:
    """Whether the gang still asks for what this digest is of, whichever version wrote it."""
    if digest.startswith(_SECOND):
        return digest == request_digest(gang)
    return digest == _first_form(gang)


def _asked(gang: Gang) -> Any:
    asked = {
        "topology": gang.topology,
        "topologyKind": gang.topology_kind,
        "required": gang.required,
        "preferred": gang.preferred,
        "together": [{"podSets": list(each.pod_sets), "level": each.level} for each in gang.together],
        "multiples": [_multiple(each) for each in gang.multiples],
        "nodeAffinity": msgspec.to_builtins(gang.node_affinity),
        "preempts": None if gang.preempts else False,
        "podSets": [_pod_set(each) for each in gang.pod_sets],
        "queue": gang.queue if gang.queue_dialect else None,
    }
    return _present(asked)


def _pod_set(pod_set: PodSet) -> dict[str, Any]:
    return {
        "name": pod_set.name,
        "required": pod_set.required,
        "preferred": pod_set.preferred,
        "slices": [{"level": each.level, "size": each.size} for each in pod_set.slices],
        "multiples": [_multiple(each) for each in pod_set.multiples],
        "maxPerDomain": [{"level": each.level, "count": each.count} for each in pod_set.max_per_domain],
    }


def _multiple(rule: MultipleRule) -> dict[str, Any]:
    return {"level": rule.level, "of": rule.of}


def _present(value: Any) -> Any:
    """Without fields that say nothing, at any depth; what stands in a list keeps its place."""
    if isinstance(value, Mapping):
        fields = {key: _present(each) for key, each in value.items()}
        return {key: each for key, each in fields.items() if each not in (None, "", [], {})}
    return [_present(each) for each in value] if isinstance(value, list | tuple) else value


_FIRST_FIELDS: Mapping[type, tuple[str, ...]] = {
    TogetherRule: ("pod_sets", "level"),
    MultipleRule: ("level", "of"),
    SliceRule: ("level", "size"),
    CapRule: ("level", "count"),
    PodSet: ("name", "count", "min_count", "required", "preferred", "slices", "multiples", "max_per_domain"),
    NodeAffinity: ("required", "preferred"),
    NodeSelector: ("node_selector_terms",),
    NodeSelectorTerm: ("match_expressions", "match_fields"),
    PreferredSchedulingTerm: ("weight", "preference"),
    Requirement: ("key", "operator", "values"),
}
"""The classes that the first form wrote by their `repr`, with the fields that they had then."""
_NOT_COUNTED = ((PodSet, "count"), (PodSet, "min_count"))


def _first_form(gang: Gang) -> str:
    """The digest as the first version wrote it, whatever has become of the classes since."""
    asked = (
        gang.topology,
        gang.topology_kind,
        gang.required,
        gang.preferred,
        gang.together,
        gang.multiples,
        gang.node_affinity,
        gang.preempts,
        gang.pod_sets,
    )
    return _short(_first_text(asked))


def _first_text(value: Any) -> str:
    if isinstance(value, tuple):
        inside = ", ".join(map(_first_text, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    names = _FIRST_FIELDS.get(type(value))
    if names is None:
        return repr(value)
    fields = (
        f"{name}={_first_text(0 if (type(value), name) in _NOT_COUNTED else getattr(value, name))}" for name in names
    )
    return f"{type(value).__name__}({', '.join(fields)})"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
