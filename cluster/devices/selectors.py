"""CEL selectors of devices, evaluated as the stock scheduler evaluates them.

A selector is an expression about the variable `device` (API documentation of CELDeviceSelector). The expressions are
evaluated by the official engine for C++ (package cel-expr-python). Kubernetes adds quantities and semantic versions to
the language. In the engine both are maps with one entry, so that equal values are equal maps.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from kube.devices import Device
from kube.quantities import exact

_QUANTITY, _SEMVER = "quantity", "semver"
"""The only key of the map that represents a value of the type. Its entry is the value's normal form as a text."""
_INDEXED = re.compile(r"""device\s*\.\s*(attributes|capacity)\s*\[\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\]""")
"""The domains that an expression looks up, such as in `device.attributes["gpu.example.com"]`."""
_TESTED = re.compile(r"""\bin\s+device\s*\.\s*(attributes|capacity)\b(?!\s*\[)""")
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""A semantic version (semver.org, version 2.0.0): three numbers, the pre-release, and build metadata."""


class SelectorError(Exception):
    """A selector cannot be evaluated. The text says which one, and why."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """An expression, ready to be evaluated. `domains`: by the field `attributes` or `capacity` of a device, the domains
    whose names the expression contains as literals.
    """

    evaluate: Callable[[Mapping[str, Any]], Any]
    domains: Mapping[str, frozenset[str]]


def matches(expression: str, device: Device, driver: str) -> bool:
    """Return whether the CEL expression is true for a device of this driver.

    :raises SelectorError: the expression is not understood (`check`), or fails for this device. For example, it reads
        an attribute that the device lacks. The stock scheduler does not schedule a pod whose selector fails.
    """
    compiled = _compiled(expression)
    value = compiled.evaluate(_variables(device, driver, compiled.domains))
    found = value.value()
    if not isinstance(found, bool):
        of = f"device {device.name}" if device.name else f"a device of driver {driver}"
        raise SelectorError(f"the CEL selector {_shown(expression)} fails for {of}: {found}")
    return found


def check(expression: str) -> None:
    """Raise `SelectorError` if the expression is malformed, or uses a variable or function that selectors of devices
    lack.
    """
    _compiled(expression)


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> _Compiled:
    environment = _environment()
    try:
        compiled = environment.compile(expression)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split("ERROR: <input>:")[-1].split("\n")[0].split())
        raise SelectorError(f"the CEL selector {_shown(expression)} is not understood: {reason}") from None
    if (kind := compiled.return_type().name()) not in ("BOOL", "DYN"):
        raise SelectorError(f"the CEL selector {_shown(expression)} has the type {kind.lower()}, not bool")
    looked_up: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
    tested = {each[1] for each in _TESTED.finditer(expression)}
    for each in _INDEXED.finditer(expression):
        if each[1] not in tested:  # an empty map would make `"domain" in device.attributes` true
            looked_up[each[1]].add(each[2] or each[3] or "")
    domains = {name: frozenset(each) for name, each in looked_up.items()}
    return _Compiled(lambda variables: compiled.eval(data=variables), domains)


def _variables(device: Device, driver: str, domains: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """Return the fields of the variable `device`.

    A name without a domain belongs to the driver's domain. A domain that the device lacks is an empty map if the
    expression looks it up, as in Kubernetes.
    """
    attributes: dict[str, dict[str, Any]] = {each: {} for each in domains["attributes"]}
    for name, attribute in device.attributes.items():
        domain, _, own = name.rpartition("/")
        values = (attribute.int_, attribute.bool_, attribute.string)
        value: Any = next((each for each in values if each is not None), None)
        if attribute.version is not None:
            value = {_SEMVER: _normal(attribute.version)}
        attributes.setdefault(domain or driver, {})[own] = value
    capacity: dict[str, dict[str, Any]] = {each: {} for each in domains["capacity"]}
    for name, each in device.capacity.items():
        domain, _, own = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[own] = _quantity(str(each.value))
    return {
        "device.driver": driver,
        "device.attributes": attributes,
        "device.capacity": capacity,
        "device.allowMultipleAllocations": device.allow_multiple_allocations,
    }


def _shown(expression: str) -> str:
    return f'"{" ".join(expression.split())}"'


@cache
def _environment() -> Any:
    """Return the engine's environment: the variables, and the functions that Kubernetes adds to CEL.

    Imported here, because the engine is loaded only where a gang asks for devices.
    """
    from cel_expr_python import cel  # noqa: PLC0415 -- 30 MB that most clusters never need
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415 -- as above

    types = cel.Type
    value = types.Map(types.STRING, types.STRING)
    by_domain = types.Map(types.STRING, types.Map(types.STRING, types.DYN))
    quantities = types.Map(types.STRING, types.Map(types.STRING, value))

    def function(name: str, impl: Callable[..., Any], result: Any, *parameters: Any, member: bool = True) -> Any:
        overload = cel.Overload(f"{name}_kubernetes", result, list(parameters), is_member=member, impl=impl)
        return cel.FunctionDecl(name, [overload])

    def summed(name: str, sign: int) -> Any:
        def with_quantity(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
            return {_QUANTITY: _plain(_number(one) + sign * _number(other))}

        def with_int(one: Mapping[str, str], other: int) -> dict[str, str]:
            return {_QUANTITY: _plain(_number(one) + sign * other)}

        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_quantity", value, [value, value], is_member=True, impl=with_quantity),
                cel.Overload(f"{name}_int", value, [value, types.INT], is_member=True, impl=with_int),
            ],
        )

    def versions(name: str, impl: Callable[..., Any], result: Any) -> Any:
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_string", result, [types.STRING], is_member=False, impl=impl),
                cel.Overload(f"{name}_string_bool", result, [types.STRING, types.BOOL], is_member=False, impl=impl),
            ],
        )

    return cel.NewEnv(
        variables={
            "device.driver": types.STRING,
            "device.attributes": by_domain,
            "device.capacity": quantities,
            "device.allowMultipleAllocations": types.BOOL,
        },
        extensions=[ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_optional.ExtOptional()],
        functions=[
            function("quantity", _quantity, value, types.STRING, member=False),
            function("isQuantity", _is(_quantity), types.BOOL, types.STRING, member=False),
            versions("semver", _semver, value),
            versions("isSemver", _is(_semver), types.BOOL),
            function("compareTo", _compared, types.INT, value, value),
            function("isLessThan", lambda one, other: _compared(one, other) < 0, types.BOOL, value, value),
            function("isGreaterThan", lambda one, other: _compared(one, other) > 0, types.BOOL, value, value),
            function("sign", lambda one: (_number(one) > 0) - (_number(one) < 0), types.INT, value),
            function("isInteger", lambda one: _number(one) % 1 == 0, types.BOOL, value),
            function("asInteger", _as_integer, types.INT, value),
            function("asApproximateFloat", lambda one: float(_number(one)), types.DOUBLE, value),
            summed("add", 1),
            summed("sub", -1),
            function("major", lambda one: _parts(one)[0], types.INT, value),
            function("minor", lambda one: _parts(one)[1], types.INT, value),
            function("patch", lambda one: _parts(one)[2], types.INT, value),
        ],
    )


def _quantity(text: str) -> dict[str, str]:
    return {_QUANTITY: _plain(exact(text))}


def _semver(text: str, normalize: bool = False) -> dict[str, str]:  # noqa: FBT001, FBT002 -- as in Kubernetes
    """Return a version. `normalize`: allow a leading v, leading zeros, and a missing minor or patch number."""
    if normalize:
        numbers, mark, rest = text.removeprefix("v").partition("-" if "-" in text else "+")
        parts = [*numbers.split("."), "0", "0"][: max(3, numbers.count(".") + 1)]
        text = ".".join(each.lstrip("0") or "0" for each in parts) + mark + rest
    return {_SEMVER: _normal(text)}


def is_version(text: str) -> bool:
    """Return whether the text is a semantic version, as the API server requires of a device's attribute."""
    return _VERSION.fullmatch(text) is not None


