"""Brute-force search for devices: it tries every node for every member, every set of victims, and every device.

It reads manifests and implements the rules of dynamic resource allocation independently of Phalanx: it imports none of
the packages under test. A selector is looked up in `SELECTORS`, which has a function for each expression.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from types import MappingProxyType
from typing import Any, NamedTuple

Manifest = dict[str, Any]
Key = tuple[str, str]
"""The pool and the name of a device. All devices have one driver."""

DRIVER = "gpu.example.com"
_ATTRIBUTE = f'device.attributes["{DRIVER}"]'


def value(device: Manifest, name: str) -> Any:
    """The value of an attribute; None if the device lacks it."""
    typed = device.get("attributes", {}).get(name)
    return None if typed is None else next(iter(typed.values()))


SELECTORS: Mapping[str, Callable[[Manifest], bool]] = {
    f'device.driver == "{DRIVER}"': lambda _: True,
    f'{_ATTRIBUTE}.model == "a"': lambda device: bool(value(device, "model") == "a"),
    f'{_ATTRIBUTE}.model != "a"': lambda device: bool(value(device, "model") != "a"),
    f"has({_ATTRIBUTE}.link) && {_ATTRIBUTE}.link > 0": lambda device: (value(device, "link") or 0) > 0,
    f'"link" in {_ATTRIBUTE}': lambda device: value(device, "link") is not None,
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("2Gi")) >= 0': lambda device: (
        number(device["capacity"]["memory"]["value"]) >= number("2Gi")
    ),
}


def number(quantity: str) -> int:
    """A quantity: memory in MiB, other capacities in ones."""
    if quantity.endswith("Gi"):
        return 1024 * int(quantity[:-2])
    return int(quantity.removesuffix("Mi"))


class Instance(NamedTuple):
    """A cluster, with the pods of a gang, all of which must be placed. `running`: pods with nodes."""

    nodes: list[Manifest]
    running: list[Manifest]
    members: list[Manifest]
    classes: list[Manifest]
    slices: list[Manifest]
    templates: list[Manifest]
    claims: list[Manifest]
    rules: list[Manifest]


class Best(NamedTuple):
    """The first goals of the best plan: victims, racks that the gang uses, and its nodes."""

    victims: int
    racks: int
    nodes: int


def name(manifest: Manifest) -> str:
    """The name of an object."""
    return str(manifest["metadata"]["name"])


def best(instance: Instance) -> Best | None:
    """Return the goals of the best plan; None if there is none. With victims, only their number is compared."""
    priority = instance.members[0]["spec"]["priority"]
    low = [name(pod) for pod in instance.running if pod["spec"]["priority"] < priority]
    for count in range(len(low) + 1):
        found = [
            Best(count, len({rack(node) for node in nodes}), len({name(node) for node in nodes}))
            for gone in combinations(low, count)
            for nodes in product(instance.nodes, repeat=len(instance.members))
            if allowed(instance, gone, nodes)
        ]
        if found:
            return min(found)
    return None


def rack(node: Manifest) -> str:
    """The rack of a node."""
    return str(node["metadata"]["labels"]["example.com/rack"])


def allowed(instance: Instance, gone: Sequence[str], nodes: Sequence[Manifest]) -> bool:
    """Whether the members can run on these nodes, one for each member, once some pods are gone."""
    where = {name(pod): node for pod, node in zip(instance.members, nodes, strict=True)}
    for node in {name(each): each for each in nodes}.values():
        there = [pod for pod in instance.members if where[name(pod)] is node]
        cpu = sum(int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in there)
        if cpu > int(node["status"]["allocatable"]["cpu"]):
            return False
        if not serves(instance, gone, name(node), there):
            return False
    return shared_on_one_node(instance, where)


def shared_on_one_node(instance: Instance, where: Mapping[str, Manifest]) -> bool:
    """Whether pods that name one claim, which has no devices yet, are on one node."""
    nodes: dict[str, set[str]] = {}
    for pod in instance.members:
        for entry in pod["spec"].get("resourceClaims", ()):
            if "resourceClaimName" in entry:
                nodes.setdefault(entry["resourceClaimName"], set()).add(name(where[name(pod)]))
    return all(len(each) == 1 for each in nodes.values())


def serves(instance: Instance, gone: Sequence[str], node: str, pods: Sequence[Manifest]) -> bool:
    """Whether a node has devices for the claims of these pods."""
    claims: dict[str, Manifest] = {}
    for pod in pods:
        for entry in pod["spec"].get("resourceClaims", ()):
            if "resourceClaimName" not in entry:
                template = next(each for each in instance.templates if name(each) == entry["resourceClaimTemplateName"])
                claims[f"{name(pod)} {entry['name']}"] = template["spec"]["spec"]["devices"]
                continue
            claim = next(each for each in instance.claims if name(each) == entry["resourceClaimName"])
            allocation = claim.get("status", {}).get("allocation")
            if allocation is None:
                claims[name(claim)] = claim["spec"]["devices"]
            elif node not in allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"]:
                return False
    return any(True for _ in choices(instance, node, list(claims.values()), taken(instance, gone)))


Amounts = dict[str, int]
"""Amounts of capacities, by name."""


class Busy(NamedTuple):
    """The devices of claims. `whole`: devices of one claim alone. `shares`: the consumed amounts of other devices."""

    whole: set[Key]
    shares: dict[Key, Amounts]

    def after(self, chosen: "Chosen") -> "Busy":
        """The devices of claims once another claim has got these devices."""
        whole, shares = set(self.whole), {key: dict(each) for key, each in self.shares.items()}
        for one in chosen:
            if one.shared:
                amounts = shares.setdefault(one.key, {})
                for title, amount in one.amounts.items():
                    amounts[title] = amounts.get(title, 0) + amount
            elif not one.admin:
                whole.add(one.key)
        return Busy(whole, shares)


class One(NamedTuple):
    """A device of a claim: its request, its key, whether it is only observed or shared, and the consumed amounts."""

    title: str
    key: Key
    device: Manifest
    admin: bool
    shared: bool = False
    amounts: Mapping[str, int] = MappingProxyType({})


Chosen = list[One]
"""The devices of one claim."""


def taken(instance: Instance, gone: Sequence[str]) -> Busy:
    """The devices of the claims of which a pod still runs."""
    found: Chosen = []
    for claim in instance.claims:
        status = claim.get("status", {})
        users = [each["name"] for each in status.get("reservedFor", ())]
        if "allocation" in status and not (users and all(user in gone for user in users)):
            results = status["allocation"]["devices"]["results"]
            for each in results:
                amounts = {title: number(amount) for title, amount in each.get("consumedCapacity", {}).items()}
                key, shared = (each["pool"], each["device"]), "shareID" in each
                found.append(One(each["request"], key, {}, bool(each.get("adminAccess")), shared, amounts))
    return Busy(set(), {}).after(found)


def consumption(request: Manifest, device: Manifest) -> Amounts | None:
    """The amounts that a request consumes of a device; None if it cannot get the device at all."""
    wanted = request.get("capacity", {}).get("requests", {})
    if not set(wanted) <= set(device.get("capacity", {})):
        return None
    found: Amounts = {}
    for title, capacity in device.get("capacity", {}).items():
        policy = capacity.get("requestPolicy", {})
        if title not in wanted:
            amount = number(policy.get("default", capacity["value"]))
        elif "validValues" in policy:
            enough = [one for one in map(number, policy["validValues"]) if one >= number(wanted[title])]
            if not enough:
                return None
            amount = min(enough)
        elif "validRange" in policy:
            amount = number(policy["validRange"]["min"])
            while amount < number(wanted[title]):
                step = policy["validRange"].get("step")
                amount = amount + number(step) if step else number(wanted[title])
            if amount > number(policy["validRange"].get("max", capacity["value"])):
                return None
        else:
            amount = number(wanted[title])
        if amount > number(capacity["value"]):
            return None
        found[title] = amount
    return found


def enough(chosen: Chosen, busy: Busy) -> bool:
    """Whether the capacities of the chosen devices suffice for these and for the shares that claims have got before."""
    after = busy.after(chosen)
    return all(
        amount <= number(one.device["capacity"][title]["value"])
        for one in chosen
        if one.shared
        for title, amount in after.shares[one.key].items()
    )


def current(instance: Instance) -> list[Manifest]:
    """The slices of each pool's highest generation."""
    newest: dict[str, int] = {}
    for each in instance.slices:
        pool = each["spec"]["pool"]
        newest[pool["name"]] = max(newest.get(pool["name"], 0), pool["generation"])
    return [
        each for each in instance.slices if each["spec"]["pool"]["generation"] == newest[each["spec"]["pool"]["name"]]
    ]


