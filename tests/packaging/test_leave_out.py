"""Files that the image omits are not in any list of installed files, and a rule without a match is reported."""

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest

from image import leave_out as module
from image.leave_out import leave_out

ROOT = Path(__file__).parents[2]


def installed(environment: Path, name: str, *files: str) -> Path:
    """A distribution in a virtual environment, with a console script; returns its folder of metadata."""
    packages = environment / "lib" / "python3.11" / "site-packages"
    metadata = packages / f"{name}-1.dist-info"
    listed = [*files, f"../../../bin/{name}", f"{metadata.name}/METADATA", f"{metadata.name}/RECORD"]
    for file in listed:
        (packages / file).parent.mkdir(parents=True, exist_ok=True)
        (packages / file).touch()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in listed))
    return metadata


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two distributions: one that the image omits completely, and one that it omits in part."""
    (tmp_path / "bin").mkdir()
    installed(tmp_path, "Never_Used", "never_used/__init__.py")
    installed(tmp_path, "used", "used/__init__.py", "used/tests/test_it.py", "used/more/tests.py")
    monkeypatch.setattr(module, "DISTRIBUTIONS", {"never-used": "nobody's"})
    monkeypatch.setattr(module, "FILES", ("*/tests/*",))
    return tmp_path


def files(environment: Path) -> set[str]:
    return {str(each.relative_to(environment)) for each in environment.rglob("*") if each.is_file()}


def test_distributions_and_files_go_and_the_rest_stays(environment: Path) -> None:
    leave_out(environment)
    packages = environment / "lib" / "python3.11" / "site-packages"
    assert {each.name for each in packages.iterdir()} == {"used", "used-1.dist-info"}
    assert {each.name for each in (packages / "used").iterdir()} == {"__init__.py", "more"}
    assert {each.name for each in (environment / "bin").iterdir()} == {"used"}
    (left,) = distributions(path=[str(packages)])
    assert [str(each) for each in left.files or () if not Path(each.locate()).exists()] == []
    assert len(left.files or ()) == 5


def test_a_rule_that_fits_nothing_is_told_and_nothing_goes(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(environment)
    monkeypatch.setattr(module, "FILES", ("*/tests/*", "used/gone/*"))
    with pytest.raises(ValueError, match="used/gone/\\*: take it out"):
        leave_out(environment)
    assert files(environment) == before


def test_the_image_and_the_bill_of_materials_are_trimmed_by_the_same_rules() -> None:
    called = re.compile(r"image/leave_out\.py (/venv|dist/runtime)$", re.MULTILINE)
    assert called.findall((ROOT / "Dockerfile").read_text()) == ["/venv"]
    assert called.findall((ROOT / "Makefile").read_text()) == ["dist/runtime"]
