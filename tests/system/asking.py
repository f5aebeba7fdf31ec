"""How a workload asks for one rack, by an annotation of Phalanx and by other systems' keys: for tests of every kind."""

from collections.abc import Callable, Mapping

import pytest
from system import Object

from gangs.workloads.pod_templates import templates

RACK = "example.com/rack"


def _ours(workload: Object) -> None:
    workload["metadata"]["annotations"] = {"phalanx.dev/gang": "true", "phalanx.dev/required": "rack"}


def _kueues(workload: Object) -> None:
    """A queue on the workload; on all templates the level, and that they share a domain of it."""
    workload["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    ways = [(*each.way, *each.metadata) for each in templates(workload)]
    for way in ways:
        part = workload
        for step in way:
            part = part[int(step)] if isinstance(part, list) else part.setdefault(step, {})
        wish = {"kueue.x-k8s.io/podset-required-topology": RACK}
        wish |= {"kueue.x-k8s.io/podset-group-name": "all"} if len(ways) > 1 else {}
        part["annotations"] = {**part.get("annotations", {}), **wish}


def _runais(workload: Object) -> None:
    asked = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}
    workload["metadata"]["annotations"] = asked


DIALECTS: Mapping[str, Callable[[Object], None]] = {"ours": _ours, "Kueue's": _kueues, "Run:ai's": _runais}
"""By the system whose keys a workload carries, the function that makes it ask for one rack."""
_OURS, *_OTHERS = DIALECTS
dialects = pytest.mark.parametrize(
    "dialect", [_OURS, *(pytest.param(each, marks=pytest.mark.long) for each in _OTHERS)]
)
"""Each operator runs once in `make test`: fast tests read the keys of other systems on every kind."""

_GROUPS = {"ours": "phalanx.dev/v1alpha1", "Kueue's": "kueue.x-k8s.io/v1beta1", "Run:ai's": "kai.scheduler/v1alpha1"}


def topology(dialect: str) -> Object:
    """The racks, as the system knows them."""
    levels: list[Object] = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    if dialect == "ours":
        levels = [{"name": "rack", "nodeLabel": RACK}]
    metadata = {"name": "network"}
    return {"apiVersion": _GROUPS[dialect], "kind": "Topology", "metadata": metadata, "spec": {"levels": levels}}


def too_many(dialect: str) -> str:
    """Return the message about five pods that each fill a node, if one rack has four nodes and another has three."""
    level = RACK if dialect == "Kueue's" else "rack"
    return f"needs 5 pods in one {level}: r1 fits 4 of 5; r2 fits 3 of 5"
