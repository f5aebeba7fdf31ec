"""Reads the webhook's record of ended gangs, for commands that name a gang without a Gang object."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import click
import msgspec

from cli.asking.progress import waiting
from cli.text.structured import Json
from cli.webhook_requests import NoWebhookError, webhook_answer
from kube.text import one_line_each

HISTORY = "/v1/history"
"""The webhook's path for the gangs that have ended."""


class NoSuchGangError(click.ClickException):
    """The gang has no Gang object: it has ended, or it never existed."""


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads the record of ended gangs from the webhook, with the rights of the command's user.

    :param account: `NAMESPACE/NAME` of the service account whose token is sent. None: the kubeconfig's token.
    :param server: the URL at which the webhook is reached. None: the URL in its webhook configuration. If the
        configuration names a Service instead, kubectl forwards a port to the Service for the request.
    """

    kubeconfig: str | None
    account: str | None = None
    server: str | None = None

    def gangs(self, namespace: str | None) -> list[Json]:
        """Return the ended gangs of a namespace (None: of all namespaces), the last ended one first.

        :raises click.ClickException: the webhook cannot be reached or refuses the request.
        """
        answer = webhook_answer(history_path(namespace, "json"), self.kubeconfig, self.account, self.server)
        found: list[Json] = one_line_each(msgspec.json.decode(answer)["gangs"])
        return found

    def count(self, namespace: str | None) -> int | None:
        """Return the number of ended gangs of a namespace (None: of all namespaces). No port is forwarded for this.

        None if the record cannot be read soon.
        """
        path = history_path(namespace, "json")
        try:
            answer = webhook_answer(path, self.kubeconfig, self.account, self.server, quick=True)
        except click.ClickException:
            return None
        return len(msgspec.json.decode(answer)["gangs"])

    def named(self, namespace: str, name: str, absence: NoSuchGangError) -> Sequence[Json]:
        """Return the recorded gangs with this name, the last ended one first. At least one is returned.

        A gang matches by its own name and by the name that its Gang object had.

        :param absence: the error that the command met before: no Gang object has this name.
        :raises NoSuchGangError: no recorded gang matches, or the record cannot be read. The message is the one of
            `absence`, with the reason. If the webhook is not installed, `absence` itself is raised.
        """
        try:
            with waiting("asking the webhook for gangs that have ended"):
                recorded = self.gangs(namespace)
        except NoWebhookError:
            raise absence from None
        except click.ClickException as error:
            raise NoSuchGangError(f"{absence.message}. Whether it has ended is not known: {error.message}") from error
        found = [each for each in recorded if name in (each["name"], each.get("gangObject"))]
        if not found:
            raise NoSuchGangError(f"{absence.message}. The record of ended gangs has none of this name")
        return found


def history_path(namespace: str | None, form: str) -> str:
    """Return the webhook's path for the gangs that have ended.

    :param namespace: only of this namespace; None: of all namespaces.
    :param form: "json" or "csv".
    """
    return f"{HISTORY}?format={form}" + (f"&namespace={quote(namespace, safe='')}" if namespace else "")
