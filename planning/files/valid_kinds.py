"""Rules of the API server for the kinds that files contain, beyond their schemas (`planning.files.schemas`).

Each rule was tried on a real API server (tests/faults/test_refused_by_the_api_server.py). Some faults are reported
elsewhere. The code that reads a field reports a value of a wrong type. The dialect reports a faulty request for a gang.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from cluster.resource_quota_charges import resource_of
from cluster.selectors import selects
from gangs.manifests import group_of
from kube.objects import LabelSelector
from kube.quantities import countable
from planning.files.valid_metadata import LONGEST_VALUE, Wrong, is_dns_label, wrong_metadata
from planning.files.valid_pods import at_least, wrong_pod_spec, wrong_taints

_MODES = ("NonIndexed", "Indexed")
_MOST_INDEXED = 100_000
_PERCENT = re.compile(r"[0-9]{1,3}%")
_HIGHEST_PRIORITY = 1_000_000_000

Manifest = Mapping[str, Any]


def wrong_in(manifest: Manifest) -> Iterator[Wrong]:
    """Yield the faults of an object for which the API server would reject it.

    The faults of its metadata are always among them, other faults only if its kind has rules in this module.
    """
    yield from wrong_metadata(manifest["metadata"], "metadata")
    rule = _RULES.get((group_of(manifest["apiVersion"]), manifest["kind"]))
    if rule is not None:
        yield from rule(manifest)


def _pod(manifest: Manifest) -> Iterator[Wrong]:
    """Yield the faults of a pod's spec.

    A pod with a node has none, because an API server has accepted it, whatever the file omits.
    """
    spec = _part(manifest, "spec")
    if spec.get("nodeName"):
        return
    try:
        encoded = msgspec.json.encode(spec)
    except (TypeError, ValueError):  # not representable in JSON, such as a mapping key that is not a text
        yield from wrong_pod_spec(spec, "spec")
    else:
        yield from _wrong_in_spec(encoded)


@lru_cache(maxsize=256)
def _wrong_in_spec(encoded: bytes) -> tuple[Wrong, ...]:
    """Return the faults of a pod's spec, given as JSON. The result is cached, so equal specs are checked only once."""
    return tuple(wrong_pod_spec(msgspec.json.decode(encoded), "spec"))


def _job(manifest: Manifest) -> Iterator[Wrong]:
    spec = manifest.get("spec")
    if spec is not None and not isinstance(spec, Mapping):
        return
    spec = spec or {}
    if not isinstance(spec.get("template", {}), Mapping):
        return
    yield from _template(spec, ("OnFailure", "Never"))
    for field in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        yield from at_least(0, spec.get(field), f"spec.{field}")
    if "selector" in spec and not spec.get("manualSelector"):
        yield "spec.selector", "is made by the API server; leave it out"
    yield from _indexes(spec, manifest["metadata"])