def devices_of(instance: Instance, node: str) -> dict[Key, Manifest]:
    """The devices of a node."""
    return {
        (each["spec"]["pool"]["name"], device["name"]): device
        for each in current(instance)
        if each["spec"]["nodeName"] == node
        for device in each["spec"]["devices"]
    }


def complete(instance: Instance, node: str) -> bool:
    """Whether all slices of the pools of a node exist."""
    pools: dict[str, list[Manifest]] = {}
    for each in current(instance):
        if each["spec"]["nodeName"] == node:
            pools.setdefault(each["spec"]["pool"]["name"], []).append(each)
    return all(len(each) == each[0]["spec"]["pool"]["resourceSliceCount"] for each in pools.values())


def taints(instance: Instance, key: Key, device: Manifest) -> list[Manifest]:
    """The taints of a device, those of rules included."""
    found = list(device.get("taints", ()))
    for rule in instance.rules:
        selector = rule["spec"]["deviceSelector"]
        if selector.get("pool", key[0]) == key[0] and selector.get("device", key[1]) == key[1]:
            found.append(rule["spec"]["taint"])
    return found


def tolerated(taint: Manifest, request: Manifest) -> bool:
    """Whether a request tolerates a taint. All tolerations are for a key, with the operator Exists."""
    return any(each["key"] == taint["key"] for each in request.get("tolerations", ()))


