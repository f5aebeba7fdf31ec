"""Encodes output for programs as JSON or YAML."""

from typing import Any

import msgspec
import yaml

Json = dict[str, Any]

FORMATS = ("json", "yaml")


def structured(data: Json, output: str) -> str:
    """Encode the data as JSON or YAML, as a complete document that ends with a line break."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


def document(data: Json, output: str) -> str:
    """Encode one item of a stream: JSON on one line, or a YAML document with its separator."""
    if output == "json":
        return msgspec.json.encode(data).decode() + "\n"
    return "---\n" + structured(data, output)
