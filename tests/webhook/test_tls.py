"""The folder of certificates, changed in all the ways a folder is changed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import Pair, ServerNames, issue, new_authority
from certs.files import write_self_signed
from serving.tls import CertificateFolder

NAMES = ServerNames(dns=("localhost",))
NOW = datetime.now(UTC)


def pair(lifetime: timedelta = timedelta(days=1), now: datetime = NOW) -> Pair:
    """A serving certificate of an authority of its own."""
    return issue(new_authority("test", now), NAMES, now, lifetime)


def write(folder: Path, certificate: bytes, key: bytes) -> None:
    """As the files of a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)


def test_there_is_no_context_before_the_first_certificate(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path)
    assert not folder.refresh()
    assert not folder.valid
    assert folder.context() is None


def test_a_new_pair_gives_a_new_context_and_leaves_the_old_one_alone(tmp_path: Path) -> None:
    ends: list[datetime] = []
    folder = CertificateFolder(tmp_path, ends.append)
    write_self_signed(tmp_path, ["localhost"])
    assert folder.refresh()
    first = folder.context()
    assert not folder.refresh()
    assert folder.context() is first
    write_self_signed(tmp_path, ["localhost"])
    assert folder.refresh()
    assert folder.context() is not first
    assert len(ends) == 2


def test_a_mounted_secret_is_exchanged_by_one_link(tmp_path: Path) -> None:
    """The kubelet's way: files are links into `..data`, which is a link to the present version."""
    for version in ("..1", "..2"):
        made = pair()
        write(tmp_path / version, made.certificate, made.key)
    (tmp_path / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    folder = CertificateFolder(tmp_path)
    assert folder.refresh()
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert folder.refresh()


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        (pair().certificate, pair().key),
        (pair(timedelta(days=1), NOW - timedelta(days=2)).certificate, pair().key),
        (b"", b""),
        (b"-----BEGIN CERTIFICATE-----\n", pair().key),
    ],
    ids=["a key of another certificate", "expired", "empty", "cut off"],
)
def test_an_unusable_pair_changes_nothing(tmp_path: Path, certificate: bytes, key: bytes) -> None:
    folder = CertificateFolder(tmp_path)
    write_self_signed(tmp_path, ["localhost"])
    folder.refresh()
    before = folder.current
    write(tmp_path, certificate, key)
    assert not folder.refresh()
    assert folder.current is before
    assert folder.valid
