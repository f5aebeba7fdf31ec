"""ACK Lingjun's objects as users write them, in short."""

from typing import Any

from written import pod

LINGJUN = """
    apiVersion: scheduling.koordinator.sh/v1alpha1
    kind: ClusterNetworkTopology
    metadata: {name: default}
    spec:
      networkTopologySpec:
      - {topologyLayer: PoDTopologyLayer, labelKey: [alibabacloud.com/point-of-delivery]}
      - {topologyLayer: ASWTopologyLayer, labelKey: [alibabacloud.com/asw-id], parentTopologyLayer: PoDTopologyLayer}
      - {topologyLayer: NodeTopologyLayer, parentTopologyLayer: ASWTopologyLayer}
"""
"""A ClusterNetworkTopology: PoD > ASW > node."""

STRATEGIES = "[{layer: PoDTopologyLayer, strategy: MustGather}, {layer: ASWTopologyLayer, strategy: PreferGather}]"
MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
GANG_NAME = "pod-group.scheduling.sigs.k8s.io/name"


def network(workers: int | str = 2, strategies: str = STRATEGIES, wait: str = "") -> str:
    """A JobNetworkTopology net/sample; `wait` is its permit-wait-time label."""
    labels = f'{{network-topology-permit-wait-time: "{wait}"}}' if wait else "{}"
    return f"""
        apiVersion: scheduling.koordinator.sh/v1alpha1
        kind: JobNetworkTopology
        metadata: {{name: sample, namespace: net, labels: {labels}}}
        spec: {{topologyStrategy: {strategies}, workerNum: {workers}}}
    """


def labels(
    minimum: int | str | None = 2, gang: str = "g", of: str = "sample", namespace: str = "net"
) -> dict[str, str]:
    """Labels of a member; a part that is empty is left out."""
    written = {
        MIN_AVAILABLE: "" if minimum is None else str(minimum),
        GANG_NAME: gang,
        "network-topology-job-name": of,
        "network-topology-job-namespace": namespace,
    }
    return {key: value for key, value in written.items() if value}


def member(name: str, minimum: int | str | None = 2, **kwargs: Any) -> Any:
    """A bare pod of the gang g."""
    return pod(name, labels=labels(minimum), **kwargs)


def job(parallelism: int = 2, minimum: int | str | None = 2, name: str = "pi", more: str = "", **kwargs: str) -> str:
    """A Job of the gang g; `more` are further fields of its spec."""
    template = ", ".join(f'{key}: "{value}"' for key, value in labels(minimum, **kwargs).items())
    return f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: {name}, namespace: default}}
        spec: {{parallelism: {parallelism}, {more}template: {{metadata: {{labels: {{{template}}}}}, spec: {{}}}}}}
    """
