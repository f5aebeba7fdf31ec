"""Partitions: devices that share the counters of one physical device, so that not all of them can be allocated."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from cluster.devices.allocation import DeviceId
from cluster.devices.capacity import Amounts
from kube.devices import ResourceSlice
from kube.quantities import exact


class CounterKey(NamedTuple):
    """The identity of a counter: the driver and the name of its pool, the name of its counter set, and its own name."""

    driver: str
    pool: str
    counter_set: str
    name: str


@dataclass(frozen=True)
class Partitions:
    """The counters of all pools, what devices consume of them, and the capacities that claims share.

    `slices`: all ResourceSlices of the cluster.
    """

    slices: Sequence[ResourceSlice] = ()

    @cached_property
    def _newest(self) -> Sequence[ResourceSlice]:
        """The ResourceSlices of the highest generation of each pool that has counters or shared devices. All other
        slices are left out.
        """
        newest: dict[tuple[str, str], int] = {}
        counting = set[tuple[str, str]]()
        for each in self.slices:
            at = each.spec.driver, each.spec.pool.name
            newest[at] = max(newest.get(at, 0), each.spec.pool.generation)
            if each.spec.shared_counters or any(one.allow_multiple_allocations for one in each.spec.devices):
                counting.add(at)
        of_pools = ((each, (each.spec.driver, each.spec.pool.name)) for each in self.slices)
        return [each for each, at in of_pools if at in counting and each.spec.pool.generation == newest[at]]

    @cached_property
    def shared_capacity(self) -> Mapping[DeviceId, Amounts]:
        """The capacities of each device that several claims can share. Other devices are left out."""
        return {
            DeviceId(each.spec.driver, each.spec.pool.name, device.name): {
                name: exact(capacity.value) for name, capacity in device.capacity.items()
            }
            for each in self._newest
            for device in each.spec.devices
            if device.allow_multiple_allocations
        }

    @cached_property
    def limits(self) -> Mapping[CounterKey, Decimal]:
        """The amount of each counter that a pool has."""
        return {
            CounterKey(each.spec.driver, each.spec.pool.name, one.name, name): exact(counter.value)
            for each in self._newest
            for one in each.spec.shared_counters
            for name, counter in one.counters.items()
        }

    @cached_property
    def consumption(self) -> Mapping[DeviceId, Mapping[CounterKey, Decimal]]:
        """By device, the amounts of counters that it consumes while it is allocated. Devices that consume no counter
        are left out.
        """
        found = dict[DeviceId, Mapping[CounterKey, Decimal]]()
        for each in self._newest:
            driver, pool = each.spec.driver, each.spec.pool.name
            for device in each.spec.devices:
                used = defaultdict[CounterKey, Decimal](Decimal)
                for one in device.consumes_counters:
                    for name, counter in one.counters.items():
                        used[CounterKey(driver, pool, one.counter_set, name)] += exact(counter.value)
                if used:
                    found[DeviceId(driver, pool, device.name)] = used
        return found

    def overdrawn(self, devices: Iterable[DeviceId]) -> Iterator[CounterKey]:
        """Yield the counters of which these devices together consume more than the pool has. Each device must be given
        once.
        """
        total = defaultdict[CounterKey, Decimal](Decimal)
        for device in devices:
            for key, amount in self.consumption.get(device, {}).items():
                total[key] += amount
        return (key for key, amount in total.items() if amount > self.limits.get(key, Decimal(0)))


NO_PARTITIONS = Partitions()
