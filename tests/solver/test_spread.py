"""Topology spread among the members, planned and not checked afterwards."""

from drawings import Drawing, placed, pods, refused, rows

from solver.problem import Spread

TWO_ZONES = Drawing("b0: a=4 b=4\nb1: c=4 d=4")
ZONES = ("x", "x", "y", "y")


def spread(skew: int = 1, counts: dict[str, int] | None = None, **rules: bool) -> Spread:
    return Spread((0,), (0,), ZONES, counts or {"x": 0, "y": 0}, skew, **rules)


def test_four_pods_are_two_and_two_though_one_node_holds_them_all() -> None:
    problem = TWO_ZONES.gang(pods(4), spreads=(spread(),))
    assert rows(problem, placed(problem)) == ["a a c c"]


def test_a_skew_of_two_lets_one_zone_have_three() -> None:
    problem = TWO_ZONES.gang(pods(4), spreads=(spread(2),))
    assert rows(problem, placed(problem)) == ["a a a c"]


def test_pods_that_are_there_count() -> None:
    """Zone x has three others: four go to y, and then x may have more."""
    problem = TWO_ZONES.gang(pods(4), spreads=(spread(counts={"x": 3, "y": 0}),))
    assert rows(problem, placed(problem)) == ["c c c c"]
    problem = TWO_ZONES.gang(pods(6), spreads=(spread(counts={"x": 3, "y": 0}),))
    assert rows(problem, placed(problem)) == ["a a c c c c"]


def test_a_zone_without_a_node_here_stays_the_emptiest() -> None:
    """At most one pod in each of the others."""
    counts = {"x": 0, "y": 0, "z": 0}
    problem = TWO_ZONES.gang(pods(2), spreads=(spread(counts=counts),))
    assert rows(problem, placed(problem)) == ["a c"]
    answer = refused(TWO_ZONES.gang(pods(3), spreads=(spread(counts=counts),)))
    assert "topology spread dropped" in answer.would_fit_if


def test_too_few_zones_count_as_one_that_is_empty() -> None:
    refused(TWO_ZONES.gang(pods(4), spreads=(spread(from_zero=True),)))


def test_members_that_run_already_count_and_stay() -> None:
    problem = TWO_ZONES.gang(pods(4, held={0: 0, 1: 0}), spreads=(spread(),))
    assert rows(problem, placed(problem)) == ["a a c c"]
