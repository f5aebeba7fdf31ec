"""Output of the commands in a terminal, on a real cluster: lists, trees and stories, printed once or watched."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread

import pytest
import yaml
from click.testing import CliRunner, Result
from system import GUIDE, PATIENCE, Object, Phalanx, pod, pod_group, priority_class

from cli.main import group

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

PROGRAM = [sys.executable, "-c", "from cli.main import main; main()"]
WIDTH = 80
"""Columns of a terminal of the default width."""
TRAINING = "high-priority-training"


def run(phalanx: Phalanx, *arguments: str) -> Result:
    """A command as the administrator."""
    return CliRunner().invoke(group, [*arguments, "--kubeconfig", str(phalanx.cluster.kubeconfig)])


def said(phalanx: Phalanx, *arguments: str) -> str:
    """Run a command that succeeds; return its output with durations replaced by TIME."""
    answer = run(phalanx, *arguments)
    assert answer.exit_code == 0, answer.output
    return re.sub(r" \d+[smh](?=\s)", " TIME", answer.stdout)


class Watch:
    """A running command, read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()

        def read() -> None:
            for line in process.stdout or ():
                self._lines.put(line)

        Thread(target=read, daemon=True).start()

    def until(self, text: str) -> list[str]:
        """Return the lines up to the first one that contains this text."""
        seen: list[str] = []
        until = time.monotonic() + PATIENCE
        while not seen or text not in seen[-1]:
            try:
                seen.append(self._lines.get(timeout=max(0.1, until - time.monotonic())))
            except Empty:
                pytest.fail(f"nobody said {text!r}; said was:\n{''.join(seen)}")
        return seen


