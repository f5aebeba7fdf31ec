"""The documented examples, played on a control plane."""

from pathlib import Path

from cli.scenarios import play, read
from controlplane.control_plane import ControlPlane


def happens_as_documented(plane: ControlPlane, folder: Path) -> None:
    """Play every act of the example in this folder; what is seen is what was expected."""
    for act in read(folder).acts:
        rows = play(act, folder, plane)
        assert [(row.what, row.seen) for row in rows] == [(row.what, row.expected) for row in rows], act.title
