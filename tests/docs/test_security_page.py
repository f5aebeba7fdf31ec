"""`docs/security.md` lists exactly the rights that the manifests grant, and what fails without each right."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from access_rules import granted
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from cli.installation.installed_objects import component_objects, system_objects
from serving.background import SMALL
from serving.limits import ConnectionLimits
from webhook.serving import Settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
ACCOUNTS = {
    "both": ("phalanx-webhook", "phalanx-controller"),
    "webhook": ("phalanx-webhook",),
    "controller": ("phalanx-controller",),
}


def rows(first: str) -> Iterator[list[str]]:
    """The cells of the table whose first column has this heading."""
    table = PAGE.read_text().partition(f"| {first} |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def written_rights(first: str) -> set[str]:
    """The rights in the table whose first column has this heading."""
    return {
        f"{account} may {verb} {resource}"
        for who, verbs, resources, *_ in rows(first)
        for account in ACCOUNTS[who]
        for verb in verbs.split(", ")
        for resource in re.findall(r"`([^`]+)`", resources)
    }


def test_the_table_of_rights_is_the_manifests_own() -> None:
    assert written_rights("who") == {str(right) for right in granted(system_objects())}


def test_the_table_of_the_component_for_devices_is_its_manifests_own() -> None:
    assert written_rights("account") == {str(right) for right in granted(component_objects("devices"))}


def test_every_right_says_what_breaks_without_it() -> None:
    assert all(len(row) == 5 and all(row) for table in ("who", "account") for row in rows(table))


def test_the_limits_are_those_that_hold() -> None:
    written = [(int(main), int(small)) for _, main, small in rows("limit")]
    kept = [
        (
            each.connections,
            each.handshake_seconds,
            each.request_seconds,
            each.answer_seconds,
            each.keep_seconds,
            each.head_bytes / 1024,
            each.body_bytes / 1024,
            each.bodies_bytes / 1024,
        )
        for each in (ConnectionLimits(), SMALL)
    ]
    assert written == list(zip(*kept, strict=True))
    settings = Settings(Path())
    assert (settings.connections, settings.keepalive) == written[0][0:1] + written[4][0:1]


def test_every_test_that_is_named_exists() -> None:
    named = [each for _, where in rows("what") for each in re.findall(r"`([^`]+)`", where)]
    assert named
    for each in named:
        path, _, test = each.partition("::")
        text = (ROOT / path).read_text()
        assert f"\ndef {test}(" in text if test else "\ndef test_" in text, each


def test_the_documented_commands_make_a_certificate_of_a_client(tmp_path: Path) -> None:
    (shown,) = (each for each in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) if "openssl" in each)
    commands, _, last = shown.rpartition("kubectl ")
    assert "create configmap phalanx-client-ca --from-file=ca.crt=client-ca.crt" in last
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True, capture_output=True)
    authority, client = (
        x509.load_pem_x509_certificate((tmp_path / f"{name}.crt").read_bytes()) for name in ("client-ca", "client")
    )
    purpose = client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [each.dotted_string for each in purpose] == [ExtendedKeyUsageOID.CLIENT_AUTH.dotted_string]
    client.verify_directly_issued_by(authority)
