"""Text of users in what we write: on one line, and without anything that a terminal would obey."""

from typing import Any


def one_line(text: str) -> str:
    r"""The text with line breaks, control codes and marks that turn the direction of writing as escapes (`\n`, `\x1b`).

    Whoever reads a log, a status or the answer of a command sees what was written, and nothing happens.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def one_line_each(value: Any) -> Any:
    """The same for every text in JSON data, keys included."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line_each(key): one_line_each(each) for key, each in value.items()}
    return [one_line_each(each) for each in value] if isinstance(value, list) else value


def with_article(kind: str) -> str:
    """The name of a kind after `a` or `an`, as it is said: an AppWrapper, an MPIJob, a UserJob, a TFJob."""
    spelled = kind[:2].isupper()  # letter by letter: em, pee, eye
    vowels = "AEFHILMNORSX" if spelled else "AEIO"
    return f"{'an' if kind.startswith(tuple(vowels)) else 'a'} {kind}"
