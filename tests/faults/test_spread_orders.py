"""Hard topology spread is counted with all members placed: a domain that is too full for the first member may take a
later one.
"""

from pathlib import Path

import pytest
from solving import solved

FILES = Path(__file__).parent / "binding_order"

PLANS = {
    "spread_needless_eviction": ("3 pods fit in b1 and b2: n1, n3, proven optimal", 0),
    "spread_wrong_infeasible": ("2 pods fit in r1 and r3: n2..3, after evicting default/v2, proven optimal", 0),
}


@pytest.mark.parametrize(("name", "plan"), PLANS.items(), ids=PLANS)
def test_a_domain_takes_a_member_once_its_siblings_have_filled_the_others(name: str, plan: tuple[str, int]) -> None:
    answer = solved(FILES / f"{name}.yaml")
    message = answer.report.splitlines()[1].strip()
    assert (message, answer.status) == plan
