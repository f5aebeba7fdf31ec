"""Access to Kubernetes objects that are plain dicts: their identity, their metadata, and parts of a given type."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import yaml

from gangs.findings import Findings
from gangs.model import Fault, Manifest, ObjectRef
from kube.catalog import ObjectKey
from kube.kept_objects import computed_once
from kube.objects import ObjectMeta, Pod
from kube.yaml_text import Doubled, read_all

_T = TypeVar("_T")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_MISFIT = re.compile(r"Expected `.*`, got `(\w+)`")
_UNQUOTED = re.compile(r"[Ee]xpected `str`, got `(int|float|bool)`")
_SOME_KEY = "[...]"
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_PLAIN: Mapping[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "array": list,
    "object": dict,
    "null": type(None),
}
"""By the name of a JSON type in msgspec's messages: the Python type."""


class MalformedError(Exception):
    """A part of an object has a wrong type or shape. `fault` has the exact field."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


def group_of(api_version: str) -> str:
    """Return the API group of an apiVersion; "" for the core group."""
    return api_version.rpartition("/")[0]


@computed_once
def key_of(manifest: Manifest) -> ObjectKey:
    """Return the object's key in a catalog: (group, kind, namespace, name).

    An object without a name yet has its `generateName` in the key.
    """
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    group, kind = group_of(manifest.get("apiVersion", "")), manifest.get("kind", "")
    return group, kind, metadata.get("namespace") or "", name


@computed_once
def ref_of(manifest: Manifest) -> ObjectRef:
    """Return a reference to the object. An object without a name yet is referred to by its `generateName`."""
    _, kind, namespace, name = key_of(manifest)
    uid = (manifest.get("metadata") or {}).get("uid") or ""
    return ObjectRef(manifest.get("apiVersion", ""), kind, namespace, name, uid)


def pod_ref(pod: Pod) -> ObjectRef:
    """Return a reference to the pod. A pod without a name yet is referred to by its `generateName`."""
    meta = pod.metadata
    return ObjectRef("v1", "Pod", meta.namespace, meta.name or meta.generate_name, meta.uid)


@computed_once
def metadata_of(manifest: Manifest) -> ObjectMeta:
    """Return the object's metadata. Raises `MalformedError` if a field has a wrong type."""
    return _part_of(manifest, section(manifest, "metadata"), ObjectMeta, "metadata")


def section(manifest: Manifest, name: str) -> dict[str, Any]:
    """Return a top-level field of the object that must be a mapping, without null values; empty if it is absent.

    Raises `MalformedError` if it is no mapping.
    """
    written = manifest.get(name)
    part = _part_of(manifest, {} if written is None else written, dict[str, Any], name)
    return {key: value for key, value in part.items() if value is not None}


def _part_of(manifest: Manifest, part: Any, type_: type[_T], path: str) -> _T:
    """Convert a part of `manifest` from plain values to a type, as `decode` does. Raises `MalformedError`.

    The reference to the object, which only the error needs, is built only if there is an error.
    """
    try:
        return msgspec.convert(part, type_)
    except msgspec.ValidationError as error:
        raise MalformedError(_fault_of(str(error), part, ref_of(manifest), path)) from error


def pod_of(manifest: Manifest) -> Pod:
    """Decode the manifest of a pod. Raises `MalformedError` if a field has a wrong type."""
    return decode(manifest, Pod, ref_of(manifest), "")


def decode(part: Any, type_: type[_T], ref: ObjectRef, path: str) -> _T:
    """Convert a part of an object from plain values to a type.

    :param ref: the object, for messages.
    :param path: the path of the part in the object; "" for the whole object.
    :raises MalformedError: if the part does not have this type. The error has the exact field.
    """
    try:
        return msgspec.convert(part, type_)
    except msgspec.ValidationError as error:
        raise MalformedError(_fault_of(str(error), part, ref, path)) from error


def spec_of(manifest: Manifest, type_: type[_T], findings: Findings) -> _T | None:
    """Decode an object's `spec`. If it is malformed, add the fault to `findings` and return None."""
    try:
        return decode(manifest.get("spec"), type_, ref_of(manifest), "spec")
    except MalformedError as error:
        findings.take([error.fault])
        return None


