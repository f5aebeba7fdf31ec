"""Messages as typed parts: with names, without names, and without counts."""

import scenes

from planning.message import Count, Message, Names, Shortfall, joined, listed

BUDGET = Names("limited by PodDisruptionBudget ns/a", "limited by 1 PodDisruptionBudget")


def test_a_message_renders_with_and_without_names() -> None:
    reasons = ((Names("taken by gang ns/b", "taken by another gang"), 2), ("Insufficient cpu", 1))
    message = joined("; ", (Message.of("needs 2 pods", Shortfall(1, reasons)), BUDGET))
    text = "needs 2 pods, 1 more finds no room (2 nodes: {}, 1 node: Insufficient cpu); limited by {}"
    assert str(message) == text.format("taken by gang ns/b", "PodDisruptionBudget ns/a")
    assert message.nameless == text.format("taken by another gang", "1 PodDisruptionBudget")


def test_another_count_is_the_same_topic_and_another_name_is_not() -> None:
    def waits(exist: int, name: str) -> Message:
        more = Message.of(Count(f"{4 - exist} more pods"), ": ", Count(f"{exist} of 4"), " exist")
        return Message.of("waits for ", listed([name, more]))

    assert str(waits(2, "Topology t")) == "waits for Topology t and 2 more pods: 2 of 4 exist"
    assert waits(2, "Topology t").topic == waits(1, "Topology t").topic
    assert waits(2, "Topology t").topic != waits(2, "Topology u").topic


def test_no_name_leaves_a_part_behind_that_begins_with_another_name() -> None:
    """Gang llm has room for one of three pods: the gangs default/b and default/b2 take a node each."""
    run = scenes.solved(
        [scenes.topology(), *scenes.nodes("s/b: node-0 node-1 node-2")],
        scenes.gang("llm", minMember=1),
        scenes.members(3, "llm"),
        *((scenes.gang(name, minMember=1), *scenes.members(1, name)) for name in ("b", "b2")),
    )
    (llm,) = (each for each in run.decisions if each.key.name == "llm")
    assert llm.message.endswith("1 node: taken by gang default/b, 1 node: taken by gang default/b2)")
    assert llm.line.nameless.endswith("1 node: taken by another gang, 1 node: taken by another gang)")
