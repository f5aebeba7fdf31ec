"""Advice on objects that ask to be gangs by Phalanx's annotations, but are of a kind that Phalanx does not know.

Their kind is neither in the table of kinds (`gangs.workloads.kind_table`) nor user-defined.
"""

from collections.abc import Mapping

from gangs.manifests import key_of, ref_of
from gangs.model import Advice, Manifest
from gangs.phalanx.gang_annotations import WISHES
from gangs.workloads.annotations import annotation
from gangs.workloads.template_marks import has_marks
from gangs.workloads.user_defined_kinds import describable
from kube import keys

_TEXT = (
    "asks for nothing: {kind} of {group} is no kind that Phalanx knows; describe it in a WorkloadKind "
    "(docs/reference/kinds.md)"
)
_BELOW = "asks for nothing: {kind} of {group} is no kind that Phalanx knows; write it on what that makes"
_AGAIN = (
    "is not read: nobody describes {kind} of {group} any more; its pods that run do, and those that wait do until a "
    "WorkloadKind describes it again"
)


def asking_in_vain(manifest: Manifest) -> Advice | None:
    """Return advice that Phalanx does not know the kind of an object that asks for a gang; None if it does not ask."""
    metadata = manifest.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    written = annotations if isinstance(annotations, Mapping) else {}
    asked = [key for key in WISHES if key in written] if written.get(keys.GANG) != "false" else []
    group, kind, _, _ = key_of(manifest)
    text = _TEXT if describable(group) else _BELOW
    text = (_AGAIN if asked and has_marks(manifest) else text).format(kind=kind, group=group or "core")
    return Advice(ref_of(manifest), annotation(asked[0]), text) if asked else None
