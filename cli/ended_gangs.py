"""Reads the webhook's record of gangs that have ended, for commands that name a gang which no object shows."""

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
    """No Gang object shows the gang. The gang may have ended."""


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads the record as the command's user.

    :param account: `NAMESPACE/NAME` of the service account whose token is sent. None: the kubeconfig's token.
    :param server: the URL at which the webhook is reached. None: kubectl forwards a port meanwhile.
    """

    kubeconfig: str | None
    account: str | None = None
    server: str | None = None

    def gangs(self, namespace: str | None) -> list[Json]:
        """Return the ended gangs of a namespace (None: of all), the last one first.

        :raises click.ClickException: the webhook is not reached, or refuses.
        """
        answer = webhook_answer(history_path(namespace, "json"), self.kubeconfig, self.account, self.server)
        found: list[Json] = one_line_each(msgspec.json.decode(answer)["gangs"])
        return found

    def named(self, namespace: str, name: str, absence: NoSuchGangError) -> Sequence[Json]:
        """Return the recorded gangs of a name, the last one first. A gang also has the name of its Gang object.

        :param absence: raised if there is none, with the reason if the record cannot be read.
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
    """Return the webhook's path for the ended gangs of a namespace (None: of all), in a format."""
    return f"{HISTORY}?format={form}" + (f"&namespace={quote(namespace, safe='')}" if namespace else "")
