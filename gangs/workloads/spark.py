"""SparkApplications: one driver pod, and executor pods that the running driver creates.

The rules are those of Spark's operator (v1beta2 API) and of Spark's page "Running Spark on Kubernetes". A
SparkApplication has no pod templates. It states cores, memory and other values in fields of its own or in `sparkConf`.
This module reads the values that decide where the pods may run.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gangs.manifests import MalformedError, integer, ref_of
from gangs.model import Fault, Manifest
from gangs.workloads.pod_counts import Counted, number

DRIVER, EXECUTOR = "driver", "executor"
"""The names of the two pod sets. Each is also the name of the field in `spec` that describes the pods."""

_DYNAMIC = "dynamicAllocation"
_MEMORY = re.compile(r"([0-9]{1,15})\s*([kmgtp]?)b?", re.IGNORECASE)
_CONTAINER = re.compile(r"spec\.containers\[([0-9]+)\](.*)")
_MEBIBYTES = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2, "p": 1024**3}
"""By the suffix of an amount of memory in Spark's notation: the mebibytes of one unit."""
_MEBIBYTE = 2**20
_LEAST_OVERHEAD = 384
_OVERHEAD, _OVERHEAD_OF_OTHERS = 0.1, 0.4
"""Spark's default memory overhead, as a fraction of the memory: for JVM applications, and for Python and R."""


def counted(manifest: Manifest, role: str) -> Counted:
    """Return the number of drivers or executors with which the application starts. Raises `MalformedError`.

    With dynamic allocation, `least` is the minimum number of executors.

    :param role: `DRIVER` or `EXECUTOR`.
    """
    spec, ref = _mapping(manifest.get("spec")), ref_of(manifest)
    if role == DRIVER:
        return Counted(0 if spec.get("mode") == "client" else 1)
    instances = number(_mapping(spec.get(EXECUTOR)).get("instances"), ref, "spec.executor.instances")
    instances = _configured(manifest, "spark.executor.instances") if instances is None else instances
    dynamic = _mapping(spec.get(_DYNAMIC))
    if dynamic.get("enabled") is not True and _conf(manifest, f"spark.{_DYNAMIC}.enabled") != "true":
        return Counted(1 if instances is None else instances)
    found = {name: _allocated(manifest, dynamic, name) for name in ("minExecutors", "initialExecutors", "maxExecutors")}
    least, most = found["minExecutors"] or 0, found["maxExecutors"]
    if most is not None and least > most:
        problem, remedy = f"{least} is more than maxExecutors, {most}", "lower it or raise maxExecutors"
        raise MalformedError(Fault(ref, f"spec.{_DYNAMIC}.minExecutors", problem, remedy))
    count = max(least, found["initialExecutors"] or 0, instances or 0)
    return Counted(count if most is None else min(count, most), least=least)


def pod_spec(manifest: Manifest, role: str) -> Mapping[str, Any]:
    """Return the spec of a driver or executor pod: the fields that decide its placement. Raises `MalformedError`."""
    spec = _mapping(manifest.get("spec"))
    own = _mapping(spec.get(role))
    base = _mapping(_mapping(own.get("template")).get("spec"))
    options = _mapping(spec.get("batchSchedulerOptions"))
    containers = [each for each in _list(base.get("containers")) if isinstance(each, Mapping)]
    first = {**(containers[0] if containers else {}), "name": role, "resources": _resources(manifest, role, own)}
    found = {
        **base,
        "containers": [first, *containers[1:], *_list(own.get("sidecars"))],
        "nodeSelector": {
            key: value for part in (base, spec, own) for key, value in _mapping(part.get("nodeSelector")).items()
        },
        "tolerations": [*_list(base.get("tolerations")), *_list(own.get("tolerations"))],
        "affinity": own.get("affinity") or base.get("affinity"),
        "schedulerName": own.get("schedulerName") or base.get("schedulerName"),
        "priorityClassName": own.get("priorityClassName")
        or options.get("priorityClassName")
        or base.get("priorityClassName"),
    }
    return {key: value for key, value in found.items() if value not in (None, [], {})}


