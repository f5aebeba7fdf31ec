"""The keys and fields of Koordinator. Source: its API package and the user manuals of v1.8."""

from gangs.topology import network_layers

POD_GROUP_GROUP = "scheduling.sigs.k8s.io"
POD_GROUP_KIND = "PodGroup"
POD_GROUPS = "podgroups"
TOPOLOGY_GROUP = network_layers.NETWORK_GROUP
TOPOLOGY_KIND = network_layers.NETWORK_KIND
TOPOLOGIES = "clusternetworktopologies"
VERSION = "v1alpha1"
TOPOLOGY_NAME = network_layers.NETWORK_NAME

NODE_LAYER = network_layers.NODE_LAYER
ROOT_LAYER = network_layers.ROOT_LAYER
LINGJUN_LAYERS = ("PoDTopologyLayer", "ASWTopologyLayer")
LINGJUN_LABELS = "alibabacloud.com/"
"""The prefix of ACK Lingjun's node labels. Its ClusterNetworkTopology treats nodes without a label differently."""

POD_GROUP = network_layers.POD_GROUP_LABEL
LIGHT_NAME = network_layers.NAME_LABEL
LIGHT_MIN_AVAILABLE = network_layers.MIN_AVAILABLE_LABEL
LIGHT_MATCH_POLICY = "pod-group.scheduling.sigs.k8s.io/match-policy"
LIGHT_LABELS = (LIGHT_NAME, LIGHT_MIN_AVAILABLE, LIGHT_MATCH_POLICY)
"""Labels of pods whose gang has no PodGroup."""

GANG_PREFIX = "gang.scheduling.koordinator.sh/"
GANG_NAME = GANG_PREFIX + "name"
MIN_AVAILABLE = GANG_PREFIX + "min-available"
TOTAL_NUMBER = GANG_PREFIX + "total-number"
MODE = GANG_PREFIX + "mode"
MATCH_POLICY = GANG_PREFIX + "match-policy"
GROUPS = GANG_PREFIX + "groups"
WAITING_TIME = GANG_PREFIX + "waiting-time"
TOPOLOGY_SPEC = GANG_PREFIX + "network-topology-spec"
INDEX = GANG_PREFIX + "network-topology-index"
TIMEOUT = GANG_PREFIX + "timeout"
"""Annotation that Koordinator writes, according to its documentation. Phalanx does not read it."""

ON_GROUPS = (TOTAL_NUMBER, MODE, MATCH_POLICY, GROUPS, TOPOLOGY_SPEC, TIMEOUT)
"""Annotations that a PodGroup may have."""
ON_PODS = (GANG_NAME, MIN_AVAILABLE, WAITING_TIME, INDEX, *ON_GROUPS)
"""Annotations that a pod may have."""

DISABLE_PREEMPTIBLE = "scheduling.koordinator.sh/disable-preemptible"
QUOTA_PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"

SELECTOR = "scheduling.koordinator.sh/network-topology-selector"
"""Pod annotation: pods of a namespace with the same value prefer to be near each other."""

SCHEDULER = "koord-scheduler"

CONFIG_KIND = "ConfigMap"
CONFIG_NAMESPACE = "koordinator-system"
CONFIG_NAME = "koord-scheduler-config"
"""The name of the ConfigMap of Koordinator's scheduler, and the key in its data."""
PLUGIN = "Coscheduling"

KEYS = (
    POD_GROUP,
    LIGHT_NAME,
    LIGHT_MIN_AVAILABLE,
    LIGHT_MATCH_POLICY,
    *ON_PODS,
    SELECTOR,
    DISABLE_PREEMPTIBLE,
    QUOTA_PREEMPTIBLE,
    "spec.minMember",
    "spec.minResources",
    "spec.scheduleTimeoutSeconds",
    "gatherStrategy",
    "gatherStrategy[].layer",
    "gatherStrategy[].strategy",
    "gatherStrategy[].podCountMultiple",
    "spec.networkTopologySpec",
    "spec.networkTopologySpec[].topologyLayer",
    "spec.networkTopologySpec[].parentTopologyLayer",
    "spec.networkTopologySpec[].labelKey",
    "awareNetworkTopology",
    "enablePreemption",
)
"""All keys, and fields of objects and of the ConfigMap, that Phalanx reads or ignores on purpose."""
