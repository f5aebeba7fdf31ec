"""Phalanx's annotations by which workloads of any kind ask to be gangs: their meaning and their checks."""

from collections.abc import Mapping, Sequence

from gangs.findings import Findings
from gangs.labelled_workloads import ignored_claims
from gangs.manifests import ref_of
from gangs.model import Manifest, ObjectRef
from gangs.phalanx import gang_objects
from gangs.sources import Sources
from gangs.topology.levels import LevelWish, Request, Span
from gangs.workloads import expected_duration
from gangs.workloads.annotations import annotation
from gangs.workloads.later_pods import held_room
from kube import keys
from kube.objects import Pod

WISHES = keys.ASKING
KNOWN = (*WISHES, keys.PLACEHOLDERS, keys.IGNORE_CLAIMS, keys.EXPECTED_DURATION)
"""Annotations that a workload may have. The last three describe its gang further, but do not ask for a gang alone."""
_NOTED = (keys.CREATED_SUSPENDED,)
"""Annotations on workloads that Phalanx's admission writes, not the user."""
_PREFIX = f"{keys.GROUP}/"


def opted_in(annotations: Mapping[str, str]) -> bool:
    """Whether a workload's annotations ask for a gang.

    The annotation `phalanx.dev/gang`, `required`, `preferred`, `min-member` or `topology` is enough. If the value of
    `phalanx.dev/gang` is "false", they do not ask.
    """
    return annotations.get(keys.GANG) != "false" and any(key in annotations for key in WISHES)


def automatic(manifest: Manifest, sources: Sources) -> bool:
    """Whether the object's namespace is automatic: it has the label `phalanx.dev/automatic: "true"`."""
    return sources.labels_of(ref_of(manifest).namespace).get(keys.AUTOMATIC) == "true"


def check(ref: ObjectRef, annotations: Mapping[str, str], findings: Findings) -> None:
    """Report the invalid values of a workload's annotations that are visible without any other object."""
    if annotations.get(keys.GANG, "true") not in ("true", "false"):
        problem = f'"{annotations[keys.GANG]}" is neither "true" nor "false"'
        findings.fault(ref, annotation(keys.GANG), problem, 'write "true"; a Gang object is named on the pod template')
    held_room.check(ref, annotations, findings)
    ignored_claims.check(ref, annotations, findings)
    expected_duration.check(ref, annotations, findings)
    advise_unknown(ref, annotations, findings)


def advise_unknown(ref: ObjectRef, annotations: Mapping[str, str], findings: Findings) -> None:
    """Report, as advice, annotations on a workload that begin with `phalanx.dev/` but are unknown."""
    for key in annotations:
        if key.startswith(_PREFIX) and key not in (*KNOWN, *_NOTED):
            findings.advise(ref, annotation(key), f"is ignored: the known annotations are {', '.join(KNOWN)}")


def check_rival(ref: ObjectRef, sources: Sources, findings: Findings, name: str) -> None:
    """Report a Gang object of a user that has the same name as a workload's gang.

    :param ref: the workload.
    :param name: the name of its gang.
    """
    rival = sources.get(keys.GROUP, gang_objects.KIND, ref.namespace, name)
    if rival is not None and not gang_objects.is_mirror(rival):
        remedy = f"label the pod template {keys.GANG}: {name} instead of annotating the {ref.kind}, or rename one"
        findings.fault(ref, "metadata.name", f"{gang_objects.KIND} {name} has the same name", remedy)


def request_of(ref: ObjectRef, annotations: Mapping[str, str], pods: Sequence[Pod], chosen: str | None) -> Request:
    """Return the topology and levels that a workload's annotations name, each with the path of its annotation
    (`levels.Request`).

    :param pods: examples of the workload's pods.
    :param chosen: the topology to use if the annotations name none; None: the only one that exists.
    """

    def wish(key: str) -> LevelWish | None:
        return LevelWish(annotation(key), annotations[key]) if key in annotations else None

    required, preferred = wish(keys.REQUIRED), wish(keys.PREFERRED)
    return Request(
        ref=ref,
        topology_field=annotation(keys.TOPOLOGY),
        topology=annotations.get(keys.TOPOLOGY, chosen),
        levels=tuple(each for each in (required, preferred) if each is not None),
        spans=(Span(required, preferred),),
        pods=tuple(pods),
    )
