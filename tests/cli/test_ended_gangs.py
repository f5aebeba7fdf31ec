"""`phalanx gangs --all`, `why` and `events` on the local API server, with a webhook that records ended gangs."""

import base64
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from local_api.resources import FOR_COMMANDS
from local_api.server import local_api
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from certs.cluster_edge import CONFIGURATIONS, DEFAULT_PLACE
from certs.files import AUTHORITY, CERTIFICATE, KEY, write_self_signed
from cli.main import group
from cli.text.ended_text import record_text
from cli.webhook_requests import account_token, authority_in
from cluster.api.transport import Transport

ENDED = {
    "namespace": "default",
    "name": "tokenize",
    "dialect": "phalanx",
    "outcome": "Succeeded",
    "queue": "training",
    "pods": 16,
    "domain": "s0 / b0 / r0",
    "submitted": "2026-11-21T11:55:00Z",
    "started": "2026-11-21T11:55:09Z",
    "finished": "2026-11-21T14:09:09Z",
    "waitedSeconds": 9.0,
    "ranSeconds": 8040.0,
    "waitedFor": [{"reason": "QuotaExhausted", "seconds": 9.0}],
    "hours": {"cpu": 2.0, "nvidia.com/gpu": 35.7333},
    "evictions": 1,
    "restarts": 2,
    "gangObject": "podgroup-tokenize",
    "displaced": [{"at": "2026-11-21T12:00:00Z", "by": "team-b/incident"}],
}
NEVER_STARTED = {
    **ENDED,
    "outcome": "Deleted",
    "queue": "",
    "domain": "",
    "started": None,
    "waitedSeconds": 60.0,
    "waitedFor": [],
    "hours": {},
    "displaced": [],
    "evictions": 0,
}
USED = "35.73 GPU-hours (2 core-hours, 35.73 nvidia.com/gpu-hours)"
CSV = "namespace,name\ndefault,tokenize\n"


class Served:
    """A webhook's answers, and the requests for them."""

    def __init__(self) -> None:
        self.gangs: list[dict[str, Any]] = [ENDED]
        self.asked: list[tuple[str, str]] = []
        self.status = 200

    def answer(self, request: Request) -> Response:
        """Answer as `/v1/history` does."""
        self.asked.append((request.full_path, request.headers.get("Authorization", "")))
        if request.args.get("format") == "csv":
            return Response(CSV, self.status, mimetype="text/csv")
        return Response(msgspec.json.encode({"gangs": self.gangs}), self.status)


@pytest.fixture
def webhook() -> Served:
    """A webhook with one ended gang."""
    return Served()


