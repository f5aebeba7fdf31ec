"""The parts of a release that need no network: wheel, chart, manifests, examples, krew plugin."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from controlplane.checkers import kubectl
from controlplane.programs.compiling import BuildError
from controlplane.programs.toolchain import NoToolchainError
from controlplane.rendering import MANIFESTS, RenderError, kustomize
from krew.__main__ import archive as krew_archive
from krew.__main__ import manifest as krew_manifest
from release import oci
from release.packing import archive, as_json
from release.parts import ROOT, NotMadeError, Release, sources

OVERLAYS = (
    "default",
    "all-dialects",
    "high-availability",
    "cert-manager",
    "admission-policy",
    *("beside-kai", "beside-koordinator", "beside-kueue"),
)
"""The folders of `manifests` that are complete installations. Each becomes one file.

`webhook-by-url` is not rendered, because the user first writes an address into it. The archive of manifests has it.
"""
_DEFAULT = "default"
CHART = ROOT / "charts" / "phalanx"
CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
"""The media types of charts in registries (helm.sh, "Registries")."""
_PAGE = "webhook/live_view/page.js"
_NO_ADDRESS = "https://example.invalid"
"""The address in the krew manifest if none is given. The domain never exists (RFC 2606)."""


def wheel(release: Release) -> None:
    """Build the wheel from a copy of the sources, so that no file of an earlier build gets into it.

    :raises NotMadeError: the script of the live page is not built, or pip failed.
    """
    page = ROOT / _PAGE
    if not page.exists():
        raise NotMadeError(f"the page's script {_PAGE} is not built: make page")
    with tempfile.TemporaryDirectory(prefix="phalanx-wheel-") as name:
        folder = Path(name)
        for relative, path in {**sources(), _PAGE: page}.items():
            target = folder / "source" / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", name, str(folder / "source")]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(release.mtime)}
        answer = subprocess.run([*pip, *options], env=environment, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise NotMadeError(f"pip could not build the wheel: {answer.stderr.strip()}")
        shutil.move(folder / release.wheel.name, release.wheel)


def manifests(release: Release) -> None:
    """Write one install.yaml for each overlay, and an archive of all manifests and the examples that the docs apply.

    :raises NotMadeError: there is no kubectl, or an overlay cannot be rendered.
    """
    for overlay in OVERLAYS:
        suffix = "" if overlay == _DEFAULT else f"-{overlay}"
        name = f"install{suffix}.yaml"
        head = f"# manifests/{overlay} of Phalanx {release.version}: kubectl apply --server-side -f {name}\n"
        try:
            text = kustomize(MANIFESTS / overlay, str(kubectl()))
        except (BuildError, NoToolchainError, RenderError) as error:
            raise NotMadeError(f"manifests/{overlay} could not be rendered by kubectl: {error}") from error
        release.path(name).write_text(head + named(text, release))
    files = {
        f"phalanx-{release.version}/{name}": path.read_bytes()
        for name, path in sources("manifests", "examples", "LICENSE").items()
        if not name.endswith(".py")
    }
    kustomization = f"phalanx-{release.version}/manifests/default/kustomization.yaml"
    files[kustomization] = files[kustomization].rstrip() + _images(release).encode()
    release.path(f"phalanx-{release.version}-manifests.tar.gz").write_bytes(archive(files, release.mtime))


def named(text: str, release: Release) -> str:
    """Return rendered manifests with the release's image in place of the image's short name."""
    return text.replace(f"image: phalanx:{release.version}\n", f"image: {release.image}:{release.version}\n")


def _images(release: Release) -> str:
    """Return the lines of a kustomization that replace the image's short name by the name in the release.

    The result is only a line break if the release uses the short name.
    """
    if release.image == "phalanx":
        return "\n"
    return f'\nimages:\n- {{name: phalanx, newName: "{release.image}", newTag: "{release.version}"}}\n'


def chart(release: Release) -> str:
    """Write the chart as Helm packages it, and as an OCI archive. Return the digest of the OCI artifact."""
    files = {f"phalanx/{name}": content for name, content in chart_files(release)}
    packed = archive(files, release.mtime)
    release.chart.write_bytes(packed)
    described: dict[str, Any] = yaml.safe_load(files["phalanx/Chart.yaml"])
    target = release.path(f"phalanx-{release.version}-chart.oci.tar")
    annotations = {f"org.opencontainers.image.{key}": str(described[key_of]) for key, key_of in _ANNOTATIONS.items()}
    with tempfile.TemporaryDirectory() as name:
        config = oci.content(Path(name) / "config.json", as_json(described), CHART_CONFIG)
        content = oci.content(Path(name) / "chart.tgz", packed, CHART_CONTENT)
        return oci.write(target, config, [content], tag=release.version, mtime=release.mtime, annotations=annotations)


_ANNOTATIONS = {"title": "name", "version": "version", "description": "description"}
"""By annotation of the artifact, the field of Chart.yaml."""


def chart_files(release: Release) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the chart by path. Files that `.helmignore` names are left out.

    Symbolic links are followed, because the chart's folder `files` links to the manifests.
    """
    ignored = (CHART / ".helmignore").read_text().split()
    for folder, folders, names in os.walk(CHART, followlinks=True):
        folders[:] = sorted(each for each in folders if f"{each}/" not in ignored)
        for name in sorted(names):
            path = Path(folder) / name
            if not any(path.match(pattern) for pattern in ignored):
                relative = str(path.relative_to(CHART))
                text = path.read_bytes()
                if relative == "values.yaml":
                    text = text.replace(b"  repository: phalanx\n", f"  repository: {release.image}\n".encode())
                yield relative, text


def krew(release: Release) -> None:
    """Write the archive of the kubectl plugin for Linux and macOS, and its manifest for krew.

    :raises NotMadeError: the wheel, which the archive contains, was not made.
    """
    if not release.wheel.exists():
        raise NotMadeError("the plugin's archive contains the wheel, which was not made")
    content = krew_archive(release.wheel)
    name = f"phalanx-{release.version}-krew.tar.gz"
    release.path(name).write_bytes(content)
    uri = f"{release.url or _NO_ADDRESS}/{name}"
    text = krew_manifest(content, uri=uri, homepage=release.homepage or release.url or _NO_ADDRESS)
    release.path("phalanx-krew.yaml").write_text(text)


def bills_of_materials(release: Release) -> None:
    """Copy the bills of materials that `make sbom` wrote, without the fields that differ from run to run.

    :raises NotMadeError: `make sbom` did not write them.
    """
    for name in ("phalanx.cdx.json", "phalanx-page.cdx.json"):
        source = ROOT / "dist" / name
        if not source.exists():
            raise NotMadeError(f"dist/{name} is not there: make sbom")
        release.path(name).write_bytes(reproducible(json.loads(source.read_text())))


def reproducible(document: dict[str, Any]) -> bytes:
    """Return a CycloneDX document without its serial number and its time."""
    document.pop("serialNumber", None)
    document.get("metadata", {}).pop("timestamp", None)
    return as_json(document) + b"\n"
