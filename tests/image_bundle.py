"""The built image, unpacked, and the commands that run its containers as the manifests specify.

A container has the manifest's user, a read-only root file system, no capabilities, no new privileges, and only the
mounts of its manifest. `umoci` unpacks the image and `runc` runs the containers. This module writes the container
configuration that a kubelet would write, including the memory limit. Two things differ from a cluster: the network is
this machine's, and system calls are not filtered.
"""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controlplane.running.janitor import MARK
from kube.quantities import amount

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_NAME = "unpacked"

Object = dict[str, Any]


class Bundle:
    """A container image, unpacked into a folder as an OCI runtime bundle."""

    def __init__(self, archive: Path, folder: Path) -> None:
        layout = folder / "layout"
        with tarfile.open(archive) as packed:
            packed.extractall(layout, filter="data")
        index = json.loads((layout / "index.json").read_text())
        (manifest,) = index["manifests"]
        manifest.setdefault("annotations", {})["org.opencontainers.image.ref.name"] = _NAME
        (layout / "index.json").write_text(json.dumps(index))
        self._folder = folder / "bundle"
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:{_NAME}", str(self._folder)], check=True)
        self._layers = [layout / "blobs" / each["digest"].replace(":", "/") for each in _layers(layout, manifest)]
        self.own: Object = json.loads((self._folder / "config.json").read_text())
        """The image's runtime configuration: user, environment, entry point."""

    @property
    def root(self) -> Path:
        """The image's files."""
        return self._folder / "rootfs"

    def added(self) -> set[str]:
        """Return the top-level folders that the image adds to its base image: the folders of its last layer."""
        with tarfile.open(self._layers[-1]) as layer:
            return {each.name.lstrip("./").partition("/")[0] for each in layer} - {""}

    @property
    def user(self) -> int:
        """The user id of the image's processes if a pod does not set another one."""
        return int(self.own["process"]["user"]["uid"])

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that the image sets."""
        return dict(each.split("=", 1) for each in self.own["process"]["env"])

    def command(
        self,
        name: str,
        pod: Object,
        arguments: Sequence[str],
        folders: Mapping[str, Path],
        variables: Sequence[str] = (),
        program: Sequence[str] = (),
    ) -> list[str]:
        """Return the command that runs the one container of a pod's spec in the foreground.

        :param name: the container's name. Only one container of a name may run at a time.
        :param folders: the folder to mount at each path: the volumes that are no `emptyDir`, `ACCOUNT`, and more paths.
        :param variables: `NAME=value`, in addition to the image's variables.
        :param program: the program to run instead of the entry point.
        """
        (container,) = pod["containers"]
        place = self._folder.parent / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        configured = {
            **self.own,
            "process": self._process(
                pod, container, [*(program or self.own["process"]["args"]), *arguments], variables
            ),
            "root": {"path": str(self.root), "readonly": container["securityContext"]["readOnlyRootFilesystem"]},
            "mounts": [*self._usual_mounts(), *_mounts(pod, container, folders)],
            "linux": {
                **self.own["linux"],
                "namespaces": [{"type": each} for each in ("mount", "pid", "ipc", "uts")],
                "resources": {"memory": {"limit": amount("memory", container["resources"]["limits"]["memory"])}},
            },
        }
        (place / "config.json").write_text(json.dumps(configured))
        return ["runc", f"--root={place}/state", "run", f"--bundle={place}", self._id(name)]

    def remove(self, name: str) -> None:
        """Delete the container of this name, and end its processes, if any are left."""
        state = self._folder.parent / name / "state"
        if state.exists():
            subprocess.run(["runc", f"--root={state}", "delete", "--force", self._id(name)], check=True)

    def _id(self, name: str) -> str:
        return f"{self._folder.parent.name}-{name}"

    def _process(self, pod: Object, container: Object, arguments: Sequence[str], variables: Sequence[str]) -> Object:
        who, what = pod["securityContext"], container["securityContext"]
        assert who["runAsNonRoot"]
        assert who["runAsUser"] > 0
        assert what["capabilities"] == {"drop": ["ALL"]}
        user = {"uid": who["runAsUser"], "gid": who["runAsGroup"]}
        if "fsGroup" in who:
            user["additionalGids"] = [who["fsGroup"]]
        own: Object = self.own["process"]
        return {
            **own,
            "terminal": False,
            "user": user,
            "args": arguments,
            "env": [*own["env"], *variables],
            "capabilities": {},
            "noNewPrivileges": not what["allowPrivilegeEscalation"],
        }

    def _usual_mounts(self) -> list[Object]:
        return [each for each in self.own["mounts"] if each["type"] != "cgroup"]


def mark(directory: Path) -> str:
    """The environment variable that marks the processes of one control plane, so that its end can stop all of them."""
    return f"{MARK}={directory}"


def _layers(layout: Path, manifest: Object) -> list[Object]:
    blob = layout / "blobs" / manifest["digest"].replace(":", "/")
    found: list[Object] = json.loads(blob.read_text())["layers"]
    return found


def _mounts(pod: Object, container: Object, folders: Mapping[str, Path]) -> list[Object]:
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    made = [_bound(target, folder) for target, folder in folders.items() if target not in mounted]
    for each in container["volumeMounts"]:
        volume = volumes[each["name"]]
        if "emptyDir" in volume:
            assert volume["emptyDir"]["medium"] == "Memory"
            size = volume["emptyDir"]["sizeLimit"].removesuffix("i").lower()
            options = ["nosuid", "nodev", "mode=1777", f"size={size}"]
            made.append({"destination": each["mountPath"], "type": "tmpfs", "source": "tmpfs", "options": options})
        else:
            assert each["readOnly"]
            made.append(_bound(each["mountPath"], folders[each["mountPath"]]))
    return made


def _bound(target: str, source: Path) -> Object:
    return {"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "ro"]}
