"""The topology with the levels of KAI Scheduler's ConfigMap and with default levels.

All nodes that lack the label of a level above the node share one default domain of the level. Only a gang with the
level as its scope needs nodes with the label (`gangs.kai.wishes`). A node without a label for its NVLink domain is a
domain of its own.

Below the node are the levels numa-node, nvlink-domain and gpu, by attributes of devices. NVLink domains may span nodes,
so this level is there twice. The scope nvlink-domain requires both: one domain of nodes for the gang, and one domain of
devices for each pod. The levels numa-node and gpu count only for gangs with this scope.
"""

import re

from gangs.kai import keys
from gangs.kai.settings import Settings
from kube.topology import HOSTNAME_LABEL, DeviceLevel, Level, Topology, Unlabelled

_ATTRIBUTE = re.compile(r"[a-z0-9][-a-z0-9.]*/[A-Za-z_][A-Za-z0-9_]*")


def topology_of(settings: Settings) -> Topology:
    """Return the topology of KAI's gangs: the levels zone, rack, nvlink-domain and node, and the levels of `settings`.

    The levels that the administrator lists in KAI's ConfigMap lie between zone and rack. A listed level named zone or
    rack replaces the default level of that name.
    """
    listed = [Level(each.name, (each.label,), Unlabelled.DEFAULT_DOMAIN) for each in settings.above_the_node()]
    names = {each.name for each in listed}
    taken = {key for each in listed for key in each.label_keys}
    wide = [] if keys.ZONE_LEVEL in names else _default(keys.ZONE_LEVEL, (keys.ZONE_LABEL,), taken)
    near = [] if keys.RACK_LEVEL in names else _default(keys.RACK_LEVEL, keys.RACK_LABELS, taken)
    label = settings.label_of(keys.NVLINK_LEVEL)
    nvlink_labels = (label,) if label else (keys.NVLINK_DOMAIN, keys.GPU_CLIQUE)
    nvlink = Level(keys.NVLINK_LEVEL, nvlink_labels, Unlabelled.OWN_DOMAIN)
    node = Level(keys.NODE_LEVEL, (HOSTNAME_LABEL,))
    levels = (*wide, *listed, *near, nvlink, node)
    return Topology(keys.CONFIG_NAME, keys.CONFIG_KIND, levels, implicit=True, below=_below(settings))


def _below(settings: Settings) -> tuple[DeviceLevel, ...]:
    """Return the levels below the node: numa-node, nvlink-domain and gpu, and those that KAI's ConfigMap lists below
    the node.

    If the label of such a level in the ConfigMap could be an attribute of devices, it precedes the usual attributes.
    """
    listed = [each.name for each in reversed(settings.levels) if each.name in settings.below_the_node]
    names = dict.fromkeys((*(each for each in listed if each not in keys.DEVICE_ATTRIBUTES), *keys.DEVICE_ATTRIBUTES))
    return tuple(
        DeviceLevel(
            name,
            (*_attribute(settings.label_of(name)), *keys.DEVICE_ATTRIBUTES.get(name, ())),
            only_required=name != keys.NVLINK_LEVEL,
        )
        for name in names
    )


def _attribute(label: str | None) -> tuple[str, ...]:
    return (label,) if label is not None and _ATTRIBUTE.fullmatch(label) else ()


def _default(name: str, labels: tuple[str, ...], taken: set[str]) -> list[Level]:
    """Return a default level with the labels that no level of KAI Scheduler's ConfigMap uses, in a list. The list is
    empty if the ConfigMap's levels use all of `labels`.

    :param taken: the labels that the ConfigMap's levels use.
    """
    free = tuple(each for each in labels if each not in taken)
    return [Level(name, free, Unlabelled.DEFAULT_DOMAIN)] if free else []
