"""`make release`: the parts that need no network are made, and the remedy is printed if a part cannot be made."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.checkers import check
from controlplane.programs.binaries import find_binaries
from controlplane.rendering import MANIFESTS
from release import base, files, image, instructions, oci, provenance, wheels
from release.__main__ import TEXT, main
from release.packing import archive, entry, sha256
from release.parts import ROOT, NotMadeError, Release, sources

IMAGE = "registry.example.com/phalanx"
MTIME = 1_700_000_000


@pytest.fixture
def release(tmp_path: Path) -> Release:
    """A release into an empty folder."""
    folder = tmp_path / "release"
    folder.mkdir()
    return Release(folder, "0.1.0", MTIME, IMAGE, "https://downloads.example.com/0.1.0", "https://example.com")


@pytest.fixture
def control_planes_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control plane's kubectl, so that none is downloaded."""
    monkeypatch.setattr(files, "kubectl", lambda: Path(find_binaries()["kubectl"]))


def layout(path: Path) -> dict[str, bytes]:
    """Return the files of an OCI archive by path, after a check that each blob has the digest in its path."""
    with tarfile.open(path) as tar:
        read = {each.name: file.read() for each in tar if (file := tar.extractfile(each)) is not None}
    for name, content in read.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    return read


def manifest_of(read: dict[str, bytes]) -> tuple[str, dict[str, Any]]:
    """Return the digest and the content of the only manifest in an OCI archive."""
    (named,) = json.loads(read["index.json"])["manifests"]
    content = read[f"blobs/{named['digest'].replace(':', '/')}"]
    assert len(content) == named["size"]
    return named["digest"], json.loads(content)


def made_twice(release: Release, tmp_path: Path) -> Iterator[Release]:
    """Yield the release, and then an equal release into another folder."""
    yield release
    other = tmp_path / "again"
    other.mkdir()
    yield replace(release, folder=other)


