"""Provenance of the files of a release (an in-toto statement with a SLSA predicate), and their checksums.

The statement is unsigned. cosign signs it (`release.instructions`).
"""

import platform
from collections.abc import Iterable, Mapping
from typing import Any

from release.packing import as_json, sha256
from release.parts import ROOT, Release

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://phalanx.dev/release/v1"
"""The URI of the build type: `make release` of this repository. It is an identifier; no page has this address."""
BUILDER = "https://phalanx.dev/builder/make-release"
"""The default URI of the builder: `make release` on any machine. It promises nothing about the machine's security."""
CHECKSUMS = "SHA256SUMS"
STATEMENT_FILE = "provenance.intoto.json"
_LOCKS = ("requirements.txt", "requirements-build.txt", "page/package-lock.json")
"""The files that pin what is downloaded, apart from Debian's packages."""


def artifacts(release: Release) -> dict[str, str]:
    """Return the SHA-256 digest of each file of the release by name, without provenance, SHA256SUMS and README.txt."""
    not_made_of_sources = {CHECKSUMS, STATEMENT_FILE, "README.txt"}
    files = sorted(each for each in release.folder.iterdir() if each.is_file() and each.name not in not_made_of_sources)
    return {each.name: sha256(each) for each in files}


def statement(
    release: Release,
    architectures: Iterable[str],
    images: Mapping[str, str],
    dependencies: Mapping[str, str],
    builder: str,
) -> dict[str, Any]:
    """Return the in-toto statement. Its subjects are the files and the images of the release.

    :param images: the digest of each image's manifest, by the name under which it is pushed.
    :param dependencies: the SHA-256 digest of each download, by name.
    """
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in artifacts(release).items()]
    subjects += [{"name": name, "digest": {"sha256": digest.partition(":")[2]}} for name, digest in images.items()]
    parameters = {"version": release.version, "architectures": list(architectures), "image": release.image}
    return {
        "_type": STATEMENT,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": parameters | {"url": release.url, "homepage": release.homepage},
                "internalParameters": {"sourceDateEpoch": release.mtime, "python": platform.python_version()},
                "resolvedDependencies": [*_sources(release.commit), *_downloads(dependencies)],
            },
            "runDetails": {"builder": {"id": builder or BUILDER}},
        },
    }


def write(release: Release, described: Mapping[str, Any]) -> None:
    """Write the provenance statement `described`, then the checksums of all files of the release in the format that
    `sha256sum --check` reads.
    """
    release.path(STATEMENT_FILE).write_bytes(as_json(described) + b"\n")
    files = artifacts(release) | {STATEMENT_FILE: sha256(release.path(STATEMENT_FILE))}
    release.path(CHECKSUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(files.items())))


def _sources(commit: str) -> Iterable[dict[str, Any]]:
    """Yield the resolved dependencies in the repository: the commit, if known, and the files that pin versions."""
    if commit:
        yield {"name": "source", "digest": {"gitCommit": commit}}
    for name in _LOCKS:
        yield {"name": name, "digest": {"sha256": sha256(ROOT / name)}}


def _downloads(dependencies: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for name, digest in sorted(dependencies.items()):
        yield {"uri" if name.startswith("pkg:") else "name": name, "digest": {"sha256": digest}}
