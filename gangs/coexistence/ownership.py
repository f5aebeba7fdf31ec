"""The detection of other scheduling systems, such as Kueue, whose workloads are then ceded to them.

A system is detected by its registered admission webhooks (`systems`, docs/decisions/0005). Its CRDs show nothing,
because Phalanx installs the same ones. Cluster administrators override the detection by the annotations `adopt` and
`leave` on Phalanx's own webhook configuration, because all servers of Phalanx read that object.
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
"""Kinds to watch: webhook configurations, by which other systems are detected.

Annotations on Phalanx's own configuration override the detection.
"""

OWN = f"{MUTATING} {keys.CONFIGURATION}"
ALL = "all"
IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A scheduling system to which a dialect's workloads are ceded, so that Phalanx does not touch them.

    `evidence`: the webhook configuration by which the system was detected; None: an administrator's annotation names
    the system, or `by_default` is true. `by_default`: the system is part of Kubernetes, so neither evidence nor an
    annotation is needed.
    """

    system: str
    title: str
    evidence: ObjectRef | None = None
    by_default: bool = False

    def __str__(self) -> str:
        """Return the system's title and why workloads are ceded to it, for messages."""
        if self.by_default:
            return f"{self.title}, which schedules groups of its own"
        if self.evidence is None:
            return f"{self.title} (annotation {keys.LEAVE} of {OWN})"
        return f"{self.title}, which runs in this cluster ({self.evidence})"


@dataclass(frozen=True, slots=True)
class CededAdvice(Advice):
    """Advice that an object is ceded to another system, so that Phalanx does not act on it."""


@dataclass(frozen=True, slots=True)
class CededToOthers:
    """The dialects that are ceded to other systems, and the gangs of these dialects that are not.

    `to`: by name of a ceded dialect, the system. `carried`: the gangs of ceded dialects that Phalanx handles until they
    end, because it had admitted members before the system was detected.
    """

    to: Mapping[str, Neighbour] = field(default_factory=dict)
    carried: frozenset[GangKey] = frozenset()

    def leaves(self, key: GangKey) -> bool:
        """Whether the gang is ceded to another system: its dialect is ceded, and the gang is not in `carried`."""
        return key.dialect in self.to and key not in self.carried

    def carries(self, reading: Reading) -> Reading:
        """Return the part of a ceded dialect's reading that Phalanx still handles: the gangs in `carried`, which
        started before the dialect was ceded.

        Faults and advice are included if they are about pods, or about objects with the namespace and name of such a
        gang.
        """
        ours = {(key.namespace, key.name) for key in self.carried}

        def concerned(ref: ObjectRef) -> bool:
            return ref.kind == "Pod" or (ref.namespace, ref.name) in ours

        return Reading(
            tuple(gang for gang in reading.gangs if gang.names & self.carried),
            tuple(each for each in reading.faults if concerned(each.object)),
            tuple(each for each in reading.advice if concerned(each.object)),
        )

    def advice(self, dialect: str, ref: ObjectRef) -> CededAdvice:
        """Return the advice that the object `ref` is ceded, and how an administrator can change this.

        :param dialect: the name of a ceded dialect.
        """
        neighbour = self.to[dialect]
        remedy = f"for Phalanx to place it, annotate {OWN} with {keys.ADOPT}: {neighbour.system}"
        return CededAdvice(ref, "metadata", f"is left to {neighbour}; {remedy}")


NOTHING = CededToOthers()


def systems_ceded_to(sources: Sources) -> Mapping[str, Neighbour]:
    """Return, by name of each ceded dialect, the system to which its workloads are ceded.

    Phalanx handles all other dialects.
    """
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
    """Return, by name of each dialect that is ceded to a system other than kube-scheduler, this system.

    kube-scheduler is left out: reports need not say that it places its own PodGroups, and it exempts no pod from
    eviction.
    """
    return {name: each for name, each in systems_ceded_to(sources).items() if not each.by_default}


def chosen(sources: Sources, annotation: str) -> tuple[str, ...]:
    """Return the names in a comma-separated annotation of Phalanx's webhook configuration; empty if it is absent."""
    text = ((_own(sources) or {}).get("metadata", {}).get("annotations") or {}).get(annotation, "")
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _own(sources: Sources) -> Manifest | None:
    """Return Phalanx's own webhook configuration; None if Phalanx is not installed, or the sources are files."""
    return sources.get(ADMISSION, MUTATING, "", keys.CONFIGURATION)


def exemptions_count(sources: Sources) -> bool:
    """Whether users may exempt their pods from eviction by labels or annotations of a dialect.

    Administrators can forbid it by the annotation `phalanx.dev/exemptions`.
    """
    return IGNORED not in chosen(sources, keys.EXEMPTIONS)


def running(sources: Sources) -> Iterator[tuple[System, ObjectRef]]:
    """Yield the systems that are detected in the cluster, each with the webhook configuration that shows it."""
    for system in SYSTEMS:
        shown = _shown(sources, system)
        if shown is not None:
            yield system, _ref(shown)


def admitted_by_us(pod: Pod) -> str:
    """Return the dialect in the label that Phalanx's webhook gave a live pod.

    Return "" for a pod that the webhook did not admit as a member, and for a finished or terminating pod.
    """
    return "" if pod.finished or pod.terminating else pod.metadata.labels.get(keys.DIALECT, "")


def _shown(sources: Sources, system: System) -> Manifest | None:
    """Return the first webhook configuration that belongs to a system; None if there is none.

    Mutating configurations come first. Each sort is ordered by name.
    """
    kinds = (sources.sought(ADMISSION, kind, _systems_in, system.name) for kind in _CONFIGURATIONS)
    return next((each for found in kinds for each in found), None)


def _systems_in(configuration: Plain) -> list[str]:
    """Return the names of the systems to which a webhook configuration belongs.

    They are the object's index values (`kube.catalog.Naming`), by which `_shown` finds it.
    """
    return [system.name for system in SYSTEMS if system.shows_in(configuration)]


def _ref(manifest: Manifest) -> ObjectRef:
    meta = manifest["metadata"]
    return ObjectRef(manifest["apiVersion"], manifest["kind"], "", meta["name"], meta.get("uid", ""))
