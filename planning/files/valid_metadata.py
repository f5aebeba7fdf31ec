"""Rules of the API server for the metadata of any object, so that a fault is reported before a file is applied.

Sources: Kubernetes documentation, "Object Names and IDs" and "Labels and Selectors"; apimachinery, `validation`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from cluster.times import instant

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST_NAME, _LONGEST_NAMESPACE, LONGEST_VALUE = 253, 63, 63
_LONGEST_ANNOTATIONS = 1 << 18
_SHOWN = 40
_NAME_RULE = (
    f"use up to {_LONGEST_NAME} lower-case letters, digits, dashes and dots, "
    "and a letter or digit at both ends and around each dot"
)
_LABEL_RULE = (
    f"use up to {_LONGEST_NAMESPACE} lower-case letters, digits and dashes, and a letter or digit at both ends"
)

Wrong = tuple[str, str]
"""A mistake in an object, as two texts: the path of the field, and what is wrong with the field and how to correct it.
"""


def shown(text: str) -> str:
    """Return a name as messages show it: a name that is too long for any object is cut and followed by its length."""
    return text if len(text) <= _LONGEST_NAME else f"{text[:_SHOWN]}… ({len(text)} characters)"


def is_name(text: str) -> bool:
    """Whether the text is a valid object name (a DNS-1123 subdomain)."""
    return len(text) <= _LONGEST_NAME and _SUBDOMAIN.fullmatch(text) is not None


def is_dns_label(text: str) -> bool:
    """Whether the text is a valid name of a namespace, a container or a pod's host (a DNS-1123 label)."""
    return len(text) <= _LONGEST_NAMESPACE and _DNS_LABEL.fullmatch(text) is not None


def wrong_names(metadata: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the faults of the metadata's name, generateName and namespace. These fields must be texts."""
    for field, ending in (("name", ""), ("generateName", "0")):
        name = metadata.get(field)
        if name and not is_name(f"{name}{ending}"):
            yield f"metadata.{field}", f'"{shown(name)}" is not a name; {_NAME_RULE}'
    namespace = metadata.get("namespace")
    if namespace and not is_dns_label(namespace):
        yield "metadata.namespace", f'"{shown(namespace)}" is not the name of a namespace; {_LABEL_RULE}'


def wrong_times(manifest: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the time fields of any object that hold a text which is not a time. Values of other types are skipped."""
    metadata, status = _mapping(manifest.get("metadata")), _mapping(manifest.get("status"))
    fields = [(f"metadata.{name}", metadata.get(name)) for name in ("creationTimestamp", "deletionTimestamp")]
    fields.append(("status.startTime", status.get("startTime")))
    conditions = status.get("conditions")
    for place, condition in enumerate(conditions if isinstance(conditions, list) else ()):
        path = f"status.conditions[{place}].lastTransitionTime"
        fields.append((path, _mapping(condition).get("lastTransitionTime")))
    for path, text in fields:
        if isinstance(text, str) and instant(text) is None:
            yield path, time_problem(text)


def time_problem(text: str) -> str:
    """Return the message for a text that is not a time, with the remedy."""
    return f'"{shown(text)}" is not a time; write a time in RFC 3339, such as 2026-01-31T12:00:00Z'


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}


def wrong_metadata(metadata: Mapping[str, Any], path: str) -> Iterator[Wrong]:
    """Yield the labels and annotations of an object or a pod template that the API server would reject.

    Values of a wrong type are skipped, because the readers of the fields report them.
    """
    yield from wrong_labels(metadata.get("labels"), f"{path}.labels")
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping):
        for key in annotations:
            if problem := _wrong_key(str(key)):
                yield f"{path}.annotations", problem
        size = sum(len(str(key).encode()) + len(str(value).encode()) for key, value in annotations.items())
        if size > _LONGEST_ANNOTATIONS:
            yield f"{path}.annotations", f"are {size} bytes; keep them to {_LONGEST_ANNOTATIONS}"


def wrong_labels(labels: Any, path: str) -> Iterator[Wrong]:
    """Yield the keys and values of `labels` that the API server would reject."""
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        if problem := _wrong_key(str(key)):
            yield path, problem
        if isinstance(value, str) and (problem := _wrong_value(value)):
            yield f"{path}[{key}]", problem


@lru_cache(maxsize=1 << 14)
def _wrong_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if _QUALIFIED.fullmatch(name) and (not slash or is_name(prefix)):
        return ""
    return f'"{shown(key)}" is not a key; write a name, or a name with a domain before it: example.com/name'


@lru_cache(maxsize=1 << 14)
def _wrong_value(value: str) -> str:
    if not value or _QUALIFIED.fullmatch(value):
        return ""
    rule = (
        f"use up to {LONGEST_VALUE} letters, digits, dashes, dots and underscores, and a letter or digit at both ends"
    )
    return f'"{shown(value)}" cannot be the value of a label; {rule}'
