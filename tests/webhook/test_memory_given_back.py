"""A server returns the memory that it has freed to the operating system."""

import subprocess
import sys

PEAK = """
import threading
from pathlib import Path
from serving.memory import keep_little
{call}

def resident():
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1])

def work():
    pieces = [bytearray(100_000) for _ in range(400)]
    kept.append((pieces[::40], bytearray(2000)))

kept, before = [], resident()
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(resident() - before)
"""
"""Eight threads of 40 MB each, of which they keep a fortieth."""


def kilobytes_kept(call: str) -> int:
    done = subprocess.run([sys.executable, "-c", PEAK.format(call=call)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_server_keeps_little_of_what_was_freed() -> None:
    """8 MB are in use. Without it each thread's heap stays as large as it was, up to the last piece in use."""
    assert kilobytes_kept("keep_little()") < 30_000 < kilobytes_kept("")
