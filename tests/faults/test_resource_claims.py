"""Gangs whose pods need devices that Phalanx does not plan.

The gangs stay gated and report the reason, unless their user requests the release nevertheless.

n0: 8 cpu, n1: 8 cpu. Four pods of 1 cpu, which would all fit.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from solving import Answer, solved, written
from workload_operators import ROWS

from kube.keys import IGNORE_CLAIMS

Manifest = dict[str, Any]
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
NODES = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "8"}}}
    for name in ("n0", "n1")
]
_GROUP = {"apiVersion": "resource.k8s.io/v1"}
UNPLANNED = [
    {**_GROUP, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    {
        **_GROUP,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}],
                    "constraints": [{"requests": ["gpu"]}],
                }
            }
        },
    },
]
"""A claim with a constraint of a kind that Kubernetes may have later."""
GATED = (
    "with constraints of resource.k8s.io other than matchAttribute and distinctAttribute, and Phalanx does not plan "
    "that yet; "
    "to release the gang without that plan, annotate"
)
NOT_CONSIDERED = "not proven optimal; not considered: dynamic resource claims (spec.resourceClaims)"


def spec(*, claims: bool = True, **requests: str) -> Manifest:
    """A pod's spec: 1 cpu, and these extended resources."""
    asked = {"cpu": "1", **{name.replace("__", "/").replace("_", "."): value for name, value in requests.items()}}
    container = {"name": "c", "image": "i", "resources": {"requests": asked, "limits": asked}}
    return {"containers": [container], **({"resourceClaims": CLAIMS} if claims else {})}


def job(pod: Manifest | None = None, *, annotations: Mapping[str, str] | None = None) -> Manifest:
    """Return a Job of four pods that is a gang. `annotations`: in addition to the one that makes it a gang."""
    template = {"spec": {"restartPolicy": "Never", **(pod or spec())}}
    metadata = {"name": "llm", "annotations": {"phalanx.dev/gang": "true", **(annotations or {})}}
    body = {"parallelism": 4, "completions": 4, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def answer(folder: Path, *manifests: Manifest, nodes: Iterable[Manifest] = NODES) -> Answer:
    """The answer of solve to these objects."""
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [*nodes, *UNPLANNED, *manifests]}).decode()
    return solved(written(folder, text, "written.json"))


def test_a_job_with_claims_stays_gated(tmp_path: Path) -> None:
    assert answer(tmp_path, job()) == Answer(
        "default/llm  Waiting\n"
        f"  stays gated: pods llm-0..3 have resource claims (spec.resourceClaims) {GATED} Job default/llm "
        'phalanx.dev/ignore-resource-claims: "true"\n',
        "",
        3,
    )


def test_by_its_annotation_it_is_released_and_never_called_optimal(tmp_path: Path) -> None:
    said = answer(tmp_path, job(annotations={IGNORE_CLAIMS: "true"}))
    assert said.report.startswith(f"default/llm  Placed  feasible\n  4 pods fit on n0, {NOT_CONSIDERED}\n")
    assert (said.said, said.status) == ("", 0)


def test_a_wrong_value_is_refused(tmp_path: Path) -> None:
    said = answer(tmp_path, job(annotations={IGNORE_CLAIMS: "yes"}))
    assert 'Job default/llm: metadata.annotations[phalanx.dev/ignore-resource-claims]: "yes" is neither' in said.said
    assert said.said.count("\n") == 1
    assert said.status == 2


def pods(count: int, *, claiming: int, labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[Manifest]:
    """Bare pods, of which the first ones have claims."""
    metadata = {"labels": dict(labels), "annotations": dict(annotations)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p-{each}", **metadata},
            "spec": spec(claims=each < claiming),
        }
        for each in range(count)
    ]


GROUPS: Mapping[str, tuple[Manifest, Mapping[str, str], Mapping[str, str]]] = {
    "phalanx": (
        {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "spec": {"minMember": 4}},
        {"phalanx.dev/gang": "g"},
        {},
    ),
    "koordinator": (
        {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 4}},
        {"pod-group.scheduling.sigs.k8s.io": "g"},
        {},
    ),
    "kai": (
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "spec": {"minMember": 4},
        },
        {},
        {"pod-group-name": "g"},
    ),
}


@pytest.mark.parametrize("claiming", [1, 4], ids=["one member has claims", "all have"])
@pytest.mark.parametrize("dialect", GROUPS)
def test_bare_pods_of_every_dialects_groups(tmp_path: Path, dialect: str, claiming: int) -> None:
    group, labels, annotations = GROUPS[dialect]

    def asked(on_group: Mapping[str, str], on_pods: Mapping[str, str]) -> Answer:
        made = {**group, "metadata": {"name": "g", "annotations": dict(on_group)}}
        members = pods(4, claiming=claiming, labels=labels, annotations={**annotations, **on_pods})
        return answer(tmp_path, made, *members)

    held = asked({}, {})
    who = "pod p-0 has" if claiming == 1 else "pods p-0..3 have"
    assert (
        f"  stays gated: {who} resource claims (spec.resourceClaims) {GATED} {group['kind']} default/g" in held.report
    )
    assert held.status == 3
    ignoring = {IGNORE_CLAIMS: "true"}
    for said in (asked(ignoring, {}), asked({}, ignoring)):
        assert NOT_CONSIDERED in said.report, said
        assert IGNORE_CLAIMS not in said.said
        assert said.status == 0


