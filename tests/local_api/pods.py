"""The API server's own rules for pods: gates, pins, bindings, evictions, graceful deletion."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from local_api.resources import BUDGETS, CLASSES, Address
from local_api.store import Object, RefusedError, Store, about, check, invalid, not_found
from timing.clock import rfc3339

_DEFAULT_GRACE = 30
_ENDED = ("Succeeded", "Failed")
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_UNCOUNTED = "The disruption budget {} is still being processed by the server."
_BUDGET_WAIT = 10
"""Seconds after which the eviction of a pod may be tried again whose budget has not been counted yet."""
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}

_TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
NEW_BUDGET = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
"""Status of a new PodDisruptionBudget, before the disruption controller has counted its pods."""


def prepared(store: Store, at: Address, given: Mapping[str, Any]) -> Object:
    """Return a new pod as it is stored."""
    spec = {
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": _DEFAULT_GRACE,
        **_priority(store, at, given),
        **given["spec"],
    }
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": store.now()}]
    return {**given, "spec": spec, "status": status}


def _priority(store: Store, at: Address, given: Mapping[str, Any]) -> Object:
    """Return the fields that the admission plugin Priority writes. A policy is written only if the class has one."""
    name = given["spec"].get("priorityClassName")
    if not name:
        return {"priority": 0}
    found = store.objects.get((CLASSES, "", name))
    if found is None:
        pod = given["metadata"].get("name", "")
        message = f'pods "{pod}" is forbidden: no PriorityClass with name {name} was found'
        raise RefusedError(403, "Forbidden", message, **about(at, pod))
    policy = found.get("preemptionPolicy")
    return {"priority": int(found["value"]), **({"preemptionPolicy": policy} if policy else {})}


def checked(at: Address, old: Object, new: Object) -> Object:
    """A pod that is written at its own path: its status stays, and of its spec only this may change."""
    before, after = old["spec"], new["spec"]
    gates, kept = before.get("schedulingGates") or [], after.get("schedulingGates") or []
    if any(each not in gates for each in kept):
        raise _forbidden(at, "spec.schedulingGates", "only deletion is allowed")
    if not kept:
        after = {key: each for key, each in after.items() if key != "schedulingGates"}
    free = {"schedulingGates", "tolerations", *(("affinity", "nodeSelector") if gates else ())}
    if {k: v for k, v in before.items() if k not in free} != {k: v for k, v in after.items() if k not in free}:
        raise _forbidden(at, "spec", "pod updates may not change fields other than `tolerations` …")
    if any(each not in (after.get("tolerations") or []) for each in before.get("tolerations") or []):
        raise _forbidden(at, "spec.tolerations", "existing toleration can not be modified")
    if not (before.get("nodeSelector") or {}).items() <= (after.get("nodeSelector") or {}).items():
        raise _forbidden(at, "spec.nodeSelector", "it may only be added to")
    if not _narrower(before.get("affinity"), after.get("affinity")):
        raise _forbidden(at, "spec.affinity", "it may only be added to")
    return {**new, "spec": after, "status": old["status"]}


def _narrower(before: Any, after: Any) -> bool:
    """Whether each required term of a node affinity has only been added to, and nothing else has changed."""
    if not before or before == after:
        return True
    was, now_is = _required(before), _required(after or {})
    return len(was) == len(now_is) and all(
        part in new.get(key, []) for old, new in zip(was, now_is, strict=True) for key in old for part in old[key]
    )


def _required(affinity: Mapping[str, Any]) -> list[Any]:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or [])


def _forbidden(at: Address, field: str, why: str) -> RefusedError:
    return invalid(at, field, "FieldValueForbidden", f"Forbidden: {why}")


def told(pod: Object) -> Object:
    """A pod whose status was written: a condition always has its time, which may be none."""
    for each in pod["status"].get("conditions", ()):
        each.setdefault("lastTransitionTime", None)
    return pod


def bind(store: Store, at: Address, given: Mapping[str, Any]) -> Object:
    """Bind a pod to a node, as the scheduler requests through the `binding` subresource."""

    def bound(pod: Object) -> Object:
        if pod["spec"].get("schedulingGates"):
            raise _unbound(at, f"pod {at.name} has non-empty .spec.schedulingGates")
        if pod["spec"].get("nodeName"):
            raise _unbound(at, f'pod {at.name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        pod["spec"]["nodeName"] = given["target"]["name"]
        others = [each for each in pod["status"].get("conditions", []) if each["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": store.now()}
        pod["status"] |= {"conditions": [*others, scheduled]}
        pod["status"].pop("nominatedNodeName", None)
        return pod

    store.update(at, bound, counts=False)
    return _success()


def _unbound(at: Address, why: str) -> RefusedError:
    message = f'Operation cannot be fulfilled on pods/binding "{at.name}": {why}'
    return RefusedError(409, "Conflict", message, name=at.name, kind="pods/binding")


def evict(store: Store, at: Address, given: Mapping[str, Any], *, dry_run: bool) -> Object:
    """The Eviction API: a deletion that budgets may forbid."""
    options = given.get("deleteOptions") or {}
    dry_run = dry_run or options.get("dryRun") == ["All"]
    pod = store.get(at)
    check(at, pod, options.get("preconditions") or {})
    if pod["status"]["phase"] not in ("Pending", *_ENDED) and "deletionTimestamp" not in pod["metadata"]:
        _charge(store, at, pod, dry_run=dry_run)
    if dry_run:
        return _success()

    def targeted(old: Object) -> Object:
        others = [each for each in old["status"].get("conditions", []) if each["type"] != _TARGET["type"]]
        old["status"]["conditions"] = [*others, {**_TARGET, "lastTransitionTime": store.now()}]
        return old

    store.update(at, targeted)
    end(store, at, {**options, "preconditions": {}}, dry_run=False)
    return _success()


def _charge(store: Store, at: Address, pod: Object, *, dry_run: bool) -> None:
    """Take the pod from its budget."""
    labels = pod["metadata"].get("labels") or {}
    found = [each for each in store.all(Address(BUDGETS, at.namespace)) if _covers(each, labels)]
    if len(found) > 1:
        raise NotImplementedError("a pod of several budgets")
    for budget in found:
        name, status = budget["metadata"]["name"], budget.get("status") or {}
        if not _ready(pod) and status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return  # unhealthyPodEvictionPolicy IfHealthyBudget, the default
        if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
            causes = [{"reason": "DisruptionBudget", "message": _UNCOUNTED.format(name)}]
            raise RefusedError(429, "TooManyRequests", _REFUSED, causes=causes, retryAfterSeconds=_BUDGET_WAIT)
        if status["disruptionsAllowed"] <= 0:
            healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            why = f"needs {wanted} healthy pods and has {healthy} currently"
            why = (
                f"The disruption budget {name} {why if healthy <= wanted else 'does not allow evicting pods currently'}"
            )
            causes = [{"reason": "DisruptionBudget", "message": why}]
            raise RefusedError(429, "TooManyRequests", _REFUSED, causes=causes)
        left = _left(store, budget, at.name)
        if not dry_run:
            spent = Address(BUDGETS, at.namespace, name)
            store.update(spent, partial(_with_status, left))


def _with_status(fields: Object, old: Object) -> Object:
    """Return the object with these fields of its status replaced."""
    return {**old, "status": {**old["status"], **fields}}


def _left(store: Store, budget: Object, name: str) -> Object:
    """Return the budget's status after the eviction of one of its pods."""
    allowed = budget["status"]["disruptionsAllowed"] - 1
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": budget["metadata"]["generation"],
        "lastTransitionTime": store.now(),
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }
    taken = {**budget["status"].get("disruptedPods", {}), name: store.now()}
    return {"disruptionsAllowed": allowed, "disruptedPods": taken, "conditions": [condition]}


