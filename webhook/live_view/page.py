"""`GET /`: the live page, which shows gangs and nodes in a browser.

The page is drawn by its script, `GET /page.js`. A browser without scripts is sent to `GET /?tables`: the gangs and
topologies as tables, which take a second to write for 15,000 nodes. Neither loads anything from other servers, and the
server keeps no state for them.
"""

import base64
import hashlib
from collections import Counter
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

Json = dict[str, Any]

MOST = 500
"""The most rows of one table. The JSON of `/v1/gangs` and `/v1/topology` has all of them."""
UNITS = {"cpu": (1000, ""), "memory": (2**30, " GiB"), "ephemeral-storage": (2**30, " GiB")}
"""By resource, the displayed unit and its size in base units. Any other resource is counted in pieces."""

STYLE = (files("webhook.live_view") / "page.css").read_text()
_SCRIPT = files("webhook.live_view") / "page.js"
SCRIPT = _SCRIPT.read_bytes() if _SCRIPT.is_file() else b""
"""The script, built from `page/` by `make page`. If it was not built, it is empty, and the page has the tables."""
TABLES = "tables"
"""The parameter of `GET /` that asks for the tables."""
_TEMPLATES = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_PAGE, _DRAWN = (
    _TEMPLATES.from_string((files("webhook.live_view") / name).read_text())
    for name in ("page.html", "page_by_script.html")
)
DRAWN = _DRAWN.render(style=STYLE, tables=TABLES) if SCRIPT else ""
"""The page that its script draws, as HTML; empty if the script was not built."""


def _policy() -> str:
    """Return the Content-Security-Policy of the live page.

    It allows the live page's own style sheet and script, and requests to this server. It forbids forms and frames.
    """
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    nothing = "; ".join(f"{each} 'none'" for each in ("default-src", "base-uri", "form-action", "frame-ancestors"))
    ours = "; script-src 'self'; connect-src 'self'" if SCRIPT else ""
    return f"{nothing}; style-src 'sha256-{digest}'{ours}"


HEADERS = {
    "Content-Security-Policy": _policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def page(gangs: Json, topology: Json) -> str:
    """Return the live page with tables of gangs and topologies as HTML. All texts of users are escaped.

    :param gangs: the data of `/v1/gangs`.
    :param topology: the data of `/v1/topology`, without the pods of nodes.
    """
    phases = Counter(gang["phase"] or "new" for gang in gangs["gangs"])
    return _PAGE.render(
        style=STYLE,
        scripted=bool(SCRIPT),
        gangs=gangs,
        topology=topology,
        faults=[*gangs["faults"], *topology["faults"]],
        phases=sorted(phases.items()),
        most=MOST,
        bound=_bound,
        place=_place,
        resources=_resources,
        amount=_amount,
    )


def _bound(gang: Json) -> int:
    return sum(1 for member in gang["members"] if member["node"])


def _place(member: Json) -> str:
    """Return where a member runs, as text for the live page; for an unbound one its state and nominated node."""
    if member["node"]:
        return f"on {member['node']}"
    state = "gated" if member["gated"] else "released"
    return f"{state}, to go to {member['nominatedNode']}" if member["nominatedNode"] else f"{state}, no place yet"


def _resources(topology: Json) -> list[str]:
    """Return the resources of which any domain has free capacity: the ones in `UNITS` first, the others by name."""
    names = {name for domain in topology["domains"] for name, free in domain["free"].items() if free}
    return sorted(names, key=lambda name: (name not in UNITS, name))


def _amount(name: str, free: int) -> str:
    if name not in UNITS:
        return f"{free:,}"
    size, unit = UNITS[name]
    return f"{free / size:,.1f}{unit}"
