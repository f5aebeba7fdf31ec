"""The CRDs define exactly the fields that Phalanx reads, and describe every field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gangs.ack.networks import JobNetworkSpec
from gangs.dialects.table import all_kinds
from gangs.koordinator.topologies import Layer
from gangs.koordinator.units import PodGroupSpec
from gangs.kueue import queues, topologies
from gangs.phalanx.spec import GangSpec, TopologySpec

FOLDER = Path(__file__).parents[2] / "manifests" / "crds"
FILES = sorted(path for path in FOLDER.glob("*/*.yaml") if path.name != "kustomization.yaml")
OBJECTS: list[dict[str, Any]] = [yaml.safe_load(path.read_text()) for path in FILES]
CRDS = {each["metadata"]["name"]: each for each in OBJECTS}


def schema(name: str) -> dict[str, Any]:
    """The schema of a definition, which all its versions share."""
    first, *others = (each["schema"]["openAPIV3Schema"] for each in CRDS[name]["spec"]["versions"])
    assert all(each == first for each in others)
    return first  # type: ignore[no-any-return]


def fields(part: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, below in part.get("properties", {}).items():
        yield f"{path}.{name}", below
        yield from fields(below, f"{path}.{name}")
    if "items" in part:
        yield from fields(part["items"], f"{path}[]")


@pytest.mark.parametrize("name", CRDS)
def test_every_field_is_described(name: str) -> None:
    described = {path: "description" in part for path, part in fields(schema(name), name)}
    del described[f"{name}.metadata"]  # the API server describes it
    assert [path for path, said in described.items() if not said] == []


@pytest.mark.parametrize("name", CRDS)
def test_every_crd_is_watched_as_what_it_is(name: str) -> None:
    spec = CRDS[name]["spec"]
    kind = spec["names"]["kind"]
    (watched,) = (each for each in all_kinds() if (each.group, each.kind) == (spec["group"], kind))
    assert watched.plural == spec["names"]["plural"]
    assert watched.namespaced == (spec["scope"] == "Namespaced")
    assert set(watched.versions) == {each["name"] for each in spec["versions"]}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_every_crd_is_installed_by_its_folder(file: Path) -> None:
    assert file.name in yaml.safe_load((file.parent / "kustomization.yaml").read_text())["resources"]


def struct_fields(type_: Any, path: str) -> Iterator[tuple[str, bool]]:
    """(path, required) of every field of a msgspec struct and of those inside."""
    for each in msgspec.inspect.type_info(type_).fields:  # type: ignore[attr-defined]
        yield f"{path}.{each.encode_name}", each.required
        yield from inner_fields(each.type, f"{path}.{each.encode_name}")


def inner_fields(info: Any, path: str) -> Iterator[tuple[str, bool]]:
    if isinstance(info, msgspec.inspect.UnionType):
        for each in info.types:
            yield from inner_fields(each, path)
    elif isinstance(info, msgspec.inspect.VarTupleType):
        yield from inner_fields(info.item_type, f"{path}[]")
    elif isinstance(info, msgspec.inspect.StructType):
        yield from struct_fields(info.cls, path)


def schema_fields(part: dict[str, Any], path: str) -> Iterator[tuple[str, bool]]:
    for name, below in part.get("properties", {}).items():
        yield f"{path}.{name}", name in part.get("required", ())
        yield from schema_fields(below, f"{path}.{name}")
    if "items" in part:
        yield from schema_fields(part["items"], f"{path}[]")


@pytest.mark.parametrize(("plural", "type_"), [("gangs", GangSpec), ("topologies", TopologySpec)])
def test_our_own_specs_are_the_same_in_schema_and_code(plural: str, type_: type) -> None:
    assert set(schema_fields(schema(f"{plural}.phalanx.dev")["properties"]["spec"], "spec")) == set(
        struct_fields(type_, "spec")
    )


def test_foreign_specs_hold_at_least_what_is_read() -> None:
    pod_group = schema("podgroups.scheduling.sigs.k8s.io")["properties"]["spec"]["properties"]
    assert {each.encode_name for each in msgspec.structs.fields(PodGroupSpec)} <= pod_group.keys()
    job_network = schema("jobnetworktopologies.scheduling.koordinator.sh")["properties"]["spec"]
    assert set(struct_fields(JobNetworkSpec, "spec")) == set(schema_fields(job_network, "spec"))
    network = schema("clusternetworktopologies.scheduling.koordinator.sh")["properties"]["spec"]["properties"][
        "networkTopologySpec"
    ]
    assert {each.encode_name for each in msgspec.structs.fields(Layer)} == network["items"]["properties"].keys()


KUEUE = [
    ("topologies", topologies.TopologySpec),
    ("resourceflavors", queues.FlavorSpec),
    ("clusterqueues", queues.ClusterQueueSpec),
    ("localqueues", queues.LocalQueueSpec),
    ("cohorts", queues.CohortSpec),
]


@pytest.mark.parametrize(("plural", "type_"), KUEUE)
def test_kueues_specs_hold_at_least_what_is_read(plural: str, type_: type) -> None:
    part = schema(f"{plural}.kueue.x-k8s.io")["properties"]["spec"]
    read = {path for path, _ in struct_fields(type_, "spec") if ".namespaceSelector." not in path}
    assert read <= {path for path, _ in schema_fields(part, "spec")}
