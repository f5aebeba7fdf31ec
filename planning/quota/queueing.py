"""Plans a gang of a queue: chooses its flavors, and leaves out members for which the quota does not suffice.

If no choice of flavors succeeds, the decision says what the gang waits for.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cluster.selectors import selects
from cluster.snapshot import Snapshot
from gangs.held_nodes import held_node, holding
from gangs.model import Gang, Member
from gangs.quota_model import Account
from kube.quantities import written
from planning.decision import Decision, Outcome, WaitReason
from planning.message import Count, Message, joined
from planning.messages.wording import gangs, listed
from planning.quota.flavors import Choice, choices, in_flavors, names_of, obstacle
from planning.quota.usage import NO_USAGE, QuotaBalance, Usage, needs, used_by
from solver.plan import Proof


@dataclass(frozen=True, slots=True)
class _Tried:
    """A failed attempt to plan a gang in one choice of flavors.

    `line`: the reason, as a message. `decision`: the planner's rejection if the quota sufficed. `never`: the choice
    would fail even in an empty cluster. `exhausted`: other gangs use the quota that the gang needs.
    """

    line: Message
    decision: Decision | None = None
    never: bool = False
    exhausted: bool = False


def decide_in_queue(gang: Gang, usage: Usage, snapshot: Snapshot, plan: Callable[[Gang], Decision]) -> Decision:
    """Return the decision for a gang of a queue, in the first choice of flavors in which both quota and plan succeed.

    Choices are tried in the queue's order. Members beyond the minimum for which the quota does not suffice are left
    out. A gang that runs in part stays in its flavors. `plan`: plans a gang without regard to queues.
    """
    account = gang.account
    if account is None:
        return plan(gang)
    if reason := _shut_out(gang, account, snapshot):
        return _waits(gang, reason)
    tried: list[_Tried] = []
    for choice in _choices(gang, account):
        found = _try(gang, account, choice, usage.without(gang.key), plan)
        if isinstance(found, Decision):
            return found
        tried.append(found)
    return _refused(gang, account, tried)


def open_choices(gang: Gang, snapshot: Snapshot) -> list[tuple[Choice, Gang]]:
    """Return the choices of flavors in which the gang may be planned, in the queue's order, each with the gang in it.

    Free quota and nodes are not considered. Empty if the queue does not accept the gang, or if the gang can use no
    flavor. A gang without a queue has one empty choice.
    """
    account = gang.account
    if account is None:
        return [({}, gang)]
    if _shut_out(gang, account, snapshot):
        return []
    found = []
    for choice in _choices(gang, account):
        flavors = [account.flavor(name) for name in names_of(choice)]
        if not obstacle(gang, flavors):
            found.append((choice, in_flavors(gang, flavors)))
    return found


def within_quota(gang: Gang, choice: Choice, placed: Sequence[Member], usage: Usage) -> Sequence[Member]:
    """Return the placed members of a gang, and each further member for which the remaining quota suffices.

    Each further member is checked as if it were the only one. `usage`: the quota that all gangs use, including the
    placed members.
    """
    account = gang.account
    if account is None or len(placed) == len(gang.members):
        return gang.members
    shared = account.cohort, account.cohorts
    left = {name: QuotaBalance(account.queue, flavor, name, *shared).left(usage) for name, flavor in choice.items()}
    chosen = {id(member) for member in placed}
    return [
        member
        for member in gang.members
        if id(member) in chosen or all(needs([member]).get(name, 0) <= amount for name, amount in left.items())
    ]


def in_choice(decision: Decision, gang: Gang, choice: Choice) -> Decision:
    """Return the decision of a gang that was planned in a choice of flavors. In the result, the gang has its queue
    again, which the planned gang lacks.

    The message of a plan also names the flavors, and the members for which the quota does not suffice.
    """
    account = gang.account
    if account is None or decision.outcome is not Outcome.PLACED:
        return replace(decision, gang=gang)
    beyond = len(gang.members) - len(decision.gang.members) if decision.gang is not None else 0
    more = f", {beyond} more {'is' if beyond == 1 else 'are'} not covered by the quota" if beyond else ""
    line = decision.line + f"{more}, {_where(account, choice)}"
    return replace(decision, gang=gang, line=line, flavors=names_of(choice))


def _where(account: Account, choice: Choice) -> str:
    return f"flavor {' and '.join(names_of(choice))} of ClusterQueue {account.queue.name}"


def charged(decision: Decision, usage: Usage) -> Usage:
    """Return the quota that all gangs use after the decision's plan has been carried out."""
    gang = decision.gang
    if gang is None or gang.account is None or decision.outcome is not Outcome.PLACED:
        return usage
    members = [each.member for each in decision.assignments]
    for choice in choices(gang.account.queue, needs(members)):
        if set(names_of(choice)) == set(decision.flavors):
            return usage.having(gang.key, used_by(gang, members, choice))
    return usage


