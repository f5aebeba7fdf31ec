"""Texts of the page that functions of its script compute: durations."""

import pytest
from browsing import driven

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        pytest.param(
            "lasting",
            {
                -5: "0 s",
                0.4: "0 s",
                59.9: "59 s",
                MINUTE: "1 min",
                MINUTE + 9: "1 min 9 s",
                10 * MINUTE + 59: "10 min",
                HOUR + 56 * MINUTE + 7: "1 h 56 min",
                12 * HOUR + 59 * MINUTE: "12 h",
                DAY + 23 * HOUR: "1 d 23 h",
                30 * DAY + HOUR: "30 d",
            },
            id="a second unit stands beside a number below ten",
        ),
        pytest.param(
            "briefly",
            {-5: "0 s", 59.9: "59 s", HOUR + 56 * MINUTE: "1 h", DAY + 23 * HOUR: "1 d"},
            id="the largest unit alone",
        ),
    ],
)
def test_durations(function: str, texts: dict[float, str]) -> None:
    found = driven("words.mjs", "phases.ts", f"{list(texts)}.map(module.{function})")
    assert dict(zip(texts, found, strict=True)) == texts