def test_the_chart_is_an_oci_artifact_that_holds_the_package(release: Release) -> None:
    digest = files.chart(release)
    read = layout(release.path("phalanx-0.1.0-chart.oci.tar"))
    named, manifest = manifest_of(read)
    (layer,) = manifest["layers"]
    assert named == digest
    assert (manifest["config"]["mediaType"], layer["mediaType"]) == (files.CHART_CONFIG, files.CHART_CONTENT)
    assert read[f"blobs/{layer['digest'].replace(':', '/')}"] == release.chart.read_bytes()
    config = json.loads(read[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert (config["name"], config["version"]) == ("phalanx", "0.1.0")


@pytest.mark.controlplane
def test_helm_renders_the_packaged_chart_as_the_folder(release: Release) -> None:
    files.chart(release)
    packed = check("helm", "template", "phalanx", str(release.chart))
    folder = check("helm", "template", "phalanx", str(files.CHART), "--set", f"image.repository={IMAGE}")
    assert (packed.returncode, packed.stdout) == (0, folder.stdout), packed.stderr


@pytest.mark.controlplane
@pytest.mark.usefixtures("control_planes_kubectl")
def test_every_overlay_is_one_file_that_names_the_image(release: Release) -> None:
    files.manifests(release)
    written = {each.name for each in release.folder.glob("install*.yaml")}
    assert written == {f"install{'' if each == 'default' else f'-{each}'}.yaml" for each in files.OVERLAYS}
    for name in written:
        images = re.findall(r"^\s+image: (\S+)$", release.path(name).read_text(), re.MULTILINE)
        assert {*images} == {f"{IMAGE}:0.1.0"}, name


def test_every_complete_installation_is_an_overlay_of_the_release() -> None:
    complete = set()
    for path in MANIFESTS.glob("*/kustomization.yaml"):
        kustomization = yaml.safe_load(path.read_text())
        if kustomization["kind"] == "Kustomization" and {"../system", "../default"} & {*kustomization["resources"]}:
            complete.add(path.parent.name)
    assert complete - {*files.OVERLAYS} == {"webhook-by-url"}, "its address is written by its user"


@pytest.mark.controlplane
@pytest.mark.usefixtures("control_planes_kubectl")
def test_the_archive_of_manifests_is_enough_to_install_and_try_an_example(release: Release, tmp_path: Path) -> None:
    files.manifests(release)
    with tarfile.open(release.path("phalanx-0.1.0-manifests.tar.gz")) as tar:
        tar.extractall(tmp_path, filter="data")
    folder = tmp_path / "phalanx-0.1.0"
    rendered = subprocess.run(
        [find_binaries()["kubectl"], "kustomize", str(folder / "manifests" / "default")],
        capture_output=True,
        text=True,
        check=True,
    )
    _, _, text = release.path("install.yaml").read_text().partition("\n")
    assert rendered.stdout == text
    assert (folder / "examples" / "first-gang" / "topology.yaml").exists()


def test_the_plugin_is_for_linux_and_macos(release: Release) -> None:
    release.wheel.write_bytes(b"the wheel's bytes do not matter to krew")
    files.krew(release)
    manifest = yaml.safe_load(release.path("phalanx-krew.yaml").read_text())
    platforms = [each["selector"]["matchLabels"] for each in manifest["spec"]["platforms"]]
    assert [(each["os"], each["arch"]) for each in platforms] == [
        ("linux", "amd64"),
        ("linux", "arm64"),
        ("darwin", "arm64"),
    ]
    name = "phalanx-0.1.0-krew.tar.gz"
    for each in manifest["spec"]["platforms"]:
        assert each["uri"] == f"https://downloads.example.com/0.1.0/{name}"
        assert each["sha256"] == sha256(release.path(name))


@pytest.mark.thorough  # it needs the page's script, which `make test` builds
def test_equal_sources_give_equal_files(release: Release, tmp_path: Path) -> None:
    digests = []
    for each in made_twice(release, tmp_path):
        files.wheel(each)
        files.chart(each)
        files.krew(each)
        digests.append(provenance.artifacts(each))
    assert digests[0] == digests[1]
    assert len(digests[0]) == 5


def test_the_checksums_and_the_statement_name_every_file(release: Release) -> None:
    files.chart(release)
    release.path(TEXT).write_text("how to sign")
    named = {f"{IMAGE}:0.1.0-amd64": f"sha256:{64 * 'a'}"}
    downloads = {"numpy-2.whl": 64 * "b", "pkg:deb/debian/dash@0.5": 64 * "c"}
    release = replace(release, commit=40 * "d")
    statement = provenance.statement(release, ["amd64"], named, downloads, builder="https://example.com/builder")
    provenance.write(release, statement)
    written = json.loads(release.path(provenance.STATEMENT_FILE).read_text())
    assert (written["_type"], written["predicateType"]) == (provenance.STATEMENT, provenance.PREDICATE)
    subjects = {each["name"]: each["digest"]["sha256"] for each in written["subject"]}
    charts = ("phalanx-0.1.0.tgz", "phalanx-0.1.0-chart.oci.tar")
    assert subjects == {name: sha256(release.path(name)) for name in charts} | {f"{IMAGE}:0.1.0-amd64": 64 * "a"}
    dependencies = written["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert {"name": "source", "digest": {"gitCommit": 40 * "d"}} in dependencies
    assert {"name": "numpy-2.whl", "digest": {"sha256": 64 * "b"}} in dependencies
    assert {"uri": "pkg:deb/debian/dash@0.5", "digest": {"sha256": 64 * "c"}} in dependencies
    assert written["predicate"]["runDetails"]["builder"]["id"] == "https://example.com/builder"
    answer = subprocess.run(
        ["sha256sum", "--check", "--strict", provenance.CHECKSUMS],
        cwd=release.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count(": OK") == len(charts) + 1


def test_the_text_names_files_that_are_there_and_every_digest(release: Release) -> None:
    files.chart(release)
    release.wheel.write_bytes(b"a wheel")
    files.krew(release)
    digests = {"amd64": f"sha256:{64 * 'a'}", "arm64": f"sha256:{64 * 'b'}"}
    for each in digests:
        release.image_archive(each).touch()
    text = instructions.text(release, digests, f"sha256:{64 * 'c'}")
    assert all(each in text for each in [*digests.values(), f"sha256:{64 * 'c'}"])
    assert f"crane index append -t {IMAGE}:0.1.0 -m {IMAGE}:0.1.0-amd64 -m {IMAGE}:0.1.0-arm64" in text
    commands = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    mentioned = {
        word.rpartition(":")[2] if word.startswith("oci-archive:") else word
        for line in commands
        for word in line.split()
    }
    archives = {each for each in mentioned if each.endswith((".oci.tar", ".tgz"))}
    assert archives == {each.name for each in release.folder.iterdir() if each.name.endswith((".oci.tar", ".tgz"))}


@pytest.mark.controlplane
@pytest.mark.usefixtures("control_planes_kubectl")
def test_a_part_that_cannot_be_made_is_named_with_the_remedy_and_the_rest_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "git")
    monkeypatch.setenv("PATH", str(programs))
    folder = tmp_path / "release"
    assert main([str(folder), "--arches", "amd64"]) == 1
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "not made: image for amd64" in line]
    assert told.endswith("apt-get install mmdebstrap debian-archive-keyring")
    assert {"install.yaml", "phalanx-0.1.0.tgz", "phalanx-krew.yaml", "SHA256SUMS", TEXT} <= {
        each.name for each in folder.iterdir()
    }
    assert "skopeo copy --preserve-digests oci-archive:phalanx-0.1.0-linux" not in (folder / TEXT).read_text()
    assert main([str(folder)]) == 2, "a folder with the files of another release is not written into"


def wheel_of(folder: Path) -> Path:
    """A wheel with a module, a command, a script and a manual page."""
    path = folder / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("tool/__init__.py", "def main(): pass\n")
        packed.writestr("tool-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        packed.writestr("tool-1.0.dist-info/entry_points.txt", "[console_scripts]\nrun-tool = tool:main\n")
        packed.writestr("tool-1.0.dist-info/RECORD", "")
        packed.writestr("tool-1.0.data/scripts/old-tool", "#!python\nprint(1)\n")
        packed.writestr("tool-1.0.data/data/share/man/man1/tool.1", ".TH tool\n")
    return path


def test_a_wheel_is_installed_without_running_anything_and_its_list_of_files_is_true(tmp_path: Path) -> None:
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    wheels.unpack(wheel_of(tmp_path), packages)
    installed = Distribution.at(packages / "tool-1.0.dist-info")
    listed = [Path(str(each.locate())).resolve() for each in installed.files or ()]
    assert {*listed} == {each for each in (tmp_path / "venv").rglob("*") if each.is_file()}
    for name in ("run-tool", "old-tool"):
        script = tmp_path / "venv" / "bin" / name
        assert script.read_text().startswith("#!/venv/bin/python\n")
        assert os.access(script, os.X_OK)
    assert (tmp_path / "venv" / "share" / "man" / "man1" / "tool.1").exists()


def test_the_image_is_configured_as_the_dockerfile_says(release: Release) -> None:
    config = image.configuration(release, "arm64", ["sha256:1", "sha256:2"])
    assert (config["architecture"], config["variant"], config["os"]) == ("arm64", "v8", "linux")
    settings = config["config"]
    assert (settings["User"], settings["WorkingDir"], settings["Entrypoint"]) == ("65532:65532", "/", ["phalanx"])
    path, *others = settings["Env"]
    assert path.startswith("PATH=/venv/bin:/usr/local/sbin:")
    assert others == ["PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"]
    assert config["created"] == "2023-11-14T22:13:20Z"


def test_equal_layers_have_equal_digests_and_an_archive_holds_each_blob_once(tmp_path: Path) -> None:
    def add(tar: tarfile.TarFile) -> None:
        text = (ROOT / "LICENSE").read_bytes()
        tar.addfile(entry("LICENSE", len(text), mtime=MTIME), io.BytesIO(text))

    first, second = (oci.layer(tmp_path / name, add) for name in ("first", "second"))
    assert (first.diff_id, first.blob.digest) == (second.diff_id, second.blob.digest)
    config = oci.content(tmp_path / "config", b"{}", oci.IMAGE_CONFIG)
    digest = oci.write(tmp_path / "image.tar", config, [first.blob, second.blob], tag="0.1.0", mtime=MTIME)
    named, manifest = manifest_of(layout(tmp_path / "image.tar"))
    assert named == digest
    assert [each["digest"] for each in manifest["layers"]] == [first.blob.digest] * 2


def test_the_base_leaves_out_what_no_program_reads_and_keeps_the_licences() -> None:
    kept = ("usr/share/doc/dash/copyright", "usr/lib/python3.11/os.py", "usr/share/ca-certificates/mozilla/a.crt")
    gone = ("usr/share/doc/dash/changelog.gz", "usr/share/doc/dash/copyleft", "etc/apt/sources.list", "dev/null")
    assert [each for each in kept if base.is_left_out(each)] == []
    assert [each for each in gone if not base.is_left_out(each)] == []


def test_without_mmdebstrap_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotMadeError, match="apt-get install mmdebstrap"):
        base.make("arm64", tmp_path, MTIME)


def test_an_archive_depends_on_contents_alone() -> None:
    assert archive({"b": b"2", "a": b"1"}, MTIME) == archive({"a": b"1", "b": b"2"}, MTIME)
    assert archive({"a": b"1"}, MTIME) != archive({"a": b"2"}, MTIME)


def test_the_sources_are_those_that_git_knows() -> None:
    found = sources("manifests", "charts")
    assert "manifests/default/kustomization.yaml" in found
    assert "charts/phalanx/values.yaml" in found
    assert not [each for each in found if "__pycache__" in each]
