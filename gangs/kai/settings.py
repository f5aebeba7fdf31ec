"""The ConfigMap kai-scheduler-config: whether topologies are used, the topology policies, and the levels."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gangs.findings import Findings
from gangs.kai import keys
from gangs.manifests import MalformedError, advise_unknown, decode, ref_of, yaml_of
from gangs.model import Manifest, ObjectRef
from gangs.sources import Sources

AT = f"data[{keys.CONFIG_FILE}]"
TITLE = f"{keys.CONFIG_KIND} {keys.CONFIG_NAMESPACE}/{keys.CONFIG_NAME}"
PACK, PREFER = "pack", "prefer"
NVLINK, NUMA, NVSWITCH = "nvlink", "numa", "nvswitch"
MOST_WEIGHT = 100


class Policy(msgspec.Struct, frozen=True):
    """A topology policy in KAI Scheduler's ConfigMap.

    `topology`: a level, or one of the words `nvlink`, `numa` and `nvswitch`. `strategy`: `pack` pods into few domains
    of the level, or `prefer` nodes that have its label. `weight`: from 1 to 100.
    """

    name: str
    topology: str
    strategy: str
    weight: int = 1


class LevelEntry(msgspec.Struct, frozen=True):
    """A level in KAI Scheduler's ConfigMap: its name, and the node label whose value is the name of a node's domain."""

    name: str
    label: str


class _Section(msgspec.Struct, frozen=True, rename="camel"):
    enabled: bool = True
    policies: tuple[Policy, ...] | None = None
    levels: tuple[LevelEntry, ...] | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The content of the ConfigMap that configures KAI Scheduler's levels. `there`: whether it exists and is valid;
    otherwise the fields have their defaults.

    `enabled`: whether scopes and policies have an effect. `levels`: the narrowest first.
    """

    there: bool = False
    enabled: bool = True
    policies: tuple[Policy, ...] = ()
    levels: tuple[LevelEntry, ...] = ()

    def policy(self, name: str) -> Policy | None:
        """Return the topology policy of this name; None if there is none."""
        return next((each for each in self.policies if each.name == name), None)

    @property
    def below_the_node(self) -> frozenset[str]:
        """The names of the levels inside a node, such as a GPU: all levels that KAI Scheduler's ConfigMap lists before
        the node level.

        NVLink domains do not count, because they may span nodes.
        """
        names = [each.name for each in self.levels]
        node = next((at for at, each in enumerate(self.levels) if _is_node(each)), 0)
        return frozenset((keys.GPU_SCOPE, keys.NUMA_LEVEL, *names[:node])) - {keys.NVLINK_LEVEL}

    def above_the_node(self) -> tuple[LevelEntry, ...]:
        """Return the levels whose domains have several nodes, the widest first, without NVLink domains."""
        inside = self.below_the_node | {keys.NVLINK_LEVEL}
        return tuple(each for each in reversed(self.levels) if each.name not in inside and not _is_node(each))

    def label_of(self, name: str) -> str | None:
        """Return the node label of a level in KAI Scheduler's ConfigMap; None if the ConfigMap does not list the
        level.
        """
        return next((each.label for each in self.levels if each.name == name), None)


DEFAULTS = Settings()


def settings_of(sources: Sources, findings: Findings) -> Settings:
    """Return the content of the ConfigMap of KAI Scheduler; the defaults if it does not exist or is invalid.

    Faults go to `findings`.
    """
    manifest = sources.get("", keys.CONFIG_KIND, keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)
    if manifest is None:
        return DEFAULTS
    own = Findings()
    try:
        settings = _read(manifest, own)
    except MalformedError as error:
        own.take([error.fault])
        settings = DEFAULTS
    findings.take(own.faults, own.advice)
    return DEFAULTS if own.faults else settings


def _read(manifest: Manifest, findings: Findings) -> Settings:
    ref = ref_of(manifest)
    part = yaml_of(manifest, keys.CONFIG_FILE).get(keys.CONFIG_SECTION)
    at = f"{AT}.{keys.CONFIG_SECTION}"
    if part is None:
        findings.advise(ref, AT, f"has no {keys.CONFIG_SECTION}: there are no policies, and the levels are the usual")
        return Settings(there=True)
    found = decode(part, _Section, ref, at)
    advise_unknown(part, ("enabled", "policies", "levels"), ref, at, findings)
    settings = Settings(there=True, enabled=found.enabled, policies=found.policies or (), levels=found.levels or ())
    _check_policies(settings, ref, f"{at}.policies", findings)
    _check_levels(settings.levels, ref, f"{at}.levels", findings)
    for name in (each.name for each in settings.levels if each.name in settings.below_the_node):
        effect = "it counts only for ResourceClaims; without claims, the node chooses the devices"
        text = f'"{name}" lies below the node: {effect}'
        findings.advise(ref, f"{at}.levels", text)
    return settings


def _check_policies(settings: Settings, ref: ObjectRef, at: str, findings: Findings) -> None:
    names: set[str] = set()
    targets = _targets(settings)
    for position, each in enumerate(settings.policies):
        path = f"{at}[{position}]"
        if each.name in names:
            findings.fault(ref, f"{path}.name", f'"{each.name}" is given twice', "give each policy a name of its own")
        names.add(each.name)
        if not 1 <= each.weight <= MOST_WEIGHT:
            findings.fault(ref, f"{path}.weight", f"{each.weight} is not from 1 to {MOST_WEIGHT}", "correct it")
        if each.strategy not in (PACK, PREFER):
            problem = f'"{each.strategy}" is not known'
            findings.fault(ref, f"{path}.strategy", problem, f"write {PACK} or {PREFER}")
        if each.topology not in targets:
            problem = f'"{each.topology}" is not known'
            findings.fault(ref, f"{path}.topology", problem, f"write one of {', '.join(targets)}")


def _targets(settings: Settings) -> tuple[str, ...]:
    """Return the values that a policy's `topology` may have: nvlink, numa, nvswitch, and the names of all levels."""
    levels = (keys.NVLINK_LEVEL, keys.NODE_LEVEL, keys.RACK_LEVEL, keys.ZONE_LEVEL)
    return tuple(dict.fromkeys((NVLINK, NUMA, NVSWITCH, *levels, *(each.name for each in settings.levels))))


def _check_levels(levels: Sequence[LevelEntry], ref: ObjectRef, at: str, findings: Findings) -> None:
    first: dict[str, int] = {}
    for position, each in enumerate(levels):
        for key, text in (("name", each.name), ("label", each.label)):
            if first.setdefault(text, position) != position:
                problem = f'"{text}" stands for levels[{first[text]}] too'
                findings.fault(ref, f"{at}[{position}].{key}", problem, "give each level a name and a label of its own")
            elif not text:
                findings.fault(ref, f"{at}[{position}].{key}", "is empty", "write it")


def _is_node(entry: LevelEntry) -> bool:
    return entry.name == keys.NODE_LEVEL or entry.label == "kubernetes.io/hostname"
