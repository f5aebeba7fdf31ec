# ruff: noqa: INP001 -- a script that is run by its path
"""Writes nodes.yaml and running-workloads.yaml: the cluster in the figure of Run:ai's guide (README.md).

It has two racks of 18 GB200 nodes with 4 GPUs each, and two running workloads: one of 12 nodes in rack A, and one of 15
nodes in rack B.
"""

from collections.abc import Iterator
from pathlib import Path

RACKS = {"a": 12, "b": 15}
"""By rack: how many of its 18 nodes are in use."""
NODES_IN_A_RACK = 18

NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: {name}
  labels:
    kubernetes.io/hostname: {name}
    kai.scheduler/node-pool: gb200
    cloud.provider.com/topology-zone: zone-1
    cloud.provider.com/topology-block: block-1
    cloud.provider.com/topology-rack: rack-{rack}
    nvidia.com/gpu.product: NVIDIA-GB200
status:
  capacity: {room}
  allocatable: {room}
"""
ROOM = '{cpu: "144", memory: 960Gi, pods: "110", nvidia.com/gpu: "4"}'

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: workload-{workload}-{index}
  namespace: default
  labels: {{app: workload-{workload}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 5
  containers:
  - name: worker
    image: busybox
    resources:
      requests: {{nvidia.com/gpu: "4"}}
      limits: {{nvidia.com/gpu: "4"}}
"""


def main() -> None:
    """Write nodes.yaml and running-workloads.yaml into the folder of this script."""
    folder = Path(__file__).parent
    (folder / "nodes.yaml").write_text("---\n".join(nodes()), encoding="utf-8")
    (folder / "running-workloads.yaml").write_text("---\n".join(pods()), encoding="utf-8")


def nodes() -> Iterator[str]:
    """Yield the manifest of each node, as YAML text."""
    for rack in RACKS:
        for number in range(NODES_IN_A_RACK):
            yield NODE.format(name=f"gb200-{rack}-{number}", rack=rack, room=ROOM)


def pods() -> Iterator[str]:
    """Yield the manifest of a pod for each node in use, as YAML text."""
    for workload, (rack, used) in enumerate(RACKS.items(), start=1):
        for index in range(used):
            yield POD.format(workload=workload, index=index, node=f"gb200-{rack}-{index}")


if __name__ == "__main__":
    main()
