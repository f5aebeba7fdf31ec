"""The command-line arguments of each program of the control plane.

Reasons for the flags: the endpoint reconciler refuses a loopback advertise address, so it is switched off. etcd need
not survive a power cut here. Controllers for the addresses of real nodes have nothing to do, so they are switched off.
The scheduler has its default configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from certs.files import AUTHORITY, CERTIFICATE, KEY

COMPONENTS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kwok")
"""In the order in which they start."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one control plane runs: its folder, and the port of each program. From these follow its files and URLs."""

    directory: Path
    ports: Mapping[str, int]

    @property
    def etcd_url(self) -> str:
        """The URL at which etcd serves its clients."""
        return f"http://127.0.0.1:{self.ports['etcd']}"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    @property
    def certificates(self) -> Path:
        """The folder of the certificate and key with which the programs serve TLS (`certs.files`)."""
        return self.directory / "certs"

    @property
    def ca_file(self) -> Path:
        """The file with the certificate of the authority that has signed the programs' certificate."""
        return self.certificates / AUTHORITY

    @property
    def kubeconfig(self) -> Path:
        """The path of the kubeconfig with the rights of a cluster administrator."""
        return self.directory / "admin.kubeconfig"

    @property
    def service_account_key(self) -> Path:
        """The file of the key that signs and verifies the tokens of service accounts."""
        return self.directory / "sa.key"

    @property
    def tokens(self) -> Path:
        """The file with the administrator's token, in the format of the API server."""
        return self.directory / "tokens.csv"

    @property
    def stages(self) -> Path:
        """The file with kwok's stages (`controlplane.running.stages`)."""
        return self.directory / "stages.yaml"


def arguments(
    component: str, place: Place, feature_gates: Mapping[str, bool], runtime_config: Sequence[str]
) -> list[str]:
    """Return the command-line arguments of a component, without the program's own name.

    :raises KeyError: there is no such component.
    """
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in feature_gates.items())
    gated = [f"--feature-gates={gates}"] if gates else []
    return {
        "etcd": _etcd(place),
        "kube-apiserver": [*_api_server(place, runtime_config), *gated],
        "kube-scheduler": [*_client(place, "kube-scheduler"), *gated],
        "kube-controller-manager": [*_controller_manager(place), *gated],
        "kwok": _kwok(place),
    }[component]


def _etcd(place: Place) -> list[str]:
    peers = f"http://127.0.0.1:{place.ports['peer']}"
    return [
        f"--data-dir={place.directory / 'etcd'}",
        f"--listen-client-urls={place.etcd_url}",
        f"--advertise-client-urls={place.etcd_url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def _api_server(place: Place, runtime_config: Sequence[str]) -> list[str]:
    return [
        f"--etcd-servers={place.etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={place.ports['kube-apiserver']}",
        "--endpoint-reconciler-type=none",
        *_serving(place),
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={place.service_account_key}",
        f"--service-account-signing-key-file={place.service_account_key}",
        f"--token-auth-file={place.tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        *([f"--runtime-config={','.join(runtime_config)}"] if runtime_config else []),
    ]


def _controller_manager(place: Place) -> list[str]:
    return [
        *_client(place, "kube-controller-manager"),
        "--controllers=*,-nodeipam",
        f"--service-account-private-key-file={place.service_account_key}",
        # At the default of 20 requests a second, the taints of 100 new nodes keep pods away for ten seconds.
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]


def _client(place: Place, component: str) -> list[str]:
    return [
        f"--kubeconfig={place.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={place.ports[component]}",
        *_serving(place),
    ]


def _serving(place: Place) -> list[str]:
    """Return the TLS flags that make a program serve with the control plane's own certificate, which has an ECDSA key.

    Otherwise each program would create an RSA certificate for itself. RSA signatures took a fifth of the API server's
    processor time in tests, which start servers all the time.
    """
    return [
        f"--tls-cert-file={place.certificates / CERTIFICATE}",
        f"--tls-private-key-file={place.certificates / KEY}",
    ]


def _kwok(place: Place) -> list[str]:
    return [
        f"--kubeconfig={place.kubeconfig}",
        "--manage-all-nodes=true",
        "--node-ip=127.0.0.1",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{place.ports['kwok']}",
        f"--config={place.stages}",
    ]
