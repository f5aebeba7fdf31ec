"""A digest of a gang's placement request, by which a change of the request is noticed. It is part of a plan's identity.

Later versions of Phalanx read digests of earlier ones, so the form is explicit: JSON of chosen fields, with sorted keys
and without empty fields. A new field of gangs does not change the digests of gangs that do not use it. If the form
changes, its digests get a new prefix, such as `2-`.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from gangs.model import CapRule, Gang, MultipleRule, PodSet, SliceRule, TogetherRule
from kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, Requirement

_SECOND = "2-"
"""The prefix of digests of the present form. Digests of the first form, which hashed a `repr`, have no prefix."""


def request_digest(gang: Gang) -> str:
    """Return a digest of the gang's constraints, preferences and queue. If it changes, the gang's plan is invalidated.

    Members and counts of members are not part of the digest: counts shrink by themselves as a workload nears its end.
    """
    return _SECOND + _short(json.dumps(_asked(gang), sort_keys=True, separators=(",", ":")))


def asks_as_in(gang: Gang, digest: str) -> bool:
    """Return whether `digest` is the digest of the gang's present placement request.

    The digest may have the form of an earlier version of Phalanx, because the stored plan may be older than the
    controller.
    """
    if digest.startswith(_SECOND):
        return digest == request_digest(gang)
    return digest == _first_form(gang)


def _asked(gang: Gang) -> Any:
    asked = {
        "topology": gang.topology,
        "topologyKind": gang.topology_kind,
        "required": gang.required,
        "preferred": gang.preferred,
        "deviceLevel": gang.device_level,
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
    """Return the value without empty fields, at any depth. Items of lists are kept, even if they are empty."""
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
"""The classes of which the first form of the digest hashed the `repr`, with the fields that they had at that time."""
_NOT_COUNTED = ((PodSet, "count"), (PodSet, "min_count"))


def _first_form(gang: Gang) -> str:
    """Return the digest in its first form. It rebuilds the `repr` of that time, so changes of classes do not matter."""
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
