"""CustomResourceDefinitions of other projects' kinds on a control plane of the tests.

The definitions stay when their operator ends, because defining and deleting four large kinds takes the API server 20 s
of processor time.
"""

from collections.abc import Collection, Iterable

from controlplane.control_plane import ControlPlane, Manifest, wait_until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SOURCE = "test.phalanx.dev/defined-by"
"""The label with the source of a definition (`source` of `define`)."""
_PATIENCE = 120.0


def define(plane: ControlPlane, source: str, definitions: Iterable[Manifest]) -> None:
    """Create the CustomResourceDefinitions of `source`, and wait until their kinds are served.

    Definitions of the same name from another source are deleted before, with their objects.
    :raises TimeoutError: a finalizer keeps an object of such a kind, or the new kinds are not served.
    """
    wanted = {each["metadata"]["name"]: each for each in definitions}
    there = {name: plane.request("GET", f"{DEFINITIONS}/{name}")["metadata"] for name in wanted}
    stay = {
        name
        for name, metadata in there.items()
        if metadata.get("labels", {}).get(_SOURCE) == source and "deletionTimestamp" not in metadata
    }
    undefine(plane, wanted.keys() - stay)
    plane.create(DEFINITIONS, [_labelled(each, source) for name, each in wanted.items() if name not in stay])
    wait_until(
        lambda: all(_is_served(plane, name) for name in wanted.keys() - stay),
        _PATIENCE,
        f"the kinds of {source} to be served",
    )


def undefine(plane: ControlPlane, names: Collection[str]) -> None:
    """Delete CustomResourceDefinitions with all objects of their kinds, and wait until they are gone.

    A definition that does not exist is no error.
    :raises TimeoutError: a finalizer keeps an object.
    """
    for name in names:
        plane.request("DELETE", f"{DEFINITIONS}/{name}")
    wait_until(
        lambda: all(plane.request("GET", f"{DEFINITIONS}/{name}")["kind"] == "Status" for name in names),
        _PATIENCE,
        f"{', '.join(sorted(names))} to be gone",
    )


def _labelled(definition: Manifest, source: str) -> Manifest:
    metadata = definition["metadata"]
    labels = {**(metadata.get("labels") or {}), _SOURCE: source}
    return {**definition, "metadata": {**metadata, "labels": labels}}


def _is_served(plane: ControlPlane, name: str) -> bool:
    conditions = plane.request("GET", f"{DEFINITIONS}/{name}").get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)
