"""The ConfigMap koord-scheduler-config: whether gangs of Koordinator use the network topology, and may preempt.

Without the ConfigMap, both are on. If it exists, awareNetworkTopology and enablePreemption are off unless they are
true, as Koordinator documents.
"""

from dataclasses import dataclass

import msgspec

from gangs.findings import Findings
from gangs.koordinator import keys
from gangs.manifests import MalformedError, decode, ref_of, yaml_of
from gangs.model import Manifest
from gangs.sources import Sources

TITLE = f"{keys.CONFIG_KIND} {keys.CONFIG_NAMESPACE}/{keys.CONFIG_NAME}"
AT = f"data[{keys.CONFIG_NAME}]"


class _Arguments(msgspec.Struct, frozen=True, rename="camel"):
    aware_network_topology: bool = False
    enable_preemption: bool = False


class _Plugin(msgspec.Struct, frozen=True):
    name: str = ""
    args: _Arguments | None = None


class _Profile(msgspec.Struct, frozen=True, rename="camel"):
    plugin_config: tuple[_Plugin, ...] | None = None


class _Configuration(msgspec.Struct, frozen=True):
    profiles: tuple[_Profile, ...] | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The content of Koordinator's ConfigMap: whether gather strategies have an effect, and gangs may preempt."""

    topology: bool = True
    preemption: bool = True


DEFAULTS = Settings()


def settings_of(sources: Sources, findings: Findings) -> Settings:
    """Return the content of Koordinator's ConfigMap; the defaults if it does not exist or is malformed.

    A fault goes to `findings`.
    """
    manifest = sources.get("", keys.CONFIG_KIND, keys.CONFIG_NAMESPACE, keys.CONFIG_NAME)
    if manifest is None:
        return DEFAULTS
    try:
        return _read(manifest)
    except MalformedError as error:
        findings.take([error.fault])
        return DEFAULTS


def _read(manifest: Manifest) -> Settings:
    """Return the settings of the plugin Coscheduling, from the first profile that has it. Raises `MalformedError`."""
    ref = ref_of(manifest)
    document = yaml_of(manifest, keys.CONFIG_NAME)
    profiles = decode(document, _Configuration, ref, AT).profiles or ()
    plugins = (each for profile in profiles for each in profile.plugin_config or ())
    arguments = next((each.args for each in plugins if each.name == keys.PLUGIN and each.args), _Arguments())
    return Settings(arguments.aware_network_topology, arguments.enable_preemption)
