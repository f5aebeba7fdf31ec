"""`make image` where nothing can build one, and the digest that it prints."""

import json
import tarfile
from pathlib import Path

import pytest

from image import __main__ as building
from image.__main__ import BASE, digest_of, main


def test_where_nothing_can_build_it_is_said_what_would_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "ARCHIVE", tmp_path / "dist" / "image.tar")
    monkeypatch.setenv("PATH", str(tmp_path))
    told = main([BASE]) or ""
    assert BASE in told
    assert told.endswith("apt-get install buildah mmdebstrap")


def test_the_digest_is_that_of_the_archives_image(tmp_path: Path) -> None:
    """Built with `buildah push … oci-archive:`: `index.json` names the manifest."""
    (tmp_path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [{"digest": "sha256:12"}]}))
    with tarfile.open(tmp_path / "image.tar", "w") as packed:
        packed.add(tmp_path / "index.json", "index.json")
    assert digest_of(tmp_path / "image.tar") == "sha256:12"