def _normal(text: str) -> str:
    """Return a semantic version without its build metadata, which comparisons ignore."""
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is not a semantic version")
    return text.partition("+")[0]


def _is(parser: Callable[..., Any]) -> Callable[..., bool]:
    def parses(*arguments: Any) -> bool:
        try:
            parser(*arguments)
        except ValueError:
            return False
        return True

    return parses


def _plain(number: Decimal) -> str:
    return format(number.normalize(), "f")


def _number(value: Mapping[str, str]) -> Decimal:
    if _QUANTITY not in value:
        raise ValueError("not a quantity")
    return Decimal(value[_QUANTITY])


def _as_integer(value: Mapping[str, str]) -> int:
    number = _number(value)
    if number % 1:
        raise ValueError(f"{number} is not an integer")
    return int(number)


def _parts(value: Mapping[str, str]) -> tuple[int, int, int, tuple[tuple[int, int, str], ...]]:
    """Return a semantic version in the form by which versions are ordered (semver.org, section 11)."""
    found = _VERSION.fullmatch(value.get(_SEMVER, ""))
    if found is None:
        raise ValueError("not a semantic version")
    identifiers = found[4].split(".") if found[4] else []
    # A version without a pre-release is the highest. Numbers are below texts, and a longer list is above its prefix.
    pre_release = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in identifiers)
    return int(found[1]), int(found[2]), int(found[3]), pre_release or ((2, 0, ""),)


def _compared(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    """Return -1, 0 or 1: whether the first quantity or version is below, equal to, or above the other of its type."""
    read: Callable[[Mapping[str, str]], Any] = _number if _QUANTITY in one else _parts
    return int(read(one) > read(other)) - int(read(one) < read(other))