def test_a_pod_that_has_no_annotation_holds_all(tmp_path: Path) -> None:
    group, labels, _ = GROUPS["phalanx"]
    members = pods(4, claiming=2, labels=labels, annotations={})
    members[0]["metadata"]["annotations"] = {IGNORE_CLAIMS: "true"}
    assert answer(tmp_path, {**group, "metadata": {"name": "g"}}, *members).status == 3
    members[1]["metadata"]["annotations"] = {IGNORE_CLAIMS: "true"}
    assert answer(tmp_path, {**group, "metadata": {"name": "g"}}, *members).status == 0


def claiming(part: Any) -> Any:
    """The manifest with claims in each of its pod templates."""
    if isinstance(part, dict):
        found = {key: claiming(value) for key, value in part.items()}
        return {**found, "resourceClaims": CLAIMS} if "containers" in part else found
    return [claiming(each) for each in part] if isinstance(part, list) else part


KINDS = [kind for kind, row in ROWS.items() if "containers" in str(row.spec())]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_workload(tmp_path: Path, kind: str) -> None:
    row = ROWS[kind]
    manifest = claiming(row.manifest(gang="true"))
    held = answer(tmp_path, manifest)
    assert "have resource claims (spec.resourceClaims)" in held.report, held
    assert held.status == 3, held
    manifest["metadata"]["annotations"][IGNORE_CLAIMS] = "true"
    said = answer(tmp_path, manifest)
    assert IGNORE_CLAIMS not in said.said
    assert said.status == 0


def test_a_cron_job_hands_the_annotation_down(tmp_path: Path) -> None:
    made = job()
    cron: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "annotations": {"phalanx.dev/gang": "true"}},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": made["spec"]}},
    }
    assert answer(tmp_path, cron).status == 3
    cron["metadata"]["annotations"][IGNORE_CLAIMS] = "true"
    assert answer(tmp_path, cron).status == 0


def test_what_is_missing_is_said_before(tmp_path: Path) -> None:
    group, labels, _ = GROUPS["phalanx"]
    members = pods(3, claiming=3, labels=labels, annotations={})
    said = answer(tmp_path, {**group, "metadata": {"name": "g"}}, *members)
    assert "waits for 1 more pod: 3 of 4 exist; stays gated: pods p-0..2 have" in said.report
    assert said.status == 3


CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpus"},
    "spec": {"extendedResourceName": "example.com/gpu"},
}
ASKS = spec(claims=False, example_com__gpu="1")


def slice_of(node: str, count: int) -> Manifest:
    """The devices of a node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(count)]
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return {**_GROUP, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def test_an_extended_resource_of_a_device_class_is_planned_as_a_claim(tmp_path: Path) -> None:
    said = answer(tmp_path, job(ASKS), CLASS, slice_of("n1", 4))
    assert "4 pods fit on n1, proven optimal" in said.report
    assert said.status == 0
    said = answer(tmp_path, job(ASKS), CLASS)
    assert "needs 4 pods: the cluster holds 0 of 4 (2 nodes: Insufficient devices of gpus" in said.report


def test_the_name_that_every_device_class_has_of_its_own(tmp_path: Path) -> None:
    asked = spec(claims=False)
    for amounts in asked["containers"][0]["resources"].values():
        amounts["deviceclass.resource.kubernetes.io/gpus"] = "1"
    assert "4 pods fit on n1" in answer(tmp_path, job(asked), CLASS, slice_of("n1", 4)).report
    assert "waits for DeviceClass gpus" in answer(tmp_path, job(asked)).report


def test_where_a_node_has_the_resource_it_is_planned_there(tmp_path: Path) -> None:
    nodes = [NODES[0], {**NODES[1], "status": {"allocatable": {"cpu": "8", "example.com/gpu": "4"}}}]
    said = answer(tmp_path, job(ASKS), CLASS, nodes=nodes)
    assert "4 pods fit on n1, proven optimal\n" in said.report
    assert said.status == 0


@pytest.mark.parametrize(
    ("more", "note"),
    [
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "ScheduleAnyway"}]},
            "soft topology spread (whenUnsatisfiable: ScheduleAnyway)",
        ),
        ({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]}, "tolerations that compare numbers"),
    ],
    ids=["soft spread", "numeric tolerations"],
)
def test_no_plan_that_leaves_something_out_is_optimal(tmp_path: Path, more: Manifest, note: str) -> None:
    said = answer(tmp_path, job({**spec(claims=False), **more}))
    assert said.report.startswith("default/llm  Placed  feasible\n")
    assert f"not proven optimal; not considered: {note}" in said.report
