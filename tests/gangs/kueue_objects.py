"""Kueue's objects as users write them, in short."""

import json

GROUP = "kueue.x-k8s.io"

POOL = """
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: Topology
    metadata: {name: default, namespace: ""}
    spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}]}
    ---
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: ResourceFlavor
    metadata: {name: tas, namespace: ""}
    spec: {nodeLabels: {ready: "true"}, topologyName: default}
    ---
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: ClusterQueue
    metadata: {name: pool, namespace: ""}
    spec:
      namespaceSelector: {}
      resourceGroups:
      - coveredResources: [cpu]
        flavors: [{name: tas, resources: [{name: cpu, nominalQuota: 8}]}]
    ---
    apiVersion: kueue.x-k8s.io/v1beta1
    kind: LocalQueue
    metadata: {name: q, namespace: default}
    spec: {clusterQueue: pool}
"""
"""A topology of blocks and racks, a flavor of it, a pool of 8 cpu and a queue of it."""


def job(size: int = 4, queue: str | None = "q", meta: dict[str, str] | None = None, **annotations: str) -> str:
    """A Job; annotations of its template by the last part of their key, with _ for -."""
    labels = {f"{GROUP}/queue-name": queue} if queue else {}
    template = {f"{GROUP}/podset-{key.replace('_', '-')}": text for key, text in annotations.items()}
    own = {f"{GROUP}/{key}": text for key, text in (meta or {}).items()}
    return f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train, namespace: default, labels: {json.dumps(labels)}, annotations: {json.dumps(own)}}}
        spec:
          parallelism: {size}
          completions: {size}
          template: {{metadata: {{annotations: {json.dumps(template)}}}, spec: {{}}}}
    """
