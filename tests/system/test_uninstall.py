"""`phalanx uninstall` on a control plane of its own: nothing is left waiting, nothing that runs is touched."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from system import Phalanx, node, numbered, pod, pod_group, priority_class
from system_fixtures import older_scheduler

from cli.installation.installed_objects import custom_resource_definitions
from controlplane.control_plane import ControlPlane
from controlplane.deployment import Deployment
from controlplane.programs.other_versions import asked_for
from kube.keys import GATE

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

VICTIMS = numbered("victim", 2)
LEFT_BEHIND = (
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicies",
    "clusterroles",
    "clusterrolebindings",
    "priorityclasses",
)


@pytest.fixture
def phalanx() -> Iterator[Phalanx]:
    """An installation that is there to be removed."""
    with ControlPlane(binaries=asked_for()) as plane:
        deployment = Deployment(plane, controller_options=older_scheduler())
        deployment.install()
        deployment.start_webhook()
        deployment.register_webhook()
        deployment.start_controller()
        running = Phalanx(plane, deployment)
        yield running
        running.show_logs()


def attempt(phalanx: Phalanx, *options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command as the administrator, without a terminal."""
    program = [sys.executable, "-c", "from cli.main import main; main()", "uninstall", *options]
    command = [*program, "--kubeconfig", str(phalanx.cluster.kubeconfig)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def uninstall(phalanx: Phalanx, *options: str, stdin: str = "") -> str:
    """Run the command as the administrator; return its output."""
    answer = attempt(phalanx, *options, stdin=stdin)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


def gated(phalanx: Phalanx) -> set[str]:
    """The pods that wait behind our gate."""
    found = ((each["metadata"]["name"], each["spec"].get("schedulingGates", ())) for each in phalanx.pods())
    return {name for name, gates in found if {"name": GATE} in gates}


def planned(phalanx: Phalanx) -> dict[str, str]:
    """Return the nodes that are reserved for members of the gang `high`."""
    reserved = phalanx.reserved()
    return {name: reserved.get(name, "") for name in numbered("high", 2)}


def some_run(phalanx: Phalanx) -> None:
    """Create the pods that become victims on n0 and n1, and `steady` on n2, which has more free capacity."""
    phalanx.cluster.add_nodes(node(f"n{index}", "s0", "b0") for index in range(3))
    phalanx.submit(priority_class("important", 1000))
    victims = [pod(name, nodeName=f"n{index}") for index, name in enumerate(VICTIMS)]
    phalanx.submit(*victims, pod_group("steady", 1), pod("steady-0", "steady", cpu=2))
    phalanx.await_bound(["steady-0", *VICTIMS])


def others_wait(phalanx: Phalanx) -> None:
    """Create a gang whose victims do not end, one that is not complete, and a pod with a gate of its own."""
    high = [pod(name, "high", cpu=7, priorityClassName="important") for name in numbered("high", 2)]
    phalanx.submit(pod_group("high", 2), *high)
    phalanx.wait(lambda: all(planned(phalanx).values()), "the room to be held")
    both = pod("short-1", "short", cpu=1, schedulingGates=[{"name": "example.com/mine"}])
    phalanx.submit(pod_group("short", 3), pod("short-0", "short", cpu=1), both)
    phalanx.wait(lambda: gated(phalanx) == {"high-0", "high-1", "short-0", "short-1"}, "all to be gated")


def test_all_gates_are_opened_everything_of_ours_goes_and_what_runs_stays(phalanx: Phalanx) -> None:
    some_run(phalanx)
    with phalanx.slow_to_end(*VICTIMS):
        others_wait(phalanx)
        nodes, steady = planned(phalanx), phalanx.pod("steady-0")
        before = gated(phalanx)
        refused = attempt(phalanx, stdin="y\n")
        assert refused.returncode == 2
        assert "a gang has no plan or no quota" in refused.stderr
        assert gated(phalanx) == before
        said = uninstall(phalanx, "--yes")
    assert said.startswith("These gangs have no plan or no quota.")
    (line,) = [each for each in said.splitlines() if each.startswith("  default/")]
    assert line.split()[:2] == ["default/short", "Waiting"]
    assert "2 pods released that had a plan" in said
    assert "2 without one" in said
    assert gated(phalanx) == set()
    assert phalanx.pod("short-1")["spec"]["schedulingGates"] == [{"name": "example.com/mine"}]
    assert phalanx.await_bound([*numbered("high", 2), "short-0"]).items() >= nodes.items()
    assert phalanx.pod("steady-0")["metadata"]["uid"] == steady["metadata"]["uid"]
    phalanx.submit(pod("after", "steady", cpu=1))
    phalanx.await_bound(["after"])
    for kind in LEFT_BEHIND:
        names = phalanx.cluster.kubectl("get", kind, "-o", "name").splitlines()
        assert not [name for name in names if "phalanx" in name], kind
    namespace = phalanx.cluster.request("GET", "/api/v1/namespaces/phalanx-system")
    assert namespace["kind"] == "Status" or namespace["metadata"]["deletionTimestamp"]
    assert phalanx.cluster.request("GET", "/apis/phalanx.dev/v1alpha1/gangs")["items"] == []
    assert len(definitions(phalanx)) == len(custom_resource_definitions())

    again = uninstall(phalanx, "--yes")
    assert {line.split(": ")[1] for line in again.splitlines()} == {"none left", "no pod was waiting"}

    theirs = ("crd/topologies.kueue.x-k8s.io", "app.kubernetes.io/name=kueue")
    phalanx.cluster.kubectl("label", "--overwrite", *theirs)
    uninstall(phalanx, "--yes", "--definitions")
    phalanx.wait(lambda: definitions(phalanx) == {"topologies.kueue.x-k8s.io"}, "the definitions to go but another's")


def definitions(phalanx: Phalanx) -> set[str]:
    """Return the names of the product's own CustomResourceDefinitions that exist."""
    ours = {each["metadata"]["name"] for each in custom_resource_definitions()}
    found = phalanx.cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    return ours & {each["metadata"]["name"] for each in found}
