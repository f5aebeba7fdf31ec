"""`phalanx demo`: the Koordinator guide's two examples, or gangs in every phase, on a control plane of its own."""

import importlib
import sys
from pathlib import Path

import click

CHECKOUT = Path(__file__).parent.parent
"""The root of the checkout. If this module is an installed copy, it is another folder, without the control plane."""
NO_CONTROL_PLANE = (
    "phalanx demo runs from a checkout only, because the installed package has neither the control plane nor the "
    "examples: run `make demo` in a checkout of the repository"
)


@click.command(
    epilog="""\b
Examples:
  phalanx demo
  phalanx demo --keep
"""
)
@click.option("--keep", is_flag=True, help="Show 128 nodes with gangs in every phase, and the page, until Ctrl-C.")
def demo(*, keep: bool) -> None:
    """Start a control plane, install Phalanx and run the examples of the Koordinator guide.

    If the Kubernetes programs are missing, they are built first.
    """
    if not (CHECKOUT / "controlplane" / "demo.py").is_file():
        raise click.ClickException(NO_CONTROL_PLANE)
    if str(CHECKOUT) not in sys.path:  # an editable installation finds only the packages of the wheel
        sys.path.append(str(CHECKOUT))
    importlib.import_module("controlplane.demo").run(keep=keep)
