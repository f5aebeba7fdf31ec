"""Checks objects of built-in kinds against the OpenAPI schemas of Kubernetes: unknown, missing and mistyped fields.

`kubernetes_schemas.json` names its version and source; `python -m controlplane.schemas` writes it. The validator is
jsonschema-rs (docs/decisions/0038), which reports every mistake of an object with its path.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.times import instant
from gangs.manifests import shape_remedy
from planning.files.valid_metadata import Wrong, shown, time_problem

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

SCHEMAS = Path(__file__).parent / "kubernetes_schemas.json"

_UNKNOWN, _MISSING, _RANGE, _TIME = "additionalProperties", "required", ("minimum", "maximum"), "format"
_STATUS = "status."
"""The prefix of paths under which a missing required field is no mistake, because the API server does not check a
status.
"""
_ZERO_IS_VALID = {("io.k8s.api.scheduling.v1.PriorityClass", "value")}
"""Required fields of kinds that may be missing, because the API server then takes the value 0."""
_LIKE = 0.7
"""How similar a known field must be to an unknown one (difflib, 0 to 1) so that the message suggests it. `paralellism`
and `parallelism` have 0.91.
"""
_OFFERED = 3

Manifest = Mapping[str, Any]
_Way = Sequence[str | int]


def is_published(api_version: str, kind: str) -> bool:
    """Whether Kubernetes publishes a schema for the kind in this version."""
    return f"{api_version} {kind}" in _document()["kinds"]


@cache
def versions_of(group: str, kind: str) -> list[str]:
    """Return the apiVersions in which Kubernetes publishes a schema for a kind; empty for other projects' kinds."""
    found = (each.split(" ") for each in _document()["kinds"])
    return [version for version, name in found if name == kind and version.rpartition("/")[0] == group]


def wrong_by_schema(manifest: Manifest) -> Iterator[Wrong]:
    """Yield the mistakes of an object by the schema of its kind, as (field, problem); none if Kubernetes publishes no
    schema for the kind.
    """
    name = _document()["kinds"].get(f"{manifest['apiVersion']} {manifest['kind']}")
    if name is not None:
        yield from _wrong(manifest, name, "")


def unknown_in_pod_spec(spec: Manifest, path: str) -> Iterator[Wrong]:
    """Yield the unknown fields in the pod template's spec of a kind that another project defines. `path`: the spec's
    path.
    """
    found, too_deep = _errors(spec, "io.k8s.api.core.v1.PodSpec")
    yield from ((path, problem) for problem in too_deep)
    for error in found:
        if error.kind.name == _UNKNOWN:
            yield from _unknown(error, "io.k8s.api.core.v1.PodSpec", f"{path}.")


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(SCHEMAS.read_text())
    return document


@cache
def _validator(name: str) -> "Draft202012Validator":
    from jsonschema_rs import Draft202012Validator  # noqa: PLC0415 -- 6 MB that a server needs for dry runs alone

    schema = {"$ref": f"#/definitions/{name}", "definitions": _document()["definitions"]}
    return Draft202012Validator(
        schema, validate_formats=True, formats={"date-time": lambda text: instant(text) is not None}
    )


def _errors(value: Any, name: str) -> tuple[list["ValidationError"], list[str]]:
    """Return the errors of a value by the schema `name`. If the value nests too deep to be checked, return this
    problem.
    """
    try:
        return list(_validator(name).iter_errors(value)), []
    except ValueError:  # jsonschema-rs: "Recursion limit reached", beyond 255 levels
        return [], ["nests too deep to be checked; remove the inner levels"]


def _wrong(value: Any, name: str, prefix: str) -> Iterator[Wrong]:
    found, too_deep = _errors(value, name)
    yield from ((prefix, problem) for problem in too_deep)
    for error in found:
        path = prefix + _field(error.instance_path)
        keyword = error.kind.name
        if keyword == _UNKNOWN:
            yield from _unknown(error, name, prefix)
        elif keyword == _MISSING:
            missing = _below(path, error.kind.as_dict()["property"])
            if not missing.startswith(_STATUS) and (name, missing) not in _ZERO_IS_VALID:
                yield missing, "is missing; set it"
        elif keyword == _TIME:
            yield path, time_problem(str(error.instance))
        elif keyword in _RANGE:
            yield path, f"{error.instance} is out of range; write a smaller number"
        else:
            yield path, _type_problem(error)


def _unknown(error: "ValidationError", name: str, prefix: str) -> Iterator[Wrong]:
    known = _properties(name, error.instance_path)
    for field in error.kind.as_dict()["unexpected"]:
        text = f"is not a field of Kubernetes {_document()['version'].removeprefix('v')}"
        yield prefix + _below(_field(error.instance_path), field), f"{text}; {remedy_for(field, known)}"


def remedy_for(word: str, known: Sequence[str]) -> str:
    """Return the remedy for an unknown word: to write one of the known words that resemble it. If none does, the remedy
    is to remove the word.
    """
    folded = {each.casefold(): each for each in known}
    alike = get_close_matches(word.casefold(), list(folded), _OFFERED, _LIKE)
    return f"did you mean {' or '.join(folded[each] for each in alike)}?" if alike else "remove it"


def _properties(name: str, way: _Way) -> list[str]:
    """Return the names of the fields that the schema of a kind allows at the field path `way`."""
    definitions = _document()["definitions"]
    part: Any = definitions[name]
    for step in way:
        part = part["items"] if isinstance(step, int) else _property(part, step)
        if "$ref" in part:
            part = definitions[part["$ref"].rpartition("/")[2]]
    return list(part.get("properties", ()))


def _property(part: Manifest, step: str) -> Any:
    properties = part.get("properties", {})
    return properties[step] if step in properties else part["additionalProperties"]


def _field(way: _Way) -> str:
    """Return a field path as users write it: `spec.containers[0].name`."""
    text = ""
    for step in way:
        text = f"{text}[{step}]" if isinstance(step, int) else _below(text, step)
    return text


def _below(path: str, name: str) -> str:
    if not path:
        return shown(name)
    return f"{path}.{shown(name)}" if "." not in name and "/" not in name else f"{path}[{shown(name)}]"


def _type_problem(error: "ValidationError") -> str:
    """Return the message for a value of a wrong type, such as ``expected `int`, got `str` ``, with the remedy.

    The code that decodes single fields reports a wrong type in the same words.
    """
    wanted = " | ".join(_TYPES[each] for each in error.kind.as_dict().get("types", ()))
    problem = f"expected `{wanted}`, got `{_TYPES.get(type(error.instance).__name__, type(error.instance).__name__)}`"
    return f"{problem}; {shape_remedy(problem)}"


_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "array",
    "object": "object",
    "list": "array",
    "dict": "object",
}
"""The name that msgspec's messages use for a type, by the type's name in JSON Schema or in Python."""
