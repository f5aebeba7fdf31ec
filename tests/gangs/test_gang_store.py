"""An incremental reading equals a full reading after any changes.

All objects of the examples of all systems and their pods are created, deleted and changed at random. After each burst
of changes, the test compares the incremental reading with a full one.
"""

import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from function_calls import function_calls
from thorough import parts
from written import documents, pod

from gangs.dialects.claims import ceded_to_others, dialect_of, gangs_named, names_nothing
from gangs.dialects.expanding import expanded
from gangs.dialects.protocol import Dialect
from gangs.dialects.reading import read_all, read_by
from gangs.dialects.table import DIALECTS
from gangs.dialects.templates import as_admitted
from gangs.dialects.topologies import topologies
from gangs.incremental import gang_store
from gangs.incremental.gang_store import GangStore
from gangs.manifests import MalformedError, key_of, pod_of
from gangs.model import Gang, GangKey, Manifest, Reading
from gangs.sources import Sources
from kube import keys
from kube.catalog import ObjectKey
from kube.kept_objects import KeptObject
from kube.objects import Condition, Pod, PodStatus, SchedulingGate

pytestmark = pytest.mark.repetitive

EXAMPLES = Path(__file__).parents[2] / "examples"
BESIDE = documents("""
    apiVersion: admissionregistration.k8s.io/v1
    kind: MutatingWebhookConfiguration
    metadata: {name: kueue-mutating-webhook-configuration}
    webhooks: [{name: mclusterqueue.kb.io}]
    ---
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingWebhookConfiguration
    metadata: {name: koordinator}
    webhooks: [{name: vpod.koordinator.sh}]
    ---
    apiVersion: phalanx.dev/v1alpha1
    kind: Gang
    metadata: {name: llm-sft, namespace: default, annotations: {phalanx.dev/mirrors: kueue/default/llm-sft}}
    spec: {minMember: 1}
    status: {flavors: [rack-flavor]}
    ---
    apiVersion: phalanx.dev/v1alpha1
    kind: Gang
    metadata: {name: in-line, namespace: default}
    spec: {minMember: 1, queue: training}
    status: {flavors: [tas-flavor]}
    ---
    apiVersion: phalanx.dev/v1alpha1
    kind: Topology
    metadata: {name: another}
    spec: {levels: [{name: block, nodeLabel: example.com/block}]}
    ---
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata:
      {name: one, namespace: a, annotations: {gang.scheduling.koordinator.sh/groups: '["a/one", "b/two", "b/three"]'}}
    spec: {minMember: 1}
    ---
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata: {name: two, namespace: b, annotations: {gang.scheduling.koordinator.sh/groups: '["a/one", "b/two"]'}}
    spec: {minMember: 1}
    ---
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata: {name: six, namespace: a, annotations: {gang.scheduling.koordinator.sh/groups: '["a/six", "b/seven"]'}}
    spec: {minMember: 1}
    ---
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata: {name: seven, namespace: b, annotations: {gang.scheduling.koordinator.sh/groups: '["a/six", "b/seven"]'}}
    spec: {minMember: 1}
    ---
    apiVersion: scheduling.sigs.k8s.io/v1alpha1
    kind: PodGroup
    metadata: {name: ten, namespace: b, annotations: {gang.scheduling.koordinator.sh/groups: '["b/ten", "b/seven"]'}}
    spec: {minMember: 0}
""")
"""Systems that run here, mirrors with flavors, a Gang in a queue, groups over namespaces that agree or not: what the
examples do not have.
"""


