"""The recorded inputs of each gang's reading. A gang is read again only when one of its inputs changes.

The idea comes from build systems that record what a task reads: verifying traces in "Build Systems à la Carte"
(Mokhov, Mitchell and Peyton Jones, ICFP 2018). The dependencies of a gang thus need no declaration.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from gangs.held_nodes import held_node
from gangs.mirrors import claim_of
from gangs.model import GangKey, Manifest
from gangs.workloads.kind_table import row_of
from kube import keys
from kube.catalog import Naming, ObjectKey
from kube.objects import Pod

ReadInput = tuple[Hashable, ...]
"""One look-up during the reading of a gang: the sort of the look-up first, then its arguments.

Example: ("labels", "team-a") is the look-up of the labels of the namespace team-a.
"""

OBJECT, KIND, EXISTENCE, KINDS, SOUGHT, CALLED, LABELS, SHARING, SCHEDULER, PODS_OF_JOB = (
    "object",
    "kind",
    "existence",
    "kinds",
    "sought",
    "called",
    "labels",
    "sharing",
    "scheduler",
    "pods of job",
)


class ReadSet:
    """A recorder of the look-ups during one reading (`gangs.sources.InputRecorder`). The field `all` has the recorded
    look-ups.

    :param dialect: the name of the dialect that reads; "" if several read.
    """

    def __init__(self, dialect: str = "") -> None:
        self._dialect = dialect
        self.all: set[ReadInput] = set()

    def at_object(self, key: ObjectKey) -> None:
        """Record that the gang's reading has looked up one object, which need not exist."""
        self.all.add((OBJECT, key))

    def at_kind(self, group: str, kind: str) -> None:
        """Record that the gang's reading has looked up all objects of a kind."""
        self.all.add((KIND, group, kind))

    def whether(self, group: str, kind: str) -> None:
        """Record that the gang's reading has asked whether any object of a kind exists."""
        self.all.add((EXISTENCE, group, kind))

    def at_kinds(self) -> None:
        """Record that the gang's reading has looked up which kinds have objects."""
        self.all.add((KINDS,))

    def at_sought(self, group: str, kind: str, by: Naming, value: Hashable) -> None:
        """Record that the gang's reading has looked up the objects of a kind for which the index function `by` returns
        `value`.
        """
        self.all.add((SOUGHT, group, kind, by, value))

    def at_called(self, namespace: str, name: str) -> None:
        """Record that the gang's reading has looked up the objects of every kind that have this namespace and name."""
        self.all.add((CALLED, namespace, name))

    def at_labels(self, namespace: str) -> None:
        """Record that the gang's reading has looked up a namespace's labels."""
        self.all.add((LABELS, namespace))

    def at_sharing(self, namespace: str) -> None:
        """Record that the reading has looked up the annotation `phalanx.dev/shares-groups-with` of a namespace."""
        self.all.add((SHARING, namespace))

    def at_scheduler(self, name: str) -> None:
        """Record that the gang's reading has looked up when a scheduler last tried to schedule a pod."""
        self.all.add((SCHEDULER, name))

    def at_pods_of_job(self, namespace: str, name: str) -> None:
        """Record that the dialect has looked up the pods that a Job controls."""
        self.all.add(pods_of_job(self._dialect, namespace, name))


def pods_of_job(dialect: str, namespace: str, name: str) -> ReadInput:
    """Return the recorded input "the pods that this Job controls and that this dialect may read".

    A pod that another dialect claims does not change this input.
    """
    return PODS_OF_JOB, dialect, namespace, name


class ReadSetIndex:
    """The inputs of all readings, indexed both ways: from a gang's key to its inputs, and from an input to the keys.

    A reading is what the dialects derive for one `GangKey`, whether or not a gang with this key exists. `sought_by`: by
    API group and kind, the index functions by which objects have been looked up. They are never removed.
    """

    def __init__(self) -> None:
        self.sought_by: defaultdict[tuple[str, str], set[Naming]] = defaultdict(set)
        self._read_sets: dict[GangKey, set[ReadInput]] = {}
        self._readers: defaultdict[ReadInput, set[GangKey]] = defaultdict(set)

    def put(self, about: GangKey, inputs: set[ReadInput]) -> None:
        """Replace the inputs of the reading of the key `about`. An empty set removes the reading."""
        old = self._read_sets.pop(about, set())
        for read_input in old - inputs:
            self._readers[read_input].discard(about)
            if not self._readers[read_input]:
                del self._readers[read_input]
        for read_input in inputs - old:
            self._readers[read_input].add(about)
        if inputs:
            self._read_sets[about] = inputs
        self.note_sought(inputs - old)

    def note_sought(self, inputs: Iterable[ReadInput]) -> None:
        """Add the index functions in these inputs to `sought_by`."""
        for read_input in inputs:
            if read_input[0] == SOUGHT:
                _, group, kind, by, _ = read_input
                group, kind, by = cast("tuple[str, str, Naming]", (group, kind, by))  # the order of `ReadSet.at_sought`
                self.sought_by[group, kind].add(by)

    def readers_of(self, inputs: Iterable[ReadInput]) -> set[GangKey]:
        """Return the `GangKey`s whose reading has one of these inputs, so that their gangs must be read again."""
        return {about for read_input in inputs for about in self._readers.get(read_input, ())}


