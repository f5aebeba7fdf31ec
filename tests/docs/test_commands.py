"""The pages show the real output of their commands, and their manifests equal the manifests of the examples."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from page_commands import DOCS, ROOT, Shell, like, pages, play, with_marks

from cli.main import group

USUAL = ("levels", "size-a-gang")
"""The pages that `make test` plays; `make test-long` plays all of them."""
WRITTEN_FOLDERS = ("start", "concepts", "coming-from", "how-to")
"""Folders of the pages that show commands to type, and manifests."""
DEMO = "tests/system/test_scenarios.py"
LOOKING = "tests/system/test_terminal.py"
SH_BLOCKS: dict[str, str] = {
    ".venv/bin/python -m benchmarks": "tests/benchmarks/test_benchmark.py",
    ".venv/bin/python -m benchmarks.live.devices": "tests/benchmarks/test_devices_live.py",
    ".venv/bin/python -m benchmarks.live.many_gangs": "tests/benchmarks/test_gangs_created_at_once.py",
    "cd phalanx-0.1.0": "tests/packaging/test_release.py",
    "cosign": "needs a registry and keys to sign with",
    "git clone": "needs the repository's address, which is nobody's yet",
    "go tool pprof": "needs profiles of a control plane under load, which take minutes",
    "helm install phalanx ../phalanx-0.1.0.tgz": "tests/packaging/test_fresh_machine.py",
    "helm uninstall phalanx": "tests/packaging/test_fresh_machine.py",
    "kind": "needs Docker, which is not where the tests run",
    "kubectl -n monitoring ": "needs a Prometheus of one's own; its right: tests/system/test_who_may_what.py",
    "kubectl -n phalanx-system create configmap phalanx-client-ca": "tests/docs/test_security_page.py",
    "kubectl -n phalanx-system create token": "tests/system/test_install.py",
    "kubectl -n phalanx-system patch configmap phalanx-schedulers": "tests/system/test_absent_schedulers.py",
    "kubectl -n phalanx-system rollout status": "tests/packaging/test_fresh_machine.py",
    "kubectl apply --server-side -k manifests/": "tests/manifests/test_applying.py",
    "kubectl create clusterrolebinding phalanx-metrics": "tests/system/test_who_may_what.py",
    "kubectl create clusterrolebinding phalanx-viewers": "tests/system/test_who_may_what.py",
    "kubectl get events --field-selector involvedObject": "tests/system/test_absent_schedulers.py",
    "kubectl get gang llm -o jsonpath": "tests/controller/test_tracing.py",
    "kubectl get gang trainjob -o jsonpath": "tests/docs/test_reacting.py",
    "kubectl phalanx doctor": "tests/system/test_doctor.py",
    "kubectl phalanx ui": "tests/system/test_page_live.py",
    "kubectl wait --for=condition=Placed gang/": "tests/system/test_terminal.py",
    "make demo": DEMO,
    "make image": "tests/packaging/test_building.py",
    "make install": "needs the whole set-up anew; every test runs in what it has made",
    "make release": "tests/packaging/test_release.py",
    "make sbom": "tests/packaging/test_image.py",
    "make test-image": "tests/packaging/test_image.py",
    "openssl": "tests/docs/test_security_page.py",
    "phalanx completion": "tests/cli/test_terminal_texts.py",
    "phalanx controller": "tests/system/test_install.py",
    "phalanx demo": DEMO,
    "phalanx doctor": "tests/system/test_doctor.py",
    "phalanx events": LOOKING,
    "phalanx gangs": LOOKING,
    "phalanx queue": "tests/cli/test_queue_command.py",
    "phalanx solve": LOOKING,
    "phalanx topology": LOOKING,
    "phalanx ui": "tests/system/test_page_live.py",
    "phalanx uninstall": "tests/system/test_uninstall.py",
    "phalanx webhook": "tests/system/test_install.py",
    "phalanx why": LOOKING,
    "pip install phalanx-0.1.0-py3-none-any.whl": "tests/packaging/test_fresh_machine.py",
    "sha256sum --check SHA256SUMS": "tests/packaging/test_fresh_machine.py",
    "skopeo": "needs a registry",
    "source .venv/bin/activate": "needs a shell of a person's own",
    "source <(phalanx completion bash)": "tests/cli/test_terminal_texts.py",
    "tar xzf phalanx-0.1.0-manifests.tar.gz": "tests/packaging/test_fresh_machine.py",
}
"""By beginning of a command in a block of `sh`: the test that runs a similar command, or the need that no test meets.

