"""Parses text into Kubernetes objects: YAML or JSON, several documents, Lists split. Invalid text becomes mistakes."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
import yaml

from kube.nulls import without_nulls
from kube.yaml_text import Doubled, read_all
from planning.files.valid_metadata import shown
from solver.deadline import NO_DEADLINE, Deadline

_BLANKS = re.compile(r"\s*")
_HALF_CHARACTER = re.compile(r"\\u[dD][89abAB]")
"""Finds the first half of a character that JSON writes as a surrogate pair. A text that has only this half of the pair
cannot be encoded.
"""
_OFTEN = 256
"""Number of objects of a JSON text that are read between two checks of the deadline."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file, and the file that it came from (`origin`). Nulls are removed, as the API server does."""

    origin: str
    manifest: Mapping[str, Any]

    def __str__(self) -> str:
        """Return `Kind namespace/name`, as far as the object has these fields."""
        metadata = self.manifest.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        name = shown(str(metadata.get("name") or metadata.get("generateName") or "(no name)"))
        qualified = f"{metadata['namespace']}/{name}" if metadata.get("namespace") else name
        return f"{self.manifest.get('kind', 'object')} {qualified}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One fault in a file. `object` and `field` are empty if the text itself is faulty."""

    origin: str
    problem: str
    object: str = ""
    field: str = ""

    def __str__(self) -> str:
        """Return one line: file, object, field path, problem. Characters that would break or hide the line are
        escaped.
        """
        text = ": ".join(part for part in (self.origin, self.object, self.field, self.problem) if part)
        if text.isprintable():
            return text
        return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def parse(text: str | bytes, origin: str, deadline: Deadline = NO_DEADLINE) -> tuple[list[Document], list[Mistake]]:
    """Return the objects in one text, in their order, and its mistakes. A text that cannot be parsed gives no objects.

    Raises `OutOfTimeError` if the deadline passes first. The time is proportional to the text's length.
    """
    documents: list[Document] = []
    mistakes: list[Mistake] = []
    doubled: list[str | Doubled] = []
    try:
        values = _values(text, doubled, deadline)
        for each in deadline.iterate(found for value in values for found in _flattened(value, origin)):
            if isinstance(each, Document):
                documents.append(each)
            else:
                mistakes.append(each)
    except yaml.MarkedYAMLError as error:
        return [], [_yaml_mistake(error, origin)]
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        return [], [Mistake(origin, f"cannot be read as YAML or JSON: {' '.join(str(error).split())}")]
    return documents, [*(_doubled_mistake(each, origin) for each in doubled), *mistakes]


def _values(text: str | bytes, doubled: list[str | Doubled], deadline: Deadline) -> Iterator[Any]:
    """Yield the documents of a text. A text that looks like JSON is parsed as JSON first, because that is faster.

    Duplicate keys of an object are added to `doubled`. For JSON they have no line, because its parser does not report
    lines.
    """
    if text.lstrip()[:1] in ("{", "[", b"{", b"["):
        keys: list[str] = []
        if (values := _json_values(text, keys, deadline)) is not None:
            doubled += keys
            yield from values
            return
    lines: list[Doubled] = []
    for value in read_all(text, lines, deadline.check):
        yield without_nulls(value)
    doubled += lines


def _json_values(text: str | bytes, doubled: list[str], deadline: Deadline) -> list[Any] | None:
    """Return the documents of a JSON stream; None if the text is no JSON.

    A text that is no JSON may still be YAML, and the YAML parser reports the line of a fault.
    """
    objects = 0

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal objects
        objects += 1
        if objects % _OFTEN == 0:
            deadline.check()
        values = {key: value for key, value in pairs if value is not None}
        if len(values) < len(pairs):
            doubled.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return values

    text = text.decode() if isinstance(text, bytes) else text
    values, decoder = [], json.JSONDecoder(object_pairs_hook=mapping, parse_constant=_no_json)
    place = _after_blanks(text, 0)
    # the text is not cut after each document: copying the rest each time would take quadratic time
    while place < len(text):
        try:
            value, end = decoder.raw_decode(text, place)
        except ValueError:
            return None
        values.append(value)
        place = _after_blanks(text, end)
    return values if _HALF_CHARACTER.search(text) is None or _has_whole_characters(values) else None


def _after_blanks(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    return found.end() if found else place


def _has_whole_characters(values: list[Any]) -> bool:
    try:
        msgspec.json.encode(values)
    except UnicodeEncodeError:
        return False
    return True


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)


def _flattened(value: Any, origin: str) -> Iterator[Document | Mistake]:
    """Yield the objects of one document: none for an empty document, the items of a List, otherwise the document
    itself.
    """
    if value is None:
        return
    if isinstance(value, list):
        for each in value:
            yield from _flattened(each, origin)
        return
    if not isinstance(value, Mapping):
        yield Mistake(origin, f"expected an object, got {type(value).__name__} {str(value)[:40]!r}")
        return
    if str(value.get("kind", "")).endswith("List") and (isinstance(value.get("items"), list) or not _named(value)):
        items = value.get("items")
        if items is None or isinstance(items, list):
            yield from _flattened(items, origin)
        else:
            yield Mistake(origin, "expected a list of objects", value["kind"], "items")
        return
    yield Document(origin, value)


def _named(value: Mapping[str, Any]) -> bool:
    metadata = value.get("metadata")
    return isinstance(metadata, Mapping) and bool(metadata.get("name"))


def _doubled_mistake(doubled: str | Doubled, origin: str) -> Mistake:
    if isinstance(doubled, Doubled):
        return Mistake(f"{origin}:{doubled.line}", f"{doubled}; remove one of the two")
    return Mistake(origin, f'key "{doubled}" is given twice in one object; remove one of the two')


def _yaml_mistake(error: yaml.MarkedYAMLError, origin: str) -> Mistake:
    mark = error.problem_mark or error.context_mark
    where = f"{origin}:{mark.line + 1}" if mark else origin
    return Mistake(where, f"cannot be read as YAML: {error.problem or error.context}")
