"""`phalanx controller` refuses contradictory certificate options before it starts anything."""

import pytest
from click.testing import CliRunner

from cli.controller import controller

GIVEN = ("--certificates", "given")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--certificates", "mine"), "Invalid value for '--certificates'"),
        (("--ca-file", __file__), "--ca-file goes with --certificates=given"),
        ((*GIVEN, "--ca-file", "no-such-file"), "Invalid value for '--ca-file': File 'no-such-file' does not exist"),
        ((*GIVEN, "--retirement-seconds", "5"), "--retirement-seconds goes with --certificates=own"),
        (("--authority-days", "0"), "Invalid value for '--authority-days'"),
        (("--certificate-days", "400"), "--certificate-days, --introduction-seconds, --retirement-seconds"),
        (("--retirement-seconds", "9999999"), "must be over within what is left of a certificate's life"),
        (("--lease-seconds", "0"), "Invalid value for '--lease-seconds'"),
        (("--solve-seconds", "-1"), "Invalid value for '--solve-seconds'"),
        (("--topology-seconds", "0"), "Invalid value for '--topology-seconds'"),
        (("--health-port", "70000"), "Invalid value for '--health-port'"),
        (("--kubeconfig", "no-such-file"), "Invalid value for '--kubeconfig': Path 'no-such-file' does not exist"),
    ],
)
def test_wrong_options_are_refused_by_their_name(options: tuple[str, ...], complaint: str) -> None:
    answer = CliRunner().invoke(controller, list(options), terminal_width=10000)
    assert answer.exit_code == 2
    assert complaint in answer.output
