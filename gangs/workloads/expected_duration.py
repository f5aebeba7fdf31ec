"""The annotation `phalanx.dev/expected-duration`: how long a gang is expected to run. It is used for estimates only."""

import re
from collections.abc import Mapping

from gangs.findings import Findings
from gangs.model import ObjectRef
from kube.keys import EXPECTED_DURATION

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,6}}){unit})?" for unit in _UNITS))
"""The pattern of a duration: an optional number of each unit, the largest unit first. It also matches ""."""


def seconds_in(text: str) -> int | None:
    """Return the seconds of a duration such as 1d12h, 2h30m or 90s; None for any other text, and for 0 seconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    return sum(int(count) * _UNITS[unit] for unit, count in found.groupdict().items() if count) or None


def expected_seconds(annotations: Mapping[str, str]) -> int | None:
    """Return how many seconds a workload with these annotations is expected to run.

    Return None if the annotation `phalanx.dev/expected-duration` is absent or malformed.
    """
    return seconds_in(annotations.get(EXPECTED_DURATION, ""))


def check(ref: ObjectRef, annotations: Mapping[str, str], findings: Findings) -> None:
    """Report, as advice only, a value of the annotation `phalanx.dev/expected-duration` that is no duration.

    It is no fault, because scheduling does not depend on it.
    """
    value = annotations.get(EXPECTED_DURATION)
    if value is not None and seconds_in(value) is None:
        at = f"metadata.annotations[{EXPECTED_DURATION}]"
        findings.advise(ref, at, f'is ignored: "{value}" is no duration such as 2h30m, 45m or 1d12h')
