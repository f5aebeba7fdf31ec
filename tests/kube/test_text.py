"""Text of users stays on one line and contains no control sequences of a terminal."""

import pytest

from kube.text import one_line, one_line_each, with_article

FORGED = "x\n2026-11-22 00:00:00,000 WARNING controller.leadership.election: FORGED\x1b[2J\x1b[31mRED"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('plain, with an … and "quotes"', 'plain, with an … and "quotes"'),
        ("ein Größenmaß", "ein Größenmaß"),
        (FORGED, r"x\n2026-11-22 00:00:00,000 WARNING controller.leadership.election: FORGED\x1b[2J\x1b[31mRED"),
        ("a\rb\tc\x00d\x7fe\x9bf", r"a\rb\tc\x00d\x7fe\x9bf"),
        ("a\u2028b\u202ec\u2066d", r"a\u2028b\u202ec\u2066d"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_an_escape(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_data_is_cleaned_to_its_leaves() -> None:
    assert one_line_each({"a\n": ["b\n", 1, None, {"c": True}]}) == {r"a\n": [r"b\n", 1, None, {"c": True}]}


@pytest.mark.parametrize(
    "said",
    ["a Job", "an AppWrapper", "an MPIJob", "a TFJob", "an XGBoostJob", "a JAXJob", "a RayCluster", "a UserJob", "a "],
)
def test_a_kind_has_its_article(said: str) -> None:
    assert with_article(said.partition(" ")[2]) == said
