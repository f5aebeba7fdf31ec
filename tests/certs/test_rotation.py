"""Rotation, with time travel.

CA 1   ─────────────────────────────┐ 8 months        (two thirds of a year)
CA 2                                ├─ introduced: both trusted, leaf still of CA 1
                                    ├─ + 2 min: leaf of CA 2
                                    └─ + 1 h: CA 1 forgotten
leaf   ──┬──┬──┬──  every 60 days   (two thirds of 90)
"""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.authority import AUTHORITY_LIFETIME, Pair, ServerNames, new_authority, service_names, verify
from certs.rotation import INTRODUCTION, RETIREMENT, Held, next_step

START = datetime(2027, 1, 1, tzinfo=UTC)
NAMES = service_names("phalanx-webhook", "phalanx-system")
FIRST = next_step(None, NAMES, START)
CA_DUE = START + AUTHORITY_LIFETIME * 2 / 3


def authorities(held: Held) -> int:
    return len(x509.load_pem_x509_certificates(held.bundle))


def held_until(when: datetime) -> Held:
    """What is held at `when` if somebody looked every day since the start."""
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
    "broken",
    [
        Held(b"", FIRST.authority_key, FIRST.leaf),
        Held(b"garbage", FIRST.authority_key, FIRST.leaf),
        Held(FIRST.bundle, b"", FIRST.leaf),
        Held(new_authority("other", START).certificate, FIRST.authority_key, FIRST.leaf),
        Held(FIRST.bundle, FIRST.authority_key, Pair(FIRST.leaf.certificate, FIRST.authority_key)),
        Held(FIRST.bundle, FIRST.authority_key, Pair(b"", b"")),
    ],
    ids=["no bundle", "bad bundle", "no key", "foreign authority", "foreign key", "no leaf"],
)
def test_what_does_not_fit_together_is_made_anew(broken: Held) -> None:
    made = next_step(broken, NAMES, START)
    verify(made.leaf.certificate, made.bundle, NAMES, START)


def test_everything_is_made_anew_after_a_year_of_sleep() -> None:
    later = START + timedelta(days=400)
    made = next_step(FIRST, NAMES, later)
    verify(made.leaf.certificate, made.bundle, NAMES, later)


def test_a_leaf_for_other_names_is_replaced() -> None:
    names = ServerNames(dns=("elsewhere.example.com",))
    verify(next_step(FIRST, names, START).leaf.certificate, FIRST.bundle, names, START)


@settings(max_examples=30, deadline=None)
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
