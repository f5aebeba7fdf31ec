"""The coverage of the last measured run, lines and branches together, by package: `make coverage` prints it.

The report names each module of which less than half was run. Such a module is dead code, is tested only on a real
control plane, or has no test.
"""

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from coverage import Coverage

HALF = 50.0


def main() -> None:
    """Print the table."""
    files = measured()
    rooms: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, summary in files.items():
        package, *rest = Path(name).parts
        rooms[package].append(summary)
        if len(rest) > 1:
            rooms[f"{package}/{rest[0]}"].append(summary)
    for room, summaries in sorted(rooms.items()):
        print(f"{'  ' if '/' in room else ''}{room:32} {share(summaries):5.1f} %")  # noqa: T201 - a report
    print(f"{'all':32} {share(list(files.values())):5.1f} %")  # noqa: T201
    low = {name: share([summary]) for name, summary in files.items() if share([summary]) < HALF}
    for name, found in sorted(low.items(), key=lambda each: each[1]):
        print(f"{found:5.1f} %  {name}")  # noqa: T201


def measured() -> dict[str, dict[str, Any]]:
    """Return coverage's summary of each file: how many lines and branches it has, and how many of them were run."""
    coverage = Coverage()
    coverage.load()
    coverage.combine()  # adds the data files of processes that the measured run did not wait for
    coverage.save()
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        coverage.json_report(outfile=report.name)
        found = json.loads(Path(report.name).read_text())
    return {name: each["summary"] for name, each in found["files"].items()}


def share(summaries: list[dict[str, Any]]) -> float:
    """Return the percentage of lines and branches that were run; 100 if there are none."""
    there = sum(each["num_statements"] + each["num_branches"] for each in summaries)
    run = sum(each["covered_lines"] + each["covered_branches"] for each in summaries)
    return 100.0 * run / there if there else 100.0


if __name__ == "__main__":
    main()
