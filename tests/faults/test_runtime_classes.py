"""RuntimeClasses in files: pods carry the overhead, node selector and tolerations that the API server would add."""

from pathlib import Path

import pytest
from solving import solved, written

NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {sandbox: "true"}}
spec: {taints: [{key: sandbox, effect: NoSchedule}]}
status: {allocatable: {cpu: "4"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "1"}}
---
"""
RUNTIME = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
overhead: {podFixed: {cpu: %s}}
scheduling: {nodeSelector: {sandbox: "true"}, tolerations: [{key: sandbox, operator: Exists}]}
---
"""
CONTAINERS = 'containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]'
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: j, annotations: {{phalanx.dev/gang: "true"}}}}
spec:
  parallelism: 3
  completions: 3
  template: {{spec: {{restartPolicy: Never, runtimeClassName: kata, {CONTAINERS}}}}}
---
"""
GANG = """
apiVersion: phalanx.dev/v1alpha1
kind: Gang
metadata: {name: g}
spec: {minMember: 3}
---
""" + "".join(
    f"""
apiVersion: v1
kind: Pod
metadata: {{name: g-{i}, labels: {{phalanx.dev/gang: g}}}}
spec: {{runtimeClassName: kata, {CONTAINERS}}}
---
"""
    for i in range(3)
)


@pytest.mark.parametrize("asked", [JOB, GANG], ids=["pods of a Job", "bare pods"])
@pytest.mark.parametrize(("overhead", "outcome"), [("250m", "Placed"), ("500m", "Unplaceable")])
def test_the_overhead_counts(tmp_path: Path, asked: str, overhead: str, outcome: str) -> None:
    """Three pods of 1 cpu and their overhead: 4 cpu hold 3 of 1250m, and 2 of 1500m."""
    answer = solved(written(tmp_path, NODES + RUNTIME % overhead + asked))
    assert answer.report.split()[1] == outcome, answer
    assert answer.status == (0 if outcome == "Placed" else 3)
    assert answer.said == ""


def test_the_overhead_of_a_running_pod_counts(tmp_path: Path) -> None:
    spec = f"{{nodeName: n1, priority: 100, runtimeClassName: kata, {CONTAINERS}}}"
    running = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: v}}\nspec: {spec}\n---\n"
    two = JOB.replace("3", "2")
    assert solved(written(tmp_path, NODES + RUNTIME % "1" + two)).status == 0
    assert solved(written(tmp_path, NODES + RUNTIME % "1" + two + running)).status == 3


def test_an_overhead_that_the_pod_states_is_not_changed(tmp_path: Path) -> None:
    stated = GANG.replace("runtimeClassName: kata", "runtimeClassName: kata, overhead: {cpu: 10m}")
    free = NODES.replace("spec: {taints: [{key: sandbox, effect: NoSchedule}]}", "spec: {}")
    assert solved(written(tmp_path, free + RUNTIME % "500m" + stated)).status == 0


def test_a_class_that_is_not_given_is_named(tmp_path: Path) -> None:
    free = NODES.replace("spec: {taints: [{key: sandbox, effect: NoSchedule}]}", "spec: {}")
    answer = solved(written(tmp_path, free + GANG))
    assert "not considered: the overhead of RuntimeClass kata, which is not known" in answer.report
    assert answer.status == 0


def test_an_overhead_that_is_no_quantity_is_a_mistake(tmp_path: Path) -> None:
    answer = solved(written(tmp_path, NODES + RUNTIME % "much" + GANG))
    assert "error: written.yaml: RuntimeClass kata: overhead.podFixed.cpu: 'much' is not a quantity\n" in answer.said
    assert answer.status == 2
