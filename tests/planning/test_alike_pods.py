"""Which pods have equal eligibility: the framing checks them once, however many they are."""

from typing import Any

import msgspec
import pytest
from scenes import Manifest, nodes, picture, pod, running

from kube.objects import Pod
from planning.framing.shapes import scheduling_key, watched_labels

GUARD = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
SCRATCH = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
SHARED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def labelled(name: str, labels: dict[str, str], **spec: Any) -> Manifest:
    """A pod with labels."""
    made = pod(name, **spec)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


@pytest.mark.parametrize(
    ("what", "one", "other", "alike"),
    [
        ("an index that nobody looks for", labelled("a", {"index": "1"}), labelled("b", {"index": "2"}), True),
        ("a label that another pod keeps away", labelled("a", {"app": "web"}), labelled("b", {"app": "db"}), False),
        ("a node selector", pod("a"), pod("b", nodeSelector={"zone": "a"}), False),
        ("the same claim", pod("a", volumes=SHARED), pod("b", volumes=SHARED), True),
        ("claims of their own", pod("a", volumes=SCRATCH), pod("b", volumes=SCRATCH), False),
    ],
)
def test_pods_are_told_apart_by(what: str, one: Manifest, other: Manifest, *, alike: bool) -> None:
    _, snapshot, _ = picture(nodes(), running("db", "node-0", affinity=GUARD))
    watched = watched_labels(snapshot)
    found = [scheduling_key(msgspec.convert(each, Pod), watched) for each in (one, other)]
    assert (found[0] == found[1]) is alike, what