def parted(message: str, part: Any) -> tuple[str, str]:
    """Split msgspec's message about a value into the problem and the path of the wrong field. The path is "" if the
    value itself is wrong.

    Example: "Expected `int`, got `str` - at `$.spec.count`" gives ("Expected `int`, got `str`", ".spec.count"). For a
    mapping, msgspec only reports that some value is wrong. The path then has the first key whose value has that type.

    :param part: the value that msgspec could not convert.
    """
    problem, _, where = message.partition(" - at `$")
    where = where.rstrip("`")
    misfit = _MISFIT.fullmatch(problem)
    if misfit is None or not where.endswith(_SOME_KEY) or _SOME_KEY in where.removesuffix(_SOME_KEY):
        return problem, where
    mapping = where.removesuffix(_SOME_KEY)
    for name, position in _STEP.findall(mapping):
        part = part[name] if name else part[int(position)]
    wrong = _PLAIN.get(misfit[1])
    if not isinstance(part, Mapping):
        return problem, where
    return problem, next((f"{mapping}[{key}]" for key, value in part.items() if type(value) is wrong), where)


def _fault_of(message: str, part: Any, ref: ObjectRef, path: str) -> Fault:
    problem, where = parted(message, part)
    at = (path + where).lstrip(".")
    if found := _UNKNOWN.fullmatch(problem):
        return Fault(ref, f"{at}.{found[1]}".lstrip("."), "is not a known field", "correct its name or remove it")
    if found := _MISSING.fullmatch(problem):
        return Fault(ref, f"{at}.{found[1]}".lstrip("."), "is missing", "set it")
    return Fault(ref, at, problem[:1].lower() + problem[1:], shape_remedy(problem))


def shape_remedy(problem: str) -> str:
    """Return the remedy for a value of a wrong type.

    A label that YAML reads as a number or a boolean is the most frequent mistake. Its remedy is to put it in quotes.

    :param problem: msgspec's message, such as "Expected `str`, got `int`".
    """
    return "put it in quotes" if _UNQUOTED.fullmatch(problem) else "correct the value"


def advise_unknown(part: Any, known: Iterable[str], ref: ObjectRef, path: str, findings: Findings) -> None:
    """Report, as advice, each key of a mapping that is not among the known fields. Most often it is a typo.

    :param part: the mapping; anything else is ignored.
    :param path: the path of the mapping in the object `ref`.
    """
    names = tuple(known)
    for key in part if isinstance(part, Mapping) else ():
        if key not in names:
            findings.advise(ref, f"{path}.{key}", f"is ignored: the known fields are {', '.join(names)}")


def json_of(text: str) -> tuple[Any, str]:
    """Return the value of a JSON text and ""; if the text is no JSON, None and the problem, for a message."""
    try:
        return json.loads(text, object_pairs_hook=_each_once), ""
    except _DoubledError as error:
        return None, f'gives the key "{error}" twice in one object'
    except json.JSONDecodeError as error:
        return None, f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
    except (RecursionError, ValueError):
        return None, "is not JSON that can be read: it nests too deep, or a number in it is too long"


class _DoubledError(Exception):
    """An object of a JSON text has a key twice."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key, value in pairs:
        if key in merged:
            raise _DoubledError(key)
        merged[key] = value
    return merged


def yaml_of(manifest: Manifest, key: str) -> dict[str, Any]:
    """Return the YAML mapping in a ConfigMap's data under a key; {} if the key is missing.

    Raises `MalformedError` if the text is no YAML mapping.
    """
    text = section(manifest, "data").get(key, "")
    mapping, problem = _yaml_mapping(text if isinstance(text, str) else "")
    if problem:
        raise MalformedError(Fault(ref_of(manifest), f"data[{key}]", problem, "correct the text"))
    return mapping


@lru_cache(maxsize=16)
def _yaml_mapping(text: str) -> tuple[dict[str, Any], str]:
    """Return the mapping in a YAML text and ""; if the text is no YAML mapping, {} and the problem, for a message.

    The result is cached, because ConfigMaps are read often. Callers must not modify the mapping.
    """
    doubled: list[Doubled] = []
    try:
        values = list(read_all(text, doubled))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return {}, f"cannot be read as YAML: {where}{error.problem or error.context}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an invalid date, or nesting that is too deep
        return {}, f"cannot be read as YAML: {' '.join(str(error).split())}"
    if doubled:
        return {}, f"line {doubled[0].line}: {doubled[0]}"
    value = (values[0] or {}) if len(values) == 1 else values or {}
    return (value, "") if isinstance(value, dict) else ({}, "is not a mapping")


def integer(text: str) -> int | None:
    """Return the whole number in a text; None if the text is no whole number.

    Only the digits 0-9 with an optional sign are accepted: no blanks, and at most 18 digits.
    """
    return int(text) if _INTEGER.fullmatch(text) else None
