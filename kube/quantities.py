"""Kubernetes quantities as integers in the base unit of their resource.

The parser is the official client's, loaded from its file. A normal import runs the package's `__init__`, which loads
the whole client (0.4 s). The parser is a function of forty lines that needs only `decimal`.
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
    """`kubernetes.utils.quantity.parse_quantity`, without importing `kubernetes`."""
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
    """`quantity` of `resource` in its base unit, rounded up: cpu in millicores, all else in units (bytes, pieces).

    Raises ValueError, naming the text (of a long one the beginning), where it is no quantity, not finite or negative.
    """
    text, scale = str(quantity), 1000 if resource == "cpu" else 1
    return _remembered(text, scale) if len(text) <= _LONG else _amount(text, scale)


def countable(resource: str, quantity: str | float) -> int:
    """The `amount` of a quantity that the API server can hold without capping it.

    Raises ValueError like `amount`, and for a quantity beyond `LARGEST`: a cap changes what the author meant.
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
    """Return an amount in base units as text, rounded down: cores or millicores, bytes in units for 4 digits."""
    if resource == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    if in_bytes(resource):
        for unit, size in _BINARY_UNITS:
            if (value % size == 0 and value) or value >= size * _SHOWN_DIGITS:
                return f"{value // size}{unit}"
    return str(value)


def in_bytes(resource: str) -> bool:
    """Return whether the resource is an amount of memory or storage."""
    return resource in _BINARY or resource.startswith("hugepages-")
