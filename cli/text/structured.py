"""What is said, for programs: JSON or YAML."""

from typing import Any

import msgspec
import yaml

Json = dict[str, Any]

FORMATS = ("json", "yaml")


def structured(data: Json, output: str) -> str:
    """The same for programs."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


def document(data: Json, output: str) -> str:
    """One of several that follow each other: JSON on a line of its own, or a YAML document."""
    if output == "json":
        return msgspec.json.encode(data).decode() + "\n"
    return "---\n" + structured(data, output)
