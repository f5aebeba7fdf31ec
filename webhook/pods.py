"""Pods of gangs at admission: gated at CREATE, and kept appliable at UPDATE.

Rules of the API server that this follows (v1.37): a gate may not be added to a pod that has a node, and never after
CREATE; `schedulerName` may not change after CREATE, so that a manifest which names another scheduler than the one
its pod got can only be applied again if the old value is put back.
"""

import re
from typing import Any

from gangs import dialects
from gangs.manifests import MalformedError, pod_of, pod_ref
from gangs.model import Fault, GangKey, Manifest
from gangs.sources import Dialect, Sources
from kube import keys
from webhook.patches import PatchBuilder
from webhook.picture import Picture
from webhook.reviews import Admitted, Decision, Refused
from webhook.warnings import lines

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def created(manifest: Manifest, picture: Picture) -> Decision:
    """Gate a pod that names a gang. Any other pod, and one that has its node already, comes in as it is.

    While the picture is not complete the pod is gated all the same, but nothing is said about other objects.
    """
    try:
        pod = pod_of(manifest)
    except MalformedError as error:
        return Refused(str(error.fault))
    named = dialects.dialect_of(pod)
    if named is None or pod.bound:
        return Admitted()
    sources = picture.sources_of(named[1])
    left = dialects.left_alone(sources)
    claim = dialects.dialect_of(pod, left)
    if claim is None:
        return Admitted(warnings=lines([left.advice(named[0].name, pod_ref(pod))]))
    if pod.spec.scheduler_name not in dialects.scheduler_names():
        problem = f'"{pod.spec.scheduler_name}" would bind this pod without its gang'
        remedy = f"leave it out or write {keys.STOCK_SCHEDULER}; a gang is started by the stock scheduler"
        return Refused(str(Fault(pod_ref(pod), "spec.schedulerName", problem, remedy)))
    known = picture.synced()
    if claim != named:
        sources = picture.sources_of(claim[1])
    faults, advice = dialects.review(manifest, sources if known else Sources())
    warnings = lines(advice) if known else ()
    if faults:
        return Refused("; ".join(map(str, faults)), warnings)
    return Admitted(_gate(manifest, *claim), warnings)


def updated(manifest: Manifest, old: Manifest, picture: Picture) -> Decision:
    """Put the scheduler's name of a gang's pod back to what it was, unless the gang is another system's."""
    patch = PatchBuilder(manifest)
    before = (old.get("spec") or {}).get("schedulerName")
    if before and _names_a_gang(old, picture):
        patch.set(("spec", "schedulerName"), before)
    return Admitted(patch.build())


def _names_a_gang(manifest: Manifest, picture: Picture) -> bool:
    try:
        pod = pod_of(manifest)
    except MalformedError:
        return False
    named = dialects.dialect_of(pod)
    return named is not None and dialects.dialect_of(pod, dialects.left_alone(picture.sources_of(named[1]))) is not None


def _gate(manifest: Manifest, dialect: Dialect, key: GangKey) -> tuple[Any, ...]:
    patch = PatchBuilder(manifest)
    patch.append(("spec", "schedulingGates"), {"name": keys.GATE})
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    if keys.GANG not in labels and _LABEL_VALUE.fullmatch(key.name):
        patch.set(("metadata", "labels", keys.GANG), key.name)
    patch.set(("metadata", "labels", keys.DIALECT), dialect.name)
    if (manifest.get("spec") or {}).get("schedulerName") in dialect.pod_keys.scheduler_names:
        patch.set(("spec", "schedulerName"), keys.STOCK_SCHEDULER)
    return patch.build()
