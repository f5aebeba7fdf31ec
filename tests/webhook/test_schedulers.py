"""Which scheduler a gang's pod goes to: the stock one, unless the one that it names runs here.

It was: the pods of five files lost their gate, held room, and stayed Pending at a scheduler that was not there.
"""

from itertools import product
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import pytest
from click.testing import CliRunner
from pictures import StillPicture, pod

from cli.main import group
from cluster.schedulers import SchedulerIndex, tried_of
from gangs.coexistence.running_schedulers import learnt, runs
from gangs.dialects.reading import read_all
from gangs.sources import Sources
from kube.keys import GATE
from kube.objects import Pod
from kube.scheduling import release_note, tried
from webhook.admission.arriving_pods import created
from webhook.admission.reviews import Admitted
from webhook.errors import Unavailable

FILES = Path(__file__).parents[1] / "faults" / "schedulers"
Manifest = dict[str, Any]

ASKING: dict[str, Manifest] = {
    "phalanx": {"labels": {"phalanx.dev/gang": "g"}},
    "runai": {"annotations": {"kai.scheduler/topology-preferred-placement": "rack"}},
    "ack": {
        "labels": {
            "network-topology-job-name": "g",
            "network-topology-job-namespace": "default",
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": "1",
        }
    },
    "koordinator": {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    "kai": {"annotations": {"scheduling.run.ai/pod-group": "g"}},
    "kueue": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
}
SYSTEM_OF = {"koord-scheduler": "koordinator-system", "kai-scheduler": "kai-scheduler", "runai-scheduler": "runai"}
LEFT = {
    "koord-scheduler": {"koordinator"},
    "kai-scheduler": {"kai", "runai"},
    "runai-scheduler": {"kai", "runai"},
}
"""By scheduler, the dialects whose gangs are ceded where that scheduler's system runs."""
NAMES = ("default-scheduler", *SYSTEM_OF, "volcano", "my-profile")


def bound(scheduler: str, at: str = "2026-01-01T00:00:00Z") -> Manifest:
    """A pod that this scheduler has bound."""
    made = pod(f"bound-by-{scheduler}", schedulerName=scheduler, nodeName="n1")
    said = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    return {**made, "status": {"phase": "Running", "conditions": [said]}}


def webhooks_of(namespace: str) -> Manifest:
    """The admission webhooks of a system that runs in that namespace."""
    client = {"service": {"namespace": namespace, "name": "admission"}}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": namespace}, "webhooks": [{"name": "a.example.com", "clientConfig": client}]}


def known(**data: str) -> Manifest:
    """Return the ConfigMap of observed schedulers; a `_` in a keyword becomes a `-`."""
    metadata = {"name": "phalanx-schedulers", "namespace": "phalanx-system"}
    written = {name.replace("_", "-"): value for name, value in data.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": written}


def cluster(scheduler: str, *, here: bool, objects: tuple[Manifest, ...] = ()) -> StillPicture:
    """A cluster in which this scheduler runs, or does not."""
    if here and scheduler in SYSTEM_OF:
        return StillPicture([*objects, webhooks_of(SYSTEM_OF[scheduler])])
    return StillPicture(objects, pods=[bound(scheduler)] if here else [])


def come(dialect: str, scheduler: str, picture: StillPicture) -> tuple[Manifest, str]:
    """Return a pod as it is stored after its admission, and the warnings that its user gets."""
    manifest = pod(**ASKING[dialect], schedulerName=scheduler)
    decision = created(manifest, picture, lambda *_: ())
    assert isinstance(decision, Admitted), decision
    return jsonpatch.JsonPatch(decision.patch).apply(manifest), " ".join(decision.warnings)


@pytest.mark.parametrize(("dialect", "scheduler", "here"), list(product(ASKING, NAMES, (True, False))))
def test_every_dialect_with_every_scheduler(dialect: str, scheduler: str, here: bool) -> None:  # noqa: FBT001
    stored, told = come(dialect, scheduler, cluster(scheduler, here=here))
    left = here and dialect in LEFT.get(scheduler, ())
    stays = here or scheduler == "default-scheduler"
    assert stored["spec"]["schedulerName"] == (scheduler if stays else "default-scheduler")
    assert ("schedulingGates" in stored["spec"]) is not left
    own = (dialect, scheduler) in {("koordinator", "koord-scheduler"), ("kai", "kai-scheduler")} or (
        dialect == "runai" and scheduler in {"kai-scheduler", "runai-scheduler"}
    )
    said = f'spec.schedulerName: "{scheduler}" {"runs here" if here else "does not run here"}'
    assert (said in told) is (scheduler != "default-scheduler" and not own and not left), told


TOLD = {
    "another system's": (
        "kai-scheduler",
        False,
        'Pod default/p0: spec.schedulerName: "kai-scheduler" does not run here: default-scheduler starts the gang',
    ),
    "a stranger": (
        "volcano",
        False,
        (
            'Pod default/p0: spec.schedulerName: "volcano" does not run here: default-scheduler starts the gang; if it '
            "does, write volcano: runs into the data of ConfigMap phalanx-system/phalanx-schedulers"
        ),
    ),
    "a profile": (
        "my-profile",
        True,
        (
            'Pod default/p0: spec.schedulerName: "my-profile" runs here, so the gang\'s pods are left to it once they '
            "are released; no capacity is reserved for it there"
        ),
    ),
}


@pytest.mark.parametrize(("scheduler", "here", "told"), TOLD.values(), ids=TOLD)
def test_what_the_user_is_told(scheduler: str, here: bool, told: str) -> None:  # noqa: FBT001
    assert told in come("phalanx", scheduler, cluster(scheduler, here=here))[1]


SAID = {
    "nothing, of a name nobody has seen": ("volcano", {}, False, False),
    "nothing, of one that binds": ("volcano", {}, True, True),
    "that it runs": ("volcano", {"volcano": "runs"}, False, True),
    "that it does not": ("volcano", {"volcano": "absent"}, True, False),
    "that it was silent before it bound": ("volcano", {"volcano": "untried 2025-12-31T00:00:00Z 1"}, True, True),
    "that it was silent since it bound": ("volcano", {"volcano": "untried 2026-01-02T00:00:00Z 1"}, True, False),
    "that a system's was silent": ("kai-scheduler", {"kai_scheduler": "untried 2026-01-02T00:00:00Z 1"}, True, False),
    "that a system's does not run": ("kai-scheduler", {"kai_scheduler": "absent"}, True, False),
    "something else": ("volcano", {"volcano": "perhaps"}, True, True),
    "something about the stock scheduler": ("default-scheduler", {"default_scheduler": "absent"}, False, True),
    "half of what the controller writes": ("volcano", {"volcano": "untried"}, True, True),
}


@pytest.mark.parametrize(("scheduler", "data", "here", "expected"), SAID.values(), ids=SAID)
def test_what_the_configmap_says(scheduler: str, data: dict[str, str], here: bool, expected: bool) -> None:  # noqa: FBT001
    assert runs(scheduler, cluster(scheduler, here=here, objects=(known(**data),)).sources()) is expected


def test_what_is_learnt_is_read_as_it_is_written() -> None:
    sources = cluster("volcano", here=True, objects=(known(volcano="untried 2026-01-02T00:00:00Z 3"),)).sources()
    found = learnt("volcano", sources)
    assert found is not None
    assert (found.since, found.times, str(found)) == ("2026-01-02T00:00:00Z", 3, "untried 2026-01-02T00:00:00Z 3")


@pytest.mark.parametrize("scheduler", ["kai-scheduler", "volcano"])
def test_nobody_is_told_that_a_scheduler_is_absent_before_that_is_known(scheduler: str) -> None:
    with pytest.raises(Unavailable, match=f"to see whether {scheduler} runs in this cluster"):
        come("phalanx", scheduler, StillPicture(synced=False))
    assert come("phalanx", "default-scheduler", StillPicture(synced=False))[0]["spec"]["schedulingGates"]


def condition(status: str, reason: str, message: str = "") -> Manifest:
    """A PodScheduled condition."""
    time = "2026-01-01T00:00:05Z"
    return {
        "type": "PodScheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
    }


def with_status(*conditions: Manifest, released: str = "", **spec: Any) -> Pod:
    """Return a pod with these conditions; `released`: the note of its release."""
    made = pod("p", annotations={"phalanx.dev/released": released} if released else None, **spec)
    return msgspec.convert({**made, "status": {"conditions": list(conditions)}}, Pod)


HELD = condition("False", "Unschedulable", "gang default/g: waits for its victims to go")
AT_RELEASE = release_note(with_status(HELD), "2026-01-01T00:00:10Z")
TRIED = {
    "new": (with_status(), False),
    "made with its node": (with_status(nodeName="n1"), False),
    "bound": (with_status(condition("True", ""), nodeName="n1"), True),
    "found unschedulable": (with_status(condition("False", "Unschedulable", "0/3 nodes")), True),
    "gated": (with_status(condition("False", "SchedulingGated"), schedulingGates=[{"name": GATE}]), False),
    "released, not yet seen": (with_status(condition("False", "SchedulingGated")), False),
    "released, with what we had said of it": (with_status(HELD, released=AT_RELEASE), False),
    "released, and found unschedulable": (
        with_status(condition("False", "Unschedulable", "0/3 nodes"), released=AT_RELEASE),
        True,
    ),
}


@pytest.mark.parametrize(("seen", "expected"), TRIED.values(), ids=TRIED)
def test_whether_a_scheduler_has_tried_a_pod(seen: Pod, expected: bool) -> None:  # noqa: FBT001
    assert bool(tried(seen)) is expected


def test_the_index_says_at_any_time_what_a_look_at_all_pods_would() -> None:
    index, there = SchedulerIndex(), dict[str, Pod]()
    states: list[dict[str, Any]] = [
        {"schedulerName": name, **spec, "at": at}
        for name, (spec, at) in product(
            ("a", "b", "default-scheduler"),
            (({}, ""), ({"nodeName": "n"}, "2026-01-01T00:00:01Z"), ({"nodeName": "n"}, "2026-01-01T00:00:02Z")),
        )
    ]
    for step in range(600):
        name, state = f"p{step * 7 % 11}", dict(states[step * 5 % len(states)])
        at = state.pop("at")
        if step % 4 == 3:
            there.pop(f"default/{name}", None)
            index.drop(f"default/{name}")
        else:
            conditions = [{**condition("True", ""), "lastTransitionTime": at}] if at else []
            made = msgspec.convert({**pod(name, **state), "status": {"conditions": conditions}}, Pod)
            there[made.key] = made
            index.put(made)
        assert index.tried() == tried_of(there.values())
        waiting = [each for each in there.values() if not each.bound and each.spec.scheduler_name in ("a", "b")]
        assert sum(index.waiting().values()) == len(waiting)
        assert {each.key for name in ("a", "b") for each in index.waiting_for(name)} == {each.key for each in waiting}
    for key in list(there):
        index.drop(key)
    assert (index.tried(), index.waiting(), index._uses, index._named) == ({}, {}, {}, {})  # noqa: SLF001 - no leak


def test_a_gated_member_whose_scheduler_has_gone_is_not_let_go_to_it() -> None:
    labels = {"phalanx.dev/gang": "g", "phalanx.dev/dialect": "phalanx"}
    gang = {
        "apiVersion": "phalanx.dev/v1alpha1",
        "kind": "Gang",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    gated = [{"name": GATE}]
    pods = [pod(name, labels=labels, schedulingGates=gated, schedulerName="kai-scheduler") for name in ("a", "b")]
    sources = StillPicture([gang], pods=pods).sources()
    (read,) = read_all(sources).gangs
    assert read.waiting_for == (
        "pod a (and 1 more) to be recreated: it names scheduler kai-scheduler, which does not run here",
    )
    (read,) = read_all(StillPicture([gang, webhooks_of("kai-scheduler")], pods=pods).sources()).gangs
    assert read.waiting_for == ()
    assert isinstance(sources, Sources)


SOLVED = {
    "own-kai": "own-kai",
    "kueue-kai": "qk",
    "kai-podgroup-runai": "pgr",
}


@pytest.mark.parametrize(("file", "gang"), SOLVED.items())
def test_solve_plans_them_and_says_who_starts_them(file: str, gang: str) -> None:
    node = (
        "{apiVersion: v1, kind: Node, metadata: {name: n0, labels: {kubernetes.io/hostname: n0}}, "
        'status: {allocatable: {cpu: "64", nvidia.com/gpu: "8"}}}'
    )
    arguments = ["solve", "-f", str(FILES / f"{file}.yaml"), "-f", "-"]
    result = CliRunner().invoke(group, arguments, input=node)
    name = "runai-scheduler" if "runai" in file else "kai-scheduler"
    said = f'Job default/{gang}: spec.template.spec.schedulerName: "{name}" does not run here: default-scheduler starts'
    assert said in result.stderr
    assert (result.exit_code, f"default/{gang}  Placed" in result.stdout) == (0, True), result.stdout
