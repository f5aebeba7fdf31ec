"""The keys of Phalanx's own dialect that users write. The strings are in `kube.keys`, because every package needs
them.
"""

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
"""All keys of labels and annotations that users of this dialect write."""
