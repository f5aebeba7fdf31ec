"""Random small clusters with devices, and gangs that claim them. Equal seeds give equal instances."""

import random
from typing import Any

import device_scenes as devices
import scenes
from device_by_device import DRIVER, SELECTORS, Instance, Manifest

_OWN = [each for each in SELECTORS if each.startswith("device.attributes") or "memory" in each]
_LINKED = [each for each in SELECTORS if "link" in each]
_TAINT = {"key": "broken", "effect": "NoSchedule"}


def random_instance(seed: int) -> Instance:
    """Return an instance with 2 or 3 nodes, up to 4 devices a node, and 1 to 3 members."""
    draw = random.Random(seed)  # noqa: S311 -- instances for tests
    names = [f"n{place}" for place in range(draw.choice((2, 2, 3)))]
    nodes = [
        scenes.node(each, {"example.com/rack": f"r{draw.randrange(2)}"}, {"cpu": str(draw.choice((1, 2, 3, 4)))})
        for each in names
    ]
    partitions = draw.random() < 0.2
    slices = [each for node in names for each in _slices(draw, node, partitions=partitions)]
    known = [(each["spec"]["nodeName"], one["name"]) for each in slices for one in each["spec"]["devices"]]
    running, claims = _running(draw, known, slices)
    templates = [_template(draw, f"t{place}", claims_of_one=partitions) for place in range(2)]
    members = _members(draw, claims, known)
    classes = [devices.device_class()]
    classes.append(devices.device_class("linked", *_LINKED))
    rules = [_rule(draw, names)] if draw.random() < 0.15 else []
    instance = Instance(nodes, running, members, classes, slices, templates, claims, rules)
    share = random.Random(f"shares {seed}")  # noqa: S311 -- as above
    if share.random() < 0.3:
        _share_devices(share, instance)
    return instance


def _share_devices(draw: random.Random, instance: Instance) -> None:
    """Let most devices be shared, and requests ask for a part of their capacity."""
    for each in instance.slices:
        for device in each["spec"]["devices"]:
            if draw.random() < 0.75:
                _share_device(draw, device)
    every = [each["spec"]["spec"]["devices"] for each in instance.templates]
    every += [each["spec"]["devices"] for each in instance.claims if "status" not in each]
    for devices_ in every:
        for request in devices_["requests"]:
            for one in [request["exactly"]] if "exactly" in request else request["firstAvailable"]:
                one.pop("adminAccess", None)  # adminAccess to shared devices is not planned
                if draw.random() < 0.6:
                    one["capacity"] = {"requests": {"memory": draw.choice(("512Mi", "1Gi", "1536Mi", "2Gi"))}}
                    if draw.random() < 0.2:
                        one["capacity"]["requests"]["slots"] = draw.choice(("1", "2"))
    _share_claims(draw, instance)


def _share_device(draw: random.Random, device: Manifest) -> None:
    """Let claims share a device."""
    device["allowMultipleAllocations"] = True
    memory = device["capacity"]["memory"]
    memory["value"] = draw.choice(("2Gi", "3Gi", "4Gi", "4096Mi"))
    if (policy := draw.choice(_POLICIES)) is not None:
        memory["requestPolicy"] = policy
    if draw.random() < 0.3:
        device["capacity"]["slots"] = {"value": "3", "requestPolicy": {"default": "1"}}


