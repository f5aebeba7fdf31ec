"""A real API server shows the client certificate that `docs/security.md` describes. Other callers are rejected."""

import contextlib
import http.client
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from servers import PATIENCE, REPOSITORY, RunningServer, stop

from certs.authority import Pair, new_authority
from certs.files import write_self_signed
from cli.installation.installed_objects import custom_resource_definitions, system_objects, webhook_configurations
from cli.webhook import webhook
from controlplane.control_plane import ControlPlane, Options, wait_until
from controlplane.running.ports import free_ports

pytestmark = pytest.mark.controlplane

FOLDER = "/etc/kubernetes/admission"
SERVICE = "phalanx-webhook.phalanx-system.svc"
DRY_RUN = "/api/v1/namespaces/default/pods?dryRun=All"


def write_client(authority: Pair, folder: Path, name: str) -> Path:
    """`client.crt` and `client.key` for a client of that common name, in a folder of its own."""
    folder.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.load_pem_x509_certificate(authority.certificate).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "client.crt").write_bytes(certificate.public_bytes(pem))
    (folder / "client.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder


def write_documented(folder: Path, user: str) -> Path:
    """The two files of `docs/security.md`, as it has them, for a webhook of that name; the path of the first."""
    blocks = re.findall(r"```yaml\n(.*?)```", (REPOSITORY / "docs" / "security.md").read_text(), re.DOTALL)
    for name, text in zip(("config.yaml", "kubeconfig.yaml"), blocks, strict=True):
        assert f"{FOLDER}/{name}" in text.splitlines()[0]
        assert SERVICE in text or name == "config.yaml"
        (folder / name).write_text(text.replace(FOLDER, str(folder)).replace(SERVICE, user))
    return folder / "config.yaml"


class Guarded:
    """A webhook that answers admission only to "kube-apiserver" of one authority, and the API server that asks it."""

    def __init__(self, plane: ControlPlane, server: RunningServer, authority: Pair, folder: Path) -> None:
        self.plane = plane
        self.authority = authority
        self._server = server
        self._folder = folder
        self.believed = folder / "ca.crt"

    def gated(self) -> bool:
        """Whether the API server gets its members gated."""
        labels = {"pod-group.scheduling.sigs.k8s.io": "llm"}
        spec = {"containers": [{"name": "main", "image": "pause"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "member", "labels": labels}, "spec": spec}
        answer: dict[str, Any] = self.plane.request("POST", DRY_RUN, pod)
        return bool(answer.get("spec", {}).get("schedulingGates"))

    def ask(
        self, method: str, path: str, *, client: str = "", authority: Pair | None = None, token: str = ""
    ) -> tuple[int, str]:
        """Status and text of an answer; `client` is the common name on the certificate that is shown."""
        trust = self._server.context()
        if client:
            folder = write_client(authority or self.authority, self._folder / "other", client)
            trust.load_cert_chain(folder / "client.crt", folder / "client.key")
        connection = http.client.HTTPSConnection("127.0.0.1", self._server.port, timeout=PATIENCE, context=trust)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, b"{}" if method == "POST" else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Both, and the webhook registered."""
    folder = tmp_path_factory.mktemp("admission")
    authority = new_authority("api servers", datetime.now(UTC))
    (folder / "ca.crt").write_bytes(authority.certificate)
    port, health_port = free_ports(2)
    config = write_documented(write_client(authority, folder, "kube-apiserver"), f"127.0.0.1:{port}")
    bundle = write_self_signed(folder / "serving", ["localhost"], ["127.0.0.1"])
    flags = [f"--admission-control-config-file={config}"]
    with ControlPlane(Options(components=["kube-controller-manager"], api_server=flags)) as plane:
        plane.apply([*custom_resource_definitions(), *system_objects()])
        kubeconfig = plane.kubeconfig_for("phalanx-system", "phalanx-webhook")
        command = [sys.executable, "-m", "cli.main", "webhook", "--host=127.0.0.1", f"--port={port}"]
        command += [f"--health-port={health_port}", f"--cert-dir={folder / 'serving'}", f"--kubeconfig={kubeconfig}"]
        command += [f"--client-ca-file={folder / 'ca.crt'}", "--client-name=kube-apiserver"]
        process = subprocess.Popen(command, cwd=REPOSITORY)
        server = RunningServer(process, port, health_port, folder / "serving")
        try:
            server.wait("/readyz", 200)
            plane.apply(webhook_configurations(f"https://127.0.0.1:{port}", bundle))
            yield Guarded(plane, server, authority, folder)
        finally:
            stop(process)


def test_the_api_server_is_answered(guarded: Guarded) -> None:
    wait_until(guarded.gated, PATIENCE, "a member to be gated")


@pytest.mark.parametrize(
    "path", ["/mutate", "/mutate/automatic", "/mutate/absent-schedulers", "/mutate/described", "/validate"]
)
def test_who_shows_no_certificate_or_that_of_somebody_else_is_forbidden(guarded: Guarded, path: str) -> None:
    status, text = guarded.ask("POST", path)
    assert (status, "show its client certificate" in text) == (403, True)
    status, text = guarded.ask("POST", path, client="kubelet")
    assert (status, "the certificate is of kubelet" in text) == (403, True)
    assert guarded.ask("POST", path, client="kube-apiserver")[0] == 400  # spoken to; `{}` is no AdmissionReview


def test_who_shows_a_certificate_of_another_authority_is_not_spoken_to(guarded: Guarded) -> None:
    stranger = new_authority("api servers", datetime.now(UTC))
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        guarded.ask("POST", "/mutate", client="kube-apiserver", authority=stranger)


def test_the_other_paths_ask_for_a_token_as_before(guarded: Guarded) -> None:
    assert guarded.ask("GET", "/v1/gangs")[0] == 401


def test_the_authority_may_change_while_the_webhook_runs(guarded: Guarded) -> None:
    """A second one is believed beside the first, and is forgotten again."""
    old, new = guarded.authority, new_authority("api servers", datetime.now(UTC))

    def status(authority: Pair) -> int:
        try:
            return guarded.ask("POST", "/mutate", client="kube-apiserver", authority=authority)[0]
        except OSError:
            return 0

    guarded.believed.write_bytes(old.certificate + new.certificate)
    wait_until(lambda: status(new) == 400, PATIENCE, "the new authority to be believed")
    assert status(old) == 400
    guarded.believed.write_bytes(old.certificate)
    wait_until(lambda: status(new) == 0, PATIENCE, "the new authority to be forgotten")
    assert guarded.gated()


def test_while_the_api_server_is_away_no_token_is_believed_and_admission_is_answered(guarded: Guarded) -> None:
    guarded.plane.program("kube-apiserver").stop()
    try:
        status, text = guarded.ask("GET", "/v1/gangs", token=guarded.plane.token)
        assert (status, "TokenReview failed" in text) == (503, True)
        assert guarded.ask("POST", "/mutate", client="kube-apiserver")[0] == 400
    finally:
        guarded.plane.program("kube-apiserver").start()
        guarded.plane.await_ready("kube-apiserver")


def test_a_name_without_an_authority_is_refused_at_the_start(tmp_path: Path) -> None:
    answer = CliRunner().invoke(webhook, ["--cert-dir", str(tmp_path), "--client-name", "kube-apiserver"])
    assert (answer.exit_code, "--client-name needs --client-ca-file" in answer.output) == (2, True)
