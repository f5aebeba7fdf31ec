"""The keys and fields of ACK Lingjun. Source: its user guide on network topology-aware scheduling."""

from gangs.topology import network_layers

GROUP = network_layers.NETWORK_GROUP
KIND = "JobNetworkTopology"

JOB_NAME = "network-topology-job-name"
"""Pod label: the name of the JobNetworkTopology with the levels that the gang requests."""
JOB_NAMESPACE = "network-topology-job-namespace"
"""Pod label: the namespace of the JobNetworkTopology; absent: the pod's own namespace."""
POD_GROUP = network_layers.POD_GROUP_LABEL
GANG_NAME = network_layers.NAME_LABEL
MIN_AVAILABLE = network_layers.MIN_AVAILABLE_LABEL
PERMIT_WAIT_TIME = "network-topology-permit-wait-time"
"""Label of a JobNetworkTopology: the number of seconds that the gang may wait."""

LABELS = (JOB_NAME, JOB_NAMESPACE, GANG_NAME, MIN_AVAILABLE, PERMIT_WAIT_TIME)
"""Labels of ACK Lingjun's user guide, on pods or on a JobNetworkTopology."""
PREFIXES = ("network-topology-", f"{POD_GROUP}/")
"""Prefixes of the label keys in ACK Lingjun's user guide."""

KEYS = (
    *LABELS,
    POD_GROUP,
    "spec.topologyStrategy",
    "spec.topologyStrategy[].layer",
    "spec.topologyStrategy[].strategy",
    "spec.workerNum",
)
"""All labels, and fields of a JobNetworkTopology, that Phalanx reads or refuses."""