_POLICIES: list[Any] = [
    None,
    {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
    {"default": "512Mi", "validRange": {"min": "512Mi", "max": "2Gi"}},
    {"default": "1Gi", "validValues": ["1Gi", "2Gi"]},
    {"default": "1Gi"},
]
"""Some request policies of a capacity; None: a request without an amount consumes the whole."""


def _share_claims(draw: random.Random, instance: Instance) -> None:
    """Let allocated claims have shares of the devices that can be shared, and some pods more of them."""
    pools: dict[str, Manifest] = {each["spec"]["pool"]["name"]: {} for each in instance.slices}
    for each in instance.slices:
        pools[each["spec"]["pool"]["name"]] |= {one["name"]: one for one in each["spec"]["devices"]}
    for claim in list(instance.claims):
        for result in _results(claim):
            device = pools[result["pool"]].get(result["device"], {})
            if not device.get("allowMultipleAllocations"):
                continue
            amount = draw.choice(("512Mi", "1Gi", "2Gi"))
            slots = {"slots": "1"} if "slots" in device["capacity"] else {}
            result |= {"shareID": _SHARE, "consumedCapacity": {"memory": amount, **slots}}
            title = f"more-{claim['metadata']['name']}"
            if draw.random() < 0.4 and len(instance.running) < 4 and claim["metadata"]["name"].startswith("run-"):
                entry = {"resourceClaims": [{"name": "gpu", "resourceClaimName": f"run-{title}"}]}
                if any(pod["metadata"]["name"] == title for pod in instance.running):
                    continue
                instance.running.append(scenes.running(title, result["pool"], draw.choice((0, 20)), cpu=0, **entry))
                other = devices.claim(f"run-{title}", devices=[(result["pool"], result["device"])], pods=[title])
                _results(other)[0].update(
                    {"shareID": _SHARE[:-1] + "1", "consumedCapacity": {"memory": "512Mi", **slots}}
                )
                instance.claims.append(other)


_SHARE = "7f2b8c1e-0000-4000-8000-000000000000"


def _slices(draw: random.Random, node: str, *, partitions: bool) -> list[Manifest]:
    """Return the slices of a node: devices, sometimes partitions, an old generation, or an incomplete pool."""
    every = [_device(draw, f"gpu-{place}") for place in range(draw.choice((0, 1, 2, 3, 3, 4, 4)))]
    more: dict[str, Any] = {}
    if partitions:
        for place, each in enumerate(every):
            size = draw.choice((1, 2, 4))
            counters = {"slices": {"value": str(size)}}
            each["consumesCounters"] = [{"counterSet": f"card-{place % 2}", "counters": counters}]
        more["sharedCounters"] = [
            {"name": f"card-{card}", "counters": {"slices": {"value": str(draw.choice((2, 4)))}}} for card in range(2)
        ]
    found = [devices.resource_slice(node, every, pool={"generation": 2}, **more)]
    if draw.random() < 0.1:
        old = [_device(draw, f"old-{place}") for place in range(2)]
        found.append(devices.resource_slice(node, old, pool={"generation": 1}, name=f"{node}-old"))
    if draw.random() < 0.1:
        found[0]["spec"]["pool"]["resourceSliceCount"] = 2
    return found


def _device(draw: random.Random, name: str) -> Manifest:
    attributes: dict[str, Any] = {"model": draw.choice("ab")}
    if draw.random() < 0.85:
        attributes["numa"] = draw.randrange(2)
    if draw.random() < 0.5:
        attributes["link"] = draw.randrange(2)
    device = devices.device(name, {"memory": draw.choice(("1Gi", "2Gi", "4096Mi"))}, attributes=attributes)
    if draw.random() < 0.12:
        device["taints"] = [
            {"key": draw.choice(("broken", "busy")), "effect": draw.choice(("NoSchedule", "NoExecute"))}
        ]
    return device


def _rule(draw: random.Random, names: list[str]) -> Manifest:
    selector = {"driver": DRIVER, "pool": draw.choice(names), **({"device": "gpu-0"} if draw.random() < 0.5 else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": selector, "taint": _TAINT},
    }


def _running(
    draw: random.Random, known: list[tuple[str, str]], slices: list[Manifest]
) -> tuple[list[Manifest], list[Manifest]]:
    """Return running pods of two priorities, and their claims. Two pods may share a claim."""
    counters = any("sharedCounters" in each["spec"] for each in slices)
    there = [each for each in known if each[1].startswith("gpu")]
    draw.shuffle(there)
    running, claims = list[Manifest](), list[Manifest]()
    for place in range(draw.choice((0, 1, 2, 2, 3))):
        if not there:
            break
        node, device = there.pop()
        got = [(node, device)]
        if draw.random() < 0.3 and not counters:
            got += [each for each in there if each[0] == node][:1]
            there = [each for each in there if each not in got]
        title = f"run-{place}"
        entry = {"resourceClaims": [{"name": "gpu", "resourceClaimName": title}]}
        running.append(scenes.running(title, node, draw.choice((0, 0, 20)), cpu=0, **entry))
        pods = [title]
        if draw.random() < 0.1:
            running.append(scenes.running(f"{title}-too", node, draw.choice((0, 20)), cpu=0, **entry))
            pods.append(f"{title}-too")
        claims.append(devices.claim(title, devices=got, pods=pods))
    return running, claims


def _template(draw: random.Random, name: str, *, claims_of_one: bool) -> Manifest:
    requests = [_request(draw, "one")]
    if draw.random() < 0.25:
        requests.append(_request(draw, "two"))
    constraints = []
    if draw.random() < 0.25:
        kind = draw.choice(("matchAttribute", "distinctAttribute"))
        constraint: dict[str, Any] = {kind: f"{DRIVER}/numa"}
        if len(requests) > 1 and draw.random() < 0.3:
            constraint["requests"] = ["one"]
        constraints.append(constraint)
        requests[0]["exactly"].update({"count": 2} if "count" in requests[0]["exactly"] else {})
    if draw.random() < 0.18 and not claims_of_one:
        few, many = _exactly(draw), _exactly(draw)
        requests[0] = {
            "name": "one",
            "firstAvailable": [{"name": "x", **few}, {"name": "y", **many}],
        }
    return devices.template(*requests, name=name, constraints=constraints)


def _request(draw: random.Random, name: str) -> Manifest:
    exactly = _exactly(draw)
    kind = draw.random()
    if kind < 0.08:
        exactly = {**exactly, "allocationMode": "All"}
        exactly.pop("count")
    elif kind < 0.14:
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _exactly(draw: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        "deviceClassName": "linked" if draw.random() < 0.08 else DRIVER,
        "count": draw.choice((1, 1, 1, 2)),
    }
    if draw.random() < 0.3:
        found["selectors"] = [{"cel": {"expression": draw.choice(_OWN)}}]
    if draw.random() < 0.2:
        found["tolerations"] = [{"key": draw.choice(("broken", "busy")), "operator": "Exists"}]
    return found


def _members(draw: random.Random, claims: list[Manifest], known: list[tuple[str, str]]) -> list[Manifest]:
    """Return the members. All of them may share a named claim, and one may have a claim with devices already."""
    priority = draw.choice((10, 10, 0))
    count = draw.choice((1, 2, 2, 3))
    shared = []
    if draw.random() < 0.15:
        claims.append(devices.claim("shared", _request(draw, "gpu")))
        shared = [{"name": "shared", "resourceClaimName": "shared"}]
    pinned = []
    if draw.random() < 0.2 and known:
        node, device = draw.choice(known)
        if not any((node, device) == (r["pool"], r["device"]) for c in claims for r in _results(c)):
            claims.append(devices.claim("early", devices=[(node, device)]))
            pinned = [{"name": "early", "resourceClaimName": "early"}]
    found = []
    for place in range(count):
        own = [{"name": "own", "resourceClaimTemplateName": draw.choice(("t0", "t0", "t0", "t1"))}]
        entries = [*(own if not shared or draw.random() < 0.5 else []), *shared, *(pinned if place == 0 else [])]
        found.append(scenes.pod(f"g-{place}", gang="g", cpu=1, priority=priority, resourceClaims=entries))
    return found


def _results(claim: Manifest) -> list[Manifest]:
    results: list[Manifest] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return results
