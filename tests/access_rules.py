"""The rights of Phalanx' service accounts, one by one, as the manifests grant them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

Manifest = Mapping[str, Any]

ACCOUNTS = ("phalanx-webhook", "phalanx-controller")


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A right of one account. `namespace`: "" means all namespaces; `name`: "" means all objects of the resource."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """The right as a sentence: `phalanx-controller may patch pods/status`."""
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
    return [right for binding, role in _bindings(objects) for right in _rights(binding, role.get("rules") or ())]


def without(objects: Iterable[Manifest], right: Right) -> list[dict[str, Any]]:
    """The roles that grant this right, each without it."""
    lessened = []
    for binding, role in _bindings(objects):
        rules = [rule for each in role.get("rules") or () for rule in _single(each)]
        kept = [each for each in rules if right not in _rights(binding, [each])]
        if len(kept) < len(rules):
            lessened.append({**role, "rules": kept})
    return lessened


def _bindings(objects: Iterable[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Yield each RoleBinding and ClusterRoleBinding with its role."""
    whole = list(objects)
    roles = {(each["kind"], each["metadata"]["name"]): each for each in whole if each["kind"].endswith("Role")}
    for each in whole:
        if each["kind"].endswith("RoleBinding"):
            yield each, roles[each["roleRef"]["kind"], each["roleRef"]["name"]]


def _rights(binding: Manifest, rules: Iterable[Manifest]) -> Iterator[Right]:
    namespace = binding["metadata"].get("namespace", "")
    for rule in rules:
        for each in _single(rule):
            name = each.get("resourceNames", [""])[0]
            what = each["verbs"][0], each["apiGroups"][0], each["resources"][0]
            for subject in binding["subjects"]:
                yield Right(subject["name"], *what, namespace, name)


def _single(rule: Manifest) -> Iterator[dict[str, Any]]:
    """The rule as rules of one group, resource, verb and name each."""
    names = [[name] for name in rule.get("resourceNames", ())] or [[]]
    for group, resource, verb, name in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
        named = {"resourceNames": name} if name else {}
        yield {"apiGroups": [group], "resources": [resource], "verbs": [verb], **named}
