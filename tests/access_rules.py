"""The rights of Phalanx' service accounts, one by one, as the manifests grant them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Manifest = Mapping[str, Any]

ACCOUNTS = ("phalanx-webhook", "phalanx-controller")


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One account may do one thing. `namespace`: "" for everywhere; `name`: "" for all objects of the resource."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """As a person says it: `phalanx-controller may patch pods/status`."""
        resource, slash, below = self.resource.partition("/")
        where = f" in {self.namespace}" if self.namespace else ""
        kind = f"{resource}.{self.group}" if self.group else resource
        return f"{self.account} may {self.verb} {kind}{slash}{below}{f' {self.name}' if self.name else ''}{where}"

    def covers(self, used: "Right") -> bool:
        """Whether this right allows what was done."""
        same = (self.account, self.verb, self.group, self.resource)
        return (
            same == (used.account, used.verb, used.group, used.resource)
            and self.namespace in ("", used.namespace)
            and self.name in ("", used.name)
        )


def granted(objects: Iterable[Manifest]) -> list[Right]:
    """Every right that the bindings among `objects` give to one of the accounts, as often as it is given."""
    whole = list(objects)
    roles = {(each["kind"], each["metadata"]["name"]): each for each in whole if each["kind"].endswith("Role")}
    found: list[Right] = []
    for binding in whole:
        if binding["kind"].endswith("RoleBinding"):
            role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
            namespace = binding["metadata"].get("namespace", "")
            for subject in binding["subjects"]:
                found += _rights(subject["name"], namespace, role["rules"])
    return found


def _rights(account: str, namespace: str, rules: Iterable[Manifest]) -> Iterator[Right]:
    for rule in rules:
        for group in rule.get("apiGroups", ()):
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(account, verb, group, resource, namespace, name)
