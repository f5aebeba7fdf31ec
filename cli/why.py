"""`phalanx why NAMESPACE/GANG`: the state of a gang in the live cluster, with the reasons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from kubernetes.client.exceptions import ForbiddenException, NotFoundException

from cli.asking.api_requests import NOT_INSTALLED, TIMEOUT, asked, listed, split, told_in_a_line
from cli.asking.offered_names import qualified_gangs
from cli.asking.progress import waiting
from cli.asking.watching import redraw
from cli.ended_gangs import NoSuchGangError, RecordReader
from cli.options.looking import KUBECONFIG, SERVER, SERVICE_ACCOUNT, WATCH
from cli.start_estimates import Estimates
from cli.text.ended_text import record_text
from cli.text.why_text import render
from cluster.api.transport import Transport
from gangs.coexistence.ownership import ADMISSION, EVIDENCE_KINDS, systems_ceded_to
from gangs.dialects.claims import dialect_of
from gangs.manifests import key_of
from gangs.mirrors import mirrored_key
from gangs.model import Manifest
from gangs.sources import Sources
from kube.devices import GROUP as DEVICES
from kube.devices import ResourceClaim
from kube.keys import API_VERSION, CONTROLLER_LEASE, SYSTEM_NAMESPACE
from kube.objects import Pod
from kube.text import one_line_each
from planning.stories.facts import GangFacts, gangs_beside, member_keys, place_of
from planning.stories.history import history
from planning.stories.line import PlaceInLine, in_line


@click.command(
    "why",
    epilog="""\b
Examples:
  phalanx why default/llm
  phalanx why default/llm --watch
