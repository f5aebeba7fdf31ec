"""Plain objects by group, kind, namespace and name, so that those of one kind or namespace cost no look at the others.

A `Catalog` never changes; `changed` makes a new one that shares with the old one whatever stayed the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

ObjectKey = tuple[str, str, str, str]
"""(group, kind, namespace, name); group and namespace are "" where there is none."""

_Named = dict[str, Mapping[str, Any]]
_Namespaced = dict[str, _Named]


class Catalog(Mapping[ObjectKey, Mapping[str, Any]]):
    """Objects of many kinds by their keys."""

    __slots__ = ("_count", "_kinds")

    def __init__(self, objects: Mapping[ObjectKey, Mapping[str, Any]] | None = None) -> None:
        self._kinds: dict[tuple[str, str], _Namespaced] = {}
        self._count = 0
        for (group, kind, namespace, name), each in (objects or {}).items():
            self._kinds.setdefault((group, kind), {}).setdefault(namespace, {})[name] = each
            self._count += 1

    def __getitem__(self, key: ObjectKey) -> Mapping[str, Any]:
        """One object. Raises KeyError."""
        group, kind, namespace, name = key
        try:
            return self._kinds[group, kind][namespace][name]
        except KeyError:
            raise KeyError(key) from None

    def __len__(self) -> int:
        """How many objects there are."""
        return self._count

    def __iter__(self) -> Iterator[ObjectKey]:
        """All keys, those of one kind and namespace together."""
        for group, kind in self._kinds:
            yield from self._keys_of(group, kind)

    def kinds(self) -> Iterable[tuple[str, str]]:
        """Group and kind of all there is."""
        return self._kinds

    def has(self, group: str, kind: str) -> bool:
        """Whether there is an object of this kind."""
        return (group, kind) in self._kinds

    def keys_of(self, group: str, kind: str, namespace: str | None = None) -> list[ObjectKey]:
        """The keys of a kind, of one namespace or of all, ordered by namespace and name."""
        return sorted(self._keys_of(group, kind, namespace))

    def of_kind(self, group: str, kind: str, namespace: str) -> Mapping[str, Mapping[str, Any]]:
        """The objects of a kind in a namespace by name, in no order that means anything."""
        return self._kinds.get((group, kind), {}).get(namespace, {})

    def called(self, namespace: str, name: str) -> list[Mapping[str, Any]]:
        """The objects of every kind that have this name in this namespace."""
        places = (namespaces.get(namespace, {}) for namespaces in self._kinds.values())
        return [named[name] for named in places if name in named]

    def within(self, group: str, kind: str, namespace: str) -> "Catalog":
        """The same without the objects of this kind that are in other namespaces."""
        namespaces = self._kinds.get((group, kind), {})
        kinds = {each: there for each, there in self._kinds.items() if each != (group, kind)}
        if namespace in namespaces:
            kinds[group, kind] = {namespace: namespaces[namespace]}
        return _made(kinds)

    def changed(self, changes: Mapping[ObjectKey, Mapping[str, Any] | None]) -> "Catalog":
        """The same with these objects in place; None takes one out."""
        kinds = dict(self._kinds)
        own: set[tuple[str, ...]] = set()
        for (group, kind, namespace, name), each in changes.items():
            if (group, kind) not in own:
                own.add((group, kind))
                kinds[group, kind] = dict(kinds.get((group, kind), {}))
            namespaces = kinds[group, kind]
            if (group, kind, namespace) not in own:
                own.add((group, kind, namespace))
                namespaces[namespace] = dict(namespaces.get(namespace, {}))
            if each is None:
                namespaces[namespace].pop(name, None)
            else:
                namespaces[namespace][name] = each
        for group, kind, *_ in own:
            kinds[group, kind] = {namespace: named for namespace, named in kinds[group, kind].items() if named}
        return _made({each: namespaces for each, namespaces in kinds.items() if namespaces})

    def _keys_of(self, group: str, kind: str, namespace: str | None = None) -> Iterator[ObjectKey]:
        namespaces = self._kinds.get((group, kind), {})
        for each in namespaces if namespace is None else (namespace,):
            for name in namespaces.get(each, ()):
                yield group, kind, each, name


def _made(kinds: dict[tuple[str, str], _Namespaced]) -> Catalog:
    catalog = Catalog()
    catalog._kinds = kinds  # noqa: SLF001 -- its own constructor
    catalog._count = sum(len(named) for namespaces in kinds.values() for named in namespaces.values())  # noqa: SLF001
    return catalog


def cataloged(objects: Mapping[ObjectKey, Mapping[str, Any]]) -> Catalog:
    """The objects as a catalog: themselves where they are one already."""
    return objects if isinstance(objects, Catalog) else Catalog(objects)
