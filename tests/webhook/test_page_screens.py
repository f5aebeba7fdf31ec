"""The page's queues and ended gangs in a real Chromium: figures, order, links, export, accessibility, small screens.

cohort ml of 32 GPUs    a: 16, `large` runs with 24    b: 16, `small` runs with 4, `first` waits for 8, then `second`
"""

from typing import Any

import pytest
from browsing import driven, served, shown
from pictures import Manifest, StillPicture, node, pod
from test_history import COMPLETE, Watched, job, members, mirror, placed

from kube.keys import GATE

KUEUE = "kueue.x-k8s.io"
GPU = "nvidia.com/gpu"


def kueue(kind: str, name: str, spec: Manifest, **metadata: str) -> Manifest:
    """An object of Kueue."""
    return {"apiVersion": f"{KUEUE}/v1beta2", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def queue(name: str) -> list[Manifest]:
    """A ClusterQueue of 16 GPUs in the cohort, with its LocalQueue."""
    flavors = [{"name": "any", "resources": [{"name": GPU, "nominalQuota": "16"}]}]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    spec = {"namespaceSelector": {}, "cohortName": "ml", "resourceGroups": groups}
    local = kueue("LocalQueue", f"of-{name}", {"clusterQueue": name}, namespace="default")
    return [kueue("ClusterQueue", name, spec), local]


def gang(name: str, of: str, *nodes: str, size: int = 1) -> list[Manifest]:
    """Pods of 8 GPUs, or of 4 for `small`, on these nodes; without nodes, so many gated pods."""
    found = []
    for at in range(len(nodes) or size):
        labels = {f"{KUEUE}/pod-group-name": name, f"{KUEUE}/queue-name": f"of-{of}"}
        annotations = {f"{KUEUE}/pod-group-total-count": str(len(nodes) or size)}
        where: Manifest = {"nodeName": nodes[at]} if nodes else {"schedulingGates": [{"name": GATE}]}
        made = pod(f"{name}-{at}", labels=labels, annotations=annotations, **where)
        made["metadata"]["creationTimestamp"] = f"2026-11-21T11:{50 + len(name)}:00Z"
        requests = {GPU: "4" if name == "small" else "8"}
        made["spec"]["containers"] = [{"name": "main", "image": "none", "resources": {"requests": requests}}]
        found.append(made)
    return found


def picture() -> StillPicture:
    """Six nodes of 8 GPUs, and the gangs of the module's docstring."""
    nodes = [node(f"n{at}", rack=f"r{at // 2}") for at in range(6)]
    for each in nodes:
        each["status"]["allocatable"][GPU] = "8"
    pods = [*gang("large", "a", "n0", "n1", "n2"), *gang("small", "b", "n3"), *gang("first", "b"), *gang("second", "b")]
    waits: Manifest = {"phase": "Waiting", "reason": "QuotaExhausted", "message": "queue b lacks 4 GPUs"}
    mirrors = [shown(name, {"minMember": 1}, dialect="kueue", **waits) for name in ("first", "second")]
    objects = [kueue("ResourceFlavor", "any", {}), *queue("a"), *queue("b"), *mirrors]
    return StillPicture(objects, nodes=nodes, pods=pods, namespaces={"default": {}})


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the texts of both views in a browser."""
    watched = Watched()
    watched.after(9, mirror(phase="Waiting", reason="QuotaExhausted"), job(), pods=members())
    watched.after(1, mirror(**placed("2026-11-21T11:55:10Z")), job(), pods=members(nodeName="n0"))
    watched.after(3600, job(**COMPLETE))
    folder = tmp_path_factory.mktemp("screens")
    with served(picture(), watched.history) as address:
        return driven("screens.mjs", address, str(folder))


def test_both_views_are_free_of_errors_and_barriers_and_fit_small_screens(seen: Any) -> None:
    assert (seen["errors"], seen["elsewhere"]) == ([], [])
    assert (seen["barriers"], seen["detailBarriers"], seen["endedBarriers"]) == ([], [], [])
    assert set(seen["wide"].values()) == {False}, seen["wide"]


def test_queues_show_loans_and_the_line_in_order(seen: Any) -> None:
    assert [each.split("\n")[0] for each in seen["tiles"]] == ["32 of 48 GPUs", "28 88 %", "8 by a", "16 by 2 gangs"]
    a, b = seen["bars"]
    assert a == "quota 16, 16 used, 8 borrowed, 4 left"
    assert b == "quota 16, 4 used, 8 lent, 16 waited for, 4 left"
    line = [part for part in seen["rows"][1].split("\n") if part.startswith("default/")]
    assert [part.split()[0] for part in line] == ["default/small", "default/first", "default/second"]
    assert seen["opened"] == "?gang=default/first"
    assert seen["quota"].startswith("Quota of b\n")
    assert "first of this queue" in seen["quota"]
    assert sorted(seen["listed"]) == ["default/first", "default/second", "default/small"]


def test_ended_gangs_are_listed_and_exported(seen: Any) -> None:
    (row,) = seen["ended"]
    for part in ("default/train", "Succeeded", "10 s", "for quota", "1 h"):
        assert part in row
    assert seen["endedTiles"][:2] == ["10 s", "10 s"]
    assert seen["csv"].startswith("default,train,phalanx,Succeeded,training,2,")
