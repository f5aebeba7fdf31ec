"""Rendered manifests, object by object."""

import pickle
from functools import cache
from typing import Any

import yaml

from controlplane.rendering import MANIFESTS, kustomize

Object = dict[str, Any]
Identity = tuple[str, str, str]


def identity(manifest: Object) -> Identity:
    """Kind, namespace and name."""
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def by_identity(text: str) -> dict[Identity, Object]:
    """The objects of a YAML stream by kind, namespace and name; none may be there twice."""
    documents = map(_read, f"\n{text}".split("\n---\n"))
    found = list(filter(None, map(pickle.loads, documents)))
    named = {identity(each): each for each in found}
    assert len(named) == len(found)
    return named


@cache
def _read(document: str) -> bytes:
    """Parse a YAML document and return the object, pickled, from a cache.

    All renderings contain the same definitions of kinds, and reading these as YAML takes a second.
    """
    return pickle.dumps(yaml.load(document, yaml.CSafeLoader))


@cache
def _text(overlay: str) -> str:
    return kustomize(MANIFESTS / overlay)


def overlay(name: str) -> dict[Identity, Object]:
    """The objects of manifests/<name>."""
    return by_identity(_text(name))
