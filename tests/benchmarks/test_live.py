"""What the live benchmark says of its rounds, and how it counts what programs use."""

import os
import time

from benchmarks.live import large_cluster, load, machine_usage
from benchmarks.live.modes import FLOOR, PHALANX, STOCK, Lot
from benchmarks.live.report import page


def test_the_page_has_medians_spreads_and_the_ratio_to_stock() -> None:
    cpu = {"webhook": 0.5, "controller": 1.0}
    lots = [Lot(STOCK, 8, seconds, 1.0, 8, cpu) for seconds in (0.1, 0.2, 0.4)]
    lots += [Lot(FLOOR, 8, 0.3, 1.5, 8, cpu)]
    lots += [Lot(PHALANX, 8, seconds, 2.0, 1, cpu) for seconds in (0.6, 0.5, 0.8)]
    text = page(lots, {"webhook": (0.24, 350.4)}, "10 nodes")
    assert "| 8 | stock | 3 | 0.20 (0.10-0.40) | 1.00 (1.00-1.00) | 1.0 | 0.7 | 8 | 0.50 (0.50-0.50) |" in text
    assert "| 8 | phalanx | 3 | 0.60 (0.50-0.80) | 2.00 (2.00-2.00) | 3.0 | 2.0 | 1 | 0.50 (0.50-0.50) |" in text
    assert "- webhook: 0.2 % of a core, 350 MB" in text


def test_without_stock_there_is_no_ratio() -> None:
    lots = [Lot(PHALANX, 8, 0.5, 2.0, 1, {"webhook": 0.5, "controller": 1.0})]
    assert "| 2.00 (2.00-2.00) | - | - | 1 |" in page(lots, {}, "10 nodes")


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
    rows = [line for line in large_cluster.page([size], "2 processors").splitlines() if line.startswith("| 5,000")]
    assert rows == [
        "| 5,000 | 35,000 | 500 | webhook | 5.0 | 5 | 5.0 | 0.30 |",
        "| 5,000 | 35,000 | 500 | controller | 7.0 | 7 | 7.0 | 0.30 |",
    ]
