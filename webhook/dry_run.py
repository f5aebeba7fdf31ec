"""`POST /v1/solve`: plans the gangs in the request's body without changing the cluster, as `phalanx solve` does."""

from dataclasses import dataclass
from typing import Any

from planning.dry_run import Live, dry_run
from planning.files.documents import Mistake, parse
from planning.files.objects import read_objects
from planning.messages.solve_report import solve_report
from planning.what_if import AS_IT_IS, WhatIf
from solver.deadline import Deadline, OutOfTimeError
from solver.problem import Limits
from timing.limit import TimeLimit
from webhook.picture import Picture

ORIGIN = "request"
"""The name of the input in messages about mistakes, in place of a file name."""


class InputError(Exception):
    """The request's body cannot be read as Kubernetes objects. `mistakes`: all mistakes found in it."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(map(str, mistakes)))
        self.mistakes = mistakes


class TooLongError(Exception):
    """The objects in the request's body could not be read within the time limit of the caller or of the server."""


@dataclass(frozen=True, slots=True)
class DryRunAnswer:
    """The answer to a dry run. `report`: the SolveReport, as data.

    `warnings`: faults of objects that no gang uses, and values that are probably errors, one line each.
    """

    report: dict[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DryRunOptions:
    """The options of a dry run.

    `preemption`: whether plans may evict pods. `comparing`: whether to report why no other domain was chosen.
    `what_if`: changes of the cluster to assume, such as added nodes.
    """

    preemption: bool = True
    comparing: bool = False
    what_if: WhatIf = AS_IT_IS


AS_USUAL = DryRunOptions()
"""The default options: with preemption, without comparison, on the cluster as it is."""


def solve_stream(body: bytes, picture: Picture | None, seconds: float, asked: DryRunOptions = AS_USUAL) -> DryRunAnswer:
    """Plan the gangs that the objects in `body` describe (YAML or JSON, any number of documents). Nothing is changed.

    :param picture: the live cluster. None: the objects describe their own cluster.
    :param seconds: how long reading and planning together may take.
    :raises InputError: the text or the form of an object is wrong. A gang whose request contradicts itself raises
        nothing; its outcome is Invalid.
    :raises UnknownNodeError: `asked.what_if` names a node that does not exist.
    :raises TooLongError: the objects were not read in this time.
    """
    limit = TimeLimit(seconds)
    deadline = Deadline(lambda: limit.seconds)
    try:
        documents, mistakes = parse(body, ORIGIN, deadline)
        mistakes += read_objects(documents, deadline).mistakes
        if mistakes:
            raise InputError(mistakes)
        live = None if picture is None else Live(picture.snapshot(), picture.sources())
        run = dry_run(
            documents,
            live=live,
            preemption=asked.preemption,
            limits=Limits(seconds=seconds),
            comparing=asked.comparing,
            deadline=deadline,
            what_if=asked.what_if,
        )
    except OutOfTimeError as error:
        raise TooLongError(f"cannot be read in the {seconds:.1f} s that are left of the time given") from error
    return DryRunAnswer(
        solve_report(run.decisions, details=asked.comparing), tuple(map(str, (*run.mistakes, *run.warnings)))
    )
