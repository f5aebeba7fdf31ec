"""Questions about pods and nodes as plain JSON, shared by models and invariants, independent of product code."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from local_api.store import Object

GATE = "phalanx.dev/gang"
GANG_LABEL = "phalanx.dev/gang"
LEADER_WORKER_SET_LABEL = "leaderworkerset.sigs.k8s.io/name"
GROUP_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
PINNED = "phalanx.dev/pinned-domain"
"""The annotation of a pod that the webhook has pinned to the domain of its siblings."""
_MILLI = 1000


def name_of(thing: Object) -> str:
    """Namespace and name."""
    meta = thing["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def gates_of(pod: Object) -> list[str]:
    """The names of its scheduling gates."""
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


def node_of(pod: Object) -> str:
    """Return the node to which the pod is bound; "" if it is not bound."""
    return str(pod["spec"].get("nodeName") or "")


def nominated(pod: Object) -> str:
    """Its nominated node; "" if it has none."""
    return str(pod.get("status", {}).get("nominatedNodeName") or "")


def priority_of(pod: Object) -> int:
    """Its priority."""
    return int(pod["spec"].get("priority") or 0)


def is_terminating(pod: Object) -> bool:
    """Return whether the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Object) -> bool:
    """Return whether the pod's condition Ready is true."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_finished(pod: Object) -> bool:
    """Whether its containers have ended for good: it uses nothing of its node."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def gang_of(pod: Object) -> str:
    """Return the pod's gang as `namespace/name`: by its label, its Job or its group; "" if it has none."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    name = labels.get(GANG_LABEL, "")
    if LEADER_WORKER_SET_LABEL in labels:
        name = f"{labels[LEADER_WORKER_SET_LABEL]}-{labels[GROUP_LABEL]}"
    elif labels.get("phalanx.dev/workload"):
        name = next((each["name"] for each in meta.get("ownerReferences") or () if each.get("controller")), "")
    return f"{pod['metadata'].get('namespace', '')}/{name}" if name else ""


def capacity_of(pod: Object) -> str:
    """Return the gang that the pod's requests belong to: its own, or of a placeholder the one it holds capacity for."""
    held_for = (pod["metadata"].get("annotations") or {}).get("phalanx.dev/held-for-gang", "")
    return held_for.partition("/")[2] or gang_of(pod)


def is_placeholder(pod: Object) -> bool:
    """Return whether Phalanx has created the pod to reserve capacity for another one."""
    return "phalanx.dev/placeholder" in (pod["metadata"].get("labels") or {})


def requests_of(pod: Object) -> Counter[str]:
    """The requests of its containers, and one pod, in thousandths."""
    total: Counter[str] = Counter({"pods": _MILLI})
    for container in pod["spec"]["containers"]:
        for resource, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[resource] += thousandths(amount)
    return total


def thousandths(amount: Any) -> int:
    """A quantity of cpu, memory (Gi) or a count, in thousandths of one unit."""
    text = str(amount)
    if text.endswith("m"):
        return int(text[:-1])
    if text.endswith("Gi"):
        return int(text[:-2]) * _MILLI * (1 << 30)
    return int(text) * _MILLI


def allocatable(node: Object) -> Counter[str]:
    """The capacity that a node gives to pods, in thousandths."""
    return Counter({key: thousandths(amount) for key, amount in node["status"]["allocatable"].items()})


def used(pods: Iterable[Object]) -> Counter[str]:
    """The sum of the pods' requests."""
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(requests_of(pod))
    return total


def is_selected(pod: Object, node: Object) -> bool:
    """Whether the pod's node selector and required node affinity admit the node."""
    labels, spec = node["metadata"].get("labels") or {}, pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = required["nodeSelectorTerms"] if required else [{}]
    return any(_matches(term, node["metadata"]["name"], labels) for term in terms)


def _matches(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    expressions = [(each, labels) for each in term.get("matchExpressions") or ()]
    expressions += [(each, {"metadata.name": name}) for each in term.get("matchFields") or ()]
    for expression, values in expressions:
        if expression["operator"] != "In":
            raise NotImplementedError(expression["operator"])
        if values.get(expression["key"]) not in expression["values"]:
            return False
    return True


def unpinned(pod: Object) -> Object:
    """Return the pod without the webhook's pin to the domain of its siblings. Users' pods here have no other pin."""
    if PINNED not in (pod["metadata"].get("annotations") or {}):
        return pod
    return {**pod, "spec": {key: each for key, each in pod["spec"].items() if key not in ("affinity", "nodeSelector")}}


def is_tolerated(pod: Object, node: Object) -> bool:
    """Whether the pod tolerates the node's taints, and the node takes new pods."""
    if node["spec"].get("unschedulable") if "spec" in node else False:
        return False
    tolerations = pod["spec"].get("tolerations") or ()
    return all(
        taint["effect"] == "PreferNoSchedule"
        or any(
            each.get("key") in (None, "", taint["key"])
            and each.get("effect") in (None, "", taint["effect"])
            and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
            for each in tolerations
        )
        for taint in (node.get("spec") or {}).get("taints") or ()
    )
