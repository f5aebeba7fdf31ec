"""`phalanx demo --keep`: its manifests give the phases that it promises, and the cluster shows them.

spine-0  block-0 … block-3     spine-1  block-4 … block-7     a block: two racks with 8 nodes of 8 GPUs
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
import urllib3
import yaml

from cli.ui import LOOPBACK
from controlplane.showcase import EXAMPLE, PHASES, ROOT, nodes
from planning.dry_run import dry_run
from planning.files.documents import parse

NEED_PODS = {"team-b/incident", "team-b/scale-up"}
"""Gangs whose phase depends on the pods of `background.yaml`, which only a scheduler places."""
_WORDS = {"Evicting": "Placed"}


def test_the_manifests_lead_to_the_phases_that_the_demo_waits_for() -> None:
    files = ("topology", "queue", "placed", "hotfix", "waiting")
    text = "\n---\n".join((ROOT / EXAMPLE / f"{name}.yaml").read_text() for name in files)
    documents, mistakes = parse(yaml.safe_dump_all(nodes()) + "\n---\n" + text, "showcase")
    assert not mistakes
    run = dry_run(documents)
    assert not run.mistakes
    found = {f"{each.key.namespace}/{each.key.name}": each.outcome.value for each in run.decisions}
    assert PHASES.keys() <= found.keys()
    assert {key: found[key] for key in PHASES.keys() - NEED_PODS} == {
        key: _WORDS.get(phase, phase) for key, (phase, _) in PHASES.items() if key not in NEED_PODS
    }
    assert found["team-b/incident"] == "Placed"


@pytest.fixture(scope="module")
def printed() -> Iterator[list[str]]:
    """The lines that `phalanx demo --keep` prints until it waits for Ctrl-C."""
    command = [str(Path(sys.executable).parent / "phalanx"), "demo", "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as demo:
        assert demo.stdout is not None
        lines = list[str]()
        for line in demo.stdout:
            lines.append(line.rstrip("\n"))
            if "Ctrl-C" in line:
                break
        yield lines
        rest = threading.Thread(target=demo.stdout.read)
        rest.start()
        demo.send_signal(2)
        rest.join()
    assert demo.returncode == 0


@pytest.mark.controlplane
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_command_that_the_demo_prints_runs_as_printed(printed: list[str]) -> None:
    shown = {words[0]: words[1].rstrip(",") for line in printed if len(words := line.split()) > 1 and "/" in words[0]}
    assert {key: shown.get(key) for key in PHASES} == {key: phase for key, (phase, _) in PHASES.items()}
    titles = ("Open", "Submit", "Ask", "List")
    page, submit, why, everything = (
        printed[at + 1].strip() for at, line in enumerate(printed) if line.startswith(titles)
    )
    assert "created" in subprocess.run(submit, shell=True, check=True, capture_output=True, text=True, cwd=ROOT).stdout  # noqa: S602 - as a person types it
    told = subprocess.run(why, shell=True, check=True, capture_output=True, text=True, cwd=ROOT).stdout  # noqa: S602 - as above
    assert "quota" in told
    listed = subprocess.run(everything, shell=True, check=True, capture_output=True, text=True, cwd=ROOT).stdout  # noqa: S602 - as above
    assert "pretrain" in listed
    # A browser resolves all names below localhost, Python those that the system knows.
    url = re.sub("//[^:/]+", f"//{LOOPBACK}", page)
    answer = urllib3.PoolManager().request("GET", url, redirect=False)
    assert answer.status == HTTPStatus.SEE_OTHER
