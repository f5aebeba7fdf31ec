"""Which of the systems whose objects Phalanx reads run in the cluster themselves, and what is left to them.

Evidence is the admission webhooks that a system has registered (`systems`, docs/decisions/0005). Definitions are none:
Phalanx brings the same ones. The choice of whoever runs the cluster goes before the evidence: annotations on Phalanx's
own webhook configuration, where all of its parts read the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gangs.coexistence.systems import SYSTEMS
from gangs.model import Advice, GangKey, Manifest, ObjectRef, Reading
from gangs.resource_kinds import ResourceKind
from gangs.sources import Sources
from gangs.system import System
from kube import keys
from kube.catalog import Plain
from kube.objects import Pod

ADMISSION = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
_CONFIGURATIONS = (MUTATING, VALIDATING)
EVIDENCE_KINDS: tuple[ResourceKind, ...] = tuple(
    ResourceKind(ADMISSION, ("v1",), kind, f"{kind.lower()}s", namespaced=False) for kind in _CONFIGURATIONS
)
"""Kinds to watch for signs of other systems, and for the choice about them."""

OWN = f"{MUTATING} {keys.CONFIGURATION}"
ALL = "all"
IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A system that has this dialect's workloads. `evidence`: what shows that it runs; None: the annotation says so."""

    system: str
    title: str
    evidence: ObjectRef | None = None

    def __str__(self) -> str:
        """Who it is, and how that is known."""
        if self.evidence is None:
            return f"{self.title} (annotation {keys.LEAVE} of {OWN})"
        return f"{self.title}, which runs in this cluster ({self.evidence})"


@dataclass(frozen=True, slots=True)
class LeftAlone(Advice):
    """What is told of an object that another system has."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is left alone. `to`: by the dialect's name, whose it is. `carried`: gangs that stay ours to their end."""

    to: Mapping[str, Neighbour] = field(default_factory=dict)
    carried: frozenset[GangKey] = frozenset()

    def leaves(self, key: GangKey) -> bool:
        """Whether the gang is somebody else's."""
        return key.dialect in self.to and key not in self.carried

    def carries(self, reading: Reading) -> Reading:
        """Of what was read of a dialect that is left: the gangs that stay ours to their end, and what is about them."""
        ours = {(key.namespace, key.name) for key in self.carried}

        def concerned(ref: ObjectRef) -> bool:
            return ref.kind == "Pod" or (ref.namespace, ref.name) in ours

        return Reading(
            tuple(gang for gang in reading.gangs if gang.names & self.carried),
            tuple(each for each in reading.faults if concerned(each.object)),
            tuple(each for each in reading.advice if concerned(each.object)),
        )

    def advice(self, dialect: str, ref: ObjectRef) -> LeftAlone:
        """What a user is told whose object is left alone."""
        neighbour = self.to[dialect]
        remedy = f"for Phalanx to place it, annotate {OWN} with {keys.ADOPT}: {neighbour.system}"
        return LeftAlone(ref, "metadata", f"is left to {neighbour}; {remedy}")


NOTHING = Left()


def left_to(sources: Sources) -> Mapping[str, Neighbour]:
    """By dialect: the system that has its workloads. Dialects that are not in it are ours."""
    if not any(sources.has(ADMISSION, kind) for kind in _CONFIGURATIONS):
        return {}
    adopted, left = chosen(sources, keys.ADOPT), chosen(sources, keys.LEAVE)
    found: dict[str, Neighbour] = {}
    for system in SYSTEMS:
        shown = _shown(sources, system)
        if system.name in left and not system.shows_itself:
            found |= {name: Neighbour(system.name, system.title) for name in system.dialects}
        elif not {system.name, ALL} & set(adopted) and (shown is not None or system.name in left):
            neighbour = Neighbour(system.name, system.title, _ref(shown) if shown is not None else None)
            found |= {name: neighbour for name in system.dialects if name not in found and name not in adopted}
    return found


def chosen(sources: Sources, annotation: str) -> tuple[str, ...]:
    """The names that an annotation of our webhook configuration lists, by comma."""
    own = sources.get(ADMISSION, MUTATING, "", keys.CONFIGURATION)
    text = ((own or {}).get("metadata", {}).get("annotations") or {}).get(annotation, "")
    return tuple(name for part in text.split(",") if (name := part.strip()))


def exemptions_count(sources: Sources) -> bool:
    """Whether users may exempt their own pods from eviction, as dialects let them."""
    return IGNORED not in chosen(sources, keys.EXEMPTIONS)


def running(sources: Sources) -> Iterator[tuple[System, ObjectRef]]:
    """The systems that run in the cluster, and what shows it."""
    for system in SYSTEMS:
        shown = _shown(sources, system)
        if shown is not None:
            yield system, _ref(shown)


def admitted_by_us(pod: Pod) -> str:
    """The dialect under which a live pod came in through our webhook, "" for any other pod."""
    return "" if pod.finished or pod.terminating else pod.metadata.labels.get(keys.DIALECT, "")


def _shown(sources: Sources, system: System) -> Manifest | None:
    """The webhook configuration that shows a system: the first by name, those that change objects before the others."""
    kinds = (sources.sought(ADMISSION, kind, _systems_in, system.name) for kind in _CONFIGURATIONS)
    return next((each for found in kinds for each in found), None)


def _systems_in(configuration: Plain) -> list[str]:
    """The systems that a webhook configuration shows."""
    return [system.name for system in SYSTEMS if system.shows_in(configuration)]


def _ref(manifest: Manifest) -> ObjectRef:
    meta = manifest["metadata"]
    return ObjectRef(manifest["apiVersion"], manifest["kind"], "", meta["name"], meta.get("uid", ""))
