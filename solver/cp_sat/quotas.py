"""Quotas that queues and cohorts share, as linear constraints of a CP-SAT model.

The use of a queue or cohort beyond `QuotaShare.kept`, the quota that it does not lend, counts as use of its parent. A
variable holds this part. CP-SAT can give the variable a value that is too large but none that is too small. A value
that is too large only makes the constraints stricter, so the constraints are exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from solver.cp_model import IntVar
from solver.cp_sat.linear import Sum, one
from solver.cp_sat.variables import Model
from solver.quota import Quota


def add_quotas(model: Model) -> None:
    """Add the quotas: every queue with new members, and each cohort above it, stays within its limit."""
    for quota in model.instance.problem.quotas:
        _Rows(model, quota).add()


@dataclass(slots=True)
class _Bound:
    """The use of a quota by a queue or cohort, as a linear sum of variables. `least` and `most`: bounds of the sum's
    value.
    """

    sum: Sum
    least: int
    most: int


class _Rows:
    """The constraints of one quota.

    A share is a position in `Quota.shares`, the queues and cohorts. `used[share]`: the use of a queue or cohort. It has
    two parts: what is charged to it directly, and what each queue or cohort below it uses beyond the quota that it does
    not lend. `coming[share]`: the new members that may be charged to it. They are triples of a member class, a node and
    the variable that counts them there.
    """

    def __init__(self, model: Model, quota: Quota) -> None:
        self.model, self.quota = model, quota
        self.used = [_Bound(Sum((), share.used), share.used, share.used) for share in quota.shares]
        self.coming: list[list[tuple[int, int, IntVar]]] = [[] for _ in quota.shares]
        """By position of a queue or cohort, the members that may be charged to it: member class, node, and variable."""
        self._charge()
        self.beyond = self._lent()

    def add(self) -> None:
        """Add the constraints of every queue and cohort to which new members may be charged."""
        for share, coming in enumerate(self.coming):
            if coming:
                self._add_rows_of(share)

    def _charge(self) -> None:
        """Add the quota that members use to the use of the queue or cohort to which they are charged."""
        instance = self.model.instance
        for charge in self.quota.charges:
            used = self.used[charge.share]
            members = instance.problem.sets[charge.pod_set].members
            held = sum(each.node is not None and each.shape == charge.shape for each in members) * charge.amount
            terms: list[tuple[int, IntVar]] = []
            ranks = 0
            for kind in self.model.kinds_of(charge.pod_set):
                if self.model.kinds[kind].shape == charge.shape:
                    seats = self.model.seats[kind]
                    ranks += len(self.model.kinds[kind].ranks)
                    terms += [(charge.amount, variable) for variable in seats.values()]
                    self.coming[charge.share] += [(kind, node, variable) for node, variable in seats.items()]
            used.sum += Sum(tuple(terms), held)
            used.least, used.most = used.least + held, used.most + held + ranks * charge.amount

    def _lent(self) -> list[Sum]:
        """Return for each queue and cohort how much of its parent's quota it uses, as a model expression.

        A queue or cohort uses its own quota first, as far as it does not lend that quota (`QuotaShare.kept`). Its
        further use is added to the use of its parent.
        """
        beyond = []
        for share, used in zip(self.quota.shares, self.used, strict=True):
            least, most = max(0, used.least - share.kept), max(0, used.most - share.kept)
            if share.parent is None or least == most:
                each = Sum((), least)
            else:
                each = one(self.model.cp.new_int_var(least, most, ""))
                self.model.cp.add((used.sum + each.times(-1)).expression() <= share.kept)
            if share.parent is not None:
                above = self.used[share.parent]
                above.sum += each
                above.least, above.most = above.least + least, above.most + most
            beyond.append(each)
        return beyond

    def _add_rows_of(self, share: int) -> None:
        """Add the constraints of the queue or cohort at position `share`. If the use of pods outside the problem breaks
        one of them already, all of them apply only if a member that is charged to it is placed.
        """
        rows = list(self._rows_of(share))
        if all(least <= most for _, least, most in rows):
            for own, _, most in rows:
                self.model.cp.add(own.expression() <= most)
            return
        charged = self.model.flag()
        for kind, node, variable in self.coming[share]:
            self.model.cp.add(variable <= self.model.most(kind, node) * charged)
        for own, _, most in rows:
            self.model.cp.add(own.expression() <= most).only_enforce_if(charged)

    def _rows_of(self, start: int) -> Iterator[tuple[Sum, int, int]]:
        """Yield the limits that apply to the queue or cohort at position `start`: its own, and the limit of each cohort
        above it. Each limit is three values: the use that counts against the limit, the least value of this use, and
        the limit.
        """
        own, least, position = self.used[start].sum, self.used[start].least, start
        while True:
            share = self.quota.shares[position]
            most = share.quota if share.parent is None else share.limit
            if most is not None:
                yield own, least, most
            if share.parent is None:
                return
            above = self.used[share.parent]
            apart = own + Sum((), -share.kept) + self.beyond[position].times(-1)
            least = above.least + least - share.kept - max(0, self.used[position].least - share.kept)
            own, position = above.sum + apart, share.parent