@pytest.fixture
def asked(tmp_path: Path, webhook: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that runs a command, by default `phalanx gangs`, with arguments, in a cluster with one gang."""
    name = f"{DEFAULT_PLACE.service}.{DEFAULT_PLACE.namespace}.svc"
    authority = write_self_signed(tmp_path, [name], ["127.0.0.1"]).decode()
    monkeypatch.setattr("cli.webhook_requests.authority_in", lambda _: authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / CERTIFICATE, tmp_path / KEY)
    assert (tmp_path / AUTHORITY).is_file()
    server = make_server("127.0.0.1", 0, Request.application(webhook.answer), threaded=True, ssl_context=context)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with local_api(*FOR_COMMANDS) as api:
        kubeconfig = api.kubeconfig(tmp_path)
        api.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
        api.create("/apis/phalanx.dev/v1alpha1/namespaces/default/gangs", {"metadata": {"name": "llm"}, "spec": {}})
        place = f"https://127.0.0.1:{server.server_port}"
        kind, name = CONFIGURATIONS[-1]
        webhooks = [{"name": "a.phalanx.dev", "clientConfig": {"url": f"{place}/validate", "caBundle": "none"}}]
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
        api.create(path, {"metadata": {"name": name}, "webhooks": webhooks})

        def run(*arguments: str, command: str = "gangs", server: str | None = place) -> Result:
            given = ["--server", server] if server else []
            return CliRunner().invoke(group, [command, "--kubeconfig", kubeconfig, *given, *arguments])

        yield run
    server.shutdown()


def test_the_gangs_that_have_ended_follow_the_present_ones(asked: Any, webhook: Served) -> None:
    answer = asked("--all", "-n", "default")
    assert answer.exit_code == 0, answer.output
    present, ended = (part.splitlines() for part in answer.output.split("\n\n"))
    assert [line.split()[0] for line in present] == ["NAME", "llm"]
    titles = ["NAME", "OUTCOME", "PODS", "WAITED", "FOR", "RAN", "GPU-HOURS", "EVICTIONS", "RESTARTS", "ENDED"]
    assert ended[0].split() == titles
    assert ended[1].split()[:-1] == ["tokenize", "Succeeded", "16", "9s", "QuotaExhausted", "2h14m", "35.73", "1", "2"]
    assert webhook.asked == [("/v1/history?format=json&namespace=default", "Bearer none")]


def test_the_plain_list_ends_with_the_number_of_ended_gangs(
    asked: Any, webhook: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "1 gang ended in the last day: phalanx gangs {} --all"
    assert asked("-n", "default").stderr == "", "a program gets no hints"
    assert webhook.asked == []
    monkeypatch.setattr("cli.terminal.gangs.at_terminal", lambda: True)
    assert asked("-n", "default").stderr.splitlines() == [line.format("-n default")]
    assert asked("-A").stderr.splitlines() == [line.format("-A")]
    assert "ended" not in asked("-n", "default").stdout
    webhook.gangs = []
    assert asked("-n", "default").stderr == ""
    webhook.status = 403
    answer = asked("-n", "default")
    assert (answer.exit_code, answer.stderr) == (0, "gangs that have ended: phalanx gangs -n default --all\n")


def test_the_parts_of_a_wait_add_up() -> None:
    """The gang started after 34 s and waited 6 s more after an eviction."""
    waited = [("QuotaExhausted", 20.2), ("NoRoom", 15.4), ("NotPlannedYet", 4.5)]
    reasons = [{"reason": reason, "seconds": seconds} for reason, seconds in waited]
    told = record_text({**ENDED, "waitedSeconds": 34.0, "waitedFor": reasons}, 0, datetime.now(UTC))
    parts = "20s for quota (QuotaExhausted), 15s for capacity (NoRoom), 4s for its plan (NotPlannedYet)"
    assert f"waited      39s: {parts}; 5s of it after its first start" in told


def test_wide_has_the_times_and_the_place(asked: Any) -> None:
    titles, line = asked("--all", "-A", "-o", "wide").output.split("\n\n")[1].splitlines()
    assert titles.split()[-6:] == ["SUBMITTED", "STARTED", "FINISHED", "DOMAIN", "QUEUE", "DIALECT"]
    assert line.split()[0] == "default"
    assert line.endswith("s0 / b0 / r0   training   phalanx")


def test_programs_get_them_beside_the_gang_objects(asked: Any) -> None:
    data = yaml.safe_load(asked("--all", "-n", "default", "-o", "json").output)
    assert ([each["metadata"]["name"] for each in data["items"]], data["ended"]) == (["llm"], [ENDED])
    assert "ended" not in yaml.safe_load(asked("-n", "default", "-o", "json").output)


def test_csv_is_the_webhooks_own(asked: Any, webhook: Served) -> None:
    assert asked("--all", "-A", "-o", "csv").output == CSV
    assert webhook.asked[0][0] == "/v1/history?format=csv"


def test_a_gang_that_has_ended_is_not_missing(asked: Any, webhook: Served) -> None:
    assert asked("tokenize", "--all", "-n", "default").exit_code == 0
    assert asked("tokenize", "-n", "default").exit_code == 1
    webhook.gangs = []
    answer = asked("--all", "-n", "default")
    assert "no gang has ended in namespace default since the webhook started" in answer.output


def test_a_refusal_of_the_webhook_is_one_line(asked: Any, webhook: Served) -> None:
    webhook.status = 403
    answer = asked("--all", "-n", "default")
    assert answer.exit_code == 1
    assert "Error: the webhook refuses GET /v1/history?format=json&namespace=default (403): " in answer.output


@pytest.mark.parametrize("name", ["tokenize", "podgroup-tokenize"])
def test_why_of_an_ended_gang_is_its_record(asked: Any, webhook: Served, name: str) -> None:
    webhook.gangs = [ENDED, {**ENDED, "name": "other", "gangObject": "other"}, NEVER_STARTED]
    answer = asked(f"default/{name}", command="why")
    assert answer.exit_code == 0, answer.output
    head, record, _, *facts = answer.output.splitlines()
    assert head.startswith("default/tokenize  Succeeded  ended ")
    assert record.strip() == "This is a record: the gang has ended, and no object in the cluster shows it any more."
    assert dict(each.strip().split(maxsplit=1) for each in facts) == {
        "submitted": "2026-11-21T11:55:00Z",
        "started": "2026-11-21T11:55:09Z, 9s after it was submitted",
        "finished": "2026-11-21T14:09:09Z, after it ran for 2h14m",
        "waited": "9s for quota (QuotaExhausted)",
        "evictions": "1: 2026-11-21T12:00:00Z for team-b/incident",
        "restarts": "2",
        "used": USED,
        "pods": "16 in s0 / b0 / r0",
        "queue": "default/training",
        "dialect": "phalanx",
        "before": "a gang of this name ended once before: phalanx gangs --all -n default",
    }


def test_a_webhook_outside_the_cluster_is_reached_at_the_url_of_its_configuration(asked: Any) -> None:
    answer = asked("default/tokenize", command="why", server=None)
    assert answer.exit_code == 0, answer.output
    assert answer.output.startswith("default/tokenize  Succeeded")


def test_a_gang_that_never_started_is_told_so(asked: Any, webhook: Served) -> None:
    webhook.gangs = [NEVER_STARTED]
    told = {each.strip() for each in asked("default/tokenize", command="why").output.splitlines()}
    assert "started     never" in told
    assert "finished    2026-11-21T14:09:09Z, 1m after it was submitted" in told
    assert "waited      not at all, as far as the record shows" in told


def test_events_of_an_ended_gang_are_the_steps_of_its_record(asked: Any) -> None:
    answer = asked("default/tokenize", command="events")
    assert answer.exit_code == 0, answer.output
    steps = [line.split(maxsplit=2) for line in answer.output.splitlines()[3:]]
    assert steps == [
        ["AFTER", "WHAT", "NOTE"],
        ["0s", "submitted", "queue default/training, dialect phalanx"],
        ["9s", "started", "pods: 16 in s0 / b0 / r0"],
        ["5m", "evicted", "for team-b/incident"],
        ["2h14m", "finished", f"Succeeded; used {USED}; waited 9s for quota (QuotaExhausted); restarts: 2"],
    ]
    data = yaml.safe_load(asked("default/tokenize", "-o", "json", command="events").output)
    assert data == {"apiVersion": "phalanx.dev/v1alpha1", "kind": "EndedGang", **ENDED}


@pytest.mark.parametrize("command", ["why", "events"])
def test_a_gang_that_is_neither_there_nor_recorded_is_one_line(asked: Any, webhook: Served, command: str) -> None:
    answer = asked("default/nothing", command=command)
    absent = "Error: no gang default/nothing; there are llm. "
    assert (answer.exit_code, answer.stderr) == (1, f"{absent}The record of ended gangs has none of this name\n")
    webhook.status = 403
    answer = asked("default/nothing", command=command)
    assert (answer.exit_code, answer.stderr.startswith(f"{absent}Whether it has ended is not known: ")) == (1, True)


def test_without_a_webhook_there_is_no_record(tmp_path: Path) -> None:
    with local_api(*FOR_COMMANDS) as api:
        kubeconfig = api.kubeconfig(tmp_path)
        api.create("/api/v1/namespaces", {"metadata": {"name": "default"}})
        answer = CliRunner().invoke(group, ["why", "default/llm", "--kubeconfig", kubeconfig])
    assert (answer.exit_code, answer.stderr) == (1, "Error: no gang default/llm, nor any other gang there\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--all", "--watch"), "--all shows what has ended once: leave out --watch"),
        (("-o", "csv"), "-o csv is for gangs that have ended: add --all"),
    ],
)
def test_options_that_exclude_each_other_are_named(asked: Any, arguments: tuple[str, ...], error: str) -> None:
    answer = asked(*arguments)
    assert (answer.exit_code, error in answer.output) == (2, True)


def test_a_webhook_that_does_not_answer_is_one_line(asked: Any) -> None:
    answer = asked("--all", "-A", "--server", "https://127.0.0.1:1")
    assert answer.exit_code == 1
    assert "Error: the webhook does not answer: " in answer.output


def test_the_trust_is_that_of_the_api_server() -> None:
    bundle = base64.b64encode(b"pem").decode()

    def trusting(*bundles: str) -> Transport:
        entries = [{"clientConfig": {"caBundle": each}} for each in bundles]
        return cast("Transport", SimpleNamespace(request=lambda *_: {"webhooks": entries}))

    assert authority_in(trusting("", bundle)) == "pem"
    with pytest.raises(click.ClickException, match="holds no caBundle yet"):
        authority_in(trusting(""))


def test_a_service_accounts_token_is_requested_once() -> None:
    paths = list[str]()

    def request(_: str, path: str, body: Any) -> Any:
        paths.append(path)
        return {"status": {"token": f"token of {body['kind']}"}}

    token = account_token(cast("Transport", SimpleNamespace(request=request)), "research/viewer")
    assert (token(), token()) == ("token of TokenRequest", "token of TokenRequest")
    assert paths == ["/api/v1/namespaces/research/serviceaccounts/viewer/token"]
