"""Options of `phalanx controller` for the webhook's certificate: its source, and the times of its rotation."""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

Command = Callable[..., Any]

OWN_ONLY = ("authority_days", "certificate_days", "introduction_seconds", "retirement_seconds")

_OPTIONS = (
    click.option(
        "--certificates",
        type=click.Choice(["own", "given"]),
        default="own",
        show_default=True,
        help="own: made, renewed and trusted by the leading controller; given: by cert-manager, or files of yours.",
    ),
    click.option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With given: the bundle that is kept in every webhook's caBundle; absent: somebody else does it.",
    ),
    click.option(
        "--authority-days",
        type=click.FloatRange(min=0, min_open=True),
        default=365.0,
        show_default=True,
        help="How long an authority of our own is valid.",
    ),
    click.option(
        "--certificate-days",
        type=click.FloatRange(min=0, min_open=True),
        default=90.0,
        show_default=True,
        help="How long a serving certificate is valid.",
    ),
    click.option(
        "--introduction-seconds",
        type=click.FloatRange(min=0),
        default=120.0,
        show_default=True,
        help="How long a new authority is trusted before it is used.",
    ),
    click.option(
        "--retirement-seconds",
        type=click.FloatRange(min=0),
        default=3600.0,
        show_default=True,
        help="How long an old authority is trusted after it was last used.",
    ),
)


def certificate_options(command: Command) -> Command:
    """Decorate a command with the certificate options.

    The command gets their values as one argument, `keeping` (`controller.leadership.certificates.Keeping`).
    """

    @wraps(command)
    def with_keeping(*, certificates: str, ca_file: Path | None, **others: Any) -> Any:
        own = {name: others.pop(name) for name in OWN_ONLY}
        return command(keeping=_keeping(certificates, ca_file, own), **others)

    decorated: Command = with_keeping
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _keeping(certificates: str, ca_file: Path | None, own: dict[str, float]) -> Any:
    from certs.rotation import Schedule  # noqa: PLC0415 - cryptography takes long to import
    from controller.leadership.certificates import Keeping  # noqa: PLC0415 - as above

    if certificates == "given":
        _refuse_own_options()
        return Keeping(schedule=None, ca_file=ca_file)
    if ca_file is not None:
        raise click.UsageError("--ca-file goes with --certificates=given: certificates of our own have their bundle")
    try:
        schedule = Schedule(
            authority_lifetime=timedelta(days=own["authority_days"]),
            leaf_lifetime=timedelta(days=own["certificate_days"]),
            introduction=timedelta(seconds=own["introduction_seconds"]),
            retirement=timedelta(seconds=own["retirement_seconds"]),
        )
    except ValueError as error:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in OWN_ONLY)
        raise click.UsageError(f"{flags}: {error}") from error
    return Keeping(schedule)


def _refuse_own_options() -> None:
    context = click.get_current_context()
    for name in OWN_ONLY:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} goes with --certificates=own: given ones are renewed by somebody else")
