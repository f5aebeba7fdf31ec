"""Wrong requests of every dialect and the exact answer to each, written once in `refusals/<dialect>.yaml`.

Three groups of tests share the cases: the rules themselves (tests/gangs), the command line (tests/cli), and kubectl on
a real API server (tests/system). A file has two parts. `standing` holds named lists of objects that are in the cluster
already. `cases` holds the object that a user writes beside some of these lists, and one of four answers:

- `refused`: the fault, as `object: field: what is wrong; remedy`. Admission denies it, `solve` ends with status 2.
- `warned`: the fault of an object that is admitted nevertheless. Admission and `solve` show it as a warning.
- `spoils`: the fault of another object that becomes wrong by this one; a warning at admission, an error of `solve`.
- `waits`: the object that the gang waits for; a warning at admission, the outcome Waiting in `solve`.

`apiServer` is part of kubectl's output if the API server's own validation rejects the object before any webhook.
`planned` is set if the missing object belongs to no dialect. Then only the planner can report it.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gangs.manifests import key_of, pod_of
from gangs.model import Manifest
from gangs.sources import Sources
from planning.files.documents import Document
from planning.files.objects import read_objects

FOLDER = Path(__file__).parent / "refusals"


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One request and its answer; exactly one of `refused`, `warned`, `spoils` and `waits` is set."""

    dialect: str
    it: str
    write: Manifest
    beside: tuple[str, ...] = ()
    refused: str = ""
    warned: str = ""
    spoils: str = ""
    waits: str = ""
    api_server: str = ""
    planned: bool = False

    def __str__(self) -> str:
        """The id of the case in a test report: the dialect and the case's own sentence."""
        return f"{self.dialect}: {self.it}"

    @property
    def answer(self) -> str:
        """The sentence that admission returns about the object."""
        spoils = f"cannot be planned: {self.spoils}" if self.spoils else ""
        return self.refused or self.warned or spoils or f"waits for {self.waits}"

    def standing(self) -> list[Manifest]:
        """The objects that are in the cluster before the case's object is written."""
        return [each for name in self.beside for each in _file(self.dialect)["standing"][name]]


@cache
def _file(dialect: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((FOLDER / f"{dialect}.yaml").read_bytes(), yaml.CSafeLoader)
    return found


def cases() -> list[Case]:
    """Every case of every dialect."""
    return [_case(path.stem, each) for path in sorted(FOLDER.glob("*.yaml")) for each in _file(path.stem)["cases"]]


def _case(dialect: str, written: dict[str, Any]) -> Case:
    rest = {key: value for key, value in written.items() if key not in ("beside", "apiServer")}
    case = Case(dialect, beside=tuple(written.get("beside", ())), api_server=written.get("apiServer", ""), **rest)
    answers = [answer for answer in (case.refused, case.warned, case.spoils, case.waits) if answer]
    assert len(answers) == 1, f"{case}: one answer, not {len(answers)}"
    return case


def defaulted(manifest: Manifest) -> Manifest:
    """The object with its namespace, as the API server would store it."""
    objects = read_objects([Document("", manifest)])
    (key,) = objects.origins
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": key[2]}}


def sources_of(manifests: list[Manifest]) -> Sources:
    """Return the sources from which the dialects read gangs, built from these objects."""
    whole = [defaulted(each) for each in manifests]
    pods = [pod_of(each) for each in whole if each["kind"] == "Pod"]
    namespaces = {
        each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in whole if each["kind"] == "Namespace"
    }
    objects = {key_of(each): each for each in whole if each["kind"] != "Pod"}
    return Sources(pods, objects, namespaces, sharing={"*": "*"})
