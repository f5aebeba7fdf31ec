"""The default in an option's help is the default of the server."""

import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import click
import pytest

from cli.controller import controller
from cli.webhook import webhook
from controller import defaults
from controller import serving as controller_serving
from webhook import serving as webhook_serving

ROOT = Path(__file__).parents[2]
OTHERWISE_NAMED = {"shutdown_notice_seconds": "notice", "certificate_poll_seconds": "certificate_poll"}


def promised(command: click.Command) -> dict[str, object]:
    """Return the defaults that a command's help shows, by the name of the server's setting."""
    options = (each for each in command.params if isinstance(each, click.Option) and each.show_default)
    return {OTHERWISE_NAMED.get(str(each.name), str(each.name)): each.default for each in options}


@pytest.mark.parametrize(
    ("command", "settings", "shared"),
    [
        (controller, controller_serving.Settings, {"topology_seconds", "untried_seconds", "restart_seconds", "writes"}),
        (
            webhook,
            webhook_serving.Settings,
            {"host", "port", "health_port", "notice", "most_waiting", "certificate_poll"},
        ),
    ],
)
def test_an_option_and_the_setting_have_one_default(command: click.Command, settings: type, shared: set[str]) -> None:
    kept = {each.name: each.default for each in fields(settings) if each.default is not MISSING}
    told = promised(command)
    assert told.keys() & kept.keys() == shared
    assert {name: told[name] for name in shared} == {name: kept[name] for name in shared}


def test_what_must_be_set_is_set_from_what_the_controller_says_of_itself() -> None:
    told = promised(controller)
    assert (told["lease_seconds"], told["solve_seconds"]) == (defaults.LEASE_SECONDS, defaults.SOLVE_SECONDS)


def test_the_help_of_a_server_imports_no_client_and_no_solver() -> None:
    code = "import sys, cli.controller, cli.webhook\nprint([m for m in sys.modules if m in ('kubernetes', 'ortools')])"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
