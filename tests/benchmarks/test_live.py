"""The objects that the live benchmark requests from a cluster, and its measurement of programs' resource usage."""

import os
import time
from dataclasses import astuple

import pytest

from benchmarks.live import admission, crowding, evictions, large_cluster, load, machine_usage, stream


def test_what_a_program_uses_is_counted() -> None:
    programs = {"this": os.getpid()}
    before = machine_usage.usage_of(programs)
    began = time.process_time()
    while time.process_time() < began + 0.2:
        sum(range(1000))
    after = machine_usage.usage_of(programs)
    assert machine_usage.spent(before, after)["this"] >= 0.1
    assert after["this"].megabytes > 1


def test_nodes_are_in_racks_of_blocks() -> None:
    nodes = [load.node(number) for number in (0, 19, 20, 1000)]
    assert [load.rack_of(each["metadata"]["name"]) for each in nodes] == [0, 0, 1, 50]
    assert [each["metadata"]["labels"][load.BLOCK] for each in nodes] == ["b0", "b0", "b0", "b1"]


def test_held_pods_are_tied_to_a_node_each() -> None:
    pods = load.held("floor", 3)
    rules = [each["spec"]["affinity"]["nodeAffinity"] for each in pods]
    terms = [each["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] for each in rules]
    assert [term["matchFields"][0]["values"] for (term,) in terms] == [["n00000"], ["n00001"], ["n00002"]]
    assert [each["spec"]["schedulingGates"] for each in pods] == [[{"name": load.HELD}]] * 3


def test_large_clusters_have_a_row_for_each_server() -> None:
    by_server = {"webhook": 5.0, "controller": 7.0}
    size = large_cluster.Size(5000, 35000, 500, by_server, by_server, by_server, 0.3)
    found = large_cluster.Found(5000, (size,), (), 500)
    rows = [line for line in large_cluster.page([found], "2 processors").splitlines() if line.startswith("| 5,000")]
    assert rows == [
        "| 5,000 | 35,000 | 500 | webhook | 5.0 | 5 | 5.0 | 0.30 |",
        "| 5,000 | 35,000 | 500 | controller | 7.0 | 7 | 7.0 | 0.30 |",
    ]


def test_jobs_ask_each_system_for_one_block() -> None:
    plain, ours, queued = load.job("j", 8), load.job("j", 8, gang=True), load.job("j", 8, queued=True)
    assert (plain["metadata"]["annotations"], plain["metadata"]["labels"]) == ({}, {})
    assert ours["metadata"]["annotations"] == {
        "phalanx.dev/gang": "true",
        "phalanx.dev/preferred": "rack",
        "phalanx.dev/required": "block",
    }
    assert queued["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": load.QUEUE}
    asked = queued["spec"]["template"]["metadata"]["annotations"]
    assert asked["kueue.x-k8s.io/podset-required-topology"] == load.BLOCK
    large = [load.job("j", 2000, gang=True), load.job("j", 2000, queued=True)]
    assert "phalanx.dev/required" not in large[0]["metadata"]["annotations"]
    asked = large[1]["spec"]["template"]["metadata"]["annotations"]
    assert (asked["kueue.x-k8s.io/podset-preferred-topology"], len(asked)) == (load.RACK, 2)


@pytest.mark.parametrize("nodes", [200, 5000])
def test_seventy_percent_of_the_gpus_are_taken_unevenly_and_always_the_same(nodes: int) -> None:
    found = crowding.taken(nodes)
    assert sum(found.values()) == pytest.approx(0.7 * 8 * nodes, rel=0.01)
    assert found == crowding.taken(nodes)
    free = crowding.free_in_racks(nodes, found)
    assert (min(free.values()) < 3, max(free.values()) > 8) == (True, True)
    assert sum(free.values()) == nodes - len(found)
    if nodes > load.PER_BLOCK:
        assert crowding.fewest(free, 512) is not None


FREE = {0: 3, 1: 5, 49: 4, 50: 6, 51: 6}
"""The free nodes by rack. Racks 0 to 49 are one block."""


@pytest.mark.parametrize(
    ("size", "racks"),
    [(5, 1), (6, 1), (7, 2), (9, 2), (10, 2), (12, 2), (13, None)],
)
def test_the_fewest_racks_are_those_of_one_block(size: int, racks: int | None) -> None:
    assert crowding.fewest(FREE, size) == (crowding.Fewest(1, racks) if racks else None)


def test_more_than_a_block_may_hold_needs_several() -> None:
    free = dict.fromkeys(range(150), 20)
    assert crowding.fewest(free, 2048) == crowding.Fewest(3, 103)
    assert crowding.fewest(free, 4000) is None


@pytest.mark.parametrize("number", range(len(evictions.SCENES)))
def test_the_fewest_victims_are_counted_in_the_better_block(number: int) -> None:
    assert evictions.fewest_victims(evictions.SCENES[number][1]) == (8, 2, 2)[number]


def test_a_stream_is_always_the_same_and_has_gangs_of_all_sizes() -> None:
    coming = stream.arrivals(500)
    assert coming == stream.arrivals(500)
    assert {each.size for each in coming} == set(stream.SIZES)
    drawn = stream.spread([0.0, *[1.0] * 50, *[2.0] * 48, 9.0])
    assert astuple(drawn) == (1.0, pytest.approx(2.0, abs=0.1))
    assert stream.spread([3.0]) == stream.Spread(3.0, 3.0)


def test_a_stream_has_a_row_for_each_mode() -> None:
    spread = stream.Spread(0.5, 1.25)
    streams = (
        stream.Passed("stock", 2, 10, 2.0, {8: spread, 2: spread}, spread),
        stream.Passed("large-phalanx", 1, 2048, 40.0, {2048: spread}, spread),
    )
    assert list(stream.table(streams))[2:] == [
        "| stock | 2 | 10 | 5.0 | 500 1250 | 0.50 1.25 | 0.50 1.25 |  |",
        "| large-phalanx | 1 | 2,048 | 51.2 | 500 1250 |  |  | 0.50 1.25 |",
    ]


def test_admissions_come_at_an_even_pace_and_who_is_late_counts_from_when_he_was_due() -> None:
    asked = list[int]()

    def slow_at_first(number: int) -> None:
        asked.append(number)
        time.sleep(0.3 if number < admission.CLIENTS else 0.0)

    began = time.monotonic()
    seconds = admission.paced(slow_at_first, admission.CLIENTS + 4, per_second=1000)
    assert time.monotonic() - began >= 0.3
    assert sorted(asked) == list(range(admission.CLIENTS + 4))
    assert min(seconds[admission.CLIENTS :]) > 0.2, "they were answered at once, but long after they were due"


def test_what_admission_adds_is_beside_what_a_creation_takes_of_itself() -> None:
    cpu = {"API server": 0.4, "webhook": 0.1}
    lots = [
        admission.Lot(admission.Asked(way, what, 200), [0.001 * (3 if way == admission.NOBODY else 5)] * 100, cpu)
        for way in admission.WAYS
        for what in (admission.CREATED, admission.TRIED)
    ]
    tried = [admission.Tried("Job", stream.Spread(0.01, 0.02), 0.004)]
    rows = [
        line
        for line in admission.page(admission.Plan(10, 20, (200,), 100, 1), lots, tried, "").splitlines()
        if line.startswith(("| created", "| Job"))
    ]
    assert rows == [
        "| created | 200 | nobody | 3.0 | 3.0 | - | - | 4.00 | 1.00 |",
        "| created | 200 | the webhook | 5.0 | 5.0 | 2.0 | 2.0 | 4.00 | 1.00 |",
        "| created | 200 | policies | 5.0 | 5.0 | 2.0 | 2.0 | 4.00 | 1.00 |",
        "| Job | 10.0 | 20.0 | 4.0 |",
    ]


def test_all_objects_that_are_tried_say_where_they_are_created() -> None:
    for name, path, manifest in admission.objects():
        assert manifest["metadata"]["name"] == "tried", name
        assert path.endswith(manifest["kind"].lower() + "s")
        assert path.startswith(("/api/", "/apis/" + manifest["apiVersion"]))
