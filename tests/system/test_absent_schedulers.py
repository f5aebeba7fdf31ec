"""Gangs whose pods name a scheduler that does not run start all the same.

A scheduler that stops scheduling is detected.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from node_manifests import node_manifest
from system import Object, Phalanx, one_line
from test_doctor import doctor

from controlplane.control_plane import ControlPlane
from controlplane.deployment import Deployment
from controlplane.rendering import MANIFESTS

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

FILES = Path(__file__).parents[1] / "faults" / "schedulers"
CONFIG = "/api/v1/namespaces/phalanx-system/configmaps/phalanx-schedulers"
SECONDS = 3
GOES_ON = {"kwok.phalanx.dev/goes-on": "true"}


@pytest.fixture(scope="module")
def impatient(deployment: Deployment, control_plane: ControlPlane) -> Iterator[Phalanx]:
    """Phalanx with a controller that waits only three seconds for a scheduler, and has observed none yet."""
    running = Phalanx(control_plane, deployment)
    begin_anew(running)
    yield running
    control_plane.program("controller").kill()
    forget(running)


@pytest.fixture
def soon(impatient: Phalanx, cluster: ControlPlane) -> Iterator[Phalanx]:
    """Phalanx on a clean cluster of eight nodes, without memory of the schedulers of an earlier test."""
    running = impatient
    if noted(running) or not cluster.program("controller").running:
        begin_anew(running)
    running.deployment.register_webhook()
    nodes = [node_manifest(f"n{number}", {"zone": "a", "rack": f"r{number // 4}"}) for number in range(8)]
    for each in nodes:
        each["status"]["allocatable"]["nvidia.com/gpu"] = each["status"]["capacity"]["nvidia.com/gpu"] = "8"
    cluster.add_nodes(nodes)
    yield running
    running.show_logs()


def begin_anew(phalanx: Phalanx) -> None:
    """With a controller that knows of no scheduler."""
    if phalanx.cluster.program("controller").running:
        phalanx.cluster.program("controller").kill()
    forget(phalanx)
    phalanx.ensure_servers("--untried-seconds", SECONDS)


def forget(phalanx: Phalanx) -> None:
    """Nothing is known of any scheduler."""
    phalanx.cluster.request("PUT", CONFIG, config())


def config(**data: str) -> Object:
    """The ConfigMap."""
    metadata = {"name": "phalanx-schedulers", "namespace": "phalanx-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def noted(phalanx: Phalanx) -> dict[str, str]:
    """Return the data of the ConfigMap with the observed schedulers; empty if there is none."""
    data: dict[str, str] = phalanx.cluster.request("GET", CONFIG).get("data") or {}
    return data


def seen_to_bind(phalanx: Phalanx, scheduler: str, node: str = "n7") -> None:
    """A pod that this scheduler has bound, as schedulers do, and a webhook that knows it."""
    name, pods = f"bound-by-{scheduler}", "/api/v1/namespaces/default/pods"
    phalanx.cluster.request("POST", pods, pod(name, scheduler))
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    answer = phalanx.cluster.request("POST", f"{pods}/{name}/binding", binding)
    assert answer.get("status") == "Success", answer
    phalanx.apply_once_told(f'"{scheduler}" runs here', member("probe-of-the-webhook", "nobody", scheduler))
    phalanx.cluster.kubectl("delete", "pod", "probe-of-the-webhook")


def pod(name: str, scheduler: str, **spec: Any) -> Object:
    """A pod of one cpu that names a scheduler."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    whole = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    metadata: Object = {"name": name, "namespace": "default", "annotations": GOES_ON}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def member(name: str, gang: str, scheduler: str) -> Object:
    """Return a pod of this scheduler that is a member of a gang."""
    made = pod(name, scheduler)
    made["metadata"]["labels"] = {"phalanx.dev/gang": gang}
    return made


