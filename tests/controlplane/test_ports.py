"""Ports that servers get lie where no client takes them away."""

import socket
from pathlib import Path

import pytest

from controlplane.running import ports

FIRST_EPHEMERAL = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def test_they_differ_and_are_below_those_of_outgoing_connections() -> None:
    found = ports.free_ports(50)
    assert len(set(found)) == 50
    assert max(found) < FIRST_EPHEMERAL


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (taken,) = ports.free_ports(1)
    limits = tmp_path / "ip_local_port_range"
    limits.write_text(f"{taken + 3}\t60999\n")
    monkeypatch.setattr(ports, "_LOWEST", taken)
    monkeypatch.setattr(ports, "_EPHEMERAL", limits)
    with socket.create_server(("127.0.0.1", taken)):
        assert ports.free_ports(1)[0] in {taken + 1, taken + 2}
        with pytest.raises(OSError, match="fewer than 3 free ports"):
            ports.free_ports(3)
