"""The schemas by which files are checked, made of the OpenAPI document of Kubernetes."""

import json

from controlplane.schemas import reduced, written
from planning.files.schemas import SCHEMAS

POD = {"group": "", "version": "v1", "kind": "Pod"}
OTHER = {"group": "", "version": "v1", "kind": "Binding"}
SWAGGER = {
    "definitions": {
        "core.Pod": {
            "description": "A pod.",
            "type": "object",
            "required": ["spec", "kind"],
            "properties": {
                "spec": {"description": "Its spec.", "$ref": "#/definitions/core.PodSpec"},
                "kind": {"type": "string", "default": "Pod"},
            },
            "x-kubernetes-group-version-kind": [POD],
        },
        "core.PodSpec": {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "format": "int32"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "many": {"type": "array", "items": {"$ref": "#/definitions/core.Time"}},
                "port": {"type": "string", "format": "int-or-string"},
                "room": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"},
                "anything": {"type": "object"},
            },
        },
        "core.Time": {"type": "string", "format": "date-time"},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
        "core.Binding": {"type": "object", "x-kubernetes-group-version-kind": [OTHER]},
    }
}


def test_kinds_that_are_read_are_kept_with_what_they_refer_to() -> None:
    found = reduced(SWAGGER, "v9.9.9")
    assert found["version"] == "v9.9.9"
    assert found["kinds"] == {"v1 Pod": "core.Pod"}
    assert found["definitions"] == {
        "core.Pod": {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "spec": {"$ref": "#/definitions/core.PodSpec"}},
            "additionalProperties": False,
            "required": ["kind", "spec"],
        },
        "core.PodSpec": {
            "type": "object",
            "properties": {
                "anything": {"type": "object"},
                "count": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "many": {"type": "array", "items": {"$ref": "#/definitions/core.Time"}},
                "port": {"type": ["integer", "string"]},
                "room": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            },
            "additionalProperties": False,
        },
        "core.Time": {"type": "string", "format": "date-time"},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["number", "string"]},
    }


def test_the_file_is_as_the_script_writes_it() -> None:
    text = SCHEMAS.read_text()
    assert written(json.loads(text)) == text
