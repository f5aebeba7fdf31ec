"""Workloads whose child workload is the gang: how their annotations are propagated on a real control plane.

Racks r1: n0 … n3, r2: n4 … n6. A pod fills a node, so that a gang of four fits in r1 alone.
"""

from collections.abc import Callable, Iterator

import pytest
from asking import RACK as RACK_LABEL
from foreign_kinds import served
from system import Object, Phalanx, one_line
from two_racks import apply_two_racks

from controlplane.control_plane import ControlPlane
from controlplane.recording import bound
from controlplane.running.stages import GOES_ON
from gangs.workloads.kind_table import WORKLOADS

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

R1 = {"n0", "n1", "n2", "n3"}
VERSIONS = {("workload.codeflare.dev", "AppWrapper"): "v1beta2"}
RACK = {"phalanx.dev/required": "rack"}
CRON_JOB = "/apis/batch/v1/namespaces/default/cronjobs/w"


@pytest.fixture(scope="module")
def definitions(control_plane: ControlPlane) -> Iterator[None]:
    """Serve the kinds of other projects until the module's tests are over."""
    with served(control_plane, VERSIONS):
        yield


@pytest.fixture
def racks(phalanx: Phalanx) -> Phalanx:
    """Seven nodes in two racks, and a topology over them."""
    return apply_two_racks(phalanx, 7)


def job() -> Object:
    """Return the spec of a Job of four long-running pods, of which each fills a node."""
    container = {"name": "c", "image": "b", "resources": {"requests": {"cpu": "6"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": {GOES_ON: "true"}}, "spec": pod}
    return {"parallelism": 4, "completions": 4, "template": template}


def workload(api_version: str, kind: str, spec: Object) -> Object:
    """A workload that asks for a rack."""
    metadata = {"name": "w", "namespace": "default", "annotations": dict(RACK)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def written(phalanx: Phalanx) -> Object:
    """The annotations that Jobs of the CronJob will have."""
    found = phalanx.cluster.request("GET", CRON_JOB)["spec"]["jobTemplate"]["metadata"]
    return {key: value for key, value in (found.get("annotations") or {}).items() if key.startswith("phalanx.dev/")}


def test_every_job_of_a_cron_job_is_a_gang(racks: Phalanx) -> None:
    manifest = workload("batch/v1", "CronJob", {"schedule": "0 0 29 2 *", "jobTemplate": {"spec": job()}})
    racks.apply_once_told("gang default/w-: 4 pods fit in r1: n0..3", manifest)
    assert written(racks) == RACK
    for name in ("first", "second"):
        racks.cluster.kubectl("create", "job", name, "--from=cronjob/w")
    racks.await_phase("first", "Placed")
    nodes = {
        each["metadata"]["name"]: each["spec"].get("nodeName")
        for each in racks.pods()
        if "first" in str(each["metadata"])
    }
    assert set(nodes.values()) == R1
    assert "needs 4 pods in one rack" in racks.await_phase("second", "Unplaceable")["message"]

    racks.cluster.kubectl("annotate", "cronjob", "w", "phalanx.dev/preferred=rack", "phalanx.dev/required-")
    assert written(racks) == {"phalanx.dev/preferred": "rack"}
    late = racks.cluster.kubectl_result("annotate", "cronjob", "w", "phalanx.dev/min-member=5")
    assert "metadata.annotations[phalanx.dev/min-member]: 5 is more than the 4 pods" in one_line(late.stderr)


@pytest.mark.usefixtures("definitions")
def test_what_an_operator_hands_on_is_written_where_it_looks(racks: Phalanx) -> None:
    inner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, "spec": job()}
    wrapper = workload("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": inner}]})
    racks.apply_once_told("gang default/inner: 4 pods fit in r1: n0..3", wrapper)
    plural = WORKLOADS["workload.codeflare.dev", "AppWrapper"].plural
    stored = racks.cluster.request("GET", f"/apis/workload.codeflare.dev/v1beta2/namespaces/default/{plural}/w")
    made = stored["spec"]["components"][0]["template"]
    assert made["metadata"]["annotations"] == RACK
    racks.submit(made)
    racks.await_phase("inner", "Placed")
    wrapper["spec"]["components"].append({"template": {**inner, "metadata": {"name": "other"}}})
    wrapper["metadata"]["name"] = "two"
    racks.await_refusal("spec.components: holds 2 workloads that can be gangs", wrapper)


def by_keys_of(dialect: str, job_template: Object) -> Object:
    """Make the Jobs of a template ask for one rack by other systems' keys; return the parent's own annotations."""
    if dialect == "Kueue's":
        job_template["metadata"] = {**job_template.get("metadata", {}), "labels": {"kueue.x-k8s.io/queue-name": "q"}}
        annotations = job_template["spec"]["template"]["metadata"]["annotations"]
        annotations["kueue.x-k8s.io/podset-required-topology"] = RACK_LABEL
        return {}
    return {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack"}


others = pytest.mark.parametrize("dialect", ["Kueue's", "Run:ai's"])


@others
def test_every_job_of_a_cron_job_is_a_gang_by_other_systems_keys(phalanx: Phalanx, dialect: str) -> None:
    apply_two_racks(phalanx, 7, dialect)
    template: Object = {"spec": job()}
    manifest = workload("batch/v1", "CronJob", {"schedule": "0 0 29 2 *", "jobTemplate": template})
    manifest["metadata"]["annotations"] = by_keys_of(dialect, template)
    phalanx.apply_once_told("4 pods fit in r1: n0..3", manifest)
    starts_once_and_not_twice(phalanx, lambda name: phalanx.cluster.kubectl("create", "job", name, "--from=cronjob/w"))


@others
@pytest.mark.usefixtures("definitions")
def test_what_an_app_wrapper_holds_is_a_gang_by_other_systems_keys(phalanx: Phalanx, dialect: str) -> None:
    """The test creates the objects that the AppWrapper's operator would create."""
    apply_two_racks(phalanx, 7, dialect)

    def make(name: str) -> None:
        inner: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job()}
        annotations = by_keys_of(dialect, inner)
        wrapper = workload("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": inner}]})
        labels = inner["metadata"].pop("labels", {})  # a queue is named on the wrapper, as Kueue has it
        wrapper["metadata"] |= {"name": f"{name}-wrapper", "annotations": annotations, "labels": labels}
        phalanx.submit(wrapper)
        plural = WORKLOADS["workload.codeflare.dev", "AppWrapper"].plural
        path = f"/apis/workload.codeflare.dev/v1beta2/namespaces/default/{plural}/{name}-wrapper"
        phalanx.submit(phalanx.cluster.request("GET", path)["spec"]["components"][0]["template"])

    starts_once_and_not_twice(phalanx, make)


def starts_once_and_not_twice(phalanx: Phalanx, make: Callable[[str], object]) -> None:
    """Check that of two Jobs of four pods in one rack the first starts as a whole, and the other finds no capacity."""
    with phalanx.record() as recorder:
        make("first")
        phalanx.await_phase("first", "Placed")
        make("second")
        assert "needs 4 pods in one" in phalanx.await_phase("second", "Unplaceable")["message"]
        events = recorder.events
    first = [each for each in events if each.name.startswith("first-")]
    complete = [number for number, event in enumerate(first) if event.type == "ADDED"][3]
    assert not any(bound(event) for event in first[:complete]), "some started before all were there"
    assert {each.object["spec"]["nodeName"] for each in first if bound(each)} == R1
    assert not [each.name for each in events if each.name.startswith("second-") and bound(each)]
