"""Members beyond the minimum without a node: the message says which gang took the nodes, not rules the gang lacks."""

from pathlib import Path

from solving import solved

FILES = Path(__file__).parent / "planned_together"


def test_a_gang_without_rules_is_told_which_gang_took_the_nodes() -> None:
    message = solved(FILES / "extras_message_own_rules.yaml").report.splitlines()[1].strip()
    assert message == (
        "1 of 3 pods fits on n1, proven optimal, 2 more find no room "
        "(2 nodes: taken by gang default/b, 1 node: Insufficient nvidia.com/gpu)"
    )
