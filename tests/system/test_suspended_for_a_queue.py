"""Workloads written suspended for their queue, as Kueue's users write them, and their real operators make the pods.

They start, their manifests can be applied again, and a user's own suspension holds. Racks r1: n0 … n3, r2: n4 … n6. A
pod fills a node, so that a gang of four fits in r1 alone.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from asking import DIALECTS
from system import Object, Phalanx, one_line
from test_train_jobs import RUNTIME, train_job
from two_racks import apply_two_racks
from workload_operators import ROWS

from controlplane import operators
from controlplane.control_plane import ControlPlane
from controlplane.operator_processes import Running, running
from controlplane.running.stages import GOES_ON
from gangs.workloads.kind_table import WORKLOADS
from kube.keys import CREATED_SUSPENDED

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

R1 = ["n0", "n1", "n2", "n3"]


@dataclass(frozen=True, slots=True)
class Case:
    """A kind, its operators, and the message of its waiting gang; "": it has no gang while it is suspended."""

    kind: str
    operators: tuple[str, ...]
    waits: str


def _its_user(kind: str, field: str) -> str:
    return f"waits for {kind} default/w to be resumed (it is suspended by {field})"


CASES = (
    Case("JobSet", ("jobset",), _its_user("JobSet", "spec.suspend")),
    Case("TrainJob", ("jobset", "trainer"), "waits for JobSet default/w to be resumed (by TrainJob w, which made it)"),
    Case("PyTorchJob", ("training-operator",), _its_user("PyTorchJob", "spec.runPolicy.suspend")),
    Case("MPIJob", ("mpi-operator",), _its_user("MPIJob", "spec.runPolicy.suspend")),
    Case("RayCluster", ("kuberay",), _its_user("RayCluster", "spec.suspend")),
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(each, id=each.kind, marks=[] if each.kind == "JobSet" else pytest.mark.long) for each in CASES
    ],
)
def operated(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[tuple[Case, list[Running]]]:
    """A kind with its operators running."""
    with ExitStack() as stack:
        yield request.param, [stack.enter_context(running(control_plane, each)) for each in request.param.operators]


@pytest.fixture
def case(operated: tuple[Case, list[Running]], phalanx: Phalanx) -> Case:
    """Seven nodes in two racks, Kueue's topology over them, the operators' webhooks, and the TrainJob's runtime."""
    case, all_running = operated
    for each in all_running:
        each.register()
    apply_two_racks(phalanx, 7, "Kueue's")
    if case.kind == "TrainJob":
        runtime = yaml.safe_load((operators.source("trainer") / RUNTIME).read_text())
        (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
        job["template"]["spec"]["template"]["metadata"] = {"annotations": {GOES_ON: "true"}}
        phalanx.submit(runtime)
    return case


@pytest.fixture
def file(case: Case, tmp_path: Path) -> str:
    """The manifest, suspended, of four pods of which each fills a node."""
    if case.kind == "TrainJob":
        found = train_job(4, "Kueue's")
    else:
        text = yaml.safe_dump(ROWS[case.kind].manifest(), sort_keys=False)
        found = yaml.safe_load(text.replace("cpu: '1'", "cpu: '6'"))
        DIALECTS["Kueue's"](found)
    for job in found["spec"].get("replicatedJobs", ()):  # else JobSet's own webhook refuses what is applied again
        job["template"]["spec"]["completionMode"] = "Indexed"
        job["template"]["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    field_of(found, case)[1]["suspend"] = True
    path = tmp_path / "workload.yaml"
    path.write_text(yaml.safe_dump(found))
    return str(path)


def row_path(case: Case) -> tuple[str, str]:
    """Return the path of the workload at the API server, and the field that suspends it."""
    (at,) = (each for each in WORKLOADS if each[1] == case.kind)
    group, row = at[0], WORKLOADS[at]
    version = {"TrainJob": "v1alpha1"}.get(case.kind) or ROWS[case.kind].version
    return f"/apis/{group}/{version}/namespaces/default/{row.plural}/w", row.suspended_at


def field_of(manifest: Object, case: Case) -> tuple[str, Object]:
    """Return the field that suspends the workload, and the object that contains the field."""
    field, part = row_path(case)[1], manifest
    for step in field.split(".")[:-1]:
        part = part.setdefault(step, {})
    return field, part


def suspended(phalanx: Phalanx, case: Case) -> bool:
    """Return the value of the workload's field `suspend`."""
    return bool(field_of(phalanx.cluster.request("GET", row_path(case)[0]), case)[1].get("suspend"))


def kubectl(phalanx: Phalanx, *arguments: str) -> str:
    """Run kubectl as a user does; return its output and warnings as one line."""
    answer = phalanx.cluster.kubectl_result(*arguments)
    assert answer.returncode == 0, answer.stderr
    return one_line(answer.stdout + answer.stderr)


def command(told: str) -> list[str]:
    """Return the arguments of the command that a warning names."""
    (found,) = re.findall(r"kubectl (-n .*?-p '[^']*')", told)
    return shlex.split(found)


def uids(phalanx: Phalanx) -> set[str]:
    """Return the uids of the pods."""
    return {each["metadata"]["uid"] for each in phalanx.pods()}


def await_all(phalanx: Phalanx) -> None:
    """Returns when all its pods are bound, in the one rack that holds them."""
    phalanx.wait(
        lambda: sorted(each["spec"].get("nodeName", "") for each in phalanx.pods()) == R1, "all pods to be bound in r1"
    )


@pytest.mark.parametrize(
    "how",
    [pytest.param((), id="client-side"), pytest.param(("--server-side",), marks=pytest.mark.long, id="server-side")],
)
def test_it_starts_can_be_applied_again_and_its_users_suspension_holds(
    phalanx: Phalanx, case: Case, file: str, how: tuple[str, ...]
) -> None:
    kubectl(phalanx, "apply", *how, "-f", file)
    await_all(phalanx)
    assert not suspended(phalanx, case)
    before = uids(phalanx)
    lifted = kubectl(phalanx, "apply", *how, "-f", file)
    assert f"{case.kind} default/w: {row_path(case)[1]}: was lifted when the {case.kind} was made" in lifted
    assert not suspended(phalanx, case)
    assert "suspend" not in phalanx.cluster.kubectl_result("diff", *how, "-f", file).stdout
    assert uids(phalanx) == before

    told = kubectl(phalanx, *command(lifted))
    assert f"{case.kind} default/w: {row_path(case)[1]}: is suspended by its user" in told
    phalanx.wait(lambda: not phalanx.pods(), "its pods to be deleted")
    phalanx.wait(lambda: phalanx.status("w").get("message") == case.waits, "the Gang to say so")
    assert suspended(phalanx, case)

    kubectl(phalanx, *command(told))
    await_all(phalanx)
    assert before.isdisjoint(uids(phalanx))
    noted = phalanx.cluster.request("GET", row_path(case)[0])["metadata"]["annotations"]
    assert noted[CREATED_SUSPENDED] == "true"
