"""Texts of the page that functions of its script compute: durations, fits, domains and estimated starts."""

import re

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


def test_a_near_domain_tells_apart_what_fits_now_and_after_evictions() -> None:
    near = [
        "{fits: 42, needed: 60, fitsWithoutEvictions: 13}",
        "{fits: 3, needed: 4}",
        "{fits: 3, needed: 4, fitsWithoutEvictions: 3}",
    ]
    found = driven("words.mjs", "data.ts", f"[{','.join(near)}].map(module.fittingOf)")
    assert found == ["13 of 60 pods now, 42 after evictions", "3 of 4 pods", "3 of 4 pods"]


def test_the_largest_start_names_its_domain() -> None:
    named = '[["rack", ["s0", "rack-03"]], ["rack", ["s0", "r3"]], ["cluster", []]]'
    found = driven("words.mjs", "figures.ts", f"{named}.map(([level, path]) => module.domainOf(level, path))")
    assert found == ["rack-03", "rack r3", "cluster"]


def test_an_estimated_start_has_the_time_of_the_day() -> None:
    now = 'Date.parse("2026-11-21T12:00:00")'
    later, tomorrow = driven(
        "words.mjs",
        "phases.ts",
        f'["2026-11-21T14:13:00", "2026-11-22T14:13:00"].map((at) => module.freeAt(at, {now}))',
    )
    assert re.fullmatch(r"in 2 h 13 min \((14|0?2).13.*\)", later)
    assert tomorrow.startswith("in 1 d 2 h (")
    assert "22" in tomorrow