A command that can run as it is written belongs in a block of `console`. Tests run all commands of these blocks.
"""


def test_lines_of_kubectls_own_log_are_not_output(tmp_path: Path) -> None:
    log = 'I1130 11:54:01.180424    7858 reflector.go:664] "Warning: watch ended with error" err="context canceled"'
    assert Shell(tmp_path, {}).run(f"echo '{log}' >&2; echo 'Invalid: a line of the command'") == (
        "Invalid: a line of the command\n",
        0,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("page", with_marks(pages(on_a_cluster=False), USUAL))
def test_the_commands_of_a_page_print_what_it_says(page: Path, tmp_path: Path) -> None:
    assert "\n".join(play(page, Shell(tmp_path, {}))) == ""


def written() -> list[Path]:
    """Return the pages that show commands to type."""
    return [page for folder in WRITTEN_FOLDERS for page in sorted((DOCS / folder).glob("*.md"))]


def in_sh(page: Path) -> Iterator[str]:
    """The commands in a page's blocks of `sh`, each on one line; what is fed to one belongs to it."""
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        whole = re.sub(r"<<(\w+)\n.*?^\1$", "", block, flags=re.DOTALL | re.MULTILINE)
        yield from (line for line in whole.replace("\\\n", "").splitlines() if line)


def pages_with_sh() -> list[Path]:
    """Return all pages of the docs that have a block of `sh`."""
    return [page for page in sorted(DOCS.rglob("*.md")) if any(in_sh(page))]


def account_of(line: str) -> str:
    """Return the longest key of `SH_BLOCKS` with which the command begins; empty if there is none."""
    return max((each for each in SH_BLOCKS if line.startswith(each)), key=len, default="")


@pytest.mark.parametrize("page", pages_with_sh(), ids=lambda page: str(page.relative_to(DOCS)))
def test_what_is_not_played_is_known(page: Path) -> None:
    for line in in_sh(page):
        assert account_of(line), f"{line}: play it, in a block of console"
        for path in re.findall(r"(?:-k|-f|--config) ((?:manifests|examples|charts)[\w/.-]*)", line):
            assert (ROOT / path).exists(), line
        for target in re.findall(r"^make ([\w-]+)", line):
            assert re.search(rf"^{target}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        if words := re.match(r"(?:kubectl )?phalanx (.*)", line):
            name, *options = shlex.split(words[1].partition(" > ")[0], comments=True)
            command = group.get_command(click.Context(group), name)
            assert command is not None, line
            command.make_parser(click.Context(command)).parse_args(options)


WAITS = "Warning: gang a/b: waits for {} exist\n"


def test_what_is_said_of_commands_that_are_not_played_is_so() -> None:
    """Each entry of `SH_BLOCKS` belongs to a command in the docs, and names an existing test or a need."""
    used = {account_of(line) for page in pages_with_sh() for line in in_sh(page)}
    assert used == set(SH_BLOCKS)
    for account in SH_BLOCKS.values():
        assert account.startswith(("tests/", "needs ")), account
        for path in re.findall(r"tests/[\w/]+\.py", account):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", written(), ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_every_manifest_that_is_shown_is_the_file(page: Path) -> None:
    shown = re.findall(r'^```yaml title="([^"]+)"\n(.*?)^```$', page.read_text(), re.DOTALL | re.MULTILINE)
    for path, text in shown:
        assert text in (ROOT / path).read_text(), f"{path} has no such lines"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a b\n", "a    b  \n", True),
        ("a\n", "a\nb\n", False),
        ("a … c\n", "a 12 s c\n", True),
        ("a … c\n", "a 12 s d\n", False),
        ("…\nb\n", "b\n", True),
        ("…\nb\n", "a\na\nb\n", True),
        ("…\nb\n", "a\na\n", False),
        ("", "\n", True),
        ("", "a\n", False),
        (WAITS.format("2 more pods: 2 of 4"), WAITS.format("1 more pod: 3 of 4"), True),
        (WAITS.format("2 more pods: 2 of 4"), WAITS.format("2 more pods: 2 of 3"), False),
        (WAITS.format("2 more pods: 2 of 4") + "a\n", "a\n", True),
        ("a\n", WAITS.format("2 more pods: 2 of 4") + "a\n", False),
        ("waits for 2 more pods: 2 of 4 exist\n", "waits for 1 more pod: 3 of 4 exist\n", False),
    ],
)
def test_what_stands_for_anything_stands_for_that_alone(expected: str, printed: str, same: bool) -> None:  # noqa: FBT001 -- a column
    assert like(expected, printed) is same


def test_a_command_that_fails_has_to_be_said_to(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "shell").mkdir()
    page.write_text("```console\n$ exit 3\n```\n\n```console\n$ exit 3\n$ echo $?\n3\n```\n")
    (wrong,) = play(page, Shell(tmp_path / "shell", {}))
    assert "fails with 3" in wrong
