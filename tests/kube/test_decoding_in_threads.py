"""Several threads may use a type for the first time at once, as the first reviews after the webhook's start do.

Without `prepare_decoding`, msgspec crashes the process then. So the threads run in a process of their own.
"""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
THREADS_DECODE = """
import sys, threading
import msgspec
from kube.objects import Pod, prepare_decoding

prepare_decoding()
sys.setswitchinterval(1e-6)
ready = threading.Barrier(8)
containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
pod = {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": containers}}

def decode():
    ready.wait()
    msgspec.convert(pod, Pod)

threads = [threading.Thread(target=decode) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""
RUNS = 4
"""Without `prepare_decoding`, most processes crash, but not all."""


def test_threads_that_decode_a_type_for_the_first_time_do_not_crash() -> None:
    command = [sys.executable, "-c", THREADS_DECODE]
    for _ in range(RUNS):
        ended = subprocess.run(
            command, cwd=REPOSITORY, env={"PYTHONPATH": str(REPOSITORY)}, capture_output=True, check=False
        )
        assert ended.returncode == 0, ended.stderr.decode()
