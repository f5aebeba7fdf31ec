"""Parsing text to objects: every way to write several objects, and every way to write none."""

import json

import pytest

from planning.files.documents import Mistake, parse

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
        (json.dumps({"apiVersion": "v1", "kind": "PodList", "items": None}), 0),
        ("apiVersion: v1\nkind: List\nmetadata: {resourceVersion: '5'}\n", 0),
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


BOMB = "".join(f"{a}: &{a} [{', '.join([f'*{b}'] * 10)}]\n" for a, b in zip("bcdefgh", "abcdefg", strict=True))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"---\n{TEXT}kind: Pod\n", 'f.yaml:5: key "kind" is given twice, first in line 3; remove one of the two'),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: a",
            'f.yaml:5: key "name" is given twice, first in line 4; remove one of the two',
        ),
        (
            '{"apiVersion": "v1", "kind": "Node", "kind": "Pod", "metadata": {"name": "a"}}',
            'f.yaml: key "kind" is given twice in one object; remove one of the two',
        ),
    ],
    ids=["an object", "inside", "JSON"],
)
def test_a_key_that_is_given_twice_is_a_mistake_and_the_last_counts(text: str, says: str) -> None:
    documents, mistakes = parse(text, "f.yaml")
    assert [document.manifest for document in documents] == [POD]
    assert list(map(str, mistakes)) == [says]


def test_what_a_merge_brings_may_be_given_again() -> None:
    text = "x: &x {<<: {a: 1}, a: 2}\ny: {inner: {<<: *x, a: 3}}\nz: {inner: *x}"
    (document,), mistakes = parse(text, "f.yaml")
    assert document.manifest == {"x": {"a": 2}, "y": {"inner": {"a": 3}}, "z": {"inner": {"a": 2}}}
    assert not mistakes


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("0x_", "0x_"),
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("!!timestamp x", "x"),
        ("0x1f", 31),
        ("{1: a, on: b, 1.5: c}", {"1": "a", "true": "b", "1.5": "c"}),
    ],
)
def test_numbers_and_keys_are_read_as_by_kubectl(written: str, read: object) -> None:
    (document,), mistakes = parse(f"a: {written}", "f.yaml")
    assert document.manifest == {"a": read}
    assert not mistakes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"a: &a [{', '.join('x' * 10)}]\n{BOMB}", "its aliases stand for more than 400000 values"),
        ("a: &a [*a]", "an alias stands for what it is itself a part of"),
        ('{"a": "\\ud800"}', "found invalid Unicode character escape code"),
    ],
    ids=["a bomb", "a circle", "half a character"],
)
def test_what_no_program_can_hold_is_a_mistake(text: str, says: str) -> None:
    documents, (mistake,) = parse(text, "f.yaml")
    assert not documents
    assert str(mistake).startswith(f"f.yaml:1: cannot be read as YAML: {says}")


def test_a_list_of_no_list_is_a_mistake() -> None:
    documents, (mistake,) = parse("apiVersion: v1\nkind: List\nitems: {a: b}", "f.yaml")
    assert (documents, str(mistake)) == ([], "f.yaml: List: items: expected a list of objects")


def test_an_object_of_a_kind_that_ends_like_a_list_is_one() -> None:
    (document,), mistakes = parse("apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}", "f.yaml")
    assert (str(document), mistakes) == ("AllowList a", [])


def test_a_mistake_is_one_line_whatever_is_written() -> None:
    mistake = Mistake("f.yaml", "\u202ewrong\x1b[2J", "Pod a\nb", "räck")
    assert str(mistake) == "f.yaml: Pod a\\nb: räck: \\u202ewrong\\x1b[2J"


def test_a_character_in_two_halves_is_one() -> None:
    (document,), _ = parse(r'{"a": "\ud83d\ude00"}', "f.yaml")
    assert document.manifest == {"a": "\N{GRINNING FACE}"}
