"""The manual pages, from the commands' own help. `python tests/docs/man_pages.py` writes them into docs/man.

`make` installs them beside the commands (share/man), where `man phalanx-gangs` finds them.
"""

import tomllib
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
from click_man.man import ManPage  # type: ignore[import-untyped] # click-man has no types

from cli.main import COMMANDS, LazyGroup, group

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "man"
_AS_WRITTEN = "\b"
"""click's mark in front of a paragraph whose lines are not to be filled."""


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    top = click.Context(group, info_name="phalanx")
    overview = _page(top, "gangs of pods, placed together", examples=group.epilog or "")
    overview.commands = [(name, entry.summary) for name, entry in COMMANDS.items()]
    found = {"phalanx.1": str(overview)}
    for name, command in commands().items():
        context = click.Context(command, info_name=name, parent=top)
        found[f"phalanx-{name}.1"] = str(_page(context, COMMANDS[name].summary, examples=command.epilog or ""))
    return found


def commands() -> dict[str, click.Command]:
    """Every subcommand by its name."""
    assert isinstance(group, LazyGroup)
    context = click.Context(group, info_name="phalanx")
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def _page(context: click.Context, summary: str, *, examples: str) -> ManPage:
    command = context.command
    page = ManPage(context.command_path)
    page.version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    page.date = page.version  # the day on which a page is written says nothing of what it says
    page.short_help = summary
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.description = "\n".join(_described(cleandoc(command.help or ""), examples))
    page.options = [record for each in command.params if (record := each.get_help_record(context)) is not None]
    return page


def _described(text: str, examples: str) -> Iterator[str]:
    """The help, then the examples, in which every line stays one."""
    yield text.replace(_AS_WRITTEN, "").strip()
    title, *lines = cleandoc(examples.replace(_AS_WRITTEN, "")).strip().splitlines()
    yield f".SH {title.rstrip(':').upper()}\n.nf"
    yield from (line.strip().replace("\\", "\\e").replace("-", "\\-") for line in lines)
    yield ".fi"


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.1"):
        old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
