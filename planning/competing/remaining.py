"""The capacity that placed gangs leave to later gangs, computed inside the existing problems of the later gangs.

These problems are not built again. The result is exact only if gangs take nothing but capacity from each other.
Then no member has affinity, spread, host ports or nearness rules, and no pod is evicted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cluster.eligibility.host_ports import host_ports
from gangs.held_nodes import held_node
from gangs.model import Gang
from kube.objects import Pod
from planning.framing.gang_problem import Framing
from solver.multi_gang.joint_problem import Share
from solver.nodes import ResourceMatrix


class Remaining:
    """The remaining capacity of the nodes after some gangs have been placed, one after the other.

    The class sums the capacity that these gangs use, by resource in base units. The problems of all gangs have the same
    nodes.
    """

    def __init__(self) -> None:
        self._used: dict[str, NDArray[np.int64]] = {}

    def take(self, framing: Framing, share: Share) -> None:
        """Add the capacity that a gang's members use on the nodes that `share` gives them."""
        problem = framing.problem
        asked: ResourceMatrix = np.zeros_like(problem.nodes.free)
        for pod_set, row in zip(problem.sets, share.nodes, strict=True):
            for member, node in zip(pod_set.members, row, strict=True):
                if node is not None:
                    asked[node] += problem.shapes[member.shape].requests
        for place, (name, unit) in enumerate(zip(problem.resources, framing.units, strict=True)):
            self._used[name] = self._used.get(name, 0) + asked[:, place] * unit

    def framing(self, stated: Framing) -> Framing | None:
        """Return `stated`, the problem of a later gang, in which the capacity that placed gangs use is not free. None
        if a used amount is not a multiple of the unit in which the problem counts the resource.
        """
        problem = stated.problem
        free = problem.nodes.free.copy()
        for place, (name, unit) in enumerate(zip(problem.resources, stated.units, strict=True)):
            if name in self._used:
                if (self._used[name] % unit).any():
                    return None
                free[:, place] -= self._used[name] // unit
        return replace(stated, problem=replace(problem, nodes=problem.nodes.with_free(free)))


def only_room_matters(gangs: Iterable[Gang], framings: Sequence[Framing]) -> bool:
    """Whether these gangs take nothing but free capacity from each other, as long as their plans evict no pod.

    True if all their problems have the same nodes, and no gang has a member for which `needs_more_than_capacity` is
    True or a preference to run near other pods.
    """
    layout = framings[0].problem.nodes.layout
    return all(framing.problem.nodes.layout is layout for framing in framings) and not any(
        gang.near or any(needs_more_than_capacity(member.pod) for member in gang.members) for gang in gangs
    )


def needs_more_than_capacity(pod: Pod) -> bool:
    """Whether the pod needs more than free capacity: it has pod affinity, spread, host ports or resource claims, or has
    a node already.
    """
    affinity = pod.spec.affinity
    return bool(
        (affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None))
        or pod.spec.topology_spread_constraints
        or pod.spec.resource_claims
        or host_ports(pod)
        or held_node(pod)
    )
