"""The list of Phalanx's own keys that users write. `kube.keys` defines the keys, because all packages use them."""

from kube import keys

KEYS: tuple[str, ...] = (
    keys.GANG,
    keys.POD_SET,
    keys.INDEX,
    keys.REQUIRED,
    keys.PREFERRED,
    keys.MIN_MEMBER,
    keys.TOPOLOGY,
    keys.PLACEHOLDERS,
    keys.IGNORE_CLAIMS,
    keys.EXPECTED_DURATION,
    keys.AUTOMATIC,
    keys.SHARES_GROUPS_WITH,
)
"""All keys of labels and annotations of Phalanx that users write."""
