"""What a reading looked at, so that it is read again when that has changed, and only then.

The idea is that of build systems which record what a task reads ("Build Systems à la Carte", Mokhov, Mitchell and
Peyton Jones, ICFP 2018, verifying traces): nobody has to say by hand on what a gang depends.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, cast

from gangs.model import GangKey, Manifest
from gangs.workloads.kind_table import shape_of
from kube.catalog import Naming, ObjectKey

Look = tuple[Hashable, ...]
"""One thing that was looked at; the first part says what kind of look it was."""

OBJECT, KIND, EXISTENCE, KINDS, SOUGHT, CALLED, LABELS, SHARING, SCHEDULER = (
    "object",
    "kind",
    "existence",
    "kinds",
    "sought",
    "called",
    "labels",
    "sharing",
    "scheduler",
)


class Looks:
    """Notes what is looked at (`gangs.sources.Looked`)."""

    def __init__(self) -> None:
        self.all: set[Look] = set()

    def at_object(self, key: ObjectKey) -> None:
        """One object."""
        self.all.add((OBJECT, key))

    def at_kind(self, group: str, kind: str) -> None:
        """All objects of a kind."""
        self.all.add((KIND, group, kind))

    def whether(self, group: str, kind: str) -> None:
        """Whether there is an object of a kind."""
        self.all.add((EXISTENCE, group, kind))

    def at_kinds(self) -> None:
        """Of which kinds there are objects."""
        self.all.add((KINDS,))

    def at_sought(self, group: str, kind: str, by: Naming, value: Hashable) -> None:
        """The objects that are found by a value."""
        self.all.add((SOUGHT, group, kind, by, value))

    def at_called(self, namespace: str, name: str) -> None:
        """The objects of a name."""
        self.all.add((CALLED, namespace, name))

    def at_labels(self, namespace: str) -> None:
        """The labels of a namespace."""
        self.all.add((LABELS, namespace))

    def at_sharing(self, namespace: str) -> None:
        """With whom a namespace shares its groups."""
        self.all.add((SHARING, namespace))

    def at_scheduler(self, name: str) -> None:
        """When a scheduler last tried a pod."""
        self.all.add((SCHEDULER, name))


class LookIndex:
    """Who looked at what, by the name that was asked about; and by what objects are sought at all.

    `sought_by`: by group and kind. What has been sought by once stays.
    """

    def __init__(self) -> None:
        self.sought_by: defaultdict[tuple[str, str], set[Naming]] = defaultdict(set)
        self._looks: dict[GangKey, set[Look]] = {}
        self._lookers: defaultdict[Look, set[GangKey]] = defaultdict(set)

    def put(self, about: GangKey, looks: set[Look]) -> None:
        """What was looked at when this name was asked about, in the place of what it was before."""
        old = self._looks.pop(about, set())
        for look in old - looks:
            self._lookers[look].discard(about)
            if not self._lookers[look]:
                del self._lookers[look]
        for look in looks - old:
            self._lookers[look].add(about)
        if looks:
            self._looks[about] = looks
        self.note_sought(looks - old)

    def note_sought(self, looks: Iterable[Look]) -> None:
        """By what objects were sought in these looks."""
        for look in looks:
            if look[0] == SOUGHT:
                _, group, kind, by, _ = look
                group, kind, by = cast("tuple[str, str, Naming]", (group, kind, by))  # as `Looks` has put it together
                self.sought_by[group, kind].add(by)

    def who_looked(self, looks: Iterable[Look]) -> set[GangKey]:
        """The names that somebody looked at one of these for."""
        return {about for look in looks for about in self._lookers.get(look, ())}


def looks_at(
    key: ObjectKey, old: Manifest | None, new: Manifest | None, sought_by: Mapping[tuple[str, str], set[Naming]]
) -> Iterator[Look]:
    """Every look that would find something else, now that an object is `new` and was `old` (None: not there).

    :param sought_by: by what objects of each group and kind have been sought.
    """
    group, kind, namespace, name = key
    yield OBJECT, key
    yield KIND, group, kind
    yield CALLED, namespace, name
    if old is None or new is None:
        yield EXISTENCE, group, kind
        yield (KINDS,)
    for by in sought_by.get((group, kind), ()):
        values = {value for each in (old, new) if each is not None for value in by(each)}
        yield from ((SOUGHT, group, kind, by, value) for value in values)


def says_the_same(kind: tuple[str, str], old: Manifest | None, new: Manifest | None) -> bool:
    """Whether two versions of an object, of this group and kind, ask for the same: most often its status is new."""
    if old is None or new is None:
        return old is new
    return _asking(kind, old) == _asking(kind, new)


_VERSIONS = ("resourceVersion", "generation", "managedFields")
_GANG = "phalanx.dev", "Gang"
_KEPT_OF_GANGS = ("flavors", "topology")
"""What is read of a Gang's status: the quota that its plan uses, and where an automatic gang was placed first."""
_JOB = "batch", "Job"
_READ_OF_JOBS = ("succeeded", "completedIndexes", "conditions")
_READ_OF_WORKLOADS = ("conditions",)
"""Where a training job says that it has ended."""


def _asking(kind: tuple[str, str], manifest: Manifest) -> dict[str, Any]:
    metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if key not in _VERSIONS}
    asking = {key: value for key, value in manifest.items() if key not in ("metadata", "status")}
    shape = shape_of(manifest)
    read = {_GANG: _KEPT_OF_GANGS, _JOB: _READ_OF_JOBS}.get(kind, _READ_OF_WORKLOADS if shape is not None else ())
    if shape is not None and shape.ended_at:
        read = (*read, *(path.split(".")[1] for path, _ in shape.ended_at if path.startswith("status.")))
    status = manifest.get("status")
    said = {key: status.get(key) for key in read} if isinstance(status, Mapping) else status if read else {}
    return {**asking, "metadata": metadata, "status": said or {}}