def _annotated(called: str, namespace: str, **annotations: str) -> Pod:
    prefix = "gang.scheduling.koordinator.sh"
    written = {f"{prefix}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    made = pod(called, annotations=written)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, namespace=namespace))


LISTED = [
    _annotated("p1", "b", name="three", min_available="1", groups='["a/one", "b/two", "b/three"]'),
    _annotated("p2", "b", name="four", min_available="1", groups='["b/four", "b/three"]'),
    _annotated("p3", "a", name="five", min_available="1"),
]
GATES = (SchedulingGate(name=keys.GATE),)
_IN_LINE = {"phalanx.dev/gang": "in-line"}
QUEUED = [
    pod("queued-0", labels={**_IN_LINE, "kueue.x-k8s.io/queue-name": "training"}),
    pod("queued-1", labels={**_IN_LINE, "kueue.x-k8s.io/queue-name": "other"}, nodeName="n"),
]
"""Members of the Gang in a queue, one of which names another queue itself."""


@dataclass
class World:
    """The objects of a cluster by name: `here` and `there` hold what exists, `pods` and `objects` what may exist."""

    pods: dict[str, Pod]
    objects: dict[ObjectKey, Mapping[str, Any]]
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    sharing: dict[str, str] = field(default_factory=dict)
    here: dict[str, Pod] = field(default_factory=dict)
    there: dict[ObjectKey, Mapping[str, Any]] = field(default_factory=dict)
    versions: int = 0

    def sources(self) -> Sources:
        """The sources from which the dialects read gangs, with the objects that exist now."""
        pods = [self.here[key] for key in sorted(self.here)]
        labels = {name: dict(labels) for name, labels in self.namespaces.items()}
        return Sources(pods, dict(self.there), labels, sharing=dict(self.sharing))


def _written() -> list[dict[str, Any]]:
    files = [*EXAMPLES.glob("**/*.yaml"), *(Path(__file__).parents[1] / "refusals").glob("*.yaml")]
    found = []
    for file in sorted(files):
        for each in yaml.safe_load_all(file.read_text()):
            found += _objects_in(each)
    return found


def _objects_in(value: Any) -> list[dict[str, Any]]:
    """Every object that stands somewhere in a document: tables of refusals hold some."""
    if isinstance(value, list):
        return [each for part in value for each in _objects_in(part)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("kind"), str) and isinstance(value.get("metadata"), dict) and "apiVersion" in value:
        return _objects_in(value["items"]) if "items" in value else [value]
    return [each for part in value.values() for each in _objects_in(part)]


def world() -> World:
    """Return a new world with all objects and pods that may exist, of which none exists yet."""
    made = _made()
    return World(dict(made.pods), dict(made.objects))


@cache
def _made() -> World:
    manifests = [*_written(), *BESIDE]
    pods: dict[str, Pod] = {}
    objects: dict[ObjectKey, Mapping[str, Any]] = {}
    for number, each in enumerate(manifests):
        each["metadata"] = {"uid": f"uid-{number}", **each["metadata"]}
        if each["kind"] in ("Node", "PriorityClass", "Namespace"):
            continue
        if each["kind"] == "Pod":
            each["metadata"].setdefault("namespace", "default")
            try:
                pods[f"{each['metadata']['namespace']}/{each['metadata'].get('name', number)}"] = _gated(pod_of(each))
            except MalformedError:
                continue
        else:
            _settle(each, objects)
    whole, _ = expanded(Sources(list(pods.values()), objects))
    return World({each.key: _gated(each) for each in [*whole.pods[:700], *LISTED, *QUEUED]}, objects)


def _settle(manifest: dict[str, Any], objects: dict[ObjectKey, Mapping[str, Any]]) -> None:
    clustered = {(kind.group, kind.kind) for each in DIALECTS for kind in each.topology_kinds if not kind.namespaced}
    if key_of(manifest)[:2] not in clustered:
        manifest["metadata"].setdefault("namespace", "default")
    with suppress(MalformedError):
        manifest = dict(as_admitted(manifest, Sources()))
    objects[key_of(manifest)] = manifest


def _gated(each: Pod) -> Pod:
    claim = dialect_of(each)
    labels = {**each.metadata.labels, **({keys.DIALECT: claim[0].name} if claim and sum(each.key.encode()) % 2 else {})}
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, labels=labels))


