"""The topology with the levels of KAI Scheduler's ConfigMap and with default levels.

All nodes that lack the label of a level above the node share one default domain of the level. Only a gang with the
level as its scope needs nodes with the label (`gangs.kai.wishes`). A node without a label for its NVLink domain is a
domain of its own.
"""

from gangs.kai import keys
from gangs.kai.settings import Settings
from kube.topology import HOSTNAME_LABEL, Level, Topology, Unlabelled


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
    return Topology(keys.CONFIG_NAME, keys.CONFIG_KIND, (*wide, *listed, *near, nvlink, node), implicit=True)


def _default(name: str, labels: tuple[str, ...], taken: set[str]) -> list[Level]:
    """Return, in a list, a default level with those of `labels` that no level of the ConfigMap uses.

    The list is empty if all are used.

    :param taken: the labels that the ConfigMap's levels use.
    """
    free = tuple(each for each in labels if each not in taken)
    return [Level(name, free, Unlabelled.DEFAULT_DOMAIN)] if free else []