def changed_inputs(
    key: ObjectKey, old: Manifest | None, new: Manifest | None, sought_by: Mapping[tuple[str, str], set[Naming]]
) -> Iterator[ReadInput]:
    """Yield every look-up whose result changes when an object changes from `old` to `new`; None: it does not exist.

    :param sought_by: by API group and kind, the index functions by which objects have been looked up.
    """
    group, kind, namespace, name = key
    yield OBJECT, key
    yield KIND, group, kind
    # A dialect looks up workloads by name (`CALLED`), and a mirror is no workload. Each gang gets a mirror, so without
    # this condition each new mirror would cause all dialects to read its gang again.
    if (group, kind) != _GANG or not all(each is None or claim_of(each) for each in (old, new)):
        yield CALLED, namespace, name
    if old is None or new is None:
        yield EXISTENCE, group, kind
        yield (KINDS,)
    for by in sought_by.get((group, kind), ()):
        values = {value for each in (old, new) if each is not None for value in by(each)}
        yield from ((SOUGHT, group, kind, by, value) for value in values)


def equal_as_read(kind: tuple[str, str], old: Manifest | None, new: Manifest | None) -> bool:
    """Whether two versions of an object of this kind are equal in all fields that dialects read.

    Most updates change only the status, so no gang need be read again after them.
    """
    if old is None or new is None:
        return old is new
    return _asking(kind, old) == _asking(kind, new)


def pods_equal_as_read(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod are equal in all fields that dialects read.

    Dialects do not read nominations, conditions, whether a pod runs already, and the annotations of a plan
    (`MARKS_OF_PLANS`). They read whether a plan has given a node to a released pod (`held_node`).
    """
    return old.spec == new.spec and _read_of(old) == _read_of(new)


def _read_of(pod: Pod) -> tuple[object, ...]:
    annotations = pod.metadata.annotations
    if not MARKS_OF_PLANS.isdisjoint(annotations):
        annotations = {key: value for key, value in annotations.items() if key not in MARKS_OF_PLANS}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations, resource_version="")
    return metadata, pod.status.phase if pod.finished else "", bool(held_node(pod))


MARKS_OF_PLANS = frozenset(
    (
        keys.PLAN,
        keys.PLANNED_NODE,
        keys.COUNTED_AGAIN,
        keys.RELEASED,
        keys.RELEASE_BEGUN,
        keys.PINNED_IN,
        keys.TAKEN_BACK,
        keys.WHOLE_MARK,
        keys.SPARED,
    )
)
"""Annotations that the controller writes on pods while it carries out a plan."""
_VERSIONS = ("resourceVersion", "generation", "managedFields")
_GANG = "phalanx.dev", "Gang"
_KEPT_OF_GANGS = ("flavors", "topology")
"""Status fields of a Gang object that dialects read: its plan's flavors, and the topology of an automatic gang."""
_READ_OF_WORKLOADS = ("conditions",)
"""Status fields that dialects read of a workload of any kind. They report its end."""


def _asking(kind: tuple[str, str], manifest: Manifest) -> dict[str, Any]:
    metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if key not in _VERSIONS}
    asking = {key: value for key, value in manifest.items() if key not in ("metadata", "status")}
    row = row_of(manifest)
    read: tuple[str, ...] = _KEPT_OF_GANGS if kind == _GANG else ()
    if row is not None:
        read = (*_READ_OF_WORKLOADS, *row.counted_in_status)
        read = (*read, *(path.split(".")[1] for path, _ in row.ended_at if path.startswith("status.")))
    status = manifest.get("status")
    if isinstance(status, Mapping):
        status = {key: status[key] for key in read if status.get(key) is not None}
    return {**asking, "metadata": metadata, "status": (status if read else None) or {}}