""",
)
@click.argument("gang", metavar="NAMESPACE/GANG", shell_complete=qualified_gangs)
@WATCH
@KUBECONFIG
@SERVICE_ACCOUNT
@SERVER
def why(gang: str, *, watch: bool, kubeconfig: str | None, service_account: str | None, server: str | None) -> None:
    """Explain the state of a gang: its phase, missing members, why it waits, and which changes would help.

    For a gang that waits for capacity, the command also prints its position in the planning order. For a gang that
    waits for quota, it prints an estimated start. For a gang that has ended, it prints the webhook's record. You need
    the ClusterRole phalanx-viewer for the record.

    Name the gang by its Gang object or by the workload that asked for it. Exit status 1: the gang does not exist.
    """
    namespace, name = split(gang)
    reader = Reader(asked(kubeconfig), Estimates(kubeconfig))

    def story() -> GangFacts:
        with told_in_a_line():
            return reader.story(namespace, name)

    try:
        if watch:
            redraw(story, render)
        else:
            with waiting("asking the cluster"):
                facts = story()
            click.echo(render(facts, datetime.now(UTC)), nl=False)
    except NoSuchGangError as absence:
        last, *earlier = RecordReader(kubeconfig, service_account, server).named(namespace, name, absence)
        click.echo(record_text(last, len(earlier), datetime.now(UTC)), nl=False)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads all facts about one gang from the API server, in a few requests."""

    transport: Transport
    estimates: Estimates | None = None
    """Estimates the start of a gang that waits for quota. None: starts are not estimated."""

    def story(self, namespace: str, name: str) -> GangFacts:
        """Return all facts about a gang: its Gang object, pods, events, leader, and its position in the planning order.

        The estimated start is included if the gang waits for quota.

        :raises NoSuchGangError: there is no such gang.
        """
        manifest = self.gang(namespace, name)
        pods = self.members(manifest)
        place, beside = self._among_others(manifest) if in_line(manifest) else (None, ())
        return GangFacts(
            manifest=manifest,
            pods=tuple(pods),
            events=tuple(history(self.transport, manifest, pods)),
            leader=self._leader(),
            place=place,
            beside=beside,
            start=self.estimates.start(self.transport, manifest) if self.estimates is not None else None,
            claims=self._claims(pods),
        )

    def _claims(self, pods: Sequence[Pod]) -> dict[str, ResourceClaim]:
        """Return the ResourceClaims in the namespaces of pods with claims, by `namespace/name`.

        Empty if the user may not list them, or if the API server does not serve them.
        """
        found = list[ResourceClaim]()
        for namespace in sorted({pod.metadata.namespace for pod in pods if pod.spec.resource_claims}):
            try:
                claims = listed(self.transport, f"/apis/{DEVICES}/v1/namespaces/{namespace}/resourceclaims")
                found += [msgspec.convert(each, type=ResourceClaim) for each in claims]
            except (ForbiddenException, NotFoundException):
                continue
        return {each.key: each for each in found}

    def gang(self, namespace: str, name: str) -> Manifest:
        """Return the Gang object with this name, else one whose owner or mirrored gang has this name.

        :raises NoSuchGangError: there is no such Gang object. The message lists the other gangs.
        """
        try:
            manifests = self._get(f"/apis/{API_VERSION}/namespaces/{namespace}/gangs")["items"]
        except NotFoundException as error:
            raise click.ClickException(NOT_INSTALLED) from error
        found = next((each for each in manifests if each["metadata"]["name"] == name), None)
        found = found or next((each for each in manifests if name in _asked_by(each)), None)
        if found is None:
            others = ", ".join(sorted(each["metadata"]["name"] for each in manifests))
            hint = f"; there are {others}" if others else ", nor any other gang there"
            raise NoSuchGangError(f"no gang {namespace}/{name}{hint}{self._left()}")
        gang: Manifest = found
        return gang

    def _left(self) -> str:
        """Return a hint for a message that names the systems to which gangs are ceded.

        "" if there are none, or if the user may not read the webhook configurations by which such systems are detected.
        """
        try:
            lists = [self._get(f"/apis/{ADMISSION}/v1/{kind.plural}")["items"] for kind in EVIDENCE_KINDS]
        except ForbiddenException:
            return ""
        kinds = [kind.kind for kind in EVIDENCE_KINDS]
        documents = [
            {"apiVersion": f"{ADMISSION}/v1", "kind": kind, **each}
            for kind, items in zip(kinds, lists, strict=True)
            for each in items
        ]
        left = systems_ceded_to(Sources(objects={key_of(each): each for each in documents}))
        others = dict.fromkeys(map(str, left.values()))
        return f"; gangs are left to {' and '.join(others)}" if others else ""

    def members(self, manifest: Manifest) -> list[Pod]:
        """Return the pods of the gang that this Gang object shows."""
        keys = member_keys(manifest)
        pods = (pod for namespace in sorted({key.namespace for key in keys}) for pod in self._pods(namespace))
        return [pod for pod in pods if (claim := dialect_of(pod)) is not None and claim[1] in keys]

    def _pods(self, namespace: str) -> Iterator[Pod]:
        for each in listed(self.transport, f"/api/v1/namespaces/{namespace}/pods"):
            yield msgspec.convert(each, type=Pod)

    def _among_others(self, manifest: Manifest) -> tuple[PlaceInLine | None, Sequence[str]]:
        """Return the gang's position among the waiting gangs, and the gangs in the few domains to which a node selector
        confines this gang.

        (None, ()) if the user may not list all gangs and pods.
        """
        try:
            gangs = list(listed(self.transport, f"/apis/{API_VERSION}/gangs"))
            unbound = [
                msgspec.convert(each, type=Pod)
                for each in listed(self.transport, "/api/v1/pods", {"fieldSelector": "spec.nodeName="})
            ]
        except ForbiddenException:
            return None, ()
        return place_of(manifest, gangs, unbound), gangs_beside(manifest.get("status") or {}, gangs)

    def _leader(self) -> Manifest | None:
        """Return the spec of the controllers' Lease; None if there is no Lease; empty if the user may not read it."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{CONTROLLER_LEASE}"
        try:
            spec: Manifest = self._get(path)["spec"]
        except NotFoundException:
            return None
        except ForbiddenException:
            return {}
        return spec

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Send a GET request. Return the answer with line breaks and control characters escaped for the terminal."""
        return one_line_each(self.transport.request("GET", path, query=query, timeout=TIMEOUT))


def _asked_by(manifest: Manifest) -> set[str]:
    """Return the names by which a user may call the gang of a Gang object: those of its owners, and of the gang that it
    mirrors.
    """
    key = mirrored_key(manifest)
    owners = {owner["name"] for owner in manifest["metadata"].get("ownerReferences", ())}
    return owners | ({key.name} if key else set())