def _ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _covers(budget: Object, labels: Mapping[str, str]) -> bool:
    wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
    return wanted.items() <= labels.items()


def end(store: Store, at: Address, options: Mapping[str, Any], *, dry_run: bool) -> Object:
    """Delete a pod at once. If a node runs it, mark it only: its kubelet deletes it without grace later. If it has
    finalizers, it goes with the last one (`finalized`).
    """
    if (at.resource, at.namespace, at.name) not in store.objects:
        raise not_found(at)
    pod = store.get(at)
    check(at, pod, options.get("preconditions") or {})
    grace = options.get("gracePeriodSeconds", pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
    if not pod["spec"].get("nodeName") or pod["status"]["phase"] in _ENDED or grace == 0:
        at_once = {"deletionTimestamp": store.now(), "deletionGracePeriodSeconds": 0}
        if pod["metadata"].get("finalizers"):
            return store.update(at, lambda old: {**old, "metadata": {**old["metadata"], **at_once}}, dry_run=dry_run)
        if "deletionTimestamp" in pod["metadata"] and not dry_run:
            store.update(at, lambda old: {**old, "metadata": {**old["metadata"], **at_once}})
        return store.remove(at, dry_run=dry_run, ended=at_once)
    if "deletionTimestamp" in pod["metadata"]:
        return pod

    def ending(old: Object) -> Object:
        time = rfc3339(store.clock.wall() + timedelta(seconds=grace))
        generation = old["metadata"]["generation"] + 1
        old["metadata"] |= {
            "deletionTimestamp": time,
            "deletionGracePeriodSeconds": grace,
            "generation": generation,
        }
        return old

    return store.update(at, ending, dry_run=dry_run)


def finalized(store: Store, at: Address, pod: Object) -> None:
    """Remove a pod whose deletion waited for the finalizer that this update removed."""
    meta = pod["metadata"]
    if meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers"):
        store.remove(at)


def _success() -> Object:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