def still_covered(decision: Decision, usage: Usage) -> bool:
    """Whether the quota that a plan needs is still free: in the queue itself, or to be borrowed."""
    gang = decision.gang
    if gang is None or gang.account is None:
        return True
    account, others = gang.account, usage.without(gang.key)
    members = [each.member for each in decision.assignments]
    for choice in choices(account.queue, needs(members)):
        if set(names_of(choice)) == set(decision.flavors):
            shared = account.cohort, account.cohorts
            balances = {name: QuotaBalance(account.queue, flavor, name, *shared) for name, flavor in choice.items()}
            return all(needs(members)[name] <= balance.left(others) for name, balance in balances.items())
    return False


def takes_namespace(account: Account, namespace: str, snapshot: Snapshot) -> bool:
    """Whether the ClusterQueue's `namespaceSelector` accepts gangs of this namespace."""
    labels = {"kubernetes.io/metadata.name": namespace, **snapshot.namespaces.get(namespace, {})}
    return selects(account.queue.namespaces, labels)


def _shut_out(gang: Gang, account: Account, snapshot: Snapshot) -> str:
    """Return what the gang waits for before its queue can accept it; "" if the queue accepts it.

    The queue must accept the namespace and have a quota for each requested resource. The devices of all members must be
    counted.
    """
    queue, namespace = account.queue, gang.key.namespace
    if not takes_namespace(account, namespace, snapshot):
        return f"namespace {namespace} to be admitted by ClusterQueue {queue.name} (spec.namespaceSelector)"
    charges = (member.charge for member in gang.members)
    if problem := next((each.problem for each in charges if each is not None and each.problem), ""):
        return problem
    covered = {name for group in queue.groups for name in group.resources}
    lacking = sorted(needs(gang.members).keys() - covered - {"pods"})
    return f"ClusterQueue {queue.name} to have a quota for {listed(lacking)}" if lacking else ""


def _choices(gang: Gang, account: Account) -> Iterator[Choice]:
    """Yield the choices of flavors that the gang may use. If a member has a node already and the account shows the
    flavors in use, only choices of these flavors are yielded.
    """
    bound = any(held_node(member.pod) for member in gang.members)
    for choice in choices(account.queue, needs(gang.members)):
        if not (bound and account.used) or set(choice.values()) <= set(account.used):
            yield choice


def _try(
    gang: Gang, account: Account, choice: Choice, usage: Usage, plan: Callable[[Gang], Decision]
) -> Decision | _Tried:
    flavors = [account.flavor(name) for name in names_of(choice)]
    if problem := obstacle(gang, flavors):
        return _Tried(Message.of(problem), never=True)
    shared = account.cohort, account.cohorts
    balances = {name: QuotaBalance(account.queue, flavor, name, *shared) for name, flavor in choice.items()}
    kept = _covered(gang, balances, usage)
    if isinstance(kept, _Tried):
        return kept
    decision = plan(in_flavors(replace(gang, members=tuple(kept)), flavors))
    if decision.outcome is not Outcome.PLACED:
        return _Tried(Message.of(f"{_where(account, choice)}: ", decision.line), decision)
    return in_choice(decision, gang, choice)


def _covered(gang: Gang, balances: Mapping[str, QuotaBalance], usage: Usage) -> Sequence[Member] | _Tried:
    """Return the members for which the quota suffices, or the failed attempt if it does not suffice for the minimum.

    Members that have a node already come first. If the quota does not suffice for one member of a set, later members of
    the set are left out as well. `balances`: the quota of each resource that the queue limits.
    """
    left = {name: balance.left(usage) for name, balance in balances.items()}
    least = _least(gang, left)
    need = Counter(needs(least))
    for name, balance in balances.items():
        if need[name] > left[name]:
            return _short(balance, need[name], left[name], usage)
    covered, closed = {id(member) for member in least}, set[str]()
    for member in _in_turn(gang):
        if id(member) in covered or member.pod_set in closed:
            continue
        more = needs([member])
        if any(need[name] + more.get(name, 0) > left[name] for name in balances):
            closed.add(member.pod_set)
        else:
            need.update(more)
            covered.add(id(member))
    return [member for member in gang.members if id(member) in covered]


