"""Ways in which a Gang loses its status: no decision of the controller may rest on the status alone.

docs/decisions/0037 lists every decision that reads the status, and what decides without it.
"""

import pytest
from controller_scene import GANGS, Scene
from local_api.patches import MERGE


def keep(_: Scene) -> None:
    """Leave the status as it is."""


def wipe(scene: Scene) -> None:
    """Remove the Gang's status."""
    scene.api.ask("PATCH", f"{GANGS}/llm/status", {"status": dict.fromkeys(scene.status())}, MERGE)
    assert scene.status() == {}


def delete(scene: Scene) -> None:
    """Delete the Gang object and create it again."""
    manifest = scene.api.ask("GET", f"{GANGS}/llm")
    scene.api.ask("DELETE", f"{GANGS}/llm")
    scene.api.create(GANGS, {"metadata": {"name": "llm"}, "spec": manifest["spec"]})


def restore(scene: Scene) -> None:
    """Write the status of a version whose fields have other names and whose conditions have other reasons."""
    wipe(scene)
    whole = {"type": "Whole", "status": "Unknown", "reason": "Elsewhere", "message": "?"}
    odd = {"phase": "Elsewhere", "conditions": [whole], "boundWhenWhole": 7, "planId": "p", "assignments": []}
    scene.api.ask("PATCH", f"{GANGS}/llm/status", {"status": odd}, MERGE)


LOSSES = pytest.mark.parametrize("lose", [keep, wipe, delete, restore], ids=["kept", "wiped", "deleted", "odd"])
"""Cases: the status is kept, wiped, deleted with its Gang, or written by another version."""
