"""An immutable collection of Kubernetes objects, found by group, kind, namespace and name, and by further indexes.

`Catalog.changed` returns a new catalog that shares all unchanged parts with the old one. The cost of a look-up does not
depend on the number of objects.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

ObjectKey = tuple[str, str, str, str]
"""(group, kind, namespace, name); group and namespace are "" where there is none."""

Plain = Mapping[str, Any]
"""A Kubernetes object as decoded from JSON or YAML."""

Naming = Callable[[Plain], Iterable[Hashable]]
"""A function that computes the values under which an index lists an object, such as the names of the groups in it.

An object without values is not in the index. The function must be defined at the level of a module, because the
function itself is the key of the index. It must return equal values for the same object, and raise no exception.
"""

_NamespacedName = tuple[str, str]
"""(namespace, name)."""
_Index = dict[Hashable, frozenset[_NamespacedName]]


class _ObjectsOfKind:
    """The objects of one kind (`named`: by namespace and name), and their indexes by the function that defines each.

    An index is built when it is first used. `changed` then keeps it up to date.
    """

    __slots__ = ("base", "indexes", "named")

    def __init__(self) -> None:
        self.named: dict[str, dict[str, Plain]] = {}
        self.indexes: dict[Naming, _Index] = {}
        self.base: tuple[_ObjectsOfKind, Mapping[_NamespacedName, Plain | None]] | None = None
        """The objects from which these were derived for a short time, and the changes. An index is then built there, so
        that it is still there for the next derived objects.
        """

    def get(self, place: _NamespacedName) -> Plain | None:
        there = self.named.get(place[0])
        return None if there is None else there.get(place[1])

    def index(self, by: Naming) -> _Index:
        index = self.indexes.get(by)
        if index is None:
            if self.base is None:
                index = self._built(by)
            else:
                objects, changes = self.base
                index = objects.reindexed(by, objects.index(by), changes)
            self.indexes[by] = index
        return index

    def _built(self, by: Naming) -> _Index:
        found: defaultdict[Hashable, set[_NamespacedName]] = defaultdict(set)
        for namespace, there in self.named.items():
            for name, each in there.items():
                for value in by(each):
                    found[value].add((namespace, name))
        return {value: frozenset(places) for value, places in found.items()}

    def changed(self, changes: Mapping[_NamespacedName, Plain | None]) -> "_ObjectsOfKind":
        shelf = _ObjectsOfKind()
        shelf.named = dict(self.named)
        own: dict[str, dict[str, Plain]] = {}
        for (namespace, name), each in changes.items():
            if namespace not in own:
                own[namespace] = shelf.named[namespace] = dict(self.named.get(namespace, {}))
            if each is None:
                own[namespace].pop(name, None)
            else:
                own[namespace][name] = each
        for namespace, there in own.items():
            if not there:
                del shelf.named[namespace]
        for by, index in self.indexes.copy().items():  # another thread may add an index meanwhile
            shelf.indexes[by] = self.reindexed(by, index, changes)
        return shelf

    def reindexed(self, by: Naming, index: _Index, changes: Mapping[_NamespacedName, Plain | None]) -> _Index:
        fresh: dict[Hashable, set[_NamespacedName]] = {}
        for place, each in changes.items():
            old = self.get(place)
            before = frozenset(by(old)) if old is not None else frozenset[Hashable]()
            after = frozenset(by(each)) if each is not None else frozenset[Hashable]()
            for value in before ^ after:
                fresh.setdefault(value, set(index.get(value, ()))).symmetric_difference_update((place,))
        if not fresh:
            return index
        merged = index | {value: frozenset(places) for value, places in fresh.items()}
        for value, places in fresh.items():
            if not places:
                del merged[value]
        return merged


class Catalog(Mapping[ObjectKey, Plain]):
    """Objects of many kinds by their keys. Safe to share between threads."""

    __slots__ = ("_shelves",)

    def __init__(self, objects: Mapping[ObjectKey, Plain] | None = None) -> None:
        self._shelves: dict[tuple[str, str], _ObjectsOfKind] = {}
        for (group, kind, namespace, name), each in (objects or {}).items():
            self._shelves.setdefault((group, kind), _ObjectsOfKind()).named.setdefault(namespace, {})[name] = each

    def __getitem__(self, key: ObjectKey) -> Plain:
        """Return one object.

        :raises KeyError: if there is no such object.
        """
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(len(there) for shelf in self._shelves.values() for there in shelf.named.values())

    def __iter__(self) -> Iterator[ObjectKey]:
        """Yield all keys, grouped by kind and namespace."""
        for (group, kind), shelf in self._shelves.items():
            for namespace, there in shelf.named.items():
                for name in there:
                    yield group, kind, namespace, name

    def find(self, key: ObjectKey) -> Plain | None:
        """Return the object with this key; None if there is none. This is cheaper than `get`, which raises and catches
        an exception to return None.
        """
        shelf = self._shelves.get(key[:2])
        return None if shelf is None else shelf.get(key[2:])

    def kinds(self) -> Iterable[tuple[str, str]]:
        """Return (API group, kind) of each kind that has objects."""
        return self._shelves

    def has(self, group: str, kind: str) -> bool:
        """Return whether any object of this kind exists."""
        return (group, kind) in self._shelves

    def of_kind(self, group: str, kind: str) -> list[Plain]:
        """Return the objects of a kind, ordered by namespace and name."""
        named = self._shelf(group, kind).named
        return [named[namespace][name] for namespace in sorted(named) for name in sorted(named[namespace])]

    def sought(self, group: str, kind: str, by: Naming, value: Hashable) -> list[Plain]:
        """Return the objects of a kind whose index values, computed by `by`, include `value`.

        The result is ordered by namespace and name.
        """
        shelf = self._shelf(group, kind)
        return [shelf.named[namespace][name] for namespace, name in sorted(shelf.index(by).get(value, ()))]

    def called(self, namespace: str, name: str) -> list[Plain]:
        """Return the objects of every kind that have this name in this namespace."""
        place = namespace, name
        return [each for shelf in self._shelves.values() if (each := shelf.get(place)) is not None]

    def changed(self, changes: Mapping[ObjectKey, Plain | None], *, briefly: bool = False) -> "Catalog":
        """Return a catalog in which these objects are added or replaced. None removes an object.

        :param briefly: whether the new catalog is used for a short time only, such as for one review. The new catalog
            then keeps this one in memory. An index that it needs is built in this catalog, so the next review need not
            build it again.
        """
        by_kind: defaultdict[tuple[str, str], dict[_NamespacedName, Plain | None]] = defaultdict(dict)
        for (group, kind, namespace, name), each in changes.items():
            by_kind[group, kind][namespace, name] = each
        catalog = Catalog()
        shelves = catalog._shelves
        shelves.update(self._shelves)
        for kind_, of_kind in by_kind.items():
            before = self._shelf(*kind_)
            shelves[kind_] = before.changed(of_kind)
            if briefly:
                shelves[kind_].base = before, of_kind
            if not shelves[kind_].named:
                del shelves[kind_]
        return catalog

    def _shelf(self, group: str, kind: str) -> _ObjectsOfKind:
        found = self._shelves.get((group, kind))
        return _ObjectsOfKind() if found is None else found  # a new one each time, because an index is stored in it


def cataloged(objects: Mapping[ObjectKey, Plain]) -> Catalog:
    """Return the objects as a `Catalog`. A `Catalog` is returned unchanged."""
    return objects if isinstance(objects, Catalog) else Catalog(objects)
