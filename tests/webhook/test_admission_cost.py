"""The cost of admitting one pod does not grow with the cluster. The cost is the number of objects read, not time."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest
from crowds import NAMESPACE, SIZE, WAYS, Way, arriving, crowd
from pictures import Unheard

from cluster.caches.manifest_sinks import Manifests
from cluster.caches.sinks import Pods
from cluster.capturing import Capture
from cluster.devices.holdings import NO_DEVICES, DeviceView
from gangs.dialects.concerned import examples_of, places_of, pods_about
from gangs.incremental.dependencies import ReadInput
from gangs.manifests import key_of, pod_of
from gangs.model import Gang, GangKey, Manifest
from gangs.sources import Sources
from kube.catalog import ObjectKey
from kube.objects import ObjectMeta, Pod
from webhook.admission import arriving_pods, dispatch
from webhook.admission.reviews import AdmissionRequest, Admitted, GroupVersionResource
from webhook.following import Follower

pytestmark = pytest.mark.repetitive

MOST = 12
"""Objects that one gang may have to do with: its own, those of its group, queues, topologies."""


class Counted(dict[str, Any]):
    """An object that notes its key when a field is read."""

    def __init__(self, key: ObjectKey, manifest: Mapping[str, Any], seen: set[ObjectKey]) -> None:
        super().__init__(manifest)
        self._key, self._seen = key, seen

    def __getitem__(self, name: str) -> Any:
        self._seen.add(self._key)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """As a dict does."""
        self._seen.add(self._key)
        return super().get(name, default)


class Crowded:
    """A cluster view of many gangs of one kind that notes the objects that are read."""

    def __init__(self, way: Way, gangs: int) -> None:
        self.seen = set[ObjectKey]()
        whole = crowd(way, gangs)
        self.plain = whole.objects
        self._siblings = [pod_of(arriving(whole, 0, index)) for index in (1, 2, 3)]
        self._sources = Sources(objects={key: Counted(key, each, self.seen) for key, each in whole.objects.items()})

    def change(self, key: ObjectKey, **parts: Any) -> None:
        """One object changes."""
        self._sources = self._sources.having(Counted(key, {**self.plain[key], **parts}, self.seen))

    def add(self, manifest: Mapping[str, Any]) -> None:
        """One more object."""
        self._sources = self._sources.having(Counted(key_of(manifest), manifest, self.seen))

    def admitted(self) -> set[ObjectKey]:
        """Admit a pod of the first gang, which has three siblings, and return the keys of the objects read."""
        self.seen.clear()
        decision = arriving_pods.created(arriving(Sources(objects=self.plain), 0), self, _nothing)
        assert isinstance(decision, Admitted)
        assert any(each["path"] == "/spec/schedulingGates" for each in decision.patch)
        return set(self.seen)

    def synced(self) -> bool:
        """Return True: everything is listed."""
        return True

    def listed(self, plural: str) -> bool:
        """Return True: everything is listed."""
        del plural
        return True

    def sources(self) -> Sources:
        """Fail the test: no admission may read all pods."""
        raise AssertionError("nobody asks for all pods because of one")

    def sources_of(self, *names: GangKey) -> Sources:
        """Return the objects, and the siblings of the arriving pod."""
        return Sources(self._siblings if names else (), self._sources.objects)

    def all_of(self, *names: GangKey) -> Sources:
        """Return the same as `sources_of`: the objects and the siblings of the arriving pod."""
        return self.sources_of(*names)

    def alike(self, name: GangKey, pod: Pod) -> int:
        """They are different."""
        del name, pod
        return 1

    def sources_about(self, *manifests: Mapping[str, Any]) -> Sources:
        """The objects alone."""
        del manifests
        return self._sources

    def reread(self, sources: Sources, inputs: Iterable[ReadInput]) -> Sources:
        """Return the sources: nothing is read again."""
        del inputs
        return sources

    def arrived(self, sources: Sources, awaited: object) -> Sources:
        """Nothing is read."""
        del awaited
        return sources

    def comes(self, awaited: object) -> bool:
        """Nothing does."""
        del awaited
        return False

    def describing(self, group: str, kind: str) -> None:
        """Return None: there are no user-defined kinds."""
        del group, kind

    def following(self) -> AbstractContextManager[Follower]:
        """Fail the test: no admission follows changes."""
        raise AssertionError("no admission follows changes")

    def node(self, name: str) -> None:
        """Return None: there are no nodes."""
        del name

    def snapshot(self) -> Any:
        """Fail the test: no admission of a controller's pod may read a snapshot."""
        raise AssertionError("no pod of a controller waits for a snapshot")

    def devices(self) -> DeviceView:
        """Return a view without devices."""
        return NO_DEVICES

    def age(self) -> float:
        """Just now."""
        return 0.0


