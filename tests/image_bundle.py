"""The built image, unpacked, and its containers as the manifests want them: their user, a root that nobody may write,
no capabilities, no new privileges, and no mounts but theirs.

`umoci` unpacks, `runc` runs; what a kubelet would write into a container's configuration is written here, the limit of
memory included. Not as in a cluster: the network is this machine's, and system calls are not filtered.
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
    """A container image in a folder, as the runtime takes it."""

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
        """What the image says of itself: user, environment, entry point."""

    @property
    def root(self) -> Path:
        """The image's files."""
        return self._folder / "rootfs"

    def added(self) -> set[str]:
        """The first folders of what the image adds to its base: of its last layer."""
        with tarfile.open(self._layers[-1]) as layer:
            return {each.name.lstrip("./").partition("/")[0] for each in layer} - {""}

    @property
    def user(self) -> int:
        """Whose processes are the image's where nobody says more."""
        return int(self.own["process"]["user"]["uid"])

    @property
    def environment(self) -> dict[str, str]:
        """The image's variables."""
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
        """What runs the one container of a pod's spec in the foreground.

        :param name: the container's, of which only one may run.
        :param folders: what is mounted where: in the volumes that are no empty directories, in `ACCOUNT`, and beside.
        :param variables: `NAME=value`.
        :param program: instead of the entry point.
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
        """End what may be left of a container."""
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
    """The variable by which a control plane's run knows its processes, and leaves none behind."""
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
