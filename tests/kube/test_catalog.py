"""A catalog stays equal to a plain mapping after any changes, and its index finds the results of a full search."""

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube.catalog import Catalog, ObjectKey, cataloged

Plain = Mapping[str, Any]
KEYS = st.tuples(st.sampled_from(("", "g")), st.sampled_from(("A", "B")), st.sampled_from("xy"), st.sampled_from("mno"))
OBJECTS = st.fixed_dictionaries({"groups": st.lists(st.sampled_from("pqr"), max_size=2)})
CHANGES = st.lists(st.dictionaries(KEYS, st.one_of(st.none(), OBJECTS), max_size=6), max_size=6)


def groups(thing: Plain) -> Iterable[str]:
    """Return the index keys of the object."""
    return tuple(thing["groups"])


def searched(plain: Mapping[ObjectKey, Plain], kind: tuple[str, str], group: str) -> list[Plain]:
    """Return the objects that the catalog's index must find, by a search of all objects."""
    return [plain[key] for key in sorted(plain) if key[:2] == kind and group in plain[key]["groups"]]


@given(start=st.dictionaries(KEYS, OBJECTS), changes=CHANGES)
def test_it_is_what_a_plain_mapping_would_be_after_any_changes(
    start: dict[ObjectKey, Plain], changes: list[dict[ObjectKey, Plain | None]]
) -> None:
    catalog, plain = Catalog(start), dict(start)
    for each in changes:
        before, kept = catalog, dict(plain)
        before.sought("g", "A", groups, "p")  # the index is there, and has to be carried over
        catalog = catalog.changed(each)
        plain = {key: thing for key, thing in {**plain, **each}.items() if thing is not None}
        assert before == kept
        assert catalog == plain
        assert (len(catalog), sorted(catalog)) == (len(plain), sorted(plain))
        for kind in (("", "A"), ("", "B"), ("g", "A"), ("g", "B")):
            assert catalog.has(*kind) == any(key[:2] == kind for key in plain)
            assert catalog.of_kind(*kind) == [plain[key] for key in sorted(plain) if key[:2] == kind]
            assert [catalog.sought(*kind, groups, group) for group in "pqr"] == [
                searched(plain, kind, group) for group in "pqr"
            ]
        assert sorted(map(id, catalog.called("x", "m"))) == sorted(
            id(thing) for key, thing in plain.items() if key[2:] == ("x", "m")
        )


def test_what_is_a_catalog_already_is_not_made_again() -> None:
    catalog = Catalog({("", "A", "x", "m"): {"groups": []}})
    assert cataloged(catalog) is catalog
    assert cataloged({}) == {}


def test_a_kind_whose_last_object_went_is_not_there() -> None:
    catalog = Catalog({("", "A", "x", "m"): {"groups": []}}).changed({("", "A", "x", "m"): None})
    assert (catalog.has("", "A"), list(catalog.kinds()), catalog.get(("", "A", "x", "m"))) == (False, [], None)


def test_an_object_that_only_changed_elsewhere_is_not_asked_again() -> None:
    asked = []

    def named(thing: Plain) -> tuple[str, ...]:
        asked.append(thing["name"])
        return (thing["name"],)

    catalog = Catalog({("", "A", "x", name): {"name": name} for name in "mno"})
    assert catalog.sought("", "A", named, "m") == [{"name": "m"}]
    asked.clear()
    later = catalog.changed({("", "B", "x", "m"): {"name": "m"}}).changed({("", "A", "x", "o"): {"name": "p"}})
    assert later.sought("", "A", named, "p") == [{"name": "p"}]
    assert sorted(asked) == ["o", "p"]
