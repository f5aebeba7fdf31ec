"""Koordinator's objects as users write them, in short."""

import json
from typing import Any

from written import pod

SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
INDEX = "gang.scheduling.koordinator.sh/network-topology-index"
GROUPS = "gang.scheduling.koordinator.sh/groups"


def gather(*entries: tuple[str, str] | tuple[str, str, int]) -> str:
    """A network-topology-spec: (layer, strategy) or (layer, strategy, multiple)."""
    keys = ("layer", "strategy", "podCountMultiple")
    return json.dumps({"gatherStrategy": [dict(zip(keys, each, strict=False)) for each in entries]})


def group(name: str = "g", minimum: int = 2, **annotations: str) -> str:
    """A PodGroup; annotations by the last part of their key, with _ for -."""
    written = {f"gang.scheduling.koordinator.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return f"""
        apiVersion: scheduling.sigs.k8s.io/v1alpha1
        kind: PodGroup
        metadata: {{name: {name}, annotations: {json.dumps(written)}}}
        spec: {{minMember: {minimum}, scheduleTimeoutSeconds: 300}}
    """


def member(name: str, of: str = "g", **kwargs: Any) -> Any:
    return pod(name, labels={"pod-group.scheduling.sigs.k8s.io": of}, **kwargs)