class Walk:
    """Changes a world at random, and notes what has changed."""

    def __init__(self, of: World, dice: random.Random) -> None:
        self.world = of
        self.dice = dice
        self.pods: set[str] = set()
        self.objects: set[ObjectKey] = set()

    def step(self) -> None:
        """Make one random change."""
        acts = (self.toggle_pod, self.toggle_object, self.change_pod, self.change_object, self.relabel, self.share)
        self.dice.choices(acts, (5, 4, 4, 3, 1, 1))[0]()

    def share(self) -> None:
        """A random namespace shares its groups with other namespaces, or stops sharing them."""
        name = self.dice.choice(("a", "b", "net", "sample-network-topology"))
        self.world.sharing[name] = self.dice.choice(("", "*", "a, b", "default"))

    def toggle_pod(self) -> None:
        """Create a random pod, or delete it if it exists."""
        key = self.dice.choice(sorted(self.world.pods))
        if self.world.here.pop(key, None) is None:
            self.world.here[key] = self.world.pods[key]
        self.pods.add(key)

    def toggle_object(self) -> None:
        """Create a random object, or delete it if it exists."""
        key = self.dice.choice(sorted(self.world.objects))
        if self.world.there.pop(key, None) is None:
            self.world.there[key] = KeptObject(self.world.objects[key])
        self.objects.add(key)

    def change_pod(self) -> None:
        """Change a random existing pod: it is planned, released, runs, ends or terminates, or gets other labels,
        annotations, conditions or a version.
        """
        if not self.world.here:
            return
        key = self.dice.choice(sorted(self.world.here))
        old = self.world.here[key]
        change = self.dice.choice(("bind", "end", "leave", "forget", "renew", "adopt", "nominate", "release", "tell"))
        metadata, spec, status = old.metadata, old.spec, old.status
        if change == "bind":
            spec = msgspec.structs.replace(spec, node_name="" if spec.node_name else "node-1")
        elif change == "end":
            status = msgspec.structs.replace(status, phase=self.dice.choice(("Running", "Succeeded", "Failed")))
        elif change == "nominate":
            annotations = {**metadata.annotations, keys.PLANNED_NODE: "node-1", keys.PLAN: str(self.dice.random())}
            metadata = msgspec.structs.replace(metadata, annotations=annotations)
            status = msgspec.structs.replace(status, nominated_node_name=self.dice.choice(("", "node-1", "node-2")))
        elif change == "release":
            annotations = {**metadata.annotations, keys.RELEASED: "now", keys.WHOLE_MARK: "2"}
            metadata = msgspec.structs.replace(metadata, annotations=annotations)
            spec = msgspec.structs.replace(spec, scheduling_gates=self.dice.choice((GATES, ())))
        elif change == "tell":
            status = msgspec.structs.replace(status, conditions=(Condition(message=str(self.dice.random())),))
        elif change == "leave":
            metadata = msgspec.structs.replace(metadata, deletion_timestamp="2026-11-21T09:00:00Z")
        elif change == "forget":
            metadata = msgspec.structs.replace(metadata, labels={})
        elif change == "adopt":
            other = self.world.pods[self.dice.choice(sorted(self.world.pods))].metadata
            metadata = msgspec.structs.replace(metadata, labels=other.labels, annotations=other.annotations)
        else:
            metadata = msgspec.structs.replace(metadata, resource_version=str(self.dice.random()))
        self.world.here[key] = Pod(metadata=metadata, spec=spec, status=status)
        self.pods.add(key)

    def change_object(self) -> None:
        """Change a random existing object: it gets another status or other annotations, or its original content."""
        if not self.world.there:
            return
        key = self.dice.choice(sorted(self.world.there))
        old = self.world.there[key]
        metadata, change = old.get("metadata") or {}, self.dice.choice(("status", "job", "unname", "swap"))
        if change == "status":
            new = {**old, "status": {"seen": self.dice.random()}} if key[1] != "Job" else old
        elif change == "job":
            new = {**old, "status": {"succeeded": self.dice.randint(0, 3)}} if key[1] == "Job" else old
        elif change == "unname":
            new = {**old, "metadata": {**metadata, "annotations": {}}}
        else:
            new = self.world.objects[key]
        self.world.there[key] = KeptObject(new)
        self.objects.add(key)

    def relabel(self) -> None:
        """A namespace becomes automatic or is no more."""
        name = self.dice.choice(("default", "a", "b"))
        labels = self.dice.choice(({}, {keys.AUTOMATIC: "true"}))
        self.world.namespaces = {**self.world.namespaces, name: labels}