def _indexes(spec: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the faults of a Job's fields whose valid values depend on its completion mode: completions, parallelism,
    failure limits and name.
    """
    mode, name, completions = spec.get("completionMode", _MODES[0]), metadata.get("name"), spec.get("completions")
    if mode not in _MODES:
        yield "spec.completionMode", f'"{mode}" is not known; write {" or ".join(_MODES)}'
    elif mode == "Indexed":
        if completions is None:
            yield "spec.completions", "is not set, and the completion mode is Indexed; write how many indexes there are"
        parallelism = spec.get("parallelism")
        if isinstance(parallelism, int) and parallelism > _MOST_INDEXED:
            problem = f"{parallelism} is more than {_MOST_INDEXED}, and the completion mode is Indexed"
            yield "spec.parallelism", f"{problem}; lower it"
        last = f"{name}-{max(0, completions - 1)}" if name and isinstance(completions, int) else "0"
        if not is_dns_label(last):
            problem = f'its last pod would have the host name "{last}"'
            yield (
                "metadata.name",
                f"{problem}; use up to {LONGEST_VALUE} letters, digits and dashes, the index included",
            )
    else:
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                yield (
                    f"spec.{field}",
                    "asks for indexes, and the completion mode is not Indexed; set it, or remove this",
                )
    if mode != "Indexed" and name and len(name) > LONGEST_VALUE:
        yield "metadata.name", f"has {len(name)} characters, and is a label of the pods; use up to {LONGEST_VALUE}"


def _selecting(manifest: Manifest) -> Iterator[Wrong]:
    """Yield the faults of a workload such as a Deployment: its selector must match its own pod template, and the
    restart policy of its pods must be Always.
    """
    spec = _part(manifest, "spec")
    yield from _template(spec, ("Always",))
    yield from at_least(0, spec.get("replicas"), "spec.replicas")
    selector, labels = spec.get("selector"), _part(_part(_part(spec, "template"), "metadata"), "labels")
    if isinstance(selector, Mapping) and isinstance(wanted := selector.get("matchLabels") or {}, Mapping):
        expected = {str(key): str(value) for key, value in labels.items()}
        if not selects(LabelSelector(match_labels={str(k): str(v) for k, v in wanted.items()}), expected):
            yield "spec.selector", "does not match the labels of the pod template; write the same on both"


def _stateful_set(manifest: Manifest) -> Iterator[Wrong]:
    yield from _selecting(manifest)
    policy = _part(manifest, "spec").get("podManagementPolicy", "Parallel")
    if policy not in ("Parallel", "OrderedReady"):
        yield "spec.podManagementPolicy", f'"{policy}" is not known; write Parallel or OrderedReady'


def _template(spec: Mapping[str, Any], policies: tuple[str, ...]) -> Iterator[Wrong]:
    template = _part(spec, "template")
    if "spec" not in template:
        yield "spec.template", "is missing, or has no spec; write the pods that are to be made"
        return
    yield from wrong_metadata(_part(template, "metadata"), "spec.template.metadata")
    if isinstance(template["spec"], Mapping):
        yield from wrong_pod_spec(template["spec"], "spec.template.spec", policies)


def _node(manifest: Manifest) -> Iterator[Wrong]:
    yield from wrong_taints(_part(manifest, "spec").get("taints"), "spec.taints")


def _priority_class(manifest: Manifest) -> Iterator[Wrong]:
    value, name = manifest.get("value"), manifest["metadata"].get("name", "")
    if isinstance(value, int) and value > _HIGHEST_PRIORITY and not name.startswith("system-"):
        yield "value", f"{value} is more than {_HIGHEST_PRIORITY}, the highest there is for users; lower it"


def _budget(manifest: Manifest) -> Iterator[Wrong]:
    spec = _part(manifest, "spec")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield "spec", "states minAvailable and maxUnavailable; keep one of the two"
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        yield from at_least(0, value, f"spec.{field}")
        if isinstance(value, str) and not (_PERCENT.fullmatch(value) and int(value[:-1]) <= 100):  # noqa: PLR2004 - %
            yield f"spec.{field}", f'"{value}" is neither a number nor a percentage; write 1 or 50%, say'


def _quota(manifest: Manifest) -> Iterator[Wrong]:
    for section, name in (("spec", "hard"), ("status", "used")):
        for key, value in _part(_part(manifest, section), name).items():
            if isinstance(value, str | int | float):
                try:
                    countable(resource_of(key), value)
                except ValueError as error:
                    yield f"{section}.{name}[{key}]", f"{error}; write 8, 500m or 64Gi, say"


def _part(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = manifest.get(name)
    return part if isinstance(part, Mapping) else {}


_RULES: Mapping[tuple[str, str], Callable[[Manifest], Iterator[Wrong]]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("batch", "Job"): _job,
    ("apps", "Deployment"): _selecting,
    ("apps", "ReplicaSet"): _selecting,
    ("apps", "StatefulSet"): _stateful_set,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("policy", "PodDisruptionBudget"): _budget,
    ("", "ResourceQuota"): _quota,
}
"""The function that yields the faults of an object, by API group and kind."""
