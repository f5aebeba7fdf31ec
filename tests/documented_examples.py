"""The documented examples, played on a control plane."""

from pathlib import Path

from controlplane.control_plane import ControlPlane
from controlplane.scenarios import files_of, played, read


def happens_as_documented(plane: ControlPlane, folder: Path) -> None:
    """Play every act of the example in this folder; what is seen is what was expected."""
    scenario = read(folder)
    for act, rows in played(scenario, files_of(folder, scenario), plane):
        others = [f"{row.what}: {row.seen}, not {row.expected}" for row in rows if row.seen != row.expected]
        assert not others, "\n".join([f"{act.title}:", *others, *_pods(plane)])


def _pods(plane: ControlPlane) -> list[str]:
    """A line for each pod of the cluster: what another act left behind is seen too."""
    return [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']} {pod['status'].get('phase')}"
        f" on {pod['spec'].get('nodeName')}, deleted: {pod['metadata'].get('deletionTimestamp')}"
        for pod in plane.request("GET", "/api/v1/pods")["items"]
    ]