def _resources(manifest: Manifest, role: str, own: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the resource requests and limits of the container that runs Spark in a driver or executor pod."""
    _, cores = _cores(manifest, role, own)
    memory = _stated(manifest, role, "memory")
    memory = 1024 if memory is None else memory
    overhead = _stated(manifest, role, "memoryOverhead")
    if overhead is None:
        least = _configured_memory(manifest, f"spark.{role}.minMemoryOverhead")
        overhead = max(_LEAST_OVERHEAD if least is None else least, int(memory * _factor(manifest, role)))
    beside = sum(_beside_java(manifest)) if role == EXECUTOR else 0
    asked = {"cpu": str(cores), "memory": f"{memory + overhead + beside}Mi"}
    gpu = _mapping(own.get("gpu"))
    number_of_gpus = 1 if gpu.get("quantity") is None else gpu["quantity"]
    further = {str(gpu["name"]): str(number_of_gpus)} if gpu.get("name") else {}
    return {"requests": {**asked, **further}, "limits": {"memory": asked["memory"], **further}}


def _cores(manifest: Manifest, role: str, own: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the path of the field that states the CPU request of a role, and its value. The default is 1."""
    asked, cores = f"spark.kubernetes.{role}.request.cores", f"spark.{role}.cores"
    places = (
        (f"spec.{role}.coreRequest", own.get("coreRequest")),
        (f"spec.sparkConf[{asked}]", _conf(manifest, asked)),
        (f"spec.{role}.cores", own.get("cores")),
        (f"spec.sparkConf[{cores}]", _conf(manifest, cores)),
    )
    return next((each for each in places if each[1]), (f"spec.{role}.cores", 1))


def field_of(manifest: Manifest, role: str, path: str, resource: str) -> str:
    """Return, for messages, the path in the SparkApplication of a resource quantity that `pod_spec` puts at `path`."""
    own = _mapping(_mapping(manifest.get("spec")).get(role))
    container = _CONTAINER.fullmatch(path)
    position = int(container[1]) if container is not None else None
    if position == 0:
        of_gpu = resource == str(_mapping(own.get("gpu")).get("name"))
        return f"spec.{role}.gpu.quantity" if of_gpu else _cores(manifest, role, own)[0]
    declared = max(1, len(_list(_mapping(_mapping(own.get("template")).get("spec")).get("containers"))))
    if container is not None and position is not None and position >= declared:
        return f"spec.{role}.sidecars[{position - declared}]{container[2]}.{resource}"
    return f"spec.{role}.template.{path}.{resource}"


def _beside_java(manifest: Manifest) -> Iterator[int]:
    """Yield the amounts of an executor's memory besides that of the JVM, in mebibytes: off-heap memory, and memory for
    Python.

    They are added to the JVM's memory and its overhead. Amounts that are not configured are left out or 0.
    """
    if _conf(manifest, "spark.memory.offHeap.enabled").lower() == "true":
        yield _configured_memory(manifest, "spark.memory.offHeap.size", unit=1 / _MEBIBYTE) or 0
    if _mapping(manifest.get("spec")).get("type") == "Python":
        yield _configured_memory(manifest, "spark.executor.pyspark.memory") or 0


def _factor(manifest: Manifest, role: str) -> float:
    """Return the memory overhead of a role as a fraction of its memory. Raises `MalformedError`.

    The role's own setting in `sparkConf` overrides the common one. Without a setting, Spark's default counts.
    """
    spec, of_role, of_all = (
        _mapping(manifest.get("spec")),
        f"spark.{role}.memoryOverheadFactor",
        "spark.kubernetes.memoryOverheadFactor",
    )
    places = (
        (f"spec.sparkConf[{of_role}]", _conf(manifest, of_role)),
        ("spec.memoryOverheadFactor", spec.get("memoryOverheadFactor")),
        (f"spec.sparkConf[{of_all}]", _conf(manifest, of_all)),
    )
    at, written = next((each for each in places if each[1]), ("", None))
    if not written:
        return _OVERHEAD_OF_OTHERS if spec.get("type") in ("Python", "R") else _OVERHEAD
    try:
        found = float(written)
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found <= 100:  # noqa: PLR2004 - what is beyond is no number that anybody means
        problem = f'"{written}" is no part of the memory'
        raise MalformedError(Fault(ref_of(manifest), at, problem, 'write one such as "0.1"'))
    return found


def _stated(manifest: Manifest, role: str, field: str) -> int | None:
    """Return an amount of memory of a role in mebibytes; None if it is not stated.

    The field of `spec.<role>` comes before the entry `spark.<role>.<field>` of `sparkConf`.
    """
    written = _mapping(_mapping(manifest.get("spec")).get(role)).get(field)
    if written:
        return _memory(manifest, f"spec.{role}.{field}", written)
    return _configured_memory(manifest, f"spark.{role}.{field}")


def _configured_memory(manifest: Manifest, key: str, *, unit: float = 1) -> int | None:
    """Return the amount of memory at a key of `sparkConf`, in mebibytes; None if it is absent.

    :param unit: the unit of a number without a suffix, in mebibytes.
    """
    written = _conf(manifest, key)
    return _memory(manifest, f"spec.sparkConf[{key}]", written, unit) if written else None


def _memory(manifest: Manifest, at: str, written: Any, unit: float = 1) -> int:
    """Parse an amount of memory in Spark's notation, such as 512m or 4g. Return mebibytes. Raises `MalformedError`.

    :param at: the path of the field, for messages.
    :param unit: the unit of a number without a suffix, in mebibytes.
    """
    found = _MEMORY.fullmatch(str(written).strip())
    if found is None:
        problem = f'"{written}" is no amount of memory of Spark'
        raise MalformedError(Fault(ref_of(manifest), at, problem, "write one such as 512m or 4g"))
    return int(int(found[1]) * (_MEBIBYTES[found[2].lower()] if found[2] else unit))


def _allocated(manifest: Manifest, dynamic: Mapping[str, Any], name: str) -> int | None:
    found = number(dynamic.get(name), ref_of(manifest), f"spec.{_DYNAMIC}.{name}")
    return _configured(manifest, f"spark.{_DYNAMIC}.{name}") if found is None else found


def _configured(manifest: Manifest, key: str) -> int | None:
    """Return the whole number at a key of `sparkConf`; None if it is absent. Raises `MalformedError`."""
    written = _conf(manifest, key)
    found = integer(written) if written else None
    if written and (found is None or found < 0):
        problem = f'"{written}" is not a number from 0 up'
        raise MalformedError(Fault(ref_of(manifest), f"spec.sparkConf[{key}]", problem, "correct it"))
    return found


def _conf(manifest: Manifest, key: str) -> str:
    written = _mapping(_mapping(manifest.get("spec")).get("sparkConf")).get(key)
    return written if isinstance(written, str) else ""


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}


def _list(part: Any) -> list[Any]:
    return part if isinstance(part, list) else []
