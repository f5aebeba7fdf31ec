"""The devices of all ResourceSlices, as columns: which devices there are, on which node, and which are alike."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from cluster.devices.allocation import DeviceId
from kube.devices import Device, DeviceTaintRule, ResourceSlice
from kube.names import natural_key
from kube.objects import NodeSelector
from kube.quantities import exact

IntColumn = NDArray[np.int64]
"""One integer for each device."""
Flags = NDArray[np.bool_]
"""One flag for each device, or for each distinct content of devices."""
PoolKey = tuple[str, str]
"""The driver and the name of a pool."""
Amounts = Mapping[str, Decimal]
"""Amounts of the counters of one counter set, by name."""

NOWHERE = -1
"""The node of a device that is not on exactly one node, such as a device in the network."""

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Content:
    """All that selectors, tolerations and constraints read of a device. Devices with one content are interchangeable.

    `device`: the device without a name, with the taints of DeviceTaintRules added to its own.
    """

    driver: str
    device: Device

    @property
    def plain(self) -> bool:
        """Whether the device is allocated as a whole to one claim, and shares nothing with other devices."""
        return not (self.device.allow_multiple_allocations or self.device.consumes_counters)


@dataclass(frozen=True, eq=False)
class Inventory:
    """All devices that can be allocated, in the order of node, driver, pool and name.

    `ids`, `node` and `content` are parallel: a device's identity, the position of its node in `nodes` (or `NOWHERE`),
    and the position of its content in `contents`. `in_spread_pool`: whether its pool has counters, and devices on
    several nodes. `incomplete`: the nodes with pools that are not in the inventory, because slices are missing or they
    are invalid. `counters`: the counter sets of each pool.
    """

    ids: tuple[DeviceId, ...] = ()
    node: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    content: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    contents: tuple[Content, ...] = ()
    nodes: tuple[str, ...] = ()
    in_spread_pool: Flags = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    incomplete: frozenset[str] = frozenset()
    counters: Mapping[PoolKey, Mapping[str, Amounts]] = field(default_factory=dict)
    positions: Mapping[DeviceId, int] = field(default_factory=dict)
    flags: dict[Hashable, Flags] = field(default_factory=dict)
    """Cache of callers: flags of `contents`, by a key that identifies the meaning of the flags."""
    alike: dict[Hashable, IntColumn] = field(default_factory=dict)
    """Cache of `alike_contents` (`planning.devices.node_search`): its results, by what the claims read of devices."""

    def content_at(self, position: int) -> Content:
        """Return the content of the device at this position."""
        return self.contents[int(self.content[position])]

    def on(self, node: str) -> range:
        """Return the positions of the devices on a node, which are consecutive."""
        place = self.places.get(node)
        if place is None:
            return range(0)
        return range(*np.searchsorted(self.node, [place, place + 1]).tolist())

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The position of each node in `nodes`, by its name."""
        return {name: place for place, name in enumerate(self.nodes)}


def inventory_of(slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule] = ()) -> Inventory:
    """Return the devices of these slices, with the taints that these DeviceTaintRules add.

    Only the slices of a pool's highest generation count (API documentation of ResourcePool). As in the stock scheduler
    (1.37), a pool of which slices are missing, or whose device names are not unique, offers no devices.
    """
    pools: defaultdict[PoolKey, list[ResourceSlice]] = defaultdict(list)
    for each in slices:
        pools[each.spec.driver, each.spec.pool.name].append(each)
    tainting = sorted(rules, key=lambda each: each.metadata.name)
    rows: list[tuple[str, DeviceId, Device]] = []
    incomplete, counters, spread = set[str](), dict[PoolKey, dict[str, Amounts]](), set[PoolKey]()
    for (driver, pool), every in pools.items():
        newest = max(each.spec.pool.generation for each in every)
        current = [each for each in every if each.spec.pool.generation == newest]
        found = [(node, device) for each in current for node, device in _devices(each)]
        invalid = len({device.name for _, device in found}) < len(found)
        if invalid or len(current) != current[0].spec.pool.resource_slice_count:
            incomplete |= {node for node, _ in found}
            continue
        shared = {one.name: _amounts(one.counters) for each in current for one in each.spec.shared_counters}
        if shared:
            counters[driver, pool] = shared
            if len({node for node, _ in found}) > 1:
                spread.add((driver, pool))
        rows += [
            (node, DeviceId(driver, pool, each.name), _tainted(each, driver, pool, tainting) if tainting else each)
            for node, each in found
        ]
    return _in_columns(rows, frozenset(incomplete), counters, spread)


def _in_columns(
    rows: list[tuple[str, DeviceId, Device]],
    incomplete: frozenset[str],
    counters: Mapping[PoolKey, Mapping[str, Amounts]],
    spread: Collection[PoolKey],
) -> Inventory:
    names = sorted({name for node, identity, _ in rows for name in (node, *identity)}, key=natural_key)
    order = {name: place for place, name in enumerate(names)}
    rows.sort(key=lambda row: (order[row[0]], order[row[1][0]], order[row[1][1]], order[row[1][2]]))
    nodes = tuple(dict.fromkeys(node for node, _, _ in rows if node))
    places = {name: place for place, name in enumerate(nodes)}
    contents: dict[tuple[str, bytes], tuple[int, Content]] = {}
    content = np.empty(len(rows), dtype=np.int64)
    for position, (_, identity, device) in enumerate(rows):
        nameless = msgspec.structs.replace(device, name="", node_name="", node_selector=None, all_nodes=False)
        key = identity.driver, _encode(nameless)
        known = contents.get(key)
        if known is None:
            known = contents[key] = len(contents), Content(identity.driver, nameless)
        content[position] = known[0]
    return Inventory(
        ids=tuple(identity for _, identity, _ in rows),
        node=np.array([places.get(node, NOWHERE) for node, _, _ in rows], dtype=np.int64),
        content=content,
        contents=tuple(each for _, each in contents.values()),
        nodes=nodes,
        in_spread_pool=np.array([(each.driver, each.pool) in spread for _, each, _ in rows], dtype=np.bool_),
        incomplete=incomplete,
        counters=counters,
        positions={identity: position for position, (_, identity, _) in enumerate(rows)},
    )


def _devices(one: ResourceSlice) -> Iterator[tuple[str, Device]]:
    """Yield the devices of a slice, each with the name of its node; "" if it is not on exactly one node."""
    spec = one.spec
    for device in spec.devices:
        if spec.per_device_node_selection:
            yield device.node_name or _only_node(device.node_selector), device
        else:
            yield spec.node_name or _only_node(spec.node_selector), device


def _only_node(selector: NodeSelector | None) -> str:
    """Return the node that a selector names (`metadata.name`); "" if it selects nodes in another way."""
    terms = selector.node_selector_terms if selector is not None else ()
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return ""
    field_ = terms[0].match_fields[0]
    named = field_.key == "metadata.name" and field_.operator == "In" and len(field_.values) == 1
    return field_.values[0] if named else ""


def _tainted(device: Device, driver: str, pool: str, rules: Iterable[DeviceTaintRule]) -> Device:
    added = [each.spec.taint for each in rules if _selects(each, driver, pool, device.name)]
    return msgspec.structs.replace(device, taints=(*device.taints, *added)) if added else device


def _selects(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return False
    wanted = zip((selector.driver, selector.pool, selector.device), (driver, pool, device), strict=True)
    return all(each is None or each == value for each, value in wanted)


def _amounts(counters: Mapping[str, object]) -> Amounts:
    return {name: exact(getattr(each, "value", 0)) for name, each in counters.items()}
