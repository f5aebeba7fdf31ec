"""Marks members of whole gangs with the annotation `phalanx.dev/whole`.

If such a gang later runs in part, the marks say that it was whole, so it is repaired and not withdrawn. The condition
Whole of the Gang object says so, too, but an object can be deleted and a status wiped. The marks last as long as the
pods (docs/decisions/0015).
"""

from collections.abc import Mapping, Sequence
from functools import partial

from controller.error_backoff import ErrorBackoff
from controller.reconcile_state import NO_EFFECTS, Effects, ReconcileState
from controller.release.wholeness import mark_of, to_mark
from controller.writes.writer import Result, Writer
from gangs.model import GangKey, Member
from kube.keys import WHOLE_MARK


class WholenessMarker:
    """Writes the mark `phalanx.dev/whole` on members of gangs that are or were whole."""

    def __init__(self, writer: Writer, error_backoff: ErrorBackoff) -> None:
        self._writer = writer
        self._error_backoff = error_backoff

    def mark(self, gang_states: Sequence[ReconcileState]) -> Mapping[GangKey, Effects]:
        """Write the missing and outdated marks `phalanx.dev/whole` of all gangs, in parallel.

        If the API server is overloaded, a later reconcile writes the mark. If the API server refuses the mark, it is
        not written until the gang changes. Until then only the status shows that the gang is whole.
        """
        missing = list[tuple[ReconcileState, Member]]()

        def find(gang_state: ReconcileState) -> Effects:
            missing.extend((gang_state, member) for member in to_mark(gang_state.gang, gang_state.status))
            return NO_EFFECTS

        effects = self._error_backoff.run_steps(gang_states, find)
        answers = self._writer.all(
            partial(self._writer.annotate, member.pod, {WHOLE_MARK: mark_of(gang_state.gang, gang_state.status)})
            for gang_state, member in missing
        )
        answered = zip(missing, answers, strict=True)
        sent = {gang_state.gang.key for (gang_state, _), answer in answered if answer.result is not Result.FAILED}
        return effects | dict.fromkeys(sent, Effects(written=True))
