"""Events on a real API server: they are written, users can read them, and they never block the controller."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wires import wire_to

from cluster.api.connecting import connect
from controller.telemetry import events
from controller.telemetry.events import Reason
from controller.telemetry.recorder import EVENTS, Recorder
from controlplane.control_plane import ControlPlane
from gangs.model import ObjectRef

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]


@pytest.fixture
def subject(control_plane: ControlPlane) -> Iterator[ObjectRef]:
    """Create a real object that events can refer to; delete it and its events afterwards."""
    name = f"told-{uuid.uuid4().hex[:8]}"
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    made = json.loads(control_plane.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(manifest)))
    yield ObjectRef("v1", "ConfigMap", "default", name, made["metadata"]["uid"])
    control_plane.kubectl("delete", "configmap", name)
    control_plane.kubectl("delete", "events", "--field-selector", f"involvedObject.name={name}")


@pytest.fixture
def recorder(control_plane: ControlPlane) -> Iterator[Recorder]:
    """A recorder that renews a series at once."""
    made = Recorder(connect(str(control_plane.kubeconfig)), instance="test-0", renew_seconds=0.2)
    yield made
    made.close()


def events_of(control_plane: ControlPlane, name: str, group: str = "events.k8s.io") -> list[Json]:
    """The events on objects of that name, in the order of their making."""
    found = json.loads(control_plane.kubectl("get", f"events.{group}".rstrip("."), "-A", "-o", "json"))["items"]
    mine = [each for each in found if (each.get("regarding") or each.get("involvedObject"))["name"] == name]
    return sorted(mine, key=lambda each: str(each["metadata"]["name"]))


def eventually(look: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """Call `look` until it returns something true, for at most `seconds`; return its last result."""
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def counted(reason: Reason, outcome: str) -> float:
    return float(EVENTS.labels(reason.name, outcome)._value.get())  # noqa: SLF001 - the library has no public reader


def test_an_event_says_who_did_what_to_whom_and_why(
    control_plane: ControlPlane, recorder: Recorder, subject: ObjectRef
) -> None:
    gang = ObjectRef("phalanx.dev/v1alpha1", "Gang", "default", "llm", "uid-llm")
    recorder.record(subject, events.PREEMPTED, "evicted for gang default/llm", related=gang)
    (found,) = eventually(lambda: events_of(control_plane, subject.name))
    assert {key: found[key] for key in ("type", "reason", "action", "note", "reportingController")} == {
        "type": "Normal",
        "reason": "Preempted",
        "action": "Evicting",
        "note": "evicted for gang default/llm",
        "reportingController": "phalanx.dev/controller",
    }
    assert found["reportingInstance"] == "test-0"
    assert found["regarding"]["uid"] == subject.uid
    assert found["related"]["name"] == "llm"


def test_people_find_it_with_kubectl(control_plane: ControlPlane, recorder: Recorder, subject: ObjectRef) -> None:
    recorder.record(subject, events.GANG_UNPLACEABLE, "spine-0 fits 3 of 4")
    eventually(lambda: events_of(control_plane, subject.name))
    chosen = ("--field-selector", f"involvedObject.name={subject.name}")
    table = control_plane.kubectl("get", "events", "-n", "default", *chosen)
    line = table.splitlines()[1].split()
    assert line[1:4] == ["Warning", "GangUnplaceable", f"configmap/{subject.name}"]
    assert "<unknown>" not in table
    assert "spine-0 fits 3 of 4" in table
    told = control_plane.kubectl("describe", "configmap", subject.name)
    assert "GangUnplaceable" in told
    assert "phalanx.dev/controller" in told
    assert "<unknown>" not in told


def test_repeats_become_one_series_with_a_count(
    control_plane: ControlPlane, recorder: Recorder, subject: ObjectRef
) -> None:
    for _ in range(5):
        recorder.record(subject, events.ROOM_LOST, "node-5 has no room left for cpu")
    (found,) = eventually(
        lambda: [e for e in events_of(control_plane, subject.name) if (e.get("series") or {}).get("count") == 5]
    )
    assert found["series"]["lastObservedTime"] > found["eventTime"]
    assert len(events_of(control_plane, subject.name)) == 1
    told = control_plane.kubectl("get", "events", "-n", "default", "--field-selector", f"reason={found['reason']}")
    assert "<unknown>" not in told


def test_another_note_is_another_event(control_plane: ControlPlane, recorder: Recorder, subject: ObjectRef) -> None:
    for note in ("spine-0 fits 3 of 4", "spine-0 fits 2 of 4", "spine-0 fits 3 of 4"):
        recorder.record(subject, events.GANG_UNPLACEABLE, note)
    found = eventually(lambda: [e for e in [events_of(control_plane, subject.name)] if len(e) == 2])
    assert sorted(each["note"] for each in found[0]) == ["spine-0 fits 2 of 4", "spine-0 fits 3 of 4"]


def test_a_repeat_after_the_series_is_over_is_a_new_event(control_plane: ControlPlane, subject: ObjectRef) -> None:
    recorder = Recorder(connect(str(control_plane.kubeconfig)), instance="test-0", series_seconds=0.2)
    recorder.record(subject, events.GANG_PLANNED, "4 pods fit")
    time.sleep(0.4)
    recorder.record(subject, events.GANG_PLANNED, "4 pods fit")
    recorder.close(60)
    assert len(events_of(control_plane, subject.name)) == 2


def test_a_cluster_scoped_object_has_its_events_in_the_default_namespace(
    control_plane: ControlPlane, recorder: Recorder
) -> None:
    name = f"topology-{uuid.uuid4().hex[:8]}"
    recorder.record(ObjectRef("phalanx.dev/v1alpha1", "Topology", "", name), events.GANG_INVALID, "broken chain")
    (found,) = eventually(lambda: events_of(control_plane, name))
    assert found["metadata"]["namespace"] == "default"


@pytest.mark.parametrize("note", ["x" * 2000, "é" * 600, "水" * 400], ids=["1 byte", "2 bytes", "3 bytes"])
def test_a_long_note_is_cut_within_the_limit_of_the_api(
    control_plane: ControlPlane, recorder: Recorder, subject: ObjectRef, note: str
) -> None:
    recorder.record(subject, events.GANG_UNPLACEABLE, note)
    (found,) = eventually(lambda: events_of(control_plane, subject.name))
    assert 1019 <= len(found["note"].encode()) <= 1024
    assert found["note"].endswith("…")


def test_the_longest_name_of_an_object_makes_a_valid_event(control_plane: ControlPlane, recorder: Recorder) -> None:
    name = f"{uuid.uuid4().hex}.{'a' * 60}.{'b' * 60}.{'c' * 60}.{'d' * 30}"
    recorder.record(ObjectRef("v1", "Pod", "default", name), events.GANG_PLACED, "bound")
    assert eventually(lambda: events_of(control_plane, name))


def test_what_is_queued_is_written_when_the_recorder_closes(control_plane: ControlPlane, subject: ObjectRef) -> None:
    recorder = Recorder(connect(str(control_plane.kubeconfig)), instance="test-0")
    for number in range(20):
        recorder.record(subject, events.GANG_PLANNED, f"plan {number}")
    recorder.record(subject, events.GANG_PLANNED, "plan 7")
    recorder.close(60)
    found = events_of(control_plane, subject.name)
    assert len(found) == 20
    assert [each["series"]["count"] for each in found if each.get("series")] == [2]


def test_an_event_that_the_api_refuses_is_counted_and_the_next_one_is_written(
    control_plane: ControlPlane, recorder: Recorder, subject: ObjectRef
) -> None:
    before = counted(events.GANG_WAITING, "failed")
    nowhere = ObjectRef("v1", "Pod", "no-such-namespace", "x", "uid-x")
    recorder.record(nowhere, events.GANG_WAITING, "waits for 1 more pod")
    recorder.record(subject, events.GANG_WAITING, "waits for 1 more pod")
    assert eventually(lambda: events_of(control_plane, subject.name))
    assert counted(events.GANG_WAITING, "failed") == before + 1


def test_one_namespaces_flood_neither_delays_nor_loses_the_events_of_others(
    control_plane: ControlPlane, recorder: Recorder, subject: ObjectRef
) -> None:
    flood, names = f"flood-{uuid.uuid4().hex[:8]}", [f"{subject.name}-{number}" for number in range(3)]
    control_plane.kubectl("create", "namespace", flood)
    began, planned = counted(events.GANG_UNPLACEABLE, "written"), counted(events.GANG_PLANNED, "written")
    lost = counted(events.GANG_PLANNED, "dropped")
    for number in range(3_000):
        theirs = ObjectRef("v1", "Pod", flood, f"pod-{number}", f"uid-{number}")
        recorder.record(theirs, events.GANG_UNPLACEABLE, f"fits nowhere, said {number} times")
    for name in names:
        recorder.record(ObjectRef("v1", "ConfigMap", "default", name), events.GANG_PLANNED, "4 pods fit")
    assert eventually(lambda: counted(events.GANG_PLANNED, "written") - planned == len(names))
    assert counted(events.GANG_UNPLACEABLE, "written") - began < 1_000, "the others' waited for the flood"
    assert counted(events.GANG_PLANNED, "dropped") == lost
    assert all(events_of(control_plane, name) for name in names)
    control_plane.kubectl("delete", "namespace", flood, "--wait=false")


def test_an_outage_neither_blocks_the_caller_nor_loses_what_was_told(
    control_plane: ControlPlane, subject: ObjectRef, tmp_path: Path
) -> None:
    with wire_to(Path(control_plane.kubeconfig), tmp_path) as (wire, through):
        recorder = Recorder(connect(through), instance="test-0")
        wire.cut()
        # If this call waited for the API server, it would never return: the connection is restored only after it.
        recorder.record(subject, events.GANG_RELEASED, "released 4 pods")
        wire.mend()
        assert eventually(lambda: events_of(control_plane, subject.name))
        recorder.close()


def test_a_namespace_that_is_being_deleted_is_no_cause_for_a_warning(
    control_plane: ControlPlane, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"ending-{uuid.uuid4().hex[:8]}"
    held = {"name": "held", "namespace": name, "finalizers": ["test.phalanx.dev/held"]}
    control_plane.kubectl("create", "namespace", name)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held}
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(made))
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
    failed = counted(events.GANG_WAITING, "failed")
    recorder.record(ObjectRef("v1", "ConfigMap", name, "held"), events.GANG_WAITING, "waits for 1 more pod")
    assert eventually(lambda: counted(events.GANG_WAITING, "failed") > failed)
    assert not [each for each in caplog.records if "event not written" in each.message]
    control_plane.kubectl(
        "patch", "configmap", "held", "-n", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'
    )
