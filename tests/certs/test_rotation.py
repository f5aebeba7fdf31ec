"""Rotation, with time travel.

CA 1   ─────────────────────────────┐ 8 months        (two thirds of a year)
CA 2                                ├─ introduced: both trusted, leaf still of CA 1
                                    ├─ + 2 min: leaf of CA 2
                                    └─ + 1 h: CA 1 removed
leaf   ──┬──┬──┬──  every 60 days   (two thirds of 90)
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.authority import AUTHORITY_LIFETIME, Pair, ServerNames, new_authority, service_names, verify
from certs.rotation import DEFAULT_SCHEDULE, MOST_TRUSTED, Held, Schedule, next_step

INTRODUCTION, RETIREMENT = DEFAULT_SCHEDULE.introduction, DEFAULT_SCHEDULE.retirement
START = datetime(2027, 1, 1, tzinfo=UTC)
NAMES = service_names("phalanx-webhook", "phalanx-system")
FIRST = next_step(None, NAMES, START)
OTHER = next_step(None, NAMES, START)
CA_DUE = START + AUTHORITY_LIFETIME * 2 / 3


def authorities(held: Held) -> int:
    return len(x509.load_pem_x509_certificates(held.bundle))


def held_until(when: datetime) -> Held:
    """Return the certificates at `when` if the rotation ran every day since the start."""
    held, now = FIRST, START
    while now < when:
        held = next_step(held, NAMES, now)
        now += timedelta(days=1)
    return next_step(held, NAMES, when)


def test_the_first_step_makes_a_pair_that_verifies() -> None:
    verify(FIRST.leaf.certificate, FIRST.bundle, NAMES, START)


def test_nothing_is_due_before_two_thirds_of_a_leafs_life() -> None:
    assert next_step(FIRST, NAMES, START + timedelta(days=59)) is FIRST


def test_a_leaf_is_renewed_under_the_same_authority() -> None:
    renewed = next_step(FIRST, NAMES, START + timedelta(days=61))
    assert renewed.bundle == FIRST.bundle
    assert renewed.leaf != FIRST.leaf


def test_an_authority_is_introduced_then_used_then_the_old_one_retired() -> None:
    before = held_until(CA_DUE - timedelta(days=1))
    made = CA_DUE + timedelta(days=1)
    introduced = next_step(before, NAMES, made)
    waiting = next_step(introduced, NAMES, made + INTRODUCTION - timedelta(seconds=1))
    switched = next_step(introduced, NAMES, made + INTRODUCTION)
    still_trusted = next_step(switched, NAMES, made + INTRODUCTION + RETIREMENT - timedelta(seconds=1))
    retired = next_step(switched, NAMES, made + INTRODUCTION + RETIREMENT)
    assert (authorities(introduced), introduced.leaf == before.leaf) == (2, True)
    assert waiting is introduced
    assert (authorities(switched), switched.leaf != before.leaf) == (2, True)
    assert still_trusted is switched
    assert (authorities(retired), retired.leaf == switched.leaf) == (1, True)


@pytest.mark.parametrize(
    ("broken", "the_authority_stays"),
    [
        (Held(b"", FIRST.authority_key, FIRST.leaf), False),
        (Held(b"garbage", FIRST.authority_key, FIRST.leaf), False),
        (Held(FIRST.bundle, b"", FIRST.leaf), False),
        (Held(FIRST.leaf.certificate, FIRST.leaf.key, FIRST.leaf), False),
        (Held(new_authority("other", START).certificate, FIRST.authority_key, FIRST.leaf), False),
        (Held(FIRST.bundle, FIRST.authority_key, Pair(FIRST.leaf.certificate, FIRST.authority_key)), True),
        (Held(FIRST.bundle, FIRST.authority_key, Pair(FIRST.leaf.certificate, b"")), True),
        (Held(FIRST.bundle, FIRST.authority_key, Pair(FIRST.bundle, FIRST.authority_key)), True),
        (Held(FIRST.bundle, FIRST.authority_key, OTHER.leaf), True),
        (Held(FIRST.bundle, FIRST.authority_key, Pair(b"", b"")), True),
    ],
    ids=[
        "no bundle",
        "bad bundle",
        "no key",
        "a leaf as authority",
        "foreign authority",
        "foreign key",
        "half a pair",
        "an authority as leaf",
        "foreign leaf",
        "no leaf",
    ],
)
def test_what_does_not_fit_together_is_made_anew(broken: Held, *, the_authority_stays: bool) -> None:
    """If the authority is intact, only the leaf is recreated: then no client has to trust a new authority."""
    made = next_step(broken, NAMES, START)
    verify(made.leaf.certificate, made.bundle, NAMES, START)
    assert (made.bundle == FIRST.bundle) == the_authority_stays


def test_a_lost_authority_stays_trusted_until_nobody_shows_its_leaf() -> None:
    """Replicas serve the old leaf until they have read the new one. Until then, clients trust both authorities."""
    later = START + timedelta(days=1)
    made = next_step(None, NAMES, later, trusted=FIRST.bundle)
    verify(made.leaf.certificate, made.bundle, NAMES, later)
    verify(FIRST.leaf.certificate, made.bundle, NAMES, later)
    retired = next_step(made, NAMES, later + RETIREMENT)
    assert (authorities(retired), retired.leaf) == (1, made.leaf)


@pytest.mark.parametrize(
    ("trusted", "count"),
    [
        (b"", 1),
        (b"garbage", 1),
        (new_authority("somebody else", START).certificate, 1),
        (next_step(None, NAMES, START - timedelta(days=500)).bundle, 1),
        (FIRST.bundle + FIRST.bundle, 2),
        (b"".join(next_step(None, NAMES, START).bundle for _ in range(9)), MOST_TRUSTED),
    ],
    ids=["nothing", "garbage", "a foreign authority", "one that has ended", "the same twice", "nine"],
)
def test_only_living_authorities_of_our_own_stay_trusted(trusted: bytes, count: int) -> None:
    assert authorities(next_step(None, NAMES, START, trusted=trusted)) == count


def test_no_authority_is_introduced_while_another_one_is_retired() -> None:
    """Otherwise the bundle would lose an authority whose leaf a server may still show.

    With the schedule of this test a renewal is always due.
    """
    hasty = Schedule(renewal=0.0, introduction=timedelta(minutes=1), retirement=timedelta(minutes=5))
    held, now, counts = FIRST, START, []
    for _ in range(200):
        after = next_step(held, NAMES, now, hasty)
        verify(held.leaf.certificate, after.bundle, NAMES, now)
        counts.append(authorities(after))
        held, now = after, now + timedelta(seconds=20)
    assert max(counts) == 2


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"renewal": 1.0}, "renewal .1. must be a share"),
        ({"introduction": timedelta(seconds=-1)}, "must not be negative"),
        ({"leaf_lifetime": timedelta(days=366)}, "must not live longer than their authority"),
        ({"leaf_lifetime": timedelta(hours=3)}, "must be over within"),
    ],
    ids=["never", "before it began", "longer than its authority", "too short for the steps"],
)
def test_times_that_contradict_each_other_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Schedule(**settings)


def test_a_schedule_is_kept() -> None:
    quick = Schedule(timedelta(days=30), timedelta(days=3), timedelta(hours=1), timedelta(hours=2))
    made = next_step(None, NAMES, START, quick)
    assert next_step(made, NAMES, START + timedelta(days=1, hours=23), quick) is made
    renewed = next_step(made, NAMES, START + timedelta(days=2), quick)
    assert renewed.leaf != made.leaf
    introduced = next_step(renewed, NAMES, START + timedelta(days=20), quick)
    assert authorities(introduced) == 1, "the leaf had ended long before: it comes first"
    introduced = next_step(introduced, NAMES, START + timedelta(days=20), quick)
    assert authorities(introduced) == 2


def test_everything_is_made_anew_after_a_year_of_sleep() -> None:
    later = START + timedelta(days=400)
    made = next_step(FIRST, NAMES, later)
    verify(made.leaf.certificate, made.bundle, NAMES, later)


def test_a_leaf_for_other_names_is_replaced() -> None:
    names = ServerNames(dns=("elsewhere.example.com",))
    verify(next_step(FIRST, names, START).leaf.certificate, FIRST.bundle, names, START)


@settings(max_examples=30)
@given(pauses=st.lists(st.integers(min_value=1, max_value=25 * 24 * 60), min_size=1, max_size=60))
def test_what_was_served_before_a_step_is_trusted_after_it_whenever_somebody_looks(pauses: list[int]) -> None:
    """Pauses are minutes between looks, up to 25 days: less than the third of a leaf's life that is spare."""
    held, now = FIRST, START
    for pause in pauses:
        now += timedelta(minutes=pause)
        after = next_step(held, NAMES, now)
        verify(held.leaf.certificate, held.bundle, NAMES, now)
        verify(after.leaf.certificate, after.bundle, NAMES, now)
        if pause <= RETIREMENT.total_seconds() / 60:
            verify(held.leaf.certificate, after.bundle, NAMES, now)
            verify(after.leaf.certificate, held.bundle, NAMES, now)
        held = after
