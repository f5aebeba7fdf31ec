"""Safe output of texts that users wrote: on one line, and without control codes that a terminal would execute."""

from typing import Any


def one_line(text: str) -> str:
    r"""Return the text with line breaks, control codes and Unicode direction marks replaced by escapes (`\n`, `\x1b`).

    In a log, a status or a command's output, the text then cannot break the line or control the terminal.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def one_line_each(value: Any) -> Any:
    """Return JSON data in which every text, including keys, is passed through `one_line`."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line_each(key): one_line_each(each) for key, each in value.items()}
    return [one_line_each(each) for each in value] if isinstance(value, list) else value


def with_article(kind: str) -> str:
    """Return the name of a kind with its article, by pronunciation: an AppWrapper, an MPIJob, a UserJob, a TFJob."""
    spelled = kind[:2].isupper()  # an acronym, pronounced letter by letter: em, pee, eye
    vowels = "AEFHILMNORSX" if spelled else "AEIO"
    return f"{'an' if kind.startswith(tuple(vowels)) else 'a'} {kind}"
