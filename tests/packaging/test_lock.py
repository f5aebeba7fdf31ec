"""The locked requirements are complete: `make install` installs them without pip's resolver."""

import subprocess
import sys


def test_no_installed_package_lacks_a_dependency() -> None:
    """`pip check` compares the metadata of all packages of the environment, which `make install` has made."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "check"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
    assert "No broken requirements found." in answer.stdout
