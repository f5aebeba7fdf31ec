"""Every key string of Koordinator that is read, once. Source: its API package and the user manuals of v1.8."""

POD_GROUP_GROUP = "scheduling.sigs.k8s.io"
POD_GROUP_KIND = "PodGroup"
TOPOLOGY_GROUP = "scheduling.koordinator.sh"
TOPOLOGY_KIND = "ClusterNetworkTopology"
TOPOLOGY_NAME = "default"
"""The one ClusterNetworkTopology that Koordinator reads."""

NODE_LAYER = "NodeTopologyLayer"
ROOT_LAYER = "ClusterTopologyLayer"

POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
"""Pod label: name of a PodGroup in the pod's namespace."""
LIGHT_NAME = "pod-group.scheduling.sigs.k8s.io/name"
"""Pod label: name of a gang that needs no PodGroup."""
LIGHT_MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
LIGHT_MATCH_POLICY = "pod-group.scheduling.sigs.k8s.io/match-policy"

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
"""Documented as written by Koordinator; nobody reads it."""

ON_GROUPS = (TOTAL_NUMBER, MODE, MATCH_POLICY, GROUPS, TOPOLOGY_SPEC, TIMEOUT)
"""Annotations that a PodGroup may carry."""
ON_PODS = (GANG_NAME, MIN_AVAILABLE, WAITING_TIME, INDEX, *ON_GROUPS)
"""Annotations that a pod may carry."""

DISABLE_PREEMPTIBLE = "scheduling.koordinator.sh/disable-preemptible"
QUOTA_PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"

SCHEDULER = "koord-scheduler"
