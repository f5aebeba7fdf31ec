"""Ports for servers that listen later: no two calls and no two processes get the same."""

import subprocess
import sys

from controlplane.running.ports import free_ports

CLAIM = "from controlplane.running.ports import _claimed; print(_claimed({}))"


def test_no_port_is_given_twice() -> None:
    first, second = free_ports(50), free_ports(50)
    assert len({*first, *second}) == 100


def test_another_process_cannot_claim_a_port_that_nobody_listens_on_yet() -> None:
    (port,) = free_ports(1)
    answer = subprocess.run([sys.executable, "-c", CLAIM.format(port)], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
