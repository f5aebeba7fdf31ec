"""Functions of an object of a watch cache run once. For any other mapping they run each time."""

from collections.abc import Mapping
from typing import Any

import pytest

from kube.kept_objects import KeptObject, computed_once

JOB = {"kind": "Job", "metadata": {"name": "a"}}


class Count:
    """Counts how often its function runs."""

    def __init__(self) -> None:
        self.calls = 0

    def name_of(self, manifest: Mapping[str, Any]) -> str:
        """Return the object's name. Raises KeyError if it has none."""
        self.calls += 1
        return str(manifest["metadata"]["name"])


def test_a_kept_object_is_read_once() -> None:
    count = Count()
    name_of, kept = computed_once(count.name_of), KeptObject(JOB)
    assert [name_of(kept), name_of(kept), count.calls] == ["a", "a", 1]
    assert name_of(KeptObject(JOB)) == "a"
    assert count.calls == 2, "another version of the object is another object"


def test_a_copy_is_read_anew_because_it_may_have_changed() -> None:
    count = Count()
    name_of, kept = computed_once(count.name_of), KeptObject(JOB)
    name_of(kept)
    assert name_of({**kept, "metadata": {"name": "b"}}) == "b"
    plain = kept | {"metadata": {"name": "c"}}
    assert name_of(plain) == "c"
    plain["metadata"] = {"name": "d"}
    assert name_of(plain) == "d"


def test_an_error_is_not_kept() -> None:
    count = Count()
    name_of, kept = computed_once(count.name_of), KeptObject({"metadata": {}})
    for _ in range(2):
        with pytest.raises(KeyError):
            name_of(kept)
    assert count.calls == 2


def test_it_equals_the_mapping_that_it_was_made_from() -> None:
    assert KeptObject(JOB) == JOB
