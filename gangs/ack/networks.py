"""JobNetworkTopology objects: the layers (levels) that a gang requires or prefers, and the number of its workers."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gangs.ack import keys
from gangs.findings import Findings
from gangs.manifests import MalformedError, advise_unknown, decode, integer, metadata_of, ref_of
from gangs.model import Manifest, ObjectRef
from gangs.topology.network_layers import MUST, PREFER, ROOT_LAYER, Gather, check_once

STRATEGY = "spec.topologyStrategy"
_FIELDS = ("topologyStrategy", "workerNum")


class LayerStrategy(msgspec.Struct, frozen=True):
    """One entry of `topologyStrategy` in a JobNetworkTopology: a layer, and MustGather or PreferGather."""

    layer: str = ""
    strategy: str = ""


class JobNetworkSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a JobNetworkTopology."""

    topology_strategy: tuple[LayerStrategy, ...] = ()
    worker_num: int | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """The request of a JobNetworkTopology for its gang. `workers`: the number of its pods.

    `timeout`: how many seconds the gang may wait; None: without limit.
    """

    ref: ObjectRef
    gathers: tuple[Gather, ...]
    workers: int
    timeout: int | None = None


def network_of(manifest: Manifest, findings: Findings) -> Network | None:
    """Return what a JobNetworkTopology requests; None if it is invalid. Faults go to `findings`."""
    ref, before = ref_of(manifest), len(findings.faults)
    try:
        spec = decode(manifest.get("spec") or {}, JobNetworkSpec, ref, "spec")
        labels = metadata_of(manifest).labels
    except MalformedError as error:
        findings.take([error.fault])
        return None
    _advise_fields(manifest, ref, findings)
    gathers = [_gather(each, position, ref, findings) for position, each in enumerate(spec.topology_strategy)]
    known = [each for each in gathers if each is not None]
    check_once(known, ref, findings)
    if spec.worker_num is None or spec.worker_num < 1:
        shown = "is missing" if spec.worker_num is None else f"{spec.worker_num} is less than 1"
        findings.fault(ref, "spec.workerNum", shown, "write the number of pods of the job")
    timeout = _timeout(labels.get(keys.PERMIT_WAIT_TIME), ref, findings)
    if len(findings.faults) > before:
        return None
    return Network(ref, tuple(each for each in known if each.layer != ROOT_LAYER), spec.worker_num or 0, timeout)


def advise_labels(labels: Mapping[str, str], ref: ObjectRef, at: str, findings: Findings) -> None:
    """Report, as advice, unknown labels with a prefix of ACK Lingjun's labels. Most often they are typos.

    :param at: the path of the labels in the object `ref`.
    """
    for key in labels:
        if key.startswith(keys.PREFIXES) and key not in keys.LABELS:
            findings.advise(ref, f"{at}[{key}]", f"is ignored: the known labels are {', '.join(keys.LABELS)}")


def _advise_fields(manifest: Manifest, ref: ObjectRef, findings: Findings) -> None:
    written = manifest.get("spec") or {}
    advise_labels(metadata_of(manifest).labels, ref, "metadata.labels", findings)
    if not written.get("topologyStrategy"):
        findings.advise(ref, STRATEGY, "is empty: it asks for nothing")
    advise_unknown(written, _FIELDS, ref, "spec", findings)
    for position, entry in enumerate(written.get("topologyStrategy") or ()):
        advise_unknown(entry, ("layer", "strategy"), ref, f"{STRATEGY}[{position}]", findings)


def _gather(entry: LayerStrategy, position: int, ref: ObjectRef, findings: Findings) -> Gather | None:
    at = f"{STRATEGY}[{position}]"
    if not entry.layer:
        findings.fault(ref, f"{at}.layer", "is missing", "name a layer of the ClusterNetworkTopology")
        return None
    if entry.strategy not in (MUST, PREFER):
        shown = f'"{entry.strategy}" is not known' if entry.strategy else "is missing"
        findings.fault(ref, f"{at}.strategy", shown, f"write {MUST} or {PREFER}")
        return None
    return Gather(entry.layer, entry.strategy == MUST, field=at)


def _timeout(text: str | None, ref: ObjectRef, findings: Findings) -> int | None:
    if text is None:
        return None
    seconds = integer(text)
    if seconds is None or seconds < 1:
        at = f"metadata.labels[{keys.PERMIT_WAIT_TIME}]"
        findings.fault(ref, at, f'"{text}" is not a whole number of seconds from 1 up', "correct it or leave it out")
        return None
    return seconds
