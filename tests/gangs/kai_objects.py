"""The KAI guide's objects as users write them, in short."""

import textwrap
from pathlib import Path
from typing import Any

from written import pod

from kube.objects import Pod

POD_GROUP = "scheduling.run.ai/pod-group"
POLICY = "scheduling.run.ai/topology-policy"
ROLE = "scheduling.run.ai/topology-role"
CONFIG = (Path(__file__).parents[2] / "examples" / "kai" / "tas-config.yaml").read_text()
"""The guide's ConfigMap."""


def config(policies: str = "[]", levels: str = "[]", enabled: str = "true") -> str:
    """A ConfigMap of these settings."""
    return settings(f"topologyAwareScheduling: {{enabled: {enabled}, policies: {policies}, levels: {levels}}}")


def settings(text: str) -> str:
    """A ConfigMap with this text."""
    head = """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: kai-scheduler-config, namespace: kai-scheduler}
        data:
          config.yaml: |
    """
    return textwrap.dedent(head).rstrip() + "\n" + textwrap.indent(text, "    ") + "\n"


def group(
    name: str = "g",
    minimum: int | str = 2,
    *,
    version: str = "v2",
    scope: str | None = None,
    affinity: str = "",
    constraint: str = "",
    queue: str = "",
    more: str = "",
) -> str:
    """A PodGroup; `affinity` is the list of required labels, `more` further fields of its spec."""
    policy = [f"scope: {scope}"] if scope else []
    policy += [f"affinity: {{required: {affinity}}}"] if affinity else []
    fields = [f"minMember: {minimum}", f"topologyPolicy: {{{', '.join(policy)}}}" if policy else ""]
    fields += [f"topologyConstraint: {constraint}" if constraint else "", f"queue: {queue}" if queue else "", more]
    return f"""
        apiVersion: scheduling.run.ai/{version}
        kind: PodGroup
        metadata: {{name: {name}}}
        spec: {{{", ".join(filter(None, fields))}}}
    """


def member(
    name: str, of: str = "g", *, policy: str | None = None, role: str | None = None, gpus: int = 0, **more: Any
) -> Pod:
    """A pod of a group."""
    annotations = {POD_GROUP: of, POLICY: policy, ROLE: role}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    written = {key: value for key, value in annotations.items() if value is not None}
    return pod(name, annotations=written, containers=[container], **more)


def job(name: str, *, parallelism: int = 1, annotations: dict[str, str], status: str = "{}") -> str:
    """A Job that gives its pods these annotations."""
    return f"""
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: {name}}}
        spec:
          parallelism: {parallelism}
          completions: {parallelism}
          template:
            metadata: {{annotations: {annotations}}}
            spec: {{restartPolicy: Never, containers: [{{name: main}}]}}
        status: {status}
    """
