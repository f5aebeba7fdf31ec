"""OCI archives: an image layout (opencontainers/image-spec, image-layout.md) with one manifest, in one tar file."""

import gzip
import hashlib
import io
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release.packing import COMPRESSION, HashingWriter, as_json, entry

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
IMAGE_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_INDEX = "application/vnd.oci.image.index.v1+json"
_REFERENCE = "org.opencontainers.image.ref.name"

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Blob:
    """A part of an artifact: a file with the fields of its descriptor."""

    path: Path
    media_type: str
    digest: str
    size: int

    @property
    def descriptor(self) -> dict[str, Any]:
        """The descriptor, by which a manifest names the blob."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class Layer:
    """A compressed layer of an image.

    `diff_id`: the digest of the uncompressed tar, which the image's configuration names.
    """

    blob: Blob
    diff_id: str


def layer(path: Path, add: Callable[[tarfile.TarFile], None]) -> Layer:
    """Write a layer of an image to `path`.

    :param add: adds the files to the tar file. They are stored in the order of these calls.
    """
    with path.open("wb") as file:
        packed = HashingWriter(file)
        with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=COMPRESSION, mtime=0) as stream:
            plain = HashingWriter(stream)
            with tarfile.open(fileobj=plain, mode="w|", format=tarfile.GNU_FORMAT) as tar:
                add(tar)
    return Layer(Blob(path, IMAGE_LAYER, packed.digest, packed.size), plain.digest)


def content(path: Path, data: bytes, media_type: str) -> Blob:
    """Write bytes to `path`, and return them as a blob."""
    path.write_bytes(data)
    return Blob(path, media_type, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


def write(
    target: Path,
    config: Blob,
    layers: Sequence[Blob],
    *,
    tag: str,
    mtime: int,
    annotations: Mapping[str, str] | None = None,
) -> str:
    """Write an OCI archive, and return the digest of its manifest. Signatures and registries name the artifact by it.

    :param tag: the reference name in the archive's index.
    :param annotations: the annotations of the manifest.
    """
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor,
        "layers": [each.descriptor for each in layers],
    }
    if annotations:
        manifest["annotations"] = dict(annotations)
    described = as_json(manifest)
    digest = f"sha256:{hashlib.sha256(described).hexdigest()}"
    named = {"mediaType": MANIFEST, "digest": digest, "size": len(described), "annotations": {_REFERENCE: tag}}
    index = as_json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]})
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, "oci-layout", as_json({"imageLayoutVersion": "1.0.0"}), mtime)
        _add(tar, "index.json", index, mtime)
        _add(tar, _place(digest), described, mtime)
        for blob in sorted({each.digest: each for each in (config, *layers)}.values(), key=lambda each: each.digest):
            info = entry(_place(blob.digest), blob.size, mtime=mtime)
            with blob.path.open("rb") as file:
                tar.addfile(info, file)
    return digest


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an OCI archive into a folder, replacing it."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _add(tar: tarfile.TarFile, name: str, data: bytes, mtime: int) -> None:
    tar.addfile(entry(name, len(data), mtime=mtime), io.BytesIO(data))