def _nothing(gang: Gang, whole: Callable[[], Gang]) -> tuple[str, ...]:
    del gang, whole
    return ()


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


def test_a_pod_costs_a_look_at_the_objects_of_its_own_gang(way: Way) -> None:
    """The first admission fills the indexes. Later ones read the same few objects with 10 gangs or with 300."""
    few, many = Crowded(way, 10), Crowded(way, 300)
    few.admitted()
    many.admitted()
    looked = many.admitted()
    assert looked == few.admitted()
    assert len(looked) <= MOST


def test_a_change_elsewhere_costs_a_look_at_what_has_changed(way: Way) -> None:
    crowded = Crowded(way, 300)
    crowded.admitted()
    before = crowded.admitted()
    other = ("batch", "Job", NAMESPACE, "gang-250")
    crowded.seen.clear()
    crowded.change(other, status={"active": 4})
    assert crowded.seen <= {other}
    assert crowded.admitted() == before


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_job_is_patched_without_a_look_at_any_pod_or_at_other_jobs(way: Way, operation: str) -> None:
    crowded = Crowded(way, 300)
    (job,) = (each for each in way.objects(0) if each["kind"] == "Job")
    request = AdmissionRequest("1", operation, GroupVersionResource("batch", "v1", "jobs"), object=job, old_object=job)
    crowded.seen.clear()
    assert isinstance(dispatch.mutate(request, crowded, _nothing), Admitted)
    assert len(crowded.seen) <= MOST


def test_a_new_job_is_reviewed_without_a_look_at_other_jobs(way: Way) -> None:
    """The first review builds indexes of all Jobs. They are still there for the next review."""
    crowded = Peopled(way, 0, 0, gangs=300)
    (job,) = (each for each in way.objects(0) if each["kind"] == "Job")
    request = AdmissionRequest("1", "CREATE", GroupVersionResource("batch", "v1", "jobs"), object=job)
    for _ in range(2):
        crowded.seen.clear()
        assert isinstance(dispatch.validate(request, crowded, _unforeseen), Admitted)
    assert len(crowded.seen) <= MOST


def test_queues_of_other_cohorts_are_not_looked_at() -> None:
    crowded = Crowded(WAYS["a queue of Kueue"], 10)
    crowded.admitted()
    before = crowded.admitted()
    for number in range(100):
        meta, group = {"name": f"other-{number}", "namespace": ""}, {"apiVersion": "kueue.x-k8s.io/v1beta1"}
        crowded.add({**group, "kind": "ClusterQueue", "metadata": meta, "spec": {"cohort": f"other-{number}"}})
        crowded.add({**group, "kind": "LocalQueue", "metadata": {**meta, "namespace": "b"}, "spec": {}})
    crowded.admitted()
    assert crowded.admitted() == before


class Peopled(Crowded):
    """The crowd of gangs, with pods of all gangs and pods of no gang, as the watch cache keeps them."""

    def __init__(self, way: Way, siblings: int, others: int, gangs: int = 10) -> None:
        super().__init__(way, gangs)
        self._pods = Pods(Unheard(), Capture(), places_of)
        self.handed = 0
        """How many pods were handed out."""
        whole = Sources(objects=self.plain)
        mine, theirs = pod_of(arriving(whole, 0)), pod_of(arriving(whole, 5))
        nobody = Pod(metadata=ObjectMeta(namespace=NAMESPACE, labels={"app": "web"}))
        for number in range(siblings):
            self._pods.put(_called(mine, f"mine-{number}"))
        for number in range(others):
            self._pods.put(_called(theirs if number % 2 else nobody, f"other-{number}"))

    def sources_of(self, *names: GangKey) -> Sources:
        """The objects, and one pod of each kind of a gang."""
        found = [pod for name in names for pod in self._pods.one_of_each(name)]
        self.handed += len(found)
        return Sources(found, self._sources.objects)

    def all_of(self, *names: GangKey) -> Sources:
        """Fail the test: no admission may read all siblings of one pod."""
        del names
        raise AssertionError("nobody asks for all siblings because of one that comes to wait beside them")

    def alike(self, name: GangKey, pod: Pod) -> int:
        """As the watch cache has them."""
        return self._pods.alike(name, pod.key)

    def sources_about(self, *manifests: Mapping[str, Any]) -> Sources:
        """The objects, and the pods that have to do with some of them."""
        found = examples_of(self._pods.one_of)
        for each in manifests:
            found += pods_about(each, self._sources, self._pods.of)
        self.handed += len(found)
        return Sources(list({pod.key: pod for pod in found}.values()), self._sources.objects)


