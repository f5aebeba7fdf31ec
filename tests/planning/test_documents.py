"""Text to objects: every way of writing several, and every way of writing none."""

import json

import pytest

from planning.documents import parse

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
TEXT = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (TEXT, 1),
        (f"---\n{TEXT}---\n{TEXT}", 2),
        (f"{TEXT}---\n---\n# nothing here\n", 1),
        ("", 0),
        (json.dumps(POD), 1),
        (json.dumps([POD, POD]), 2),
        (json.dumps(POD) + "\n" + json.dumps(POD, indent=1), 2),
        (json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD, POD]}), 2),
        (json.dumps({"apiVersion": "v1", "kind": "PodList", "items": [POD]}), 1),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", 1),  # YAML that looks like JSON
    ],
)
def test_objects_of_a_text(text: str, count: int) -> None:
    documents, mistakes = parse(text, "f.yaml")
    assert [document.manifest for document in documents] == [POD] * count
    assert not mistakes
    assert parse(text.encode(), "f.yaml")[0] == documents


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: [1\nb: 2\n", ["f.yaml:2: cannot be read as YAML: did not find expected ',' or ']'"]),
        (
            "kind: Pod\n\tname: a\n",
            ["f.yaml:2: cannot be read as YAML: found a tab character that violates indentation"],
        ),
        ("just words", ["f.yaml: expected an object, got str 'just words'"]),
        (b"\xff\xfe\x00", ["f.yaml: cannot be read as YAML or JSON: "]),
        ('{"kind": ', ["f.yaml:2: cannot be read as YAML: did not find"]),
        ("!!python/object:os.system {}", ["f.yaml:1: cannot be read as YAML: could not determine a constructor"]),
    ],
)
def test_text_that_cannot_be_read_names_file_and_line(text: str | bytes, lines: list[str]) -> None:
    documents, mistakes = parse(text, "f.yaml")
    assert not documents
    assert len(mistakes) == len(lines)
    for mistake, line in zip(mistakes, lines, strict=True):
        assert str(mistake).startswith(line)


def test_times_stay_texts_and_nulls_are_absent_as_for_the_api_server() -> None:
    text = "metadata: {creationTimestamp: 2026-01-01T00:00:00Z, labels: null}\nspec: {x: [{y: null}]}"
    (document,), _ = parse(text, "f.yaml")
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert document.manifest == {"metadata": metadata, "spec": {"x": [{}]}}
