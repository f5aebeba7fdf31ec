"""State machine of the release protocol: leaders read late, fail between two writes and die, in every order.

A gang ends whole or back at the start. No member is released, and no victim evicted, before the whole gang has its
reserved capacity.
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from protocol_world import HIGH, LOW, NODES, OURS, SIZE, Look, Thing, World, sound, writes

from controller.release.next_step import AwaitBinding, NeedPlan

LEADERS = st.integers(0, 1)
_CALM = 30
"""Rounds of a single leader after which everything has come to rest."""


class Releases(RuleBasedStateMachine):
    """Two leaders, a scheduler, and other users."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.looks: list[Look | None] = [None, None]

    @initialize(low=st.sets(st.sampled_from(NODES)), members=st.integers(1, SIZE))
    def begin(self, low: set[str], members: int) -> None:
        """Some nodes have pods of low priority, and members have come."""
        for node in sorted(low):
            self.world.add("low-", bound=node, priority=LOW)
        for _ in range(members):
            self.world.add("m", gated=True)

    @rule()
    def go_on(self) -> None:
        """A leader reads the cluster, and all its writes arrive."""
        self.carry_out(self.world.look())

    @rule(mask=st.integers(0, 7))
    def go_on_in_part(self, mask: int) -> None:
        """A leader reads the cluster, and some of its writes arrive. Others fail, or the leader dies between them."""
        self.carry_out(self.world.look(), mask)

    @rule(who=LEADERS)
    def look(self, who: int) -> None:
        """A leader reads the cluster. Its writes may come much later."""
        self.looks[who] = self.world.look()

    @rule(who=LEADERS, mask=st.integers(0, 7))
    def write_late(self, who: int, mask: int) -> None:
        """Carry out some of the writes that follow from the leader's earlier read."""
        look, self.looks[who] = self.looks[who], None
        if look is not None:
            self.carry_out(look, mask)

    def carry_out(self, look: Look, mask: int = 7) -> None:
        """The record first: without it nothing of a new plan is written."""
        assert sound(look) == ""
        if look.plan is not None or isinstance(look.step, NeedPlan):
            if self.world.record != look.record:
                return
            self.world.record = look.plan
        for number, each in enumerate(writes(look)):
            if mask >> (number % 3) & 1:
                self.world.write(each)

    @precondition(lambda self: len(self.world.members()) < SIZE)
    @rule()
    def come(self) -> None:
        """A new member is created, or a replacement of a member."""
        self.world.add("m", gated=True)

    @precondition(lambda self: self.world.members())
    @rule(number=st.integers(0, SIZE - 1))
    def lose_a_member(self, number: int) -> None:
        """A member is deleted."""
        lost = self.world.members()[number % len(self.world.members())]
        self.world.robbed |= bool(lost.let_go)
        del self.world.things[lost.name]

    @rule(node=st.sampled_from(NODES), priority=st.sampled_from([LOW, OURS, HIGH]))
    def bind_another(self, node: str, priority: int) -> None:
        """The scheduler binds a pod to a node that is free, but for nominations of a lower priority than the pod's."""
        holders = [each for each in self.world.members() if node in (each.nominated, each.let_go) and not each.bound]
        if self.world.on(node) or (priority < HIGH and any(each.nominated for each in holders)):
            return
        self.world.robbed |= any(each.let_go for each in holders)
        self.world.add("x", bound=node, priority=priority)

    @rule(node=st.sampled_from(NODES))
    def end_another(self, node: str) -> None:
        """A pod outside the gang begins to end, or has ended."""
        for each in self.world.on(node):
            if not each.ours and each.ending:
                del self.world.things[each.name]
            elif not each.ours:
                self.world.things[each.name] = replace(each, ending=True)

    @rule(number=st.integers(0, SIZE - 1), found=st.booleans())
    def schedule(self, number: int, *, found: bool = True) -> None:
        """The scheduler tries a released member. It binds the member, or takes its nomination away.

        It takes the nomination away for lack of capacity or for another reason.
        """
        free = [each for each in self.world.members() if each.let_go and not each.bound]
        if not free:
            return
        each = free[number % len(free)]
        if self.world.on(each.let_go) or not found:
            self.world.things[each.name] = replace(each, nominated="")
        else:
            self.world.things[each.name] = replace(each, bound=each.let_go, nominated="")

    @invariant()
    def no_node_is_given_twice(self) -> None:
        """Released members are pinned to nodes of their own."""
        nodes = [each.bound or each.let_go for each in self.world.members() if each.let_go]
        assert len(set(nodes)) == len(nodes)

    def teardown(self) -> None:
        """After a calm period the gang is whole or at the start. Without other pods the gang is whole in any case."""
        self.calm()
        assert self.whole() or self.at_the_start() or (self.world.robbed and self.told())
        for each in [each for each in self.world.things.values() if not each.ours]:
            del self.world.things[each.name]
        self.calm()
        assert self.whole(), (self.world.things, self.world.record, self.world.look().step)

    def calm(self) -> None:
        """Let one leader's writes arrive, let the scheduler try all pods, and let ending pods end."""
        for _ in range(_CALM):
            while len(self.world.members()) < SIZE:
                self.world.add("m", gated=True)
            self.carry_out(self.world.look())
            for each in [each for each in self.world.things.values() if each.ending]:
                del self.world.things[each.name]
            self.room_is_held_until_bound()
            for number in range(SIZE):
                self.schedule(number)

    def room_is_held_until_bound(self) -> None:
        """A released member that can be bound has its nomination, or gets it once its siblings are released."""
        for _ in range(2):
            look = self.world.look()
            self.carry_out(look)
        for each in self.world.members():
            if each.let_go and not each.bound and not self.world.on(each.let_go):
                record = self.world.record
                known = record is not None and record.node_of(f"uid-{each.name}") == each.let_go
                assert each.nominated or not known or isinstance(look.step, NeedPlan), look.step

    def whole(self) -> bool:
        """Whether all run."""
        return len(self.world.members()) == SIZE and all(each.bound for each in self.world.members())

    def at_the_start(self) -> bool:
        """Return whether all members are gated without reserved capacity, except those lost to other pods."""
        waiting = [each for each in self.world.members() if not each.bound]
        return all(each.gated and not each.nominated for each in waiting) and (
            len(waiting) == SIZE or self.world.robbed
        )

    def told(self) -> bool:
        """Return whether the leader reports all members that have lost their reserved capacity."""
        look = self.world.look()
        stuck = [each for each in self.world.members() if each.let_go and not each.bound]
        gated: list[Thing] = [each for each in self.world.members() if each.gated]
        return bool(gated) or (isinstance(look.step, AwaitBinding) and len(look.step.stranded) == len(stuck))


_FEW = settings(
    max_examples=20,
    stateful_step_count=30,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_a_release_keeps_its_promises() -> None:
    run_state_machine_as_test(Releases, settings=_FEW)


@pytest.mark.thorough
def test_many_releases_keep_their_promises() -> None:
    run_state_machine_as_test(Releases, settings=settings(_FEW, max_examples=50))
