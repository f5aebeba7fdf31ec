"""Every key string of Koordinator that is read, once. Source: its API package and the user manuals of v1.8."""

from gangs import gathering

POD_GROUP_GROUP = "scheduling.sigs.k8s.io"
POD_GROUP_KIND = "PodGroup"
TOPOLOGY_GROUP = gathering.NETWORK_GROUP
TOPOLOGY_KIND = gathering.NETWORK_KIND
TOPOLOGY_NAME = gathering.NETWORK_NAME

NODE_LAYER = gathering.NODE_LAYER
ROOT_LAYER = gathering.ROOT_LAYER
LINGJUN_LAYERS = ("PoDTopologyLayer", "ASWTopologyLayer")
LINGJUN_LABELS = "alibabacloud.com/"
"""The beginning of the node labels of ACK Lingjun, which uses the same kind with a rule of its own."""

POD_GROUP = gathering.POD_GROUP_LABEL
LIGHT_NAME = gathering.NAME_LABEL
LIGHT_MIN_AVAILABLE = gathering.MIN_AVAILABLE_LABEL
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
