"""`Message`: a line for a person, as typed parts. It renders with or without the names of other users' objects.

A webhook's answer reaches every client, so it renders without names. No code searches or changes a finished text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """A part of a message that names other users' objects. `instead`: its text for a reader who may not see these
    objects.
    """

    text: str
    instead: str

    def __str__(self) -> str:
        """Return the text of the part, with the names of the other users' objects."""
        return self.text


@dataclass(frozen=True, slots=True)
class Count:
    """A part of a message with counts that change often, such as `3 of 4`.

    `Message.topic` leaves counts out, so a message with other counts keeps its topic.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The part of a message about members beyond the gang's minimum that have no node.

    `reasons`: each reason with the number of nodes that it excludes.
    """

    count: int
    reasons: tuple[tuple[str | Names, int], ...]


Part = str | Names | Count | Shortfall


@dataclass(frozen=True, slots=True)
class Message:
    """A line for a person. Its text is the text of its parts without separators."""

    parts: tuple[Part, ...] = ()

    @staticmethod
    def of(*parts: "Part | Message") -> "Message":
        """Return the message of these parts, in order. Neighbouring texts become one, and empty texts add nothing."""
        flat: list[Part] = []
        for part in (part for each in parts for part in (each.parts if isinstance(each, Message) else (each,))):
            if isinstance(part, str) and flat and isinstance(flat[-1], str):
                flat[-1] += part
            elif part != "":
                flat.append(part)
        return Message(tuple(flat))

    def __str__(self) -> str:
        """Return the message's text, including the names of other users' objects."""
        return "".join(_text(part, named=True) for part in self.parts)

    def __add__(self, other: "Part | Message") -> "Message":
        """Return this message, continued by the other."""
        return Message.of(self, other)

    def __bool__(self) -> bool:
        """Whether the message has any text."""
        return bool(str(self))

    @property
    def nameless(self) -> str:
        """The text for a reader who may not see other users' objects: counts take the place of names."""
        return "".join(_text(part, named=False) for part in self.parts)

    @property
    def topic(self) -> tuple[Part, ...]:
        """The message's parts without counts. Two messages with the same topic report the same problem with other
        counts.
        """
        return tuple(part for part in self.parts if not isinstance(part, Count))

    @property
    def shortfall(self) -> Shortfall | None:
        """The part about members beyond the minimum that have no node; None if each member has a node."""
        return next((part for part in self.parts if isinstance(part, Shortfall)), None)

    def with_shortfall(self, shortfall: Shortfall) -> "Message":
        """Return this message with the part `shortfall`, about members without a node, in place of its own such
        part.
        """
        return Message(tuple(shortfall if isinstance(part, Shortfall) else part for part in self.parts))


def joined(separator: str, messages: Iterable[Part | Message]) -> Message:
    """Return one message that consists of all `messages`, with the separator between them."""
    parts: list[Part | Message] = []
    for each in messages:
        parts += [separator, each] if parts else [each]
    return Message.of(*parts)


def listed(messages: Iterable[Part | Message]) -> Message:
    """Return the messages as an enumeration: `a`, `a and b`, or `a, b and c`. Expects at least one message."""
    *others, last = messages
    return Message.of(joined(", ", others), " and ", last) if others else Message.of(last)


def because(reasons: Mapping[str, int]) -> str:
    """Return the reasons as text, each with the number of nodes that it excludes: `2 nodes: Insufficient cpu`."""
    return ", ".join(_of_nodes(reason, count) for reason, count in reasons.items())


def _text(part: Part, *, named: bool) -> str:
    match part:
        case str():
            return part
        case Names():
            return part.text if named else part.instead
        case Count():
            return part.text
        case Shortfall():
            reasons = [_of_nodes(_text(reason, named=named), count) for reason, count in part.reasons]
            return f", {part.count} more find{'s' if part.count == 1 else ''} no room ({', '.join(reasons)})"


def _of_nodes(reason: str, count: int) -> str:
    return f"{count} {'node' if count == 1 else 'nodes'}: {reason}"
