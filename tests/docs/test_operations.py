"""The instructions of docs/operations.md can be followed: their files, options and objects exist."""

import re
from pathlib import Path

import pytest
import yaml

from cli.installation.installed_objects import webhook_configurations
from cli.uninstall import uninstall

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?:manifests|charts|docs)/[\w./-]*\w", TEXT))))
def test_every_path_exists(path: str) -> None:
    found = list((ROOT / path).parent.glob(f"{(ROOT / path).name}*"))  # decisions are named by their number
    assert found, path


@pytest.mark.parametrize("setting", re.findall(r"--set ([\w.]+)=", TEXT))
def test_every_value_of_the_chart_exists(setting: str) -> None:
    values = yaml.safe_load((ROOT / "charts" / "phalanx" / "values.yaml").read_text())
    for part in setting.split("."):
        assert part in values
        values = values[part]


def test_every_option_of_uninstall_exists() -> None:
    options = {each for parameter in uninstall.params for each in parameter.opts}
    assert set(re.findall(r"phalanx uninstall (--\w+)", TEXT)) <= options


def test_the_names_of_webhooks_are_theirs() -> None:
    configurations = webhook_configurations("https://localhost", b"")
    names = {each["metadata"]["name"] for each in configurations}
    names |= {webhook["name"] for each in configurations for webhook in each["webhooks"]}
    assert set(re.findall(r"mutatingwebhookconfiguration ([\w-]+)", TEXT)) <= names
    assert set(re.findall(r'failed calling webhook "([\w.-]+)"', TEXT)) <= names
