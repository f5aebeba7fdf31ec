"""The real API server takes the CRDs, and objects as users write them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.control_plane import ControlPlane, wait_until

pytestmark = pytest.mark.controlplane

CRDS = Path(__file__).parents[2] / "manifests" / "crds"
DATA = Path(__file__).parent / "data"
EXAMPLES = Path(__file__).parents[2] / "examples" / "koordinator"

GANG = """
apiVersion: phalanx.dev/v1alpha1
kind: Gang
metadata: {name: llm, namespace: default}
spec:
  topology: datacenter
  minMember: 6
  required: block
  preferred: rack
  scheduleTimeoutSeconds: 600
  onFailure: Wait
  queue: team-a
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: gpu, operator: In, values: [h100]}]
        matchFields: [{key: metadata.name, operator: NotIn, values: [node-0]}]
    preferredDuringSchedulingIgnoredDuringExecution:
    - {weight: 3, preference: {matchExpressions: [{key: fast, operator: Exists}]}}
  podSets:
  - name: worker
    count: 6
    minCount: 4
    required: rack
    slices: [{level: rack, size: 2}]
    multiples: [{level: block, of: 2}]
    maxPerDomain: [{level: rack, count: 4}]
  - {name: leader, count: 1}
  together: [{podSets: [worker, leader], level: block}]
  multiples: [{level: block, of: 1}]
  preempts: false
"""

STATUS: dict[str, Any] = {
    "phase": "Placed",
    "reason": "AllBound",
    "message": "4 pods are bound on node-5..8",
    "observedGeneration": 1,
    "topology": "datacenter",
    "planId": "p1",
    "summary": {"pods": "4/4", "level": "rack", "domain": "b1/r2"},
    "members": {"expected": 4, "existing": 4, "placed": 4, "bound": 4},
    "conditions": [
        {
            "type": "Placed",
            "status": "True",
            "reason": "AllBound",
            "message": "4 pods are bound",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
    "assignments": [{"namespace": "default", "pod": "a", "podSet": "main", "index": 0, "node": "n", "uid": "u"}],
    "levels": [{"level": "rack", "label": "r", "mode": "required", "domains": [{"path": ["b1", "r2"], "pods": 4}]}],
    "victims": [{"namespace": "default", "pod": "v", "node": "n", "priority": -5, "gang": "default/x", "uid": "w"}],
    "objective": [{"goal": "victims", "value": 1, "bound": 1, "parts": {"1000": 1}}],
    "proof": "Optimal",
    "explanation": {
        "nearest": [{"level": "", "path": [], "fits": 1, "needed": 2, "nodes": 3, "excluded": {"Insufficient cpu": 2}}],
        "wouldFitIf": ["1 more pod slot in b1"],
        "whyHere": "no other rack can hold it",
    },
}


@pytest.fixture
def served(cluster: ControlPlane) -> ControlPlane:
    """A clean cluster that serves our kinds and Koordinator's."""
    for folder in ("phalanx", "koordinator"):
        cluster.kubectl("apply", "-k", str(CRDS / folder))
    names = cluster.kubectl("get", "crd", "-o", "name").split()
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", *names)
    wait_until(lambda: "gangs" in cluster.kubectl("api-resources", "--no-headers"), 20, "the kinds to be served")
    return cluster


def test_a_gang_is_stored_as_written_and_its_status_is_apart(served: ControlPlane) -> None:
    served.kubectl("apply", "-f", "-", stdin=GANG)
    patch = json.dumps({"status": STATUS})
    served.kubectl("patch", "gang", "llm", "--subresource=status", "--type=merge", "-p", patch)
    stored = json.loads(served.kubectl("get", "gang", "llm", "-o", "json"))
    assert stored["spec"] == yaml.safe_load(GANG)["spec"]
    assert stored["status"] == STATUS
    table = [line.split() for line in served.kubectl("get", "gangs").splitlines()]
    assert table[0] == ["NAME", "PHASE", "PODS", "DOMAIN", "REASON", "AGE"]
    assert table[1][:5] == ["llm", "Placed", "4/4", "b1/r2", "AllBound"]


REFUSED = {
    "a field that is not known": ("Gang", "{minMembers: 2}", 'unknown field "spec.minMembers"'),
    "a slip in the affinity": (
        "Gang",
        "{nodeAffinity: {requiredDuringScheduling: {}}}",
        'unknown field "spec.nodeAffinity.requiredDuringScheduling"',
    ),
    "a minCount above the count": (
        "Gang",
        "{podSets: [{name: a, count: 2, minCount: 3}]}",
        "minCount is more than count; lower it or raise count",
    ),
    "two sets of one name": ("Gang", "{podSets: [{name: a, count: 1}, {name: a, count: 1}]}", "Duplicate value"),
    "two levels of one label": (
        "Topology",
        "{levels: [{name: a, nodeLabel: x}, {name: b, nodeLabel: x}]}",
        "two levels have the same nodeLabel; give each a label of its own",
    ),
    "the node above another level": (
        "Topology",
        "{levels: [{name: a, nodeLabel: kubernetes.io/hostname}, {name: b, nodeLabel: x}]}",
        "kubernetes.io/hostname is the node; put it last or leave it out",
    ),
}


def test_the_schema_refuses_what_needs_no_webhook_to_be_seen(served: ControlPlane) -> None:
    for kind, spec, text in REFUSED.values():
        manifest = f"{{apiVersion: phalanx.dev/v1alpha1, kind: {kind}, metadata: {{name: bad}}, spec: {spec}}}"
        result = served.kubectl_result("create", "-f", "-", stdin=manifest)
        assert result.returncode != 0
        assert text in result.stderr


def test_nulls_are_as_good_as_nothing(served: ControlPlane) -> None:
    spec = "{minMember: 2, topology: null, onFailure: null, required: null, nodeAffinity: null, podSets: null}"
    manifest = f"{{apiVersion: phalanx.dev/v1alpha1, kind: Gang, metadata: {{name: nulls}}, spec: {spec}}}"
    served.kubectl("create", "-f", "-", stdin=manifest)
    stored = json.loads(served.kubectl("get", "gang", "nulls", "-o", "json"))["spec"]
    assert {key: value for key, value in stored.items() if value is not None} == {"minMember": 2}


def test_koordinators_objects_are_stored_as_its_document_shows_them(served: ControlPlane) -> None:
    served.kubectl("apply", "-f", str(EXAMPLES / "cluster-network-topology.yaml"))
    documented = yaml.safe_load((DATA / "cluster-network-topology-status.yaml").read_text())
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(documented))
    served.kubectl("patch", "clusternetworktopology", "default", *patch)
    stored = json.loads(served.kubectl("get", "clusternetworktopology", "default", "-o", "json"))
    assert stored["status"] == documented["status"]
    for name in ("topology-demo-job.yaml", "high-priority-training.yaml"):
        (group,) = (each for each in yaml.safe_load_all((EXAMPLES / name).read_text()) if each["kind"] == "PodGroup")
        served.kubectl("create", "-f", "-", stdin=json.dumps(group))
        kind = "podgroups.scheduling.sigs.k8s.io"  # KAI has a kind of the same name
        found = json.loads(served.kubectl("get", kind, group["metadata"]["name"], "-o", "json"))
        assert found["spec"] == group["spec"]
