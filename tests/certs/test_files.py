"""The self-signed certificate files can serve TLS without changes."""

import ssl
import stat
from pathlib import Path

from certs.files import write_self_signed


def test_the_files_load_and_only_their_owner_may_read_them(tmp_path: Path) -> None:
    bundle = write_self_signed(tmp_path / "new", ["localhost"], ["127.0.0.1"])
    directory = tmp_path / "new"
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(directory / "tls.crt", directory / "tls.key")
    assert (directory / "ca.crt").read_bytes() == bundle
    assert {stat.S_IMODE(each.stat().st_mode) for each in directory.iterdir()} == {0o600}


def test_writing_again_replaces_the_pair(tmp_path: Path) -> None:
    assert write_self_signed(tmp_path, ["localhost"]) != write_self_signed(tmp_path, ["localhost"])
