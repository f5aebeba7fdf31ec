"""The review of an object gives equal results with its related pods only and with all pods of the cluster."""

import random
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace

import msgspec
import pytest
from test_gang_store import LISTED, Walk, world
from thorough import parts
from written import documents, pod

from gangs.dialects.claims import dialect_of
from gangs.dialects.concerned import examples_of, places_of, pods_about
from gangs.dialects.reading import described
from gangs.dialects.reviewing import arrival, review
from gangs.manifests import MalformedError
from gangs.model import Manifest
from gangs.sources import Sources
from kube.objects import Pod

pytestmark = pytest.mark.repetitive


def _kept(sources: Sources) -> defaultdict[Hashable, list[Pod]]:
    kept: defaultdict[Hashable, list[Pod]] = defaultdict(list)
    for each in sources.pods:
        for place in places_of(each)[0]:
            kept[place].append(each)
    return kept


def narrowed(sources: Sources, manifest: Manifest) -> Sources:
    """The sources with the pods that have to do with the object."""
    kept = _kept(sources)
    examples = examples_of(lambda place: next(iter(kept[place]), None))
    found = {each.key: each for each in (*examples, *pods_about(manifest, sources, kept.__getitem__))}
    return replace(sources, pods=[found[key] for key in sorted(found)])


@pytest.mark.parametrize("seed", parts(2))
def test_an_object_is_judged_by_its_own_pods_as_by_all(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - for a test that can be repeated
    of = world()
    walk, looked, told = Walk(of, dice), 0, 0
    for _ in range(250):
        walk.step()
    for _ in range(12):
        for _ in range(20):
            walk.step()
        sources = of.sources()
        for key in dice.sample(sorted(of.objects), 12):
            try:
                part = narrowed(sources, of.objects[key])
            except MalformedError:
                continue
            whole = review(of.objects[key], sources)
            assert review(of.objects[key], part) == whole, key
            there = sources.having(of.objects[key])
            assert described(of.objects[key], part.having(of.objects[key])) == described(of.objects[key], there), key
            looked, told = looked + len(part.pods), told + bool(whole[0] or whole[1])
    assert looked
    assert told


@pytest.mark.parametrize("seed", parts(2))
def test_a_pod_is_judged_by_one_sibling_of_each_kind_as_by_all(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - for a test that can be repeated
    of, wrong, fewer = world(), 0, 0
    walk = Walk(of, dice)
    for _ in range(400):
        walk.step()
    for _ in range(15):
        for _ in range(20):
            walk.step()
        sources = of.sources()
        kept = _kept(sources)
        for name in dice.sample(sorted(of.pods), 20):
            claim, manifest = dialect_of(of.pods[name]), msgspec.to_builtins(of.pods[name])
            if claim is None:
                continue
            siblings = [pod for pod in kept[claim[1]] if pod.key != name]
            few = list({places_of(pod)[1]: pod for pod in reversed(siblings)}.values())
            whole = arrival(manifest, replace(sources, pods=siblings))
            found = arrival(manifest, replace(sources, pods=sorted(few, key=lambda pod: pod.key)))
            assert (found.faults, found.advice) == (whole.faults, whole.advice), name
            assert (found.gang and found.gang.names) == (whole.gang and whole.gang.names), name
            wrong, fewer = wrong + bool(whole.faults), fewer + (len(few) < len(siblings))
    assert wrong
    assert fewer


def _names(sources: Sources, manifest: Manifest) -> list[str]:
    return [each.metadata.name for each in narrowed(sources, manifest).pods]


def test_a_group_that_lists_another_is_judged_with_the_pods_of_that_one() -> None:
    (group,) = documents("""
        apiVersion: scheduling.sigs.k8s.io/v1alpha1
        kind: PodGroup
        metadata:
          {name: new, namespace: a, annotations: {gang.scheduling.koordinator.sh/groups: '["a/new", "a/five"]'}}
        spec: {minMember: 1}
    """)
    others = [pod(f"other-{number}", labels={"pod-group.scheduling.sigs.k8s.io": "other"}) for number in range(3)]
    assert _names(Sources([*others, *LISTED]), group) == ["p3", "other-0"]


def test_pods_that_want_to_be_near_each_other_are_looked_at_together() -> None:
    (group,) = documents("""
        apiVersion: scheduling.sigs.k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: one, namespace: default}
        spec: {minMember: 1}
    """)
    near = {"scheduling.koordinator.sh/network-topology-selector": '{"matchLabels": {"app": "a"}}'}
    label = "pod-group.scheduling.sigs.k8s.io"
    pods = [pod("a", labels={label: "one"}, annotations=near), pod("b", labels={label: "two"}, annotations=near)]
    pods += [pod("c", labels={label: "two"}), pod("d", labels={label: "two"})]
    assert _names(Sources(pods), group) == ["a", "b"]


def test_one_pod_of_each_dialect_is_there_for_the_topologies() -> None:
    (gang,) = documents("""
        apiVersion: phalanx.dev/v1alpha1
        kind: Gang
        metadata: {name: one, namespace: default}
        spec: {minMember: 1}
    """)
    pods = [pod(f"kai-{number}", annotations={"scheduling.run.ai/pod-group": "two"}) for number in range(3)]
    assert _names(Sources(pods), gang) == ["kai-0"]
