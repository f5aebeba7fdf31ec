"""A YAML parser for manifests. Where PyYAML and Kubernetes differ, it follows Kubernetes. It records duplicate keys."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

MOST_REPEATED = 400_000
"""The most values to which YAML aliases may expand in one document. Ten lines of nested aliases can fill any memory."""

DEEPEST = 200
"""The most levels of nested values. libyaml does not check its stack, so a text with more could crash the process."""
_OFTEN = 256
"""The number of values between two calls of `look`."""
_TAG = "tag:yaml.org,2002:"
_PLAIN = tuple(f"{_TAG}{each}" for each in ("bool", "int", "float", "timestamp"))
_TRUE = ("true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Doubled:
    """A key that one mapping has twice: the key, the line of the repetition, and the first line. Lines count from 1."""

    key: str
    line: int
    first: int

    def __str__(self) -> str:
        """The message about the duplicate key."""
        return f'key "{self.key}" is given twice, first in line {self.first}'


def _go_on() -> None:
    """Do nothing: the default of the parameter `look` of `read_all`, for callers without a time limit."""


def read_all(text: str | bytes, doubled: list[Doubled], look: Callable[[], None] = _go_on) -> Iterator[Any]:
    """Yield the YAML documents in a text. If a mapping has a key twice, the last value counts.

    :param doubled: the list to which duplicate keys are appended.
    :param look: a function that is called every `_OFTEN` values. An exception that it raises, such as at a time limit,
        ends the parsing.
    :raises yaml.YAMLError: if the text is not valid YAML.
    """
    loader = _Loader(text, look)
    try:
        while (node := loader.get_node() if loader.check_node() else None) is not None:
            _Survey(doubled, loader.go_on).check(node)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


class _Loader(yaml.CSafeLoader):
    """PyYAML's loader, changed to load timestamps as strings, and also scalars that only look like numbers (12:30).

    It limits the nesting depth, and calls `look` at intervals.
    """

    def __init__(self, text: str | bytes, look: Callable[[], None]) -> None:
        super().__init__(text)
        self._look = look
        self._steps = 0
        self._depth = 0

    def go_on(self) -> None:
        """Count one parsed value. After every `_OFTEN` values, call the caller's function `look`, which may end the
        parsing.
        """
        self._steps += 1
        if self._steps % _OFTEN == 0:
            self._look()

    def descend_resolver(self, current_node: Node | None, current_index: Any) -> None:
        """Check the nesting depth. PyYAML calls this for each node of the text, before it builds the node."""
        del current_index  # PyYAML needs it only for tags that depend on paths
        self._depth += 1
        if self._depth > DEEPEST and current_node is not None:
            problem = f"nests deeper than {DEEPEST} levels"
            raise ConstructorError(None, None, problem, current_node.start_mark)
        self.go_on()

    def ascend_resolver(self) -> None:
        """Reduce the counted depth by 1. PyYAML calls this for each node of the text, after it has built the node."""
        self._depth -= 1

    def construct_object(self, node: Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 -- as PyYAML has it
        """Construct one value as PyYAML does, and count it (`go_on`)."""
        self.go_on()
        return super().construct_object(node, deep=deep)


def _number(read: Callable[[_Loader, ScalarNode], Any]) -> Callable[[_Loader, ScalarNode], Any]:
    """Return PyYAML's constructor of numbers, changed to return some scalars as strings.

    These are scalars with a colon, which PyYAML reads as minutes and seconds, and scalars that it cannot parse (`0x_`).
    """

    def number_or_text(loader: _Loader, node: ScalarNode) -> Any:
        try:
            return node.value if ":" in node.value else read(loader, node)
        except ValueError:
            return node.value

    return number_or_text


_Loader.add_constructor(f"{_TAG}int", _number(yaml.CSafeLoader.construct_yaml_int))
_Loader.add_constructor(f"{_TAG}float", _number(yaml.CSafeLoader.construct_yaml_float))
_Loader.add_constructor(f"{_TAG}timestamp", lambda _, node: node.value)


class _Survey:
    """The check of one YAML document for duplicate keys and for aliases that expand to too many values.

    The check runs before the values are constructed, because the construction would expand every alias.
    """

    def __init__(self, doubled: list[Doubled], go_on: Callable[[], None]) -> None:
        self._doubled = doubled
        self._go_on = go_on
        self._sizes: dict[int, int] = {}
        self._written = 0

    def check(self, document: Node) -> None:
        """Record the duplicate keys of the document, and check its aliases.

        :raises ConstructorError: if the aliases expand to more than `MOST_REPEATED` values, or one contains itself.
        """
        if self._size(document) - self._written > MOST_REPEATED:
            problem = f"its aliases stand for more than {MOST_REPEATED} values; write out what is meant"
            raise ConstructorError(None, None, problem, document.start_mark)

    def _size(self, node: Node) -> int:
        """Return the number of values in the node after all aliases are expanded."""
        self._go_on()
        known = self._sizes.get(id(node))
        if known == 0:
            raise ConstructorError(None, None, "an alias stands for what it is itself a part of", node.start_mark)
        if known is not None:
            return known
        self._written += 1
        if isinstance(node, ScalarNode):
            self._sizes[id(node)] = 1
            return 1
        self._sizes[id(node)] = 0
        if isinstance(node, MappingNode):
            self._check_keys(node)
            size = 1 + sum(self._size(key) + self._size(value) for key, value in node.value)
        else:
            size = 1 + sum(map(self._size, node.value))
        self._sizes[id(node)] = size
        return size

    def _check_keys(self, node: MappingNode) -> None:
        """Record the duplicate keys of a mapping, and make all its keys strings, because JSON has no other keys."""
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, ScalarNode) or key.tag == f"{_TAG}merge":
                continue
            if key.tag == f"{_TAG}bool":
                key.value = "true" if key.value.lower() in _TRUE else "false"
            if key.tag in _PLAIN:
                key.tag = f"{_TAG}str"
            line = key.start_mark.line + 1
            if key.value in first:
                self._doubled.append(Doubled(key.value, line, first[key.value]))
            first.setdefault(key.value, line)