def picks(instance: Instance, request: Manifest, device: Manifest) -> bool:
    """Whether a request selects a device, whatever taints it has."""
    of = next(each for each in instance.classes if name(each) == request["deviceClassName"])
    expressions = [*of["spec"]["selectors"], *request.get("selectors", ())]
    return all(SELECTORS[each["cel"]["expression"]](device) for each in expressions)


def choices(instance: Instance, node: str, claims: Sequence[Manifest], busy: Busy) -> Iterator[list[Chosen]]:
    """Yield every way to give devices of a node to these claims. `busy`: the devices of other claims."""
    if not claims:
        yield []
        return
    for chosen in of_claim(instance, node, claims[0], busy):
        for rest in choices(instance, node, claims[1:], busy.after(chosen)):
            yield [chosen, *rest]


def of_claim(instance: Instance, node: str, claim: Manifest, busy: Busy) -> Iterator[Chosen]:
    """Yield every way to give devices of a node to one claim."""
    alternatives = [
        [(request["name"], request["exactly"])]
        if "exactly" in request
        else [(f"{request['name']}/{each['name']}", each) for each in request["firstAvailable"]]
        for request in claim["requests"]
    ]
    for requests in product(*alternatives):
        for chosen in of_requests(instance, node, requests, busy):
            possible = within(claim.get("constraints", ()), chosen) and counted(instance, node, chosen, busy)
            if possible and enough(chosen, busy):
                yield chosen