def unreadable(sources: Sources) -> set[GangKey]:
    left = ceded_to_others(sources)
    claims = (dialect_of(each, left) for each in sources.pods if not each.finished)
    named = {claim[1] for claim in claims if claim is not None}
    return named - {name for gang in read_all(sources).gangs for name in gang.names}


def by_name(reading: Reading) -> list[tuple[str, tuple[Pod, GangKey]]]:
    """The pods that are astray."""
    return [(pod.key, (pod, key)) for pod, key in reading.astray]


@pytest.mark.parametrize("seed", parts(4))
def test_what_is_kept_is_what_there_is(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - for a test that can be repeated
    of = world()
    walk = Walk(of, dice)
    for _ in range(150):
        walk.step()
    kept, anew = GangStore(of.sources()), 0
    for _ in range(20):
        walk.pods, walk.objects = set(), set()
        for _ in range(dice.choice((1, 2, 8, 30))):
            walk.step()
        sources = of.sources()
        before = {gang.key: gang for gang in kept.gangs()}
        changed = kept.update(sources, {key: of.here.get(key) for key in walk.pods}, walk.objects)
        if changed is None:
            kept, anew = GangStore(sources), anew + 1
        fresh = read_all(replace(sources, objects={key: dict(each) for key, each in of.there.items()}))
        assert {gang.key: gang for gang in kept.gangs()} == {gang.key: gang for gang in fresh.gangs}
        assert [gang.key for gang in kept.gangs()] == [gang.key for gang in fresh.gangs]
        assert set(fresh.faults) <= set(kept.reading().faults)
        assert (list(kept.topologies), list(kept.topology_faults)) == topologies(sources)
        assert {gang.key: gang for gang in kept.reading().neighbours} == {gang.key: gang for gang in fresh.neighbours}
        assert dict(by_name(kept.reading())) == dict(by_name(fresh))
        assert kept.unreadable() == unreadable(sources)
        if changed is not None:
            after = {gang.key: gang for gang in fresh.gangs}
            assert changed.gangs == {key for key in before | after if before.get(key) != after.get(key)}
    assert anew < 10


def test_no_dialect_finds_a_gang_of_a_pod_without_the_keys_that_name_one() -> None:
    """Such pods are not shown to the dialects, so a dialect with a further key would lose members."""
    unnamed = [each for each in world().pods.values() if names_nothing(each)]
    assert 0 < len(unnamed) < len(world().pods) / 2
    assert all(dialect.gang_of(each) is None for dialect in DIALECTS for each in unnamed)
    for each in world().pods.values():
        by_all = [(dialect, key) for dialect in DIALECTS if (key := dialect.gang_of(each)) is not None]
        assert list(gangs_named(each)) == by_all


def test_a_status_that_decides_nothing_has_no_gang_read_again() -> None:
    of = world()
    of.there, of.here = dict(of.objects), dict(of.pods)
    for key in [each for each in of.there if each[0] == "admissionregistration.k8s.io"]:
        del of.there[key]
    kept = GangStore(of.sources())
    before = {gang.key: gang for gang in kept.gangs()}
    assert len(before) > 10
    told = {
        key: {**each, "status": {"conditions": []}} for key, each in of.there.items() if key[1] not in ("Job", "Gang")
    }
    of.there |= told
    changed = kept.update(of.sources(), {}, set(told))
    assert changed is not None
    assert not changed.gangs
    assert all(gang is before[gang.key] for gang in kept.gangs())


def test_an_error_of_ours_is_told_for_its_gang_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    koordinator = next(each for each in DIALECTS if each.name == "koordinator")
    read = type(koordinator).read

    def failing(self: Any, sources: Sources, known: Any, about: GangKey | None = None) -> Any:
        if about is not None and about.name == "three":
            raise OverflowError
        return read(self, sources, known, about)

    monkeypatch.setattr(type(koordinator), "read", failing)
    kept = GangStore(Sources([replace_group(each) for each in LISTED]))
    assert [str(gang.key) for gang in kept.gangs()] == ["a/five", "b/four"]
    (fault,) = kept.reading().faults
    assert str(fault).startswith("Gang b/three: metadata.name: could not be read: an error of Phalanx itself")


def replace_group(each: Pod) -> Pod:
    """The pod without the list of gangs that it names."""
    annotations = {key: value for key, value in each.metadata.annotations.items() if not key.endswith("/groups")}
    return msgspec.structs.replace(each, metadata=msgspec.structs.replace(each.metadata, annotations=annotations))


def test_a_changed_member_is_read_by_its_own_dialect_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each dialect that looks for the pods of a Job would read the gang again for each change of each member."""
    manifest, *_ = documents("""
        apiVersion: batch/v1
        kind: Job
        metadata: {name: train, namespace: default, uid: u1, annotations: {phalanx.dev/gang: "true"}}
        spec:
          parallelism: 2
          completions: 2
          completionMode: Indexed
          template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}
    """)
    admitted = KeptObject(as_admitted(manifest, Sources()))
    objects = {key_of(admitted): admitted}
    pods = {each.key: each for each in expanded(Sources((), objects))[0].pods}
    store = GangStore(Sources(list(pods.values()), objects))
    read = list[str]()

    def recording(dialect: Dialect, *arguments: Any) -> Reading:
        read.append(dialect.name)
        return read_by(dialect, *arguments)

    monkeypatch.setattr(gang_store, "read_by", recording)
    first = next(iter(pods.values()))
    metadata = msgspec.structs.replace(first.metadata, annotations={**first.metadata.annotations, "x": "y"})
    changed = {first.key: msgspec.structs.replace(first, metadata=metadata)}
    update = store.update(Sources(list((pods | changed).values()), objects), changed, ())
    assert update is not None
    assert update.gangs == {GangKey("phalanx", "default", "train")}
    assert read == ["phalanx"]


def test_a_gang_is_not_read_again_when_its_members_are_nominated_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No dialect reads nominations and conditions, and each member has several of both. The gang has the new pods."""
    gang, *_ = documents("""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {name: llm, namespace: default, uid: u1}
        spec: {minMember: 2}
    """)
    objects = {key_of(gang): KeptObject(gang)}
    gates = [{"name": keys.GATE}]
    made = (pod(f"llm-{number}", labels={keys.GANG: "llm"}, schedulingGates=gates) for number in range(2))
    pods = {each.key: each for each in made}
    store, key = GangStore(Sources(list(pods.values()), objects)), GangKey("phalanx", "default", "llm")
    read = list[str]()

    def recording(dialect: Dialect, *arguments: Any) -> Reading:
        read.append(dialect.name)
        return read_by(dialect, *arguments)

    monkeypatch.setattr(gang_store, "read_by", recording)

    def changed(name: str, **fields: object) -> Gang:
        new = msgspec.structs.replace(pods[name], **fields)
        pods[name] = new
        update = store.update(Sources(list(pods.values()), objects), {name: new}, ())
        assert update is not None
        assert update.gangs == {key}
        found = store.gang(key)
        assert found is not None
        assert new in [member.pod for member in found.members]
        assert store.reading().gangs == (found,)
        return found

    planned = {keys.PLANNED_NODE: "node-1", keys.PLAN: "p1"}
    metadata = msgspec.structs.replace(pods["default/llm-0"].metadata, annotations=planned, resource_version="2")
    changed("default/llm-0", metadata=metadata, status=PodStatus(nominated_node_name="node-1"))
    changed("default/llm-1", status=PodStatus(phase="Running", conditions=(Condition(type="Ready"),)))
    assert read == []
    changed("default/llm-0", spec=msgspec.structs.replace(pods["default/llm-0"].spec, node_name="node-1"))
    assert read == ["phalanx"]
    failed = msgspec.structs.replace(pods["default/llm-1"], status=PodStatus(phase="Failed"))
    store.update(Sources([pods["default/llm-0"], failed], objects), {failed.key: failed}, ())
    assert read == ["phalanx", "phalanx"], "a finished pod is no member"


