"""Checks the devices of a cluster: pools of devices, DeviceClasses, and the attributes that claims and levels need.

The functions are pure. The API documentation of ResourcePool is the source of the rules about pools. If a claim's
selector fails for a device, kube-scheduler does not schedule the claim's pod (dynamic-resource-allocation,
`structured`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cluster.devices.claims import Devices
from cluster.devices.inventory import Content, PoolKey
from cluster.devices.selectors import SelectorError, check, matches
from gangs.manifests import ref_of
from gangs.model import Manifest
from kube.devices import DeviceSelector, ExactDeviceRequest, ResourceClaimSpec, ResourceSlice
from kube.names import natural_key
from kube.objects import Pod
from planning.devices.node_search import value_of
from planning.doctor.finding import Finding, Severity
from planning.messages.wording import compressed, listed

_SHOWN = 5
"""How many names a finding lists at most. Further names are counted."""
_RESTART = "see the logs of the driver, and restart it on the nodes of the pools: it writes its ResourceSlices again"


def pools(slices: Iterable[ResourceSlice]) -> Iterator[Finding]:
    """Report pools that offer no devices because slices are missing, and slices of old generations.

    A driver replaces its slices one by one. So a finding may disappear a moment later, and was no fault then.
    """
    by_pool: defaultdict[PoolKey, list[ResourceSlice]] = defaultdict(list)
    for each in slices:
        by_pool[each.spec.driver, each.spec.pool.name].append(each)
    missing, stale = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    devices, drivers = defaultdict[str, int](int), dict.fromkeys(sorted({driver for driver, _ in by_pool}))
    for (driver, pool), every in by_pool.items():
        newest = max(each.spec.pool.generation for each in every)
        current = [each for each in every if each.spec.pool.generation == newest]
        if len(current) < current[0].spec.pool.resource_slice_count:
            missing[driver].append(f"{pool} ({len(current)} of {current[0].spec.pool.resource_slice_count} slices)")
        if len(current) < len(every):
            stale[driver].append(pool)
        devices[driver] += sum(len(each.spec.devices) for each in current)
    for driver in drivers:
        subject = f"Driver {driver}"
        if names := missing[driver]:
            text = f"{_counted('pool', names)} without all slices, so no device there can be allocated: {_some(names)}"
            yield Finding(Severity.ERROR, subject, text, _RESTART)
        if names := stale[driver]:
            text = f"{_counted('pool', names)} with slices of older generations, which do not count: {_some(names)}"
            yield Finding(Severity.WARNING, subject, text, _RESTART)
        if not missing[driver] and not stale[driver]:
            count = sum(each == driver for each, _ in by_pool)
            yield Finding(Severity.OK, subject, f"{_number(devices[driver], 'device')} in {_number(count, 'pool')}")


def _counted(what: str, names: Sequence[str]) -> str:
    return f"has {_number(len(names), what)}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _some(names: Sequence[str]) -> str:
    ordered = sorted(names, key=natural_key)
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return listed([*ordered[:_SHOWN], *more])


def needs(devices: Devices, pods: Iterable[Pod], topologies: Iterable[Manifest]) -> Iterator[Finding]:
    """Report attributes and devices that a DeviceClass, a claim or a level of a topology needs and no device provides.

    :param pods: the pods whose claims are checked.
    :param topologies: the Topology objects, whose levels may name device attributes.
    """
    contents = devices.inventory.contents
    for name, one in sorted(devices.classes.items()):
        yield from _selecting(f"DeviceClass {name}", _expressions(one.spec.selectors), contents)
    users = defaultdict[tuple[str, ...], list[str]](list)
    for pod in pods:
        for text in dict.fromkeys(_lacking(pod, devices)):
            users[(text,)].append(pod.key)
    for (text,), keys in users.items():
        subject = f"Pod {keys[0]}" if len(keys) == 1 else f"Pods {compressed(keys)}"
        yield Finding(Severity.WARNING, subject, text, "correct the claim, or its ResourceClaimTemplate")
    for topology in topologies:
        for level in (topology.get("spec") or {}).get("levels") or ():
            attribute = level.get("deviceAttribute") if isinstance(level, Mapping) else None
            if attribute and not any(value_of(each.device, each.driver, str(attribute)) for each in contents):
                text = f'level "{level.get("name")}" has device attribute {attribute}, which no device has'
                remedy = f"compare the name with kubectl get resourceslices -o yaml; known: {_attributes(contents)}"
                yield Finding(Severity.WARNING, f"Topology {ref_of(topology).name}", text, remedy)


def _attributes(contents: Iterable[Content]) -> str:
    names = {name if "/" in name else f"{each.driver}/{name}" for each in contents for name in each.device.attributes}
    return _some(sorted(names)) if names else "none"


def _lacking(pod: Pod, devices: Devices) -> Iterator[str]:
    """Yield the faults of the claims of a pod that have no devices yet."""
    for each in devices.claims_of(pod):
        if each.claim is not None and each.claim.status.allocation is not None:
            continue
        found = each.claim or (each.template.spec if each.template is not None else None)
        if found is not None:
            yield from _wrong(found.spec, devices)


def _wrong(spec: ResourceClaimSpec, devices: Devices) -> Iterator[str]:
    contents, selected = devices.inventory.contents, dict[str, list[Content]]()
    for name, request in _requests(spec):
        of_class = devices.classes.get(request.device_class_name)
        if of_class is None or not request.selectors:
            expressions = _expressions(of_class.spec.selectors) if of_class is not None else ()
            selected[name] = _selected(expressions, contents)
            continue
        expressions = (*_expressions(of_class.spec.selectors), *_expressions(request.selectors))
        for finding in _selecting("", expressions, contents):
            yield f'request "{name}" (DeviceClass {request.device_class_name}) {finding.text}'
        selected[name] = _selected(expressions, contents)
    for constraint in spec.devices.constraints:
        attribute = constraint.match_attribute or constraint.distinct_attribute
        for name, found in selected.items():
            concerned = not constraint.requests or {name, name.partition("/")[0]} & set(constraint.requests)
            if attribute and concerned and found and not any(value_of(c.device, c.driver, attribute) for c in found):
                drivers = listed(sorted({each.driver for each in found}))
                yield f'request "{name}" has a constraint on attribute {attribute}, which no device of {drivers} has'


def _requests(spec: ResourceClaimSpec) -> Iterator[tuple[str, ExactDeviceRequest]]:
    for each in spec.devices.requests:
        if each.exactly is not None:
            yield each.name, each.exactly
        yield from ((f"{each.name}/{one.name}", one) for one in each.first_available)


def _expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    return tuple(each.cel.expression for each in selectors if each.cel is not None)


def _selected(expressions: Iterable[str], contents: Iterable[Content]) -> list[Content]:
    try:
        return [one for one in contents if all(matches(each, one.device, one.driver) for each in expressions)]
    except SelectorError:
        return []


def _selecting(subject: str, expressions: Sequence[str], contents: Sequence[Content]) -> Iterator[Finding]:
    """Report selectors that are not understood, that fail for devices, or that together match no device."""
    failing: dict[str, dict[str, None]] = {}
    found = False
    for each in expressions:
        try:
            check(each)
        except SelectorError as error:
            yield Finding(Severity.ERROR, subject, f"has a selector that Phalanx does not understand: {error}")
            return
    for content in contents:
        try:
            found |= all(matches(each, content.device, content.driver) for each in expressions)
        except SelectorError as error:
            failing.setdefault(str(error), {})[content.driver] = None
    for error_text, drivers in failing.items():
        text = f"has a selector that fails for devices of {listed(sorted(drivers))}: {error_text}"
        remedy = "test for the attribute first, for example with has(), or name the driver: device.driver == ..."
        yield Finding(Severity.ERROR, subject, text, remedy)
    if not failing and not found and contents:
        drivers_here = listed(sorted({each.driver for each in contents}))
        text = f"matches no device of this cluster (drivers: {drivers_here})"
        yield Finding(Severity.WARNING, subject, text, "is the driver installed, and does it write ResourceSlices?")