def of_requests(
    instance: Instance, node: str, requests: Sequence[tuple[str, Manifest]], busy: Busy
) -> Iterator[Chosen]:
    """Yield every way to give devices to some requests of one claim, without regard to what these have in common."""
    if not requests:
        yield []
        return
    (title, request), rest = requests[0], requests[1:]
    admin = bool(request.get("adminAccess"))
    if not complete(instance, node):
        return
    matching = {
        key: each
        for key, each in devices_of(instance, node).items()
        if picks(instance, request, each) and consumption(request, each) is not None
    }
    usable = {
        key: each
        for key, each in matching.items()
        if (admin or key not in busy.whole) and all(tolerated(taint, request) for taint in taints(instance, key, each))
    }
    if request.get("allocationMode") == "All":
        if not matching or len(usable) < len(matching):
            return
        sizes = len(matching)
    else:
        sizes = request.get("count", 1)
    for keys in combinations(usable, sizes):
        mine = [got(title, key, usable[key], request) for key in keys]
        for others in of_requests(instance, node, rest, busy):
            if not {one.key for one in others if not one.shared} & set(keys):
                yield [*mine, *others]


def got(title: str, key: Key, device: Manifest, request: Manifest) -> One:
    """The device as a request gets it."""
    if device.get("allowMultipleAllocations"):
        amounts = consumption(request, device) or {}
        return One(title, key, device, bool(request.get("adminAccess")), shared=True, amounts=amounts)
    return One(title, key, device, bool(request.get("adminAccess")))


def within(constraints: Sequence[Manifest], chosen: Chosen) -> bool:
    """Whether the devices of a claim meet its constraints."""
    for constraint in constraints:
        concerned = constraint.get("requests", ())
        values = [
            value(device, (constraint.get("matchAttribute") or constraint["distinctAttribute"]).partition("/")[2])
            for title, _, device, *_ in chosen
            if not concerned or {title, title.partition("/")[0]} & set(concerned)
        ]
        if None in values:
            return False
        if "matchAttribute" in constraint and len(set(values)) > 1:
            return False
        if "distinctAttribute" in constraint and len(set(values)) < len(values):
            return False
    return True


def counted(instance: Instance, node: str, chosen: Chosen, busy: Busy) -> bool:
    """Whether the counters that the chosen devices consume suffice for these and for the devices that are taken.

    Claims that share a device consume its counters once. A device of an overdrawn pool gets no further claim.
    """
    every = devices_of(instance, node)
    used: dict[tuple[str, str], int] = {}
    after = busy.after(chosen)
    now = {key for key in (*after.whole, *after.shares) if key in every}
    for key in now:
        for consumed in every[key].get("consumesCounters", ()):
            at = key[0], consumed["counterSet"]
            used[at] = used.get(at, 0) + int(consumed["counters"]["slices"]["value"])
    mine = {one.key[0] for one in chosen if one.device.get("consumesCounters") and not one.admin}
    for each in current(instance):
        for shared in each["spec"].get("sharedCounters", ()):
            if each["spec"]["pool"]["name"] not in mine:
                continue
            if used.get((each["spec"]["pool"]["name"], shared["name"]), 0) > int(shared["counters"]["slices"]["value"]):
                return False
    return True


def valid(instance: Instance, gone: Sequence[str], got: Mapping[str, tuple[str, list[Chosen]]]) -> bool:
    """Whether an allocation is one that `choices` yields. `got`: by member, its node and the devices of its claims.

    A shared claim is in the entry of its first member.
    """
    for node in {each[0] for each in got.values()}:
        pods = [pod for pod in instance.members if name(pod) in got and got[name(pod)][0] == node]
        every = [chosen for pod in pods for chosen in got[name(pod)][1]]
        busy = taken(instance, gone)
        for chosen in every:
            alone = {one.key for one in chosen if not one.admin and not one.shared}
            if alone & busy.whole or not counted(instance, node, chosen, busy):
                return False
            if {one.key for one in chosen if one.shared} & busy.whole or alone & set(busy.shares):
                return False
            if not enough(chosen, busy):
                return False
            busy = busy.after(chosen)
    return True
