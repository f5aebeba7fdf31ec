"""`phalanx completion SHELL`: the completion script for bash, zsh or fish, and the completion of `kubectl phalanx`.

To complete words of a plugin, kubectl runs the program `kubectl_complete-NAME`. Its output has cobra's format: one
suggestion on each line, then a colon and a number.
"""

from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
_NO_FILES = 4
"""The number of cobra's directive (ShellCompDirective) by which the shell offers no file names."""


@click.command(
    epilog="""\b
Examples:
  source <(phalanx completion bash)
  phalanx completion zsh > "${fpath[1]}/_phalanx"
  phalanx completion fish > ~/.config/fish/completions/phalanx.fish
"""
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for a shell. It completes commands, options, and names from the live cluster.

    For `kubectl phalanx`, set up kubectl's own completion, which runs the program kubectl_complete-phalanx.
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 -- click supports all of SHELLS
    click.echo(found(click.get_current_context().find_root().command, {}, "phalanx", "_PHALANX_COMPLETE").source())


def complete_for_kubectl(group: click.Command, words: Sequence[str]) -> None:
    """Print suggestions for the last word in cobra's format, as kubectl's completion requests them from a plugin."""
    *arguments, incomplete = words or [""]
    items = ShellComplete(group, {}, "phalanx", "").get_completions(arguments, incomplete)
    for each in items:
        if each.type == "plain":
            click.echo(f"{each.value}\t{each.help}" if each.help else each.value)
    files = any(each.type != "plain" for each in items)
    click.echo(f":{0 if files else _NO_FILES}")
