"""Kubernetes quantities as integers in the base unit of their resource.

The parser is that of the official Python client of Kubernetes, loaded from its file. A normal import runs the package's
`__init__`, which loads the whole client (0.4 s). The parser is a function of forty lines that needs only `decimal`.
"""

import importlib.util
import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

LARGEST = 2**63 - 1
"""A quantity beyond this is capped to it, as the API documents (apimachinery, resource.Quantity)."""

_BINARY_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_BINARY = ("memory", "ephemeral-storage")
_SHOWN_DIGITS = 10_000

_LONG = 64
"""The most characters of a text that is cached. Longer texts are not cached, so that authors cannot fill the memory."""
_CHARACTERS = re.compile(r"[0-9A-Za-z.+-]+")


def _load_parser() -> Callable[[str], Decimal]:
    """Return the function `kubernetes.utils.quantity.parse_quantity` without importing the package `kubernetes`.

    :raises ImportError: if the official client is not installed.
    """
    package = importlib.util.find_spec("kubernetes")
    if package is None or package.origin is None:
        raise ImportError("the kubernetes client is not installed")
    path = Path(package.origin).parent / "utils" / "quantity.py"
    spec = importlib.util.spec_from_file_location("kube._kubernetes_quantity", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parser: Callable[[str], Decimal] = module.parse_quantity
    return parser


_parse_quantity = _load_parser()


def amount(resource: str, quantity: str | float) -> int:
    """Return a quantity in the base unit of its resource, rounded up and capped to `LARGEST`.

    The base unit of cpu is the millicore. All other resources are counted in ones: bytes, devices, pods.

    :raises ValueError: if the text is not a quantity, or is infinite or negative. The message quotes the text.
    """
    text, scale = str(quantity), 1000 if resource == "cpu" else 1
    return _remembered(text, scale) if len(text) <= _LONG else _amount(text, scale)


def exact(quantity: str | float) -> Decimal:
    """Return a quantity as an exact number, which may be negative.

    :raises ValueError: if the text is not a finite quantity. The message quotes the text.
    """
    text = str(quantity)
    try:
        number = _parse_quantity(text) if len(text) <= _LONG and _CHARACTERS.fullmatch(text) else None
    except (ValueError, ArithmeticError):
        number = None
    if number is None or not number.is_finite():
        raise ValueError(f"{_shown(text)} is not a quantity")
    return number


def countable(resource: str, quantity: str | float) -> int:
    """Return a quantity in the base unit of its resource (`amount`), and refuse one that would be capped.

    :raises ValueError: if `amount` raises it, or if the quantity is beyond `LARGEST`.
    """
    value = amount(resource, quantity)
    if value == LARGEST and _parse_quantity(str(quantity)) > LARGEST:
        raise ValueError(f"{_shown(str(quantity))} is more than {LARGEST}, the largest quantity; write a smaller one")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONG else f"{text[:_LONG]}…")


def _amount(text: str, scale: int) -> int:
    shown = _shown(text)
    if not _CHARACTERS.fullmatch(text):
        raise ValueError(f"{shown} is not a quantity")
    try:
        number = _parse_quantity(text)
    except (ValueError, ArithmeticError):
        raise ValueError(f"{shown} is not a quantity") from None
    if not number.is_finite():
        raise ValueError(f"{shown} is not a finite quantity")
    if number < 0:
        raise ValueError(f"{shown} is negative")
    return LARGEST if number > LARGEST // scale else math.ceil(number * scale)


_remembered = lru_cache(maxsize=65536)(_amount)


def written(resource: str, value: int) -> str:
    """Return an amount in base units as a text for messages.

    cpu is written in cores, or in millicores if they are not whole cores (1500m). An amount of bytes is written in the
    largest unit (Gi) that divides it, or of which it has at least `_SHOWN_DIGITS`. In the latter case the number is
    rounded down.
    """
    if resource == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    if in_bytes(resource):
        for unit, size in _BINARY_UNITS:
            if (value % size == 0 and value) or value >= size * _SHOWN_DIGITS:
                return f"{value // size}{unit}"
    return str(value)


def in_bytes(resource: str) -> bool:
    """Return whether the resource is counted in bytes: memory, ephemeral storage or huge pages."""
    return resource in _BINARY or resource.startswith("hugepages-")
