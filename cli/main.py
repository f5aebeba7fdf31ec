"""The command `phalanx`, also as the plugin `kubectl phalanx`. Each subcommand is a module, loaded when it runs."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import CompletionItem

PLUGIN_PREFIX = "kubectl-"


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand: its module, the name of the click command in the module, and its line in `phalanx --help`."""

    module: str
    command: str
    summary: str


COMMANDS = {
    "solve": Entry("cli.solve", "solve", "Plan the gangs in files, and print where they fit. Nothing is changed."),
    "gangs": Entry("cli.terminal.gangs", "gangs", "List the gangs of the live cluster."),
    "topology": Entry(
        "cli.terminal.topology", "topology", "Show the live cluster's domains, their free capacity, and their gangs."
    ),
    "queue": Entry(
        "cli.terminal.queues", "queue", "Show queues: the gangs that use the quota, and the gangs that wait."
    ),
    "why": Entry("cli.why", "why", "Explain the state of a gang of the live cluster."),
    "events": Entry("cli.terminal.events", "events", "Show the history of a gang since its creation."),
    "doctor": Entry("cli.doctor", "doctor", "Check the live cluster: labels, topologies, requests, webhooks."),
    "ui": Entry("cli.ui", "ui", "Show the live picture in a browser."),
    "demo": Entry("cli.demo", "demo", "Run Phalanx with example gangs on a control plane of its own."),
    "webhook": Entry("cli.webhook", "webhook", "Serve admission, dry runs and the live picture."),
    "uninstall": Entry("cli.uninstall", "uninstall", "Release all waiting pods and remove Phalanx from the cluster."),
    "controller": Entry("cli.controller", "controller", "Carry out the plans of the live cluster."),
    "completion": Entry("cli.completion", "completion", "Print what a shell needs to complete words."),
}


class LazyGroup(click.Group):
    """A click group that imports the module of a subcommand only when the subcommand runs.

    So no command waits for the libraries of other commands.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """Return the names of the subcommands, in the order of `phalanx --help`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's
        """Import and return the subcommand; None if there is no such subcommand."""
        if cmd_name not in COMMANDS:
            return None
        entry = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(entry.module), entry.command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands and options that begin with `incomplete`, without importing a subcommand."""
        names = [
            CompletionItem(name, help=each.summary) for name, each in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's
        """Write the list of subcommands for `phalanx --help`, without importing a subcommand."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  phalanx gangs -A
  phalanx why NAMESPACE/GANG
  phalanx solve -f job.yaml --cluster live
""",
)
@click.version_option(package_name="phalanx", prog_name="phalanx", message="%(prog)s %(version)s")
def group() -> None:
    """Gangs of pods, placed together and proven optimal, on the scheduler the cluster already runs."""


def main() -> None:
    """Run the command line. Help texts name the program as the user called it: `phalanx` or `kubectl phalanx`."""
    group(prog_name=program_name(sys.argv[0]))


def complete() -> None:
    """Run `kubectl_complete-phalanx WORD... INCOMPLETE`, by which kubectl completes words of `kubectl phalanx`."""
    from cli.completion import complete_for_kubectl  # noqa: PLC0415 -- no other command needs it

    complete_for_kubectl(group, sys.argv[1:])


def program_name(path: str) -> str:
    """Return the program's name for help texts: `kubectl phalanx` if kubectl runs it as a plugin, else `phalanx`.

    :param path: the path of the program, as in `sys.argv[0]`.
    """
    return "kubectl phalanx" if Path(path).name.startswith(PLUGIN_PREFIX) else "phalanx"


if __name__ == "__main__":
    main()
