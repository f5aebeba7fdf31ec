"""Rules of the API server for the spec of a pod, beyond its schema (`planning.files.schemas`).

Each rule was tried on a real API server (tests/faults/test_refused_by_the_api_server.py). The rules come from
`k8s.io/kubernetes/pkg/apis/core/validation`. A value of the wrong type is skipped here, because the code that reads the
field reports it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kube.quantities import amount
from planning.files.valid_metadata import Wrong, is_dns_label, is_name, shown, wrong_labels

_POLICIES = ("Always", "OnFailure", "Never")
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_PORTS = 65536
_WEIGHTS = range(1, 101)
_SOFT, _HARD = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("preferred", "required"))
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}


def wrong_pod_spec(spec: Mapping[str, Any], path: str, policies: Sequence[str] = _POLICIES) -> Iterator[Wrong]:
    """Yield the faults of the pod spec at the field path `path`. `policies`: the restart policies that the pod may
    have.
    """
    yield from _containers(spec, path)
    policy = spec.get("restartPolicy", "Always")
    if isinstance(policy, str) and policy not in policies:
        problem = f'"{policy}" cannot stand here' if "restartPolicy" in spec else "is not set, and so it is Always"
        yield f"{path}.restartPolicy", f"{problem}; write {' or '.join(policies)}"
    for field, known in _KNOWN.items():
        yield from _one_of(spec.get(field), known, f"{path}.{field}")
    for field in ("nodeName", "priorityClassName"):
        name = spec.get(field)
        if isinstance(name, str) and name and not is_name(name):
            yield f"{path}.{field}", f'"{shown(name)}" is no name of an object; correct it'
    yield from wrong_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from wrong_tolerations(spec.get("tolerations"), f"{path}.tolerations")
    yield from _affinity(_mapping(spec.get("affinity")), f"{path}.affinity")
    yield from _spread(spec.get("topologySpreadConstraints"), f"{path}.topologySpreadConstraints")
    yield from at_least(1, spec.get("activeDeadlineSeconds"), f"{path}.activeDeadlineSeconds")


def at_least(least: int, value: Any, path: str) -> Iterator[Wrong]:
    """Yield the fault of a number that is less than `least`. Other values and absent ones have no fault."""
    if isinstance(value, int) and not isinstance(value, bool) and value < least:
        yield path, f"{value} is less than {least}; write a number from {least} up"


def _one_of(value: Any, known: Sequence[str], path: str) -> Iterator[Wrong]:
    if isinstance(value, str) and value and value not in known:
        yield path, f'"{value}" is not known; write {" or ".join(known)}'


def _containers(spec: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    if spec.get("containers") in (None, []):
        yield f"{path}.containers", "is missing; list at least one container"
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for at, container in _each(spec.get(field), f"{path}.{field}"):
            yield from _container(container, at, names)


def _container(container: Mapping[str, Any], at: str, names: set[str]) -> Iterator[Wrong]:
    name = container.get("name")
    if isinstance(name, str) and not is_dns_label(name):
        yield f"{at}.name", f'"{shown(name)}" is no name of a container; use lower-case letters, digits and dashes'
    elif name is not None and str(name) in names:
        yield f"{at}.name", f'"{name}" is the name of another container; give each a name of its own'
    names.add(str(name))
    if not container.get("image"):
        yield f"{at}.image", "is missing; name the image"
    resources = _mapping(container.get("resources"))
    yield from _resources(_mapping(resources.get("requests")), _mapping(resources.get("limits")), f"{at}.resources")
    for place, port in _each(container.get("ports"), f"{at}.ports"):
        for field, least in (("containerPort", 1), ("hostPort", 0)):
            number = port.get(field, least)
            if isinstance(number, int) and number not in range(least, _PORTS):
                yield f"{place}.{field}", f"{number} is no port; write a number from 1 to {_PORTS - 1}"


def _resources(requests: Mapping[str, Any], limits: Mapping[str, Any], at: str) -> Iterator[Wrong]:
    for field, amounts in (("requests", requests), ("limits", limits)):
        for name, value in amounts.items():
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                known = f"write {', '.join(_STANDARD)}, or a resource with its domain: nvidia.com/gpu"
                yield f"{at}.{field}.{name}", f"is no resource of a container; {known}"
            elif "/" in name and _amount("cpu", value) % 1000:  # read as cpu, the quantity counts thousandths
                yield f"{at}.{field}.{name}", f"{value} is no whole number; write one"
    for name, value in requests.items():
        limit = limits.get(name)
        overcommitted = name in _STANDARD
        if limit is None:
            if not overcommitted and "/" in name:
                yield (
                    f"{at}.limits.{name}",
                    f"is not set, and {name} cannot be overcommitted; write {value}, as requested",
                )
            continue
        asked, most = _amount(name, value), _amount(name, limit)
        if asked > most:
            yield f"{at}.requests.{name}", f"{value} is more than the limit, {limit}; lower it, or raise the limit"
        elif asked != most and not overcommitted:
            yield (
                f"{at}.requests.{name}",
                f"{value} is not the limit, {limit}; write the same: it cannot be overcommitted",
            )


def _amount(name: str, value: Any) -> int:
    """Return the quantity in base units; 0 if it cannot be parsed, which another check reports."""
    with suppress(ValueError):
        return amount(name, value)
    return 0


def wrong_tolerations(written: Any, path: str) -> Iterator[Wrong]:
    """Yield the faults of tolerations that contradict themselves, such as a value beside the operator Exists."""
    for at, each in _each(written, path):
        operator, key, value = each.get("operator") or "Equal", each.get("key"), each.get("value")
        yield from _one_of(operator, ("Equal", "Exists", "Gt", "Lt"), f"{at}.operator")
        yield from _one_of(each.get("effect"), _EFFECTS, f"{at}.effect")
        if not key and operator != "Exists":
            yield f"{at}.operator", f"is {operator} without a key; write Exists, which tolerates every taint, or a key"
        if operator == "Exists" and value:
            yield f"{at}.value", "stands beside the operator Exists; remove it, or write Equal"


def wrong_taints(written: Any, path: str) -> Iterator[Wrong]:
    """Yield the faults of a node's taints that the API server would reject."""
    seen = set()
    for at, each in _each(written, path):
        yield from _one_of(each.get("effect"), _EFFECTS, f"{at}.effect")
        yield from wrong_labels({each.get("key"): each.get("value") or ""}, at)
        if (pair := (each.get("key"), each.get("effect"))) in seen:
            yield at, f"{pair[0]}:{pair[1]} is given twice; keep one"
        seen.add(pair)