def gang(name: str, minimum: int) -> Object:
    """Return a Gang object."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": {"minMember": minimum}}


def schedulers(phalanx: Phalanx) -> set[tuple[str, bool]]:
    """Of every pod, its scheduler and whether it has a node."""
    return {(each["spec"]["schedulerName"], bool(each["spec"].get("nodeName"))) for each in phalanx.pods()}


BESIDE: dict[str, list[Object]] = {
    "own-kai": [],
    "kueue-kai": [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"clusterQueue": "pool"},
        },
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ResourceFlavor",
            "metadata": {"name": "any"},
            "spec": {},
        },
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ClusterQueue",
            "metadata": {"name": "pool"},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu", "nvidia.com/gpu"],
                        "flavors": [
                            {
                                "name": "any",
                                "resources": [
                                    {"name": "cpu", "nominalQuota": 64},
                                    {"name": "nvidia.com/gpu", "nominalQuota": 64},
                                ],
                            }
                        ],
                    }
                ],
            },
        },
    ],
    "kai-podgroup-runai": [],
    "runai-volcano": [
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "network"},
            "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]},
        }
    ],
}
SAID = {
    "own-kai": '"kai-scheduler" does not run here',
    "kueue-kai": '"kai-scheduler" does not run here',
    "kai-podgroup-runai": '"runai-scheduler" does not run here',
    "runai-volcano": '"volcano" does not run here',
}


@pytest.mark.parametrize(
    "file", [pytest.param(each, marks=[] if each == "own-kai" else pytest.mark.long) for each in SAID]
)
def test_a_job_that_names_an_absent_scheduler_starts(soon: Phalanx, file: str) -> None:
    if BESIDE[file]:
        soon.submit(*BESIDE[file])
    objects = list(yaml.safe_load_all((FILES / f"{file}.yaml").read_text()))
    soon.apply_once_told(SAID[file], *objects)
    size = next(each["spec"]["parallelism"] for each in objects if each["kind"] == "Job")
    soon.wait(
        lambda: len(soon.pods()) == size and all(each["spec"].get("nodeName") for each in soon.pods()),
        "all pods to be bound",
    )
    assert {each["spec"]["schedulerName"] for each in soon.pods()} == {"default-scheduler"}


def test_a_job_of_an_automatic_namespace_starts_too(soon: Phalanx) -> None:
    soon.cluster.kubectl("label", "namespace", "default", "phalanx.dev/automatic=true")
    try:
        soon.apply_files(FILES / "automatic-runai.yaml")
        soon.wait(lambda: schedulers(soon) == {("default-scheduler", True)}, "its pods to be bound")
    finally:
        soon.cluster.kubectl("label", "namespace", "default", "phalanx.dev/automatic-")


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_a_pod_that_names_one_can_be_applied_again(soon: Phalanx, how: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(yaml.safe_dump_all([gang("twice", 1), member("twice-0", "twice", "kai-scheduler")]))
    soon.apply_once_told('"kai-scheduler" does not run here', *yaml.safe_load_all(file.read_text()))
    soon.cluster.kubectl("delete", "-f", str(file))
    soon.wait(lambda: not soon.pods(), "the trial to be gone")
    answer = soon.cluster.kubectl_result("apply", *how, "--dry-run=server", "-f", str(file))
    assert answer.returncode == 0
    assert soon.pods() == []
    for _ in range(2):
        answer = soon.cluster.kubectl_result("apply", *how, "-f", str(file))
        assert answer.returncode == 0, answer.stderr
        soon.await_bound(["twice-0"])
        assert schedulers(soon) == {("default-scheduler", True)}
    assert soon.cluster.kubectl_result("diff", *how, "-f", str(file)).returncode == 0


def test_a_scheduler_that_falls_silent_is_found_out_and_its_room_given_back(soon: Phalanx) -> None:
    seen_to_bind(soon, "volcano")
    soon.submit(gang("silent", 2), member("silent-0", "silent", "volcano"), member("silent-1", "silent", "volcano"))
    told = (
        "0 of 2 pods are bound on n7; volcano has not tried 2 pods (silent-0, silent-1) within 3 s of their release: "
        "their capacity is freed; delete them and create them again, for default-scheduler to start them"
    )
    soon.wait(lambda: "has not tried" in soon.status("silent").get("message", ""), "the gang to say so")
    assert soon.status("silent")["message"] == told
    assert (soon.status("silent")["phase"], soon.status("silent")["reason"]) == ("Released", "NotTried")
    soon.wait(lambda: noted(soon).get("volcano", "").startswith("untried "), "the scheduler to be noted")
    names = ("silent-0", "silent-1")
    soon.wait(lambda: not any(soon.pod(each)["status"].get("nominatedNodeName") for each in names), "the room")
    events = soon.cluster.kubectl("get", "events", "-o", "custom-columns=R:.reason,O:.involvedObject.name", "-A")
    assert {"GangUntried silent", "MemberUntried silent-0"} <= {" ".join(line.split()) for line in events.splitlines()}
    answer = doctor(soon)
    if "has not tried" in answer.stdout:  # it allows a scheduler half a minute
        assert "error    Gang default/silent: volcano has not tried 2 pods that were released" in answer.stdout
    soon.cluster.kubectl("delete", "pod", *names)
    again = [member(each, "silent", "volcano") for each in names]
    soon.wait(lambda: '"volcano" does not run here' in one_line(soon.apply(*again)), "the webhook to have learnt")
    soon.await_bound(names)


def test_a_silent_schedulers_members_are_made_again_where_that_is_free(soon: Phalanx) -> None:
    seen_to_bind(soon, "volcano")
    labels = {"app": "set", "phalanx.dev/gang": "set"}
    spec = member("x", "set", "volcano")["spec"]
    template = {"metadata": {"labels": labels, "annotations": GOES_ON}, "spec": spec}
    whole = {
        "replicas": 3,
        "serviceName": "set",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "set"}},
        "template": template,
    }
    metadata = {"name": "set", "namespace": "default"}
    before = len(soon.pods())
    soon.submit(gang("set", 3), {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": whole})
    soon.wait(lambda: ("volcano", False) in schedulers(soon), "the pods to come")
    soon.wait(
        lambda: (
            [each["spec"]["schedulerName"] for each in soon.pods() if each["metadata"].get("labels")]
            == ["default-scheduler"] * 3
        ),
        "the pods to be recreated",
    )
    soon.await_bound(["set-0", "set-1", "set-2"])
    assert len(soon.pods()) == before + 3
    events = soon.cluster.kubectl("get", "events", "-o", "custom-columns=R:.reason,O:.involvedObject.name")
    assert {f"MemberMadeAgain set-{number}" for number in range(3)} <= {
        " ".join(line.split()) for line in events.splitlines()
    }
    assert noted(soon)["volcano"].split()[2] == "1"


@pytest.mark.parametrize(("limit", "free"), [(6, True), (1, False)])
def test_a_silent_schedulers_job_is_made_again_where_it_can_pay_for_it(soon: Phalanx, limit: int, free: bool) -> None:  # noqa: FBT001
    seen_to_bind(soon, "volcano")
    job = yaml.safe_load((FILES / "own-kai.yaml").read_text())
    job["spec"]["backoffLimit"] = limit
    job["spec"]["template"]["spec"]["schedulerName"] = "volcano"
    job["spec"]["template"]["metadata"] = {"annotations": GOES_ON}
    soon.submit(job)
    if free:
        soon.wait(lambda: ("default-scheduler", True) in schedulers(soon), "its pods to be recreated")
        found = soon.cluster.request("GET", "/apis/batch/v1/namespaces/default/jobs/own-kai")
        assert not any(each["type"] == "Failed" for each in found["status"].get("conditions", ()))
        return
    said = "suspend Job default/own-kai and resume it (spec.suspend), for its pods to be recreated"
    soon.wait(lambda: said in soon.status("own-kai").get("message", ""), "the remedy")
    soon.wait(lambda: "volcano" in noted(soon), "the scheduler to be noted")

    def has_one_pod(*, expected: bool) -> bool:
        return (len(soon.pods()) == 1) is expected

    for value in ("true", "false"):
        soon.cluster.kubectl("patch", "job", "own-kai", "-p", f'{{"spec":{{"suspend":{value}}}}}')
        soon.wait(partial(has_one_pod, expected=value == "true"), "its pods to go and come")
    soon.wait(lambda: schedulers(soon) == {("volcano", True), ("default-scheduler", True)}, "its pods to be bound")


def test_what_a_person_has_said_of_a_scheduler_holds(soon: Phalanx) -> None:
    soon.cluster.request("PUT", CONFIG, config(**{"my-profile": "runs"}))
    soon.apply_once_told('"my-profile" runs here', gang("said", 1), member("said-0", "said", "my-profile"))
    soon.wait(lambda: "has not tried 1 pod (said-0)" in soon.status("said").get("message", ""), "the gang to say so")
    assert noted(soon) == {"my-profile": "runs"}
    soon.cluster.request("PUT", CONFIG, config(**{"my-profile": "absent"}))
    soon.cluster.kubectl("delete", "pod", "said-0")
    again = member("said-0", "said", "my-profile")
    soon.wait(lambda: '"my-profile" does not run here' in one_line(soon.apply(again)), "the webhook to know")
    soon.await_bound(["said-0"])


def unscheduled(phalanx: Phalanx) -> list[str]:
    """Return the names of the pods with an event SchedulerAbsent."""
    lines = phalanx.cluster.kubectl("get", "events", "-o", "custom-columns=R:.reason,O:.involvedObject.name").split(
        "\n"
    )
    return sorted(line.split()[1] for line in lines if line.startswith("SchedulerAbsent"))


def test_pods_of_no_gang_are_told_that_their_scheduler_is_not_there(soon: Phalanx) -> None:
    soon.apply_files(
        *(FILES / f"{name}.yaml" for name in ("kai-quickstart-pod", "runai-notebook", "lone-koord-deploy"))
    )
    soon.apply_files(FILES / "kai-quickstart-job.yaml")
    soon.wait(lambda: len(soon.pods()) == 7, "all pods to be made")
    soon.wait(lambda: len(unscheduled(soon)) == 7, "their users to be told")
    assert {"gpu-pod", "notebook"} < set(unscheduled(soon))
    assert not any(bound for _, bound in schedulers(soon))
    told = doctor(soon).stdout
    assert "warning  Scheduler kai-scheduler: does not run here, and 4 pods of no gang wait for it: default/" in told
    assert "warning  Scheduler koord-scheduler: does not run here, and 2 pods of no gang wait for it: default/" in told
    assert "Scheduler runai-scheduler: does not run here, and 1 pod of no gang waits for it: default/notebook" in told


def test_they_are_handed_over_by_choice_and_can_be_applied_again(soon: Phalanx) -> None:
    register_for_absent_schedulers(soon)
    files = [FILES / f"{name}.yaml" for name in ("kai-quickstart-pod", "runai-notebook", "lone-koord-pod")]
    soon.wait(
        lambda: (
            "default-scheduler starts the pod"
            in one_line(soon.cluster.kubectl_result("apply", "--dry-run=server", "-f", str(files[0])).stderr)
        ),
        "the API server to ask",
    )
    arguments = [part for file in files for part in ("-f", str(file))]
    answer = soon.cluster.kubectl_result("apply", *arguments)
    assert 'Pod default/notebook: spec.schedulerName: "runai-scheduler" does not run here' in one_line(answer.stderr)
    soon.await_bound(["gpu-pod", "notebook"])
    soon.wait(
        lambda: {name for name, _ in schedulers(soon)} == {"default-scheduler"}, "all to be the stock scheduler's"
    )
    assert soon.cluster.kubectl_result("apply", *arguments).returncode == 0
    assert soon.cluster.kubectl_result("diff", *arguments).returncode == 0
    soon.apply_files(FILES / "kai-quickstart-job.yaml")
    soon.wait(
        lambda: sum(bool(each["spec"].get("nodeName")) for each in soon.pods()) >= 5, "the Job's pods to be bound"
    )


def register_for_absent_schedulers(phalanx: Phalanx) -> None:
    """As the component does."""
    folder = MANIFESTS / "absent-schedulers"
    (entry,) = yaml.safe_load((folder / "webhook.yaml").read_text())["webhooks"]
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-phalanx"
    configuration = phalanx.cluster.request("GET", path)
    client = {
        "url": phalanx.deployment.webhook_url() + entry["clientConfig"]["service"]["path"],
        "caBundle": configuration["webhooks"][0]["clientConfig"]["caBundle"],
    }
    configuration["webhooks"].append({**entry, "clientConfig": client})
    answer = phalanx.cluster.request("PUT", path, configuration)
    assert answer["kind"] == "MutatingWebhookConfiguration", answer
