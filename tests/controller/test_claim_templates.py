"""The controller creates the templates of converted members, for as long as they are gated."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from local_api.direct import DirectTransport
from local_api.resources import FOR_DEVICES
from local_api.server import LocalApi, local_api, refused
from manual_clock import ManualClock
from protocol_scenes import gang, pod, snapshot

from cluster.devices.claims import Devices
from cluster.devices.extended_resources import ClassRequest, Conversion, converted, template_of
from controller.acting.claim_templates import APPEARS_WITHIN_SECONDS, ClaimTemplates, templates_path
from controller.cluster_view import ClusterView
from controller.reconcile_state import ReconcileState
from controller.release.next_step import AllBound
from controller.writes.writer import Writer
from gangs.model import Reading
from gangs.sources import Sources

TEMPLATES = templates_path("default")
CONVERSION = Conversion((ClassRequest("container-0-request-0", "gpu", 1),), {}, {})
MEMBER = converted(pod("a"), CONVERSION)
STATE = ReconcileState(gang(MEMBER), {}, None, AllBound())


@pytest.fixture
def api() -> Iterator[LocalApi]:
    """An API server that serves templates."""
    with local_api(*FOR_DEVICES) as found:
        yield found


def seen(devices: Devices) -> ClusterView:
    """A cluster with these devices."""
    return ClusterView(Sources(), Reading(()), (), (), replace(snapshot(), devices=devices), {})


def test_a_template_that_is_deleted_before_the_caches_show_it_is_created_again(api: LocalApi) -> None:
    """Otherwise the gang waits for ever: the template belonged to another workload, which a user deleted at once."""
    clock, writer = ManualClock(), Writer(DirectTransport(api))
    templates = ClaimTemplates(writer, clock=clock)
    assert templates.provide(STATE, seen(Devices())).written
    (created,) = api.ask("GET", TEMPLATES)["items"]
    assert created["metadata"]["name"] == CONVERSION.template
    api.ask("DELETE", f"{TEMPLATES}/{CONVERSION.template}")
    assert not templates.provide(STATE, seen(Devices())).written
    clock.now += APPEARS_WITHIN_SECONDS
    assert templates.provide(STATE, seen(Devices())).written
    assert len(api.ask("GET", TEMPLATES)["items"]) == 1
    known = template_of(MEMBER)
    assert known is not None
    assert not templates.provide(STATE, seen(Devices(templates={known.key: known}))).written
    writer.close()


def test_the_status_names_a_template_that_the_api_server_refuses(api: LocalApi) -> None:
    """Otherwise the gang waits for a claim, and nothing says why the claim is not created."""
    writer = Writer(DirectTransport(api))
    api.fault(f"POST {TEMPLATES}", refused(403, "Forbidden", "no right to create"))
    effects = ClaimTemplates(writer).provide(STATE, seen(Devices()))
    assert effects.awaited == f"cannot create ResourceClaimTemplate default/{CONVERSION.template}: no right to create"
    assert effects.watched
    writer.close()