def _affinity(affinity: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    node, at = _mapping(affinity.get("nodeAffinity")), f"{path}.nodeAffinity"
    required = node.get(_HARD)
    if isinstance(required, Mapping):
        if required.get("nodeSelectorTerms") == []:
            yield f"{at}.{_HARD}.nodeSelectorTerms", "is empty; list at least one term"
        for place, term in _each(required.get("nodeSelectorTerms"), f"{at}.{_HARD}.nodeSelectorTerms"):
            yield from _term(term, place)
    for place, each in _each(node.get(_SOFT), f"{at}.{_SOFT}"):
        yield from _weight(each, place)
        yield from _term(_mapping(each.get("preference")), f"{place}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = _mapping(affinity.get(kind))
        for place, each in _each(pods.get(_SOFT), f"{path}.{kind}.{_SOFT}"):
            yield from _weight(each, place)


def _term(term: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    for at, each in _each(term.get("matchExpressions"), f"{path}.matchExpressions"):
        operator, values = each.get("operator"), each.get("values") or []
        if operator not in _SELECTOR_OPERATORS:
            yield f"{at}.operator", f'"{operator}" is not known; write {" or ".join(_SELECTOR_OPERATORS)}'
        elif operator in ("In", "NotIn") and not values:
            yield f"{at}.values", f"is missing, and the operator is {operator}; list at least one value"
        elif operator in ("Exists", "DoesNotExist") and values:
            yield f"{at}.values", f"stands beside the operator {operator}; remove it, or write In"
        elif operator in ("Gt", "Lt") and len(values) != 1:
            yield f"{at}.values", f"is not one value, and the operator is {operator}; write one number"


def _weight(term: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    weight = term.get("weight")
    if isinstance(weight, int) and weight not in _WEIGHTS:
        yield f"{path}.weight", f"{weight} is no weight; write a number from 1 to {_WEIGHTS[-1]}"


def _spread(written: Any, path: str) -> Iterator[Wrong]:
    for at, each in _each(written, path):
        yield from at_least(1, each.get("maxSkew"), f"{at}.maxSkew")
        yield from _one_of(
            each.get("whenUnsatisfiable"), ("DoNotSchedule", "ScheduleAnyway"), f"{at}.whenUnsatisfiable"
        )


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}


def _each(part: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a list that are objects, each with its field path."""
    for place, each in enumerate(part if isinstance(part, list) else ()):
        if isinstance(each, Mapping):
            yield f"{path}[{place}]", each