def plain_job() -> Manifest:
    """Return a Job of two pods that is no gang."""
    manifest, *_ = documents("""
        apiVersion: batch/v1
        kind: Job
        metadata: {name: plain, namespace: default, uid: u1}
        spec:
          parallelism: 2
          completions: 2
          template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}
    """)
    return manifest


def test_a_job_of_no_gang_is_not_read_again_for_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most Jobs of a cluster are no gangs, and each of their pods changes several times."""
    manifest = plain_job()
    objects = {key_of(manifest): KeptObject(manifest)}
    store = GangStore(Sources((), objects))
    read = list[str]()

    def recording(dialect: Dialect, *arguments: Any) -> Reading:
        read.append(dialect.name)
        return read_by(dialect, *arguments)

    monkeypatch.setattr(gang_store, "read_by", recording)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "plain", "uid": "u1", "controller": True}
    member = pod("plain-0", labels={"batch.kubernetes.io/job-name": "plain"}, owner=owner)
    for changed in ({member.key: member}, {member.key: None}):
        update = store.update(Sources([each for each in changed.values() if each is not None], objects), changed, ())
        assert update is not None
        assert not update.gangs
    assert read == []


def test_a_job_whose_unread_status_changes_is_no_changed_object() -> None:
    """The status of a Job changes with nearly every pod, and no dialect reads how many pods are active."""
    manifest = plain_job()
    key = key_of(manifest)
    store = GangStore(Sources((), {key: KeptObject(manifest)}))
    active = KeptObject({**manifest, "status": {"active": 2}})
    update = store.update(Sources((), {key: active}), {}, (key,))
    assert update is not None
    assert update.objects == frozenset()
    suspended = KeptObject({**active, "spec": {**active["spec"], "suspend": True}})
    update = store.update(Sources((), {key: suspended}), {}, (key,))
    assert update is not None
    assert update.objects == {key}


def test_the_first_reading_of_a_job_of_no_gang_by_all_dialects_takes_at_most_2600_function_calls() -> None:
    """It takes some 2,200. Every Job of a cluster is read once by each dialect, whether or not it is a gang."""
    store, jobs = GangStore(Sources()), 4

    def created(number: int) -> KeptObject:
        manifest, *_ = documents(f"""
            apiVersion: batch/v1
            kind: Job
            metadata: {{name: plain-{number}, namespace: default, uid: u{number}}}
            spec:
              parallelism: 2
              completions: 2
              template: {{spec: {{restartPolicy: Never, containers: [{{name: main, image: none}}]}}}}
        """)
        return KeptObject(manifest)

    first, *others = (created(number) for number in range(jobs + 1))
    store.update(Sources((), {key_of(first): first}), {}, (key_of(first),))
    objects = {key_of(each): each for each in others}
    sources = Sources((), {key_of(first): first, **objects})
    assert function_calls(lambda: store.update(sources, {}, tuple(objects))) < 2600 * jobs