def _least(gang: Gang, left: Mapping[str, int]) -> Sequence[Member]:
    """Return the members that must start together: each set's minimum, then as many more as the gang's minimum needs.

    If there is a choice, the members that take the smallest share of the remaining quota (`left`) are chosen.
    """
    in_turn, need = _in_turn(gang), Counter[str]()
    wanted = {each.name: each.min_count for each in gang.pod_sets} if not gang.succeeded else {}
    chosen = []
    for name, count in wanted.items():
        chosen += _cheapest([member for member in in_turn if member.pod_set == name], count, need, left)
    known = {id(member) for member in chosen}
    more = max(1, min(gang.still_needed, len(in_turn))) - len(chosen)
    return (*chosen, *_cheapest([member for member in in_turn if id(member) not in known], more, need, left))


def _cheapest(members: Sequence[Member], count: int, need: Counter[str], left: Mapping[str, int]) -> list[Member]:
    """Return `count` of the members, chosen greedily one by one so that little of the remaining quota (`left`) is used.

    Members that have a node already come first. Then the member is chosen after which the scarcest resource has the
    most left. `need`: the requests of the members that were chosen before; the new members' requests are added to it.
    """
    alike: dict[tuple[bool, tuple[tuple[str, int], ...]], deque[Member]] = {}
    for member in members:
        asked = needs([member])
        kind = not holding(member.pod), tuple((name, asked[name]) for name in sorted(left) if name in asked)
        alike.setdefault(kind, deque()).append(member)

    def share(kind: tuple[bool, tuple[tuple[str, int], ...]]) -> tuple[bool, float]:
        new, asked = kind
        return new, max(((need[name] + amount) / max(1, left[name]) for name, amount in asked), default=0.0)

    chosen: list[Member] = []
    while alike and len(chosen) < count:
        kind = min(alike, key=share)
        need.update(dict(kind[1]))
        chosen.append(alike[kind].popleft())
        if not alike[kind]:
            del alike[kind]
    return chosen


def _in_turn(gang: Gang) -> list[Member]:
    return sorted(gang.members, key=lambda member: not holding(member.pod))


def _short(balance: QuotaBalance, need: int, left: int, usage: Usage) -> _Tried:
    """Return the failed attempt for a quota that does not suffice, with a message about its amounts and its users.

    `need`: what the gang needs; `left`: what is free.
    """
    everything, name = balance.left(NO_USAGE), balance.resource
    wanted, where = f"{written(name, need)} {name}", f"flavor {balance.flavor} of ClusterQueue {balance.queue.name}"
    if need > everything:
        text = f"needs {wanted}, and {where} never has more than {written(name, everything)}"
        return _Tried(Message.of(text), never=True)
    held = " left"
    if balance.queue.cohort:
        nominal, borrowable = balance.nominal, max(0, everything - balance.nominal)
        held += f" ({written(name, nominal)} nominal, {written(name, borrowable)} borrowable)"
    users = balance.users(usage)
    used = (f", {written(name, sum(users.values()))} used by ", gangs([*users])) if users else ()
    amounts = Count(f"{written(name, max(0, left))} of {written(name, everything)}")
    line = Message.of(f"quota: the gang needs {wanted}, and {where} has ", amounts, held, *used)
    return _Tried(line, exhausted=True)


def _refused(gang: Gang, account: Account, tried: Sequence[_Tried]) -> Decision:
    """Return the decision for a gang for which all choices of flavors failed.

    If used quota may become free again, the gang waits. Otherwise it is unplaceable.
    """
    if not tried:
        return _waits(gang, f"ClusterQueue {account.queue.name} to have the flavors that its running members use")
    line = joined("; ", [each.line for each in tried])
    waiting = [each for each in tried if each.decision is None and not each.never]
    if waiting:
        reason = WaitReason.QUOTA_EXHAUSTED if any(each.exhausted for each in waiting) else None
        return replace(_waits(gang, line), reason=reason)
    placing = next((each.decision for each in tried if each.decision is not None), None)
    if placing is not None:
        return replace(placing, gang=gang, line=line)
    return Decision(gang, gang.key, Outcome.UNPLACEABLE, line, proof=Proof.INFEASIBLE.value)


def _waits(gang: Gang, what: str | Message) -> Decision:
    return Decision(gang, gang.key, Outcome.WAITING, Message.of("waits for ", what))