def _called(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name, uid=name))


def test_what_is_applied_costs_a_look_at_its_own_pods(way: Way) -> None:
    """Every object that a user writes, beside 40 other pods and beside 1,000."""
    for manifest in way.objects(0):
        handed = []
        for others in (40, 1000):
            picture = Peopled(way, 50, others)
            resource = GroupVersionResource("", "", manifest["kind"])
            request = AdmissionRequest("1", "UPDATE", resource, object=manifest, old_object=manifest)
            assert isinstance(dispatch.validate(request, picture, _unforeseen), Admitted)
            handed.append(picture.handed)
        assert handed[0] == handed[1] <= 2 * (50 + MOST), manifest["kind"]


def test_a_gang_of_500_among_20000_pods_is_judged_by_its_500() -> None:
    way = WAYS["a Gang object of our own, sized by its Job"]
    picture = Peopled(way, 500, 20_000)
    for manifest in way.objects(0):
        picture.handed = 0
        resource = GroupVersionResource("", "", manifest["kind"])
        request = AdmissionRequest("1", "UPDATE", resource, object=manifest, old_object=manifest)
        assert isinstance(dispatch.validate(request, picture, _unforeseen), Admitted)
        assert 500 <= picture.handed <= 2 * (500 + MOST)


@pytest.mark.parametrize("siblings", [5, 500])
def test_a_pod_that_arrives_costs_a_look_at_one_sibling_of_each_kind(way: Way, siblings: int) -> None:
    picture, told = Peopled(way, siblings, 20), list[int]()
    bare = arriving(Sources(objects=picture.plain), 0, 3)
    of_job = Sources(objects=picture.plain)

    def foretell(gang: Gang, whole: Callable[[], Gang]) -> tuple[str, ...]:
        del whole
        told.append(len(gang.members))
        return ()

    for index in (1, 2, 3):
        picture.handed = 0
        assert isinstance(arriving_pods.created(arriving(of_job, 0, index), picture, foretell), Admitted)
        assert picture.handed <= MOST
    assert not told
    if "phalanx.dev/gang" in bare["metadata"]["labels"]:
        picture.change(("phalanx.dev", "Gang", NAMESPACE, "gang-0"), spec={"minMember": SIZE})
        del bare["metadata"]["ownerReferences"]
        bare["metadata"]["name"] = "bare"
        assert isinstance(arriving_pods.created(bare, picture, foretell), Admitted)
        assert told == [siblings + 1]


def _unforeseen(manifest: Manifest) -> tuple[str, ...]:
    del manifest
    return ()


def test_the_watch_cache_keeps_what_it_was_asked_for_by_name_through_each_event() -> None:
    """Each event has only the changed objects looked at by the function of the index, which notes their names."""
    manifests = Manifests(Unheard())
    jobs = manifests.of("batch", "Job")

    def job(number: int, group: str) -> dict[str, Any]:
        return {"metadata": {"name": f"job-{number}", "namespace": NAMESPACE, "labels": {"group": group}}}

    for number in range(200):
        jobs.put(job(number, f"g{number // 2}"))
    assert _names(manifests, "g3") == ["job-6", "job-7"]
    _LOOKED_AT.clear()
    jobs.put(job(6, "g4"))
    jobs.put(job(300, "g3"))
    jobs.drop(job(7, "g3"))
    assert (_names(manifests, "g3"), _names(manifests, "g4")) == (["job-300"], ["job-6", "job-8", "job-9"])
    assert set(_LOOKED_AT) == {"job-6", "job-7", "job-300"}


_LOOKED_AT: list[str] = []


def _group(job: Mapping[str, Any]) -> tuple[str, ...]:
    _LOOKED_AT.append(job["metadata"]["name"])
    return (job["metadata"]["labels"]["group"],)


def _names(manifests: Manifests, group: str) -> list[str]:
    return [each["metadata"]["name"] for each in manifests.all().sought("batch", "Job", _group, group)]
