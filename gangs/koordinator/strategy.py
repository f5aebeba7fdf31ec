"""The annotation `network-topology-spec`: the layers (levels) of which a gang's pods must or should share a domain."""

import json
from dataclasses import dataclass
from typing import Any

from gangs.findings import Findings
from gangs.koordinator import keys
from gangs.manifests import advise_unknown, json_of
from gangs.model import MultipleRule, ObjectRef
from gangs.topology.network_layers import MUST, PREFER, Gather, check_once

FIELD = f"metadata.annotations[{keys.TOPOLOGY_SPEC}]"
_KEYS = ("layer", "strategy", "podCountMultiple")


@dataclass(frozen=True, slots=True)
class Strategy:
    """The gather strategies in the annotation `network-topology-spec`.

    Entries for the root layer, the whole topology, are left out, because they request nothing.
    """

    gathers: tuple[Gather, ...] = ()

    @property
    def multiples(self) -> tuple[MultipleRule, ...]:
        """The constraints from `podCountMultiple`: the number of members in each domain of a layer is a multiple of
        this number.
        """
        return tuple(MultipleRule(each.layer, each.multiple) for each in self.gathers if each.multiple > 1)

    def stated(self) -> frozenset[tuple[str, bool, int]]:
        """Return the entries without their order, to compare the strategies of the PodGroups of one GangGroup."""
        return frozenset((each.layer, each.must, each.multiple) for each in self.gathers)


NO_WISH = Strategy()
"""The network topology strategy of a gang that has no annotation for one."""


def parse(text: str, ref: ObjectRef, findings: Findings) -> Strategy:
    """Parse the annotation `network-topology-spec`. Faults go to `findings`, and faulty entries are left out.

    :param ref: the object with the annotation.
    """
    value, problem = json_of(text)
    if problem:
        findings.fault(ref, FIELD, problem, f'write {{"gatherStrategy": [{{"layer": "…", "strategy": "{MUST}"}}]}}')
        return NO_WISH
    if not isinstance(value, dict) or not isinstance(value.get("gatherStrategy", []), list):
        findings.fault(ref, FIELD, "is not an object with a list gatherStrategy", "correct it")
        return NO_WISH
    advise_unknown(value, ("gatherStrategy",), ref, FIELD, findings)
    if not value.get("gatherStrategy"):
        findings.advise(ref, f"{FIELD}.gatherStrategy", "is empty: it asks for nothing")
    entries = enumerate(value.get("gatherStrategy", []))
    gathers = [_entry(entry, f"{FIELD}.gatherStrategy[{i}]", ref, findings) for i, entry in entries]
    known = [each for each in gathers if each is not None]
    check_once(known, ref, findings)
    return Strategy(tuple(each for each in known if each.layer != keys.ROOT_LAYER))


def _entry(entry: Any, at: str, ref: ObjectRef, findings: Findings) -> Gather | None:
    if not isinstance(entry, dict):
        findings.fault(ref, at, "is not an object", "write layer and strategy")
        return None
    advise_unknown(entry, _KEYS, ref, at, findings)
    layer, strategy, multiple = (entry.get(key) for key in _KEYS)
    if not isinstance(layer, str) or not layer:
        findings.fault(ref, f"{at}.layer", "is missing", "name a layer of the ClusterNetworkTopology")
        return None
    if strategy not in (MUST, PREFER):
        shown = "is missing" if strategy is None else f'"{strategy}" is not known'
        findings.fault(ref, f"{at}.strategy", shown, f"write {MUST} or {PREFER}")
        return None
    if multiple is not None and (not isinstance(multiple, int) or isinstance(multiple, bool) or multiple < 1):
        problem = f"{json.dumps(multiple)} is not a whole number from 1 up"
        findings.fault(ref, f"{at}.podCountMultiple", problem, "correct it or leave it out")
        return None
    return Gather(layer, strategy == MUST, multiple or 1, at)
