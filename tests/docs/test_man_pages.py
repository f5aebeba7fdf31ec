"""Every command has an example, and the manual pages agree with the help of the commands."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner
from man_pages import FOLDER, commands, pages

from cli.main import group

COMMANDS = commands()


def test_the_manual_pages_are_those_of_the_commands() -> None:
    written = {each.name: each.read_text() for each in FOLDER.glob("*.1")}
    assert written == pages(), "run: python tests/docs/man_pages.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_that_can_be_called(name: str) -> None:
    told = CliRunner().invoke(group, [name, "--help"]).stdout
    examples = re.findall(rf"^ +phalanx {name}(.*)$", told.partition("Example")[2], re.MULTILINE)
    examples += re.findall(rf"^ +.*<\(phalanx {name}(.*)\)$", told, re.MULTILINE)
    assert examples, told
    for line in examples:
        words = shlex.split(re.split(r" [>&]", line)[0])
        COMMANDS[name].make_context(name, words).close()


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        f"{name} {option.opts[0]}"
        for name, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not silent
