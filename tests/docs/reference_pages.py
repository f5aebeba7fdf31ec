"""Reference pages that are written from the code: the commands, the objects, the settings.

`python tests/docs/reference_pages.py` writes them into docs/reference.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
import yaml
from man_pages import commands

from cli.main import COMMANDS, group
from cli.solve import BAD_INPUT, NOT_PLACED, NOTHING_PLANNED, PLACED

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "reference"
_DEFINITIONS = ROOT / "manifests" / "crds" / "phalanx"
_VALUES = ROOT / "charts" / "phalanx" / "values.yaml"
_WRITTEN = "This page is written from the code (`tests/docs/reference_pages.py`).\n"
_AS_WRITTEN = "\b"
"""click's mark in front of a paragraph whose lines are not to be filled."""
_SERVERS = ("webhook", "controller")


def commands_page() -> str:
    """Return the reference page of all commands, without the options of the two servers."""
    return "\n".join(_commands())


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield _WRITTEN
    yield "`kubectl phalanx …` is the same program as `phalanx …`. [In a terminal](terminal.md) shows the outputs.\n"
    yield "## Exit statuses\n"
    yield "| status | of | means |"
    yield "| --- | --- | --- |"
    yield "| 0 | all | done; `doctor`: nothing is an error |"
    yield "| 1 | all | could not be done, or stopped by Ctrl-C; `doctor`: something is an error |"
    yield "| 2 | all | the command line is wrong |"
    yield f"| {PLACED} | `solve` | every gang has its minimum placed |"
    yield f"| {NOT_PLACED} | `solve` | at least one gang has not |"
    yield f"| {BAD_INPUT} | `solve` | bad input or an invalid request; the rest is reported all the same |"
    yield f"| {NOTHING_PLANNED} | `solve --strict` | the input asks for no gang |\n"
    for name, command in commands().items():
        yield f"## phalanx {name}\n"
        yield from _command(name, command)


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=click.Context(group, info_name="phalanx"))
    usage = " ".join(["phalanx", name, *command.collect_usage_pieces(context)])
    yield f"{COMMANDS[name].summary}\n"
    yield f"```text\n{usage}\n```\n"
    text = cleandoc(command.help or "").replace(_AS_WRITTEN, "").strip()
    yield f"{text}\n"
    if name in _SERVERS:
        yield f"Its options: [Settings](settings.md#phalanx-{name}).\n"
    else:
        yield from _options(context, command)
    examples = cleandoc((command.epilog or "").replace(_AS_WRITTEN, "")).strip().splitlines()[1:]
    if examples:
        yield "```sh"
        yield from (line.strip() for line in examples)
        yield "```\n"


def _options(context: click.Context, command: click.Command) -> Iterator[str]:
    records = [record for each in command.params if (record := each.get_help_record(context)) is not None]
    if records:
        yield "| option | what it does |"
        yield "| --- | --- |"
        yield from (f"| `{_cell(names)}` | {_cell(help_text)} |" for names, help_text in records)
        yield ""


def objects_page() -> str:
    """The fields of our own kinds, from their definitions."""
    return "\n".join(_objects())


def _objects() -> Iterator[str]:
    yield "# Objects\n"
    yield _WRITTEN
    yield "Fields of the kinds of `phalanx.dev`, as `kubectl explain` shows them. The effect of each field:"
    yield "[Keys](keys/phalanx.md). A field that this page does not list is refused.\n"
    for path in sorted(_DEFINITIONS.glob("*s.yaml")):
        definition = yaml.safe_load(path.read_text())
        spec = definition["spec"]
        version = spec["versions"][0]
        names = spec["names"]
        schema = version["schema"]["openAPIV3Schema"]
        yield f"## {names['kind']}\n"
        yield f"{_sentence(schema)}\n"
        short = ", ".join(f"`{each}`" for each in names.get("shortNames", ()))
        yield f"`{spec['group']}/{version['name']}`, {spec['scope'].lower()}; short name {short}.\n"
        yield "| field | type | |"
        yield "| --- | --- | --- |"
        for part in ("spec", "status"):
            yield from _fields(part, schema["properties"].get(part, {}))
        yield ""


def _fields(path: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"| `{path}` | {_type(schema)} | {_cell(_sentence(schema))} |"
    inner = schema.get("items", schema)
    at = f"{path}[]" if "items" in schema else path
    for name, each in inner.get("properties", {}).items():
        yield from _fields(f"{at}.{name}", each)


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"] if each is not None)
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "any"))


def _sentence(schema: Mapping[str, Any]) -> str:
    return " ".join(str(schema.get("description", "")).split())


def settings_page() -> str:
    """Return the reference page of all settings: of the servers, of the chart, of the cluster."""
    return "\n".join(_settings())


def _settings() -> Iterator[str]:
    yield "# Settings\n"
    yield _WRITTEN
    yield "An ordinary installation needs none of these settings. When to use which: [Operations](../operations.md).\n"
    for name in _SERVERS:
        command = commands()[name]
        context = click.Context(command, info_name=name, parent=click.Context(group, info_name="phalanx"))
        yield f"## phalanx {name}\n"
        yield from _options(context, command)
    yield "## The chart\n"
    yield "Set these values with `helm install phalanx charts/phalanx --set …`. `values.schema.json` checks them.\n"
    yield f"```yaml\n{_VALUES.read_text()}```\n"


def _cell(text: str) -> str:
    """Text that may stand in a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "objects.md": objects_page,
    "settings.md": settings_page,
}


def main() -> None:
    """Write them."""
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page().rstrip() + "\n")


if __name__ == "__main__":
    main()
