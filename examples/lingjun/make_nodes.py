# ruff: noqa: INP001 -- a script that is run by its path
"""Writes nodes.json: the hosts of topo.csv as Kubernetes Nodes. `python make_nodes.py > nodes.json`.

The data set only names the switches above each host. The script assumes 8 GPUs, 128 cores and 1 TiB of memory for
every host, all of it free. The data set has hashes as host names. The script renames hosts after their place in the
network, so that neighbours have neighbouring names. p8-s3-0 is the first host under access switch S3 of pod switch P8.
"""

import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

ALLOCATABLE = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}

Row = Mapping[str, str]


def main() -> None:
    """Write all Nodes, as a Kubernetes List in JSON, to standard output."""
    with Path(__file__).with_name("topo.csv").open(encoding="utf-8", newline="") as file:
        sys.stdout.write(text_of(nodes(csv.DictReader(file))))


def nodes(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a Node for each row of topo.csv, ordered by the switches above it."""
    numbers: dict[tuple[str, str], count[int]] = {}
    found = []
    for row in sorted(rows, key=place):
        number = next(numbers.setdefault((row["PSW"], row["ASW"]), count()))
        found.append(node(f"{row['PSW']}-{row['ASW']}-{number}".lower(), row))
    return found


def place(row: Row) -> tuple[int, int, int, str]:
    """Return the sort key of a host: the numbers of its DSW, PSW and ASW switch, then its IP address."""
    dsw, psw, asw = (int(re.sub(r"\D", "", row[level])) for level in ("DSW", "PSW", "ASW"))
    return dsw, psw, asw, row["ip"]


def node(name: str, row: Row) -> dict[str, Any]:
    """Return the Node of a host, with a label for each switch above it.

    :param row: the row of topo.csv.
    """
    switches = {f"example.com/{level.lower()}": row[level] for level in ("DSW", "PSW", "ASW")}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **switches}},
        "status": {"allocatable": ALLOCATABLE},
    }


def text_of(items: list[dict[str, Any]]) -> str:
    """Return a Kubernetes List as JSON text, with one line for each object."""
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"apiVersion":"v1","kind":"List","items":[\n{lines}\n]}}\n'


if __name__ == "__main__":
    main()
