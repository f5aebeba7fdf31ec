"""`phalanx webhook` refuses invalid options before it starts anything."""

import pytest
from click.testing import CliRunner

from cli.webhook import webhook


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "Missing option '--cert-dir'"),
        (("--cert-dir", __file__), f"Invalid value for '--cert-dir': Directory '{__file__}' is a file"),
        (("--port", "70000"), "Invalid value for '--port'"),
        (("--health-port", "-1"), "Invalid value for '--health-port'"),
        (("--certificate-poll-seconds", "0"), "Invalid value for '--certificate-poll-seconds'"),
        (("--shutdown-notice-seconds", "-1"), "Invalid value for '--shutdown-notice-seconds'"),
        (("--most-waiting", "0"), "Invalid value for '--most-waiting'"),
        (("--forecast-seconds", "0"), "Invalid value for '--forecast-seconds'"),
        (("--kubeconfig", "no-such-file"), "Invalid value for '--kubeconfig': File 'no-such-file' does not exist"),
        (("--log-level", "loud"), "Invalid value for '--log-level'"),
    ],
)
def test_wrong_options_are_refused_by_their_name(options: tuple[str, ...], complaint: str) -> None:
    answer = CliRunner().invoke(webhook, ["--cert-dir", ".", *options] if options else [], terminal_width=10000)
    assert answer.exit_code == 2
    assert complaint in answer.output
