"""Malformed reviews and request bodies: valid ones with random damage, the same for the same seed."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from flask.testing import FlaskClient
from pictures import StillPicture, node, topology

from cluster.api.token_reviews import Access
from webhook.app import create_app
from webhook.metrics import Metrics

ROOT = Path(__file__).parents[2]
HEADERS = {"Authorization": "Bearer good"}
PLACES = [path for folder in ("examples", "tests/refusals") for path in sorted((ROOT / folder).rglob("*.yaml"))]
DEEP = 200
WEIRD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, -(2**63), 10**30, 1e308, 0.5, "", " ", "0", "-1", "NaN", "١٢", "a" * 300),
    *(
        "é",
        "😀",
        "\u202e",
        "\x00",
        "\x1b[2J",
        "<script>",
        [],
        {},
        [[]],
        [None],
        {"": None},
        "true",
        "{}",
        '{"a":',
        "null",
    ),
    *("a/b/c", "/", "1Ki", "99999999999999999999Ei", "-5m", "inf", "9999-12-31T23:59:59Z", "[" * DEEP + "]" * DEEP),
    *('{"a":' * DEEP + "1" + "}" * DEEP, '{"a":1,"a":2}', [1, "a", {}], {"a": {"b": {"c": []}}}, {"name": 1}),
)
KEYS = (
    *(
        "spec",
        "metadata",
        "labels",
        "annotations",
        "name",
        "phalanx.dev/gang",
        "phalanx.dev/index",
        "phalanx.dev/mirrors",
    ),
    *("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name", "kai.scheduler/topology", "pod-group-name"),
    *("pod-group.scheduling.sigs.k8s.io", "gang.scheduling.koordinator.sh/groups", "network-topology-job-name"),
    *("gang.scheduling.koordinator.sh/network-topology-spec", "scheduling.run.ai/topology-policy"),
)
_PLURALS = {"Topology": "topologies"}


class EverybodyMay:
    """An access check that allows every caller without a request to the API server."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Yes."""
        del token, verb, path
        return Access.ALLOWED


def open_client() -> FlaskClient:
    """A client of the application over four nodes in two racks."""
    nodes = [node(f"node-{number}", rack=f"r{number // 2}") for number in range(4)]
    return create_app(StillPicture([topology("rack")], nodes=nodes), EverybodyMay(), Metrics()).test_client()


def one_of_each_kind() -> Iterator[dict[str, Any]]:
    """Return the first object of every kind from the examples and the refusals, with an annotation of Phalanx."""
    seen = set()
    for each in (found for path in PLACES for found in _objects(path)):
        kind = each.get("apiVersion"), each.get("kind")
        if kind not in seen and isinstance(each.get("metadata"), dict):
            seen.add(kind)
            annotations = {**(each["metadata"].get("annotations") or {}), "phalanx.dev/required": "rack"}
            yield {**each, "metadata": {**each["metadata"], "annotations": annotations}}


def resource_of(manifest: dict[str, Any]) -> dict[str, str]:
    """As a review names it."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    plural = _PLURALS.get(manifest["kind"], f"{manifest['kind'].lower()}s")
    return {"group": group, "version": version, "resource": plural}


def with_a_wrong_part(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the object with one part at a time replaced, down to the second level, so that it is no mapping."""
    for key, part in manifest.items():
        for wrong in ("a text", ["a"], 7):
            yield {**manifest, key: wrong}
            for inner in part if isinstance(part, dict) else ():
                yield {**manifest, key: {**part, inner: wrong}}


class Spoiler:
    """Makes requests from the examples' and the refusals' objects."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 -- the same for the same seed
        self._objects = [each for path in PLACES for each in _objects(path)]

    def request(self) -> tuple[str, bytes]:
        """Return a path, and a body that is seldom valid for it."""
        if self._random.random() < 0.1:
            many = [self._spoilt(self._object(), self._random.randint(0, 3)) for _ in range(self._random.randint(1, 6))]
            stream = yaml.dump_all(many, Dumper=yaml.CSafeDumper, allow_unicode=True)
            return "/v1/solve?timeout=20s", self._cut(stream.encode("utf-8", "surrogatepass"))
        review = self._spoilt(self._review(), self._random.choice([0, 1, 1, 1, 2, 3, 5, 10]))
        body = json.dumps(review).encode("utf-8", "surrogatepass")
        path = self._random.choice(
            ["/mutate", "/mutate", "/validate", "/mutate/automatic", "/mutate/absent-schedulers", "/mutate/described"]
        )
        return f"{path}{self._random.choice(['', '?timeout=5s', '?timeout=0s', '?timeout=x'])}", self._cut(body)

    def _object(self) -> dict[str, Any]:
        return copy.deepcopy(self._random.choice(self._objects))

    def _review(self) -> dict[str, Any]:
        manifest = self._object()
        operation = self._random.choice(["CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE", ""])
        old = copy.deepcopy(manifest) if operation == "UPDATE" else None
        request = {"uid": "u", "operation": operation, "namespace": "default", "name": "x", "dryRun": False}
        request |= {"resource": resource_of(manifest), "object": manifest}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | {"oldObject": old}}

    def _spoilt(self, value: dict[str, Any], times: int) -> dict[str, Any]:
        for _ in range(times):
            places = [each for each in _places(value) if len(each) > 2] or [each for each in _places(value) if each]
            if not places:
                return value
            *way, last = self._random.choice(places)
            part: Any = value
            for step in way:
                part = part[step]
            how = self._random.random()
            if how < 0.5:
                part[last] = copy.deepcopy(self._random.choice(WEIRD))
            elif how < 0.65:
                del part[last]
            elif isinstance(part[last], dict):
                part[last][self._random.choice(KEYS)] = copy.deepcopy(self._random.choice(WEIRD))
            elif isinstance(part[last], list):
                part[last].extend(copy.deepcopy(part[last]) or [1])
        return value

    def _cut(self, body: bytes) -> bytes:
        how = self._random.random()
        if how < 0.04:
            return body[: self._random.randint(0, len(body))]
        if how < 0.08 and body:
            spoilt = bytearray(body)
            for _ in range(self._random.randint(1, 20)):
                spoilt[self._random.randrange(len(spoilt))] = self._random.randrange(256)
            return bytes(spoilt)
        return body


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    for each in yaml.load_all(path.read_text(), yaml.CSafeLoader):
        if isinstance(each, dict) and isinstance(each.get("kind"), str) and isinstance(each.get("apiVersion"), str):
            yield json.loads(json.dumps(each, default=str))


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(each, (*at, key))