@contextmanager
def watching(phalanx: Phalanx, *arguments: str) -> Iterator[Watch]:
    """A command that watches, meanwhile."""
    command = [*PROGRAM, *arguments, "--watch", "--kubeconfig", str(phalanx.cluster.kubeconfig)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield Watch(process)
        finally:
            process.terminate()


def preempting(phalanx: Phalanx) -> None:
    """The guide's first scene, played: a gang of four in one spine, which one pod of low priority left for it."""
    phalanx.guide_nodes()
    phalanx.apply_files(*(GUIDE / f"{name}.yaml" for name in ("priorityclasses", "low-priority-pods", TRAINING)))
    phalanx.await_phase(TRAINING, "Placed")


def test_gangs_the_tree_and_the_story_of_a_gang_that_is_placed(phalanx: Phalanx) -> None:
    with watching(phalanx, "gangs", "-A", "-o", "json") as gangs:
        preempting(phalanx)
        seen = [json.loads(line) for line in gangs.until('"phase":"Placed"') if line.startswith('{"')]
    assert [each["metadata"]["name"] for each in seen] == [TRAINING] * len(seen)
    assert (
        said(phalanx, "gangs")
        == """\
NAME                     PHASE    PODS   DOMAIN    REASON     AGE
high-priority-training   Placed   4/4    spine-1   AllBound   TIME
"""
    )
    assert (
        said(phalanx, "topology")
        == """\
ClusterNetworkTopology default: SpineLayer > BlockLayer > NodeTopologyLayer

DOMAIN          NODES   CPU FREE   USED   GANGS
default         12      48         48     default/high-priority-training (4)
├─ spine-0      5       24         16
│  ├─ block-0   3       8          16
│  └─ block-1   2       16         0
├─ spine-1      4       0          32     default/high-priority-training (4)
│  ├─ block-2   2       0          16     default/high-priority-training (2)
│  └─ block-3   2       0          16     default/high-priority-training (2)
└─ spine-2      3       24         0
   └─ block-4   3       24         0
"""
    )
    lines = run(phalanx, "events", f"default/{TRAINING}").stdout.splitlines()
    told = [" ".join(line.split()[1:]) for line in lines[3:]]
    assert told[0] == "asked for PodGroup default/high-priority-training (koordinator)"
    assert [each.split()[0] for each in told if each.startswith(("GangP", "GangN", "Victim", "GangR", "all"))] == [
        "all",
        "GangPlanned",
        "GangNominated",
        "VictimEvicted",
        "GangReleased",
        "GangPlaced",
    ]
    assert "VictimEvicted evicted default/low-priority-pod-5 from node-5" in told
    assert_everywhere(phalanx)


def assert_everywhere(phalanx: Phalanx) -> None:
    """Check the other outputs that show the gang: data, kubectl's columns, condition, category and short name."""
    data = json.loads(said(phalanx, "topology", "--level", "SpineLayer", "-o", "json"))
    (spine,) = (each for each in data["topologies"][0]["domains"] if each["path"] == ["spine-1"])
    assert spine["gangs"] == [{"namespace": "default", "name": TRAINING, "pods": 4}]
    assert (spine["free"]["cpu"], spine["used"]["cpu"]) == (0, 32_000)
    (listed,) = yaml.safe_load(run(phalanx, "gangs", "-o", "yaml").stdout)["items"]
    assert listed["status"]["phase"] == "Placed"
    phalanx.cluster.kubectl("wait", "--for=condition=Placed", f"phg/{TRAINING}", "--timeout=60s")
    assert f"gang.phalanx.dev/{TRAINING}" in phalanx.cluster.kubectl("get", "phalanx")
    text = phalanx.cluster.kubectl("get", "phg", "-A")
    assert max(map(len, text.splitlines())) <= WIDTH, text
    short = phalanx.cluster.kubectl("api-resources", "--no-headers").splitlines()
    described = phalanx.cluster.kubectl("describe", f"gang/{TRAINING}")
    happened = [line.split()[1] for line in described.partition("\nEvents:\n")[2].splitlines()[2:]]
    steps = ["GangPlanned", "GangNominated", "VictimEvicted", "GangReleased", "GangPlaced"]
    # A controller that begins to lead when all pods are there has not seen the gang wait.
    assert [each for each in happened if each != "GangWaiting"] == steps
    assert "evicted default/low-priority-pod-5 from node-5\n" in described
    names = [name for line in short if len(line.split()) == 5 for name in line.split()[1].split(",")]
    assert names.count("phg") == names.count("pht") == 1


def waiting_for_room(phalanx: Phalanx) -> None:
    """Three gangs that fit nowhere, the last the most important."""
    phalanx.guide_nodes()
    phalanx.submit(priority_class("urgent", 1000))
    urgent: Object = {"priorityClassName": "urgent"}
    for name, count, extra in (("first", 13, {}), ("second", 6, {}), ("third", 14, urgent)):
        layers = [("SpineLayer", "MustGather")] if name == "second" else []
        phalanx.submit(pod_group(name, count, *layers))
        phalanx.submit(*(pod(f"{name}-{index}", name, **extra) for index in range(count)))
        phalanx.await_phase(name, "Unplaceable")


def names_of(report: Object) -> dict[str, str]:
    """Outcomes by gang."""
    return {each["name"]: each["outcome"] for each in report["gangs"]}


def test_a_gang_that_waits_its_place_in_line_and_what_if(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("filler", 1), pod("filler-0", "filler"))
    phalanx.await_phase("filler", "Placed")
    node = phalanx.nodes_of(["filler-0"])["filler-0"]
    waiting_for_room(phalanx)
    assert place(phalanx, "third") == "1 of 3 for capacity"
    assert place(phalanx, "first") == "2 of 3 for capacity, after default/third"
    assert place(phalanx, "second") == "3 of 3 for capacity, after default/third, default/first"
    live = ("solve", "--cluster", "live", "-o", "json")

    def what_if(*options: str) -> tuple[int, dict[str, str], str]:
        answer = run(phalanx, *live, *options)
        return answer.exit_code, names_of(json.loads(answer.stdout or '{"gangs": []}')), answer.stderr

    assert what_if("--gang", "default/second") == (3, {"second": "Unplaceable"}, "")
    assert what_if("--gang", "default/second", "--add-nodes", "6=node-8") == (0, {"second": "Placed"}, "")
    assert what_if("--gang", "default/second", "--relax", "SpineLayer") == (0, {"second": "Placed"}, "")
    closed = ("--cordon", "node-0,node-1,node-2,node-3", "--cordon", "node-5,node-6,node-7,node-8")
    relaxed = ("--gang", "default/second", "--relax", "SpineLayer")
    assert what_if(*relaxed, *closed) == (3, {"second": "Unplaceable"}, "")
    status, report, _ = what_if("--drain", node)
    assert (status, report) == (0, {"filler": "Placed"})
    assert what_if("--gang", "default/nosuch") == (2, {}, "error: no gang default/nosuch in the cluster\n")
    assert phalanx.nodes_of(["filler-0"]) == {"filler-0": node}


def place(phalanx: Phalanx, gang: str) -> str:
    """Return the gang's place in the queue as `why` prints it."""
    lines = run(phalanx, "why", f"default/{gang}").stdout.splitlines()
    (line,) = (line.split(maxsplit=2)[2] for line in lines if line.strip().startswith("in line"))
    return line


def test_what_happens_is_told_while_it_does_and_a_shell_completes_names(phalanx: Phalanx) -> None:
    phalanx.guide_nodes()
    phalanx.submit(pod_group("llm", 2))
    phalanx.await_phase("llm", "Waiting")
    with (
        watching(phalanx, "gangs") as gangs,
        watching(phalanx, "events", "default/llm") as events,
        watching(phalanx, "topology") as topology,
        watching(phalanx, "why", "default/llm") as why,
    ):
        gangs.until("Waiting")
        events.until("asked for")
        topology.until("block-4")
        why.until("0 of 2 exist")
        phalanx.submit(pod("llm-0", "llm"), pod("llm-1", "llm"))
        assert "2/2" in gangs.until("Placed")[-1]
        events.until("GangPlaced")
        topology.until("default/llm (2)")
        why.until("2 of 2 exist, 2 bound")
        phalanx.cluster.kubectl("delete", "podgroups.scheduling.sigs.k8s.io", "llm", "--wait=false")
        gangs.until("gone")
    phalanx.submit(pod_group("llama", 1))
    phalanx.wait(lambda: bool(phalanx.gang("llama")), "gang llama")
    for shell, told in (("bash", "plain,default/llama"), ("zsh", "default/llama"), ("fish", "plain,default/llama")):
        assert told in completed(phalanx, shell, "why", "default/lla")
    assert "plain,node-11" in completed(phalanx, "bash", "solve", "--drain", "node-1")
    code = "import sys; sys.argv[1:] = ['gangs', 'll']; from cli.main import complete; complete()"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(phalanx), check=True
    )
    assert answer.stdout.splitlines()[0].split("\t")[0] == "llama"
    assert answer.stdout.splitlines()[-1] == ":4"


def environment(phalanx: Phalanx) -> dict[str, str]:
    """Return this process's environment with the administrator's kubeconfig: completion has no option for it."""
    return {**os.environ, "KUBECONFIG": str(phalanx.cluster.kubeconfig)}


def completed(phalanx: Phalanx, shell: str, *words: str) -> str:
    """Return the completions that the program prints for a shell."""
    line = " ".join(["phalanx", *words])
    position = words[-1] if shell == "fish" else str(len(words))
    asked = {"_PHALANX_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": position}
    answer = subprocess.run(PROGRAM, capture_output=True, text=True, env={**environment(phalanx), **asked}, check=False)
    return answer.stdout
