"""The SolveReport of `-o json` as strict structs: an unknown or missing field fails the test."""

from typing import Literal

import msgspec


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Base of all parts."""


class Assignment(Strict, frozen=True):
    """A member and its node."""

    namespace: str
    pod: str
    pod_set: str
    index: int
    node: str


class Domain(Strict, frozen=True):
    """A domain in use."""

    path: list[str]
    pods: int


class Level(Strict, frozen=True):
    """How one level is used."""

    level: str
    label: str
    mode: Literal["required", "preferred", "none"]
    domains: list[Domain]


class Victim(Strict, frozen=True):
    """A running pod that the plan evicts."""

    namespace: str
    pod: str
    node: str
    priority: int
    gang: str | None


class Goal(Strict, frozen=True):
    """The value and the bound of one goal. The report lists goals in their lexicographic order."""

    goal: str
    value: int
    bound: int
    parts: dict[str, int] = {}


class Near(Strict, frozen=True):
    """A domain that came close."""

    level: str
    path: list[str]
    fits: int
    needed: int
    nodes: int
    excluded: dict[str, int]


class Explanation(Strict, frozen=True):
    """Why not, and what would help; with -v, why here and not next door."""

    nearest: list[Near]
    would_fit_if: list[str]
    why_here: str | None = None


class Gang(Strict, frozen=True):
    """One gang's entry."""

    namespace: str
    name: str
    dialect: str
    outcome: Literal["Placed", "Waiting", "Unplaceable", "Invalid"]
    members: int
    min_member: int
    placed: int
    assignments: list[Assignment]
    levels: list[Level]
    victims: list[Victim]
    objective: list[Goal]
    proof: Literal["Optimal", "Feasible", "Infeasible", "Unproven"]
    message: str
    explanation: Explanation
    milliseconds: dict[Literal["snapshot", "solve"], float]


class Report(Strict, frozen=True):
    """The whole report."""

    api_version: Literal["phalanx.dev/v1alpha1"]
    kind: Literal["SolveReport"]
    gangs: list[Gang]


def report_of(text: str) -> Report:
    """Read a report, strictly."""
    return msgspec.json.decode(text, type=Report)
