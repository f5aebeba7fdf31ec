"""The restricted master problem: the shares of columns in its relaxation, its duals, and its cuts."""

import numpy as np
import pytest

from solver.multi_gang.column_generation.restricted_master import Column, GenerationEffort, LpSolution, RestrictedMaster


def column(gang: int, use: dict[int, int], *spread: int) -> Column:
    """A column on classes of which each is a domain of its own."""
    return Column(gang, use, use, spread)


def master(offered: list[list[int]], members: list[int], shapes: list[int] | None = None) -> RestrictedMaster:
    """Return the restricted master problem of gangs with these numbers of members.

    A member of the second shape takes the capacity of two members of the first.

    :param shapes: the shape of each gang; None: the first shape for all gangs.
    """
    displaced = np.array([[1, 0], [2, 1]])[: len(offered), : len(offered)]
    room = np.array(offered)
    return RestrictedMaster(
        displaced, room, np.arange(room.shape[1]), shapes or [0] * len(members), members, GenerationEffort()
    )


def found_by(each: RestrictedMaster, level: int) -> LpSolution:
    """The relaxation, which there must be."""
    found = each.solve_relaxation(level)
    assert found is not None
    return found


def taken(relaxation: LpSolution) -> list[tuple[int, dict[int, int], float]]:
    """Return the columns of a relaxation: gang, capacity by class of nodes, and the share of the column."""
    return sorted((each.gang, dict(each.use), round(share, 6)) for each, share in relaxation.shares)


def two_on_one_class() -> tuple[RestrictedMaster, list[Column]]:
    """Two gangs of two want class 0, which has room for one of them; class 1 is twice as far."""
    both = master([[2, 2]], [2, 2])
    columns = [column(gang, {place: 2}, 1, 1 + place) for gang in (0, 1) for place in (0, 1)]
    both.extend(columns)
    return both, columns


def test_what_all_want_has_a_price() -> None:
    both, _ = two_on_one_class()
    relaxation = found_by(both, 1)
    assert relaxation.cost == 3
    assert relaxation.room.tolist() == [[pytest.approx(0.5), 0.0]]
    assert sum(share for each, share in relaxation.shares if 0 in each.use) == pytest.approx(1)


def test_a_column_is_taken_whole_until_it_is_unfixed() -> None:
    both, columns = two_on_one_class()
    for gang in (0, 1):
        both.fix(columns[2 * gang])
        assert taken(found_by(both, 1)) == [(gang, {0: 2}, 1.0), (1 - gang, {1: 2}, 1.0)][:: 1 - 2 * gang]
        both.unfix()
    both.fix(columns[0])
    both.fix(columns[2])
    assert both.solve_relaxation(1) is None
    both.unfix()
    assert found_by(both, 1).cost == 3


def test_who_has_no_bid_is_left_out_at_a_high_price_until_there_is_one() -> None:
    alone = master([[4]], [3])
    assert found_by(alone, 1).cost == 18
    assert taken(found_by(alone, 1)) == []
    alone.extend([column(0, {0: 3}, 1, 2)])
    assert found_by(alone, 1).cost == 2


def test_what_is_held_of_a_level_has_a_price_on_the_next() -> None:
    """The plan in one rack needs three nodes, that in two racks one."""
    alone = master([[4, 4]], [3])
    columns = [column(0, {0: 3}, 1, 3), column(0, {0: 2, 1: 1}, 2, 1)]
    alone.extend(columns)
    assert found_by(alone, 0).cost == 1
    assert found_by(alone, 1).cost == 1
    alone.constrain_level(0, 1)
    relaxation = found_by(alone, 1)
    assert relaxation.cost == 3
    assert relaxation.held[0] >= 2
    assert alone.values == [1]
    alone.extend([*columns, column(0, {1: 3}, 1, 2), column(0, {0: 1, 1: 2}, 2, 0)])
    assert found_by(alone, 1).cost == 2


def test_a_member_takes_the_room_of_the_smaller_ones() -> None:
    """One large and two small members fit on either class, but not all four on one."""
    both = master([[4, 4], [2, 2]], [2, 1], [0, 1])
    both.extend([column(0, {0: 2}, 1), column(0, {1: 2}, 2), column(1, {0: 1}, 1), column(1, {1: 1}, 2)])
    assert found_by(both, 0).cost == 2
    narrow = master([[3, 3], [1, 1]], [2, 1], [0, 1])
    narrow.extend([column(0, {0: 2}, 1), column(0, {1: 2}, 2), column(1, {0: 1}, 1), column(1, {1: 1}, 2)])
    relaxation = found_by(narrow, 0)
    assert relaxation.cost == 3
    assert (relaxation.room >= 0).all()
    assert relaxation.room[0, 0] == pytest.approx(0.5)
    assert (relaxation.room[:, 1] == 0).all()


def test_of_plans_for_more_than_half_of_the_room_one_is_taken_once_it_is_cut() -> None:
    """Class 0 has capacity for three members: one and a half gangs in the relaxation."""
    three = master([[3, 9]], [2, 2])
    columns = [column(gang, {place: 2}, 1, 1 + place) for gang in (0, 1) for place in (0, 1)]
    three.extend(columns)
    halves = found_by(three, 1)
    assert sum(share for each, share in halves.shares if 0 in each.use) == pytest.approx(1.5)
    assert three.cut(halves)
    whole = found_by(three, 1)
    assert sum(share for each, share in whole.shares if 0 in each.use) == pytest.approx(1)
    assert [*whole.cuts.values()] == [pytest.approx(1)]
    assert not three.cut(whole)
    three.extend([*columns, column(0, {0: 2}, 1, 0), column(1, {0: 2}, 1, 0)])
    assert sum(share for each, share in found_by(three, 1).shares if 0 in each.use) == pytest.approx(1)


def test_every_solve_is_paid_for_by_the_bids_in_it() -> None:
    both, columns = two_on_one_class()
    before = both.effort.left
    found_by(both, 1)
    assert before - both.effort.left == 2 * len(columns)
    found_by(both, 1)
    assert before - both.effort.left == 3 * len(columns)
    both.effort.over = lambda: True
    assert both.solve_relaxation(1) is None
    both.effort = GenerationEffort(-1)
    assert both.solve_relaxation(1) is None


def test_a_class_gets_one_row_however_often_it_is_asked_for() -> None:
    """Columns that come later count in it, too."""
    both, columns = two_on_one_class()
    found_by(both, 1)
    columns += [column(gang, {0: 2}, 1, 0) for gang in (0, 1)]
    both.extend(columns)
    before = both.effort.left
    relaxation = found_by(both, 1)
    assert before - both.effort.left == len(columns)
    assert sum(share for each, share in relaxation.shares if 0 in each.use) == pytest.approx(1)
    assert relaxation.cost == 2
