"""Patches that always apply."""

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangs.manifests import MalformedError
from webhook.admission.patch_builder import PatchBuilder
from webhook.errors import Unavailable

KEYS = st.sampled_from(["a", "b", "x/y", "t~e", ""])
LEAVES = st.one_of(st.none(), st.integers(), st.text(max_size=3))
TREES = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)
)
EDITS = st.lists(st.tuples(st.booleans(), st.lists(KEYS, min_size=1, max_size=3), st.text(max_size=3)), max_size=5)


def edited(tree: dict[str, Any], edits: list[tuple[bool, list[str], str]]) -> PatchBuilder | None:
    """The builder after the edits, None where one of them leads through something that is no map or list."""
    builder = PatchBuilder(tree)
    try:
        for appends, path, value in edits:
            (builder.append if appends else builder.set)(path, value)
    except (MalformedError, Unavailable, AttributeError, TypeError):
        return None
    return builder


@given(tree=TREES, edits=EDITS)
def test_a_patch_applies_to_the_object_and_is_empty_the_second_time(
    tree: dict[str, Any], edits: list[tuple[bool, list[str], str]]
) -> None:
    last = {tuple(path): None for _, path, _ in edits}
    if len(last) < len(edits) or any(a[: len(b)] == b for a in last for b in last if a != b):
        return  # an edit that another edit overwrites is repeated, as it should be
    builder = edited(tree, edits)
    if builder is None:
        return
    after = jsonpatch.JsonPatch(builder.build()).apply(tree)
    again = edited(after, edits)
    assert again is not None
    assert again.build() == ()


@pytest.mark.parametrize("parent", [None, {}, {"labels": None}], ids=["no metadata", "no labels", "null labels"])
def test_missing_parents_are_made(parent: Any) -> None:
    manifest = {} if parent is None else {"metadata": parent}
    builder = PatchBuilder(manifest)
    builder.set(("metadata", "labels", "phalanx.dev/gang"), "llm")
    after = jsonpatch.JsonPatch(builder.build()).apply(manifest)
    assert after["metadata"]["labels"] == {"phalanx.dev/gang": "llm"}


def test_a_path_through_something_that_is_no_map_is_not_patched() -> None:
    builder = PatchBuilder({"kind": "Job", "metadata": {"name": "a"}, "spec": "text"})
    with pytest.raises(MalformedError, match="Job a: spec: is not a mapping; write a mapping"):
        builder.set(("spec", "template", "a"), "b")
