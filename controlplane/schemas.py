"""`python -m controlplane.schemas`: write planning/files/kubernetes_schemas.json from the OpenAPI of Kubernetes.

The source is `api/openapi-spec/swagger.json` in the Go module k8s.io/kubernetes, in the version that
`controlplane/build/kubernetes/go.mod` pins: the document that an API server of this version publishes at /openapi/v2.
The file holds the kinds that `phalanx solve` reads, as JSON Schema without descriptions. As in an API server with
`fieldValidation=Strict`, an object has no other fields than those of its schema.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from controlplane.programs.binaries import VERSION
from controlplane.programs.toolchain import find_go
from controlplane.progress import Progress
from gangs.workloads.kind_table import WORKLOADS
from planning.files.objects import TYPED
from planning.files.schemas import SCHEMAS

MODULE = "k8s.io/kubernetes"
SPEC = Path("api/openapi-spec/swagger.json")

_BUILD = Path(__file__).parent / "build" / "kubernetes"
_CACHE = Path.home() / ".cache" / "phalanx"
_REFERENCE = "#/definitions/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RANGES = {"int32": 2**31, "int64": 2**63}

_Schema = Mapping[str, Any]


def reduced(swagger: _Schema, version: str) -> dict[str, Any]:
    """Return the content of the schema file: the kinds that Phalanx reads, the definitions that they need, and their
    source: the file and the version of Kubernetes.
    """
    kinds = dict(sorted(_kinds(swagger["definitions"])))
    definitions = _reachable(kinds.values(), swagger["definitions"])
    return {"source": f"{MODULE}/{SPEC}", "version": version, "kinds": kinds, "definitions": definitions}


def written(content: _Schema) -> str:
    """Return the text of the schema file. Each definition is one line, so that a diff of two versions is short."""
    head = json.dumps({key: content[key] for key in ("source", "version", "kinds")}, indent=0)[:-2]
    lines = (f"{json.dumps(name)}: {_compact(each)}" for name, each in content["definitions"].items())
    return f'{head},\n"definitions": {{\n' + ",\n".join(lines) + "\n}\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _kinds(definitions: _Schema) -> Iterator[tuple[str, str]]:
    """Yield each kind that Phalanx reads, in every published version: `apiVersion kind` and the name of its
    definition.
    """
    read = TYPED.keys() | WORKLOADS.keys()
    for name, definition in definitions.items():
        for each in definition.get("x-kubernetes-group-version-kind", ()):
            if (each["group"], each["kind"]) in read:
                yield f"{each['group']}/{each['version']} {each['kind']}".lstrip("/"), name


def _reachable(roots: Iterable[str], definitions: _Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    left = list(roots)
    while left:
        name = left.pop()
        if name not in found:
            found[name] = _converted(definitions[name], name)
            left += _references(found[name])
    return dict(sorted(found.items()))


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(reference := part.get("$ref"), str):
            yield reference.removeprefix(_REFERENCE)
        for each in part.values():
            yield from _references(each)


def _converted(schema: _Schema, name: str = "") -> dict[str, Any]:
    """Return one OpenAPI definition, or a part of one, as JSON Schema."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if name == _QUANTITY:
        return {"type": ["number", "string"]}
    kind, form = schema.get("type"), schema.get("format")
    if form == "int-or-string":
        return {"type": ["integer", "string"]}
    found: dict[str, Any] = {} if kind is None else {"type": kind}
    if form in _RANGES:
        found |= {"minimum": -_RANGES[form], "maximum": _RANGES[form] - 1}
    if form == "date-time":
        found["format"] = form
    if "items" in schema:
        found["items"] = _converted(schema["items"])
    if "properties" in schema:
        found["properties"] = {key: _converted(each) for key, each in sorted(schema["properties"].items())}
        found["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), Mapping):
        found["additionalProperties"] = _converted(schema["additionalProperties"])
    if "required" in schema:
        found["required"] = sorted(schema["required"])
    return found


def _module() -> Path:
    """Return the folder of the Go module k8s.io/kubernetes in the version that `controlplane/build/kubernetes/go.mod`
    pins.

    If Go's cache lacks the module, it is fetched through the Go module proxy.
    """
    command = [find_go(_CACHE, Progress()), "mod", "download", "-json", MODULE]
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    answer = subprocess.run(command, cwd=_BUILD, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(answer.stdout)
    if found["Version"] != VERSION:
        raise SystemExit(f"{_BUILD}/go.mod pins {MODULE} {found['Version']}, and controlplane builds {VERSION}")
    return Path(found["Dir"])


if __name__ == "__main__":
    swagger = json.loads((_module() / SPEC).read_text())
    SCHEMAS.write_text(written(reduced(swagger, VERSION)))
