"""Marks on pods that their gang is whole. They decide later whether a gang that runs in part is repaired or withdrawn.

The condition Whole of the Gang object shows this, too, but an object can be deleted and a status wiped. The marks last
as long as the pods (docs/decisions/0015).
"""

from collections.abc import Mapping, Sequence
from functools import partial

from controller.error_backoff import ErrorBackoff
from controller.reconcile_state import Effects, ReconcileState
from controller.release.wholeness import mark_of, to_mark
from controller.writes.writer import Result, Writer
from gangs.model import GangKey, Member
from kube.keys import WHOLE_MARK


class WholenessMarker:
    """Marks members of gangs that are or were whole."""

    def __init__(self, writer: Writer, error_backoff: ErrorBackoff) -> None:
        self._writer = writer
        self._error_backoff = error_backoff

    def mark(self, gang_states: Sequence[ReconcileState]) -> Mapping[GangKey, Effects]:
        """Write the missing marks of all gangs, in parallel.

        If the API server cannot accept a mark now, a later reconcile writes it. If the API server refuses a mark, it is
        not written until the gang changes. Until then only the status shows that the gang is whole.
        """
        missing = list[tuple[ReconcileState, Member]]()

        def find(gang_state: ReconcileState) -> Effects:
            missing.extend((gang_state, member) for member in to_mark(gang_state.gang, gang_state.status))
            return Effects()

        effects = self._error_backoff.run_steps(gang_states, find)
        answers = self._writer.all(
            partial(self._writer.annotate, member.pod, {WHOLE_MARK: mark_of(gang_state.gang, gang_state.status)})
            for gang_state, member in missing
        )
        answered = zip(missing, answers, strict=True)
        sent = {gang_state.gang.key for (gang_state, _), answer in answered if answer.result is not Result.FAILED}
        return effects | dict.fromkeys(sent, Effects(written=True))
