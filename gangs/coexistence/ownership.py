"""The systems that run in the cluster and whose objects Phalanx reads, and the workloads that are ceded to them.

The evidence for a system is its registered admission webhooks (`systems`, docs/decisions/0005). Its CRDs are no
evidence, because Phalanx installs the same ones. The cluster administrator's choice overrides the evidence. It is made
by annotations on Phalanx's own webhook configuration, because all parts of Phalanx read that object.
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
    """A system to which a dialect's workloads are ceded.

    `evidence`: the object that shows that the system runs; None: the administrator's annotation cedes the workloads.
    `by_default`: the system is part of Kubernetes, so that neither evidence nor an annotation is needed.
    """

    system: str
    title: str
    evidence: ObjectRef | None = None
    by_default: bool = False

    def __str__(self) -> str:
        """Return the system's title and the evidence for it."""
        if self.by_default:
            return f"{self.title}, which schedules groups of its own"
        if self.evidence is None:
            return f"{self.title} (annotation {keys.LEAVE} of {OWN})"
        return f"{self.title}, which runs in this cluster ({self.evidence})"


@dataclass(frozen=True, slots=True)
class CededAdvice(Advice):
    """Advice on an object that is ceded to another system."""


@dataclass(frozen=True, slots=True)
class CededToOthers:
    """The ceded dialects. `to`: by dialect, the system. `carried`: gangs that stay with Phalanx to their end."""

    to: Mapping[str, Neighbour] = field(default_factory=dict)
    carried: frozenset[GangKey] = frozenset()

    def leaves(self, key: GangKey) -> bool:
        """Whether the gang is ceded to another system."""
        return key.dialect in self.to and key not in self.carried

    def carries(self, reading: Reading) -> Reading:
        """Return the part of a ceded dialect's reading that concerns the gangs that stay with Phalanx to their end."""
        ours = {(key.namespace, key.name) for key in self.carried}

        def concerned(ref: ObjectRef) -> bool:
            return ref.kind == "Pod" or (ref.namespace, ref.name) in ours

        return Reading(
            tuple(gang for gang in reading.gangs if gang.names & self.carried),
            tuple(each for each in reading.faults if concerned(each.object)),
            tuple(each for each in reading.advice if concerned(each.object)),
        )

    def advice(self, dialect: str, ref: ObjectRef) -> CededAdvice:
        """Return the advice for the user of a ceded object."""
        neighbour = self.to[dialect]
        remedy = f"for Phalanx to place it, annotate {OWN} with {keys.ADOPT}: {neighbour.system}"
        return CededAdvice(ref, "metadata", f"is left to {neighbour}; {remedy}")


NOTHING = CededToOthers()


def systems_ceded_to(sources: Sources) -> Mapping[str, Neighbour]:
    """Return, by dialect, the system to which its workloads are ceded. Phalanx handles all other dialects."""
    if not any(sources.has(ADMISSION, kind) for kind in _CONFIGURATIONS):
        return {}
    adopted, left = chosen(sources, keys.ADOPT), chosen(sources, keys.LEAVE)
    found: dict[str, Neighbour] = {}
    for system in SYSTEMS:
        shown = _shown(sources, system)
        if system.by_default:
            if _own(sources) is not None and system.name not in adopted:
                found |= {name: Neighbour(system.name, system.title, by_default=True) for name in system.dialects}
        elif system.name in left and not system.shows_itself:
            found |= {name: Neighbour(system.name, system.title) for name in system.dialects}
        elif not {system.name, ALL} & set(adopted) and (shown is not None or system.name in left):
            neighbour = Neighbour(system.name, system.title, _ref(shown) if shown is not None else None)
            found |= {name: neighbour for name in system.dialects if name not in found and name not in adopted}
    return found


def ceded_beside_kubernetes(sources: Sources) -> Mapping[str, Neighbour]:
    """Return, by dialect, the systems to which workloads are ceded, without kube-scheduler itself.

    That kube-scheduler places its own groups is no news, and it protects no pod from eviction.
    """
    return {name: each for name, each in systems_ceded_to(sources).items() if not each.by_default}


def chosen(sources: Sources, annotation: str) -> tuple[str, ...]:
    """Return the names in an annotation of Phalanx's webhook configuration, which are separated by commas."""
    text = ((_own(sources) or {}).get("metadata", {}).get("annotations") or {}).get(annotation, "")
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _own(sources: Sources) -> Manifest | None:
    """Return Phalanx's own webhook configuration; None if Phalanx is not installed, or the sources are files."""
    return sources.get(ADMISSION, MUTATING, "", keys.CONFIGURATION)


def exemptions_count(sources: Sources) -> bool:
    """Whether users may exempt their own pods from eviction, as dialects let them."""
    return IGNORED not in chosen(sources, keys.EXEMPTIONS)


def running(sources: Sources) -> Iterator[tuple[System, ObjectRef]]:
    """Yield the systems that run in the cluster, each with the object that shows it."""
    for system in SYSTEMS:
        shown = _shown(sources, system)
        if shown is not None:
            yield system, _ref(shown)


def admitted_by_us(pod: Pod) -> str:
    """Return the dialect for which Phalanx's webhook admitted a live pod; "" for any other pod."""
    return "" if pod.finished or pod.terminating else pod.metadata.labels.get(keys.DIALECT, "")


def _shown(sources: Sources, system: System) -> Manifest | None:
    """Return the webhook configuration that shows a system: mutating ones first, then by name; None if none does."""
    kinds = (sources.sought(ADMISSION, kind, _systems_in, system.name) for kind in _CONFIGURATIONS)
    return next((each for found in kinds for each in found), None)


def _systems_in(configuration: Plain) -> list[str]:
    """Return the names of the systems that a webhook configuration shows."""
    return [system.name for system in SYSTEMS if system.shows_in(configuration)]


def _ref(manifest: Manifest) -> ObjectRef:
    meta = manifest["metadata"]
    return ObjectRef(manifest["apiVersion"], manifest["kind"], "", meta["name"], meta.get("uid", ""))
