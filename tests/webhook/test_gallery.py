"""Every screen of the page at three widths, light and dark: free of errors and barriers, no wider than the window.

The pictures are those of the docs: `PHALANX_WRITE_PAGES=1 pytest tests/webhook/test_gallery.py` writes them anew.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from browsing import PICTURES, WRITE, driven, served
from gallery_scene import Scene, history
from pictures import StillPicture, topology

GALLERY = PICTURES / "screens"
WIDTHS, SCHEMES = ("1400", "1024", "390"), ("light", "dark")
SCREENS = (
    "overview",
    "search",
    "placed",
    "waiting",
    "quota",
    "domain",
    "queues",
    "history",
    "try",
    "empty",
    "loading",
    "denied",
    "disconnected",
)
LARGEST = 60_000
"""Bytes of a picture."""


def names(*widths: str) -> set[str]:
    """Return the names of the pictures of these widths. In a narrow window, the cluster has a screen of its own."""
    found = {f"{screen}-{width}-{scheme}" for screen in SCREENS for width in widths for scheme in SCHEMES}
    return found | {f"cluster-390-{scheme}" for scheme in SCHEMES if "390" in widths}


def looked_at(folder: Path, *widths: str) -> Any:
    """Return what a browser sees of the screens at these widths. The pictures are in the folder."""
    nothing = StillPicture([topology("rack")], namespaces={"default": {}})
    with served(Scene().picture(), history()) as address, served(nothing) as empty:
        return driven("gallery.mjs", address, empty, str(folder), *widths)


def check(seen: Any, *widths: str) -> None:
    """Check the screens."""
    assert set(seen["bytes"]) == names(*widths)
    assert (seen["errors"], seen["barriers"], seen["wide"]) == ({}, {}, [])
    assert {name: size for name, size in seen["bytes"].items() if size > LARGEST} == {}


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
def test_every_screen_is_free_of_errors_and_barriers(width: str, tmp_path: Path) -> None:
    check(looked_at(tmp_path, width), width)
    if WRITE in os.environ:
        GALLERY.mkdir(exist_ok=True)
        for name in sorted(names(width)):
            shutil.copy(tmp_path / f"{name}.webp", GALLERY)


def test_the_docs_show_every_screen_in_a_small_file() -> None:
    page = (PICTURES.parent / "reference" / "screens.md").read_text()
    files = {each.stem: each.stat().st_size for each in GALLERY.glob("*.webp")}
    assert set(files) == names(*WIDTHS) == set(re.findall(r"screens/([\w-]+)\.webp", page))
    assert {name: size for name, size in files.items() if size > LARGEST} == {}
