"""`phalanx solve -o html`: writes the live page with the plans of one solve into a single file that needs no server."""

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files

import msgspec
from jinja2 import Environment, StrictUndefined

from cluster.snapshot import Snapshot
from kube.topology import Topology
from planning.after_plan import after_all
from planning.decision import Decision
from planning.messages.solve_report import solve_report
from webhook.live_view import data
from webhook.live_view.page import SCRIPT, STYLE

_PAGE = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
    (files("webhook.live_view") / "recorded.html").read_text()
)


def recorded(decisions: Sequence[Decision], snapshot: Snapshot, topologies: Sequence[Topology], now: datetime) -> str:
    """Return the HTML file that shows these decisions, and the cluster as it will be when all plans are carried out.

    All texts of users are escaped: in the tables as HTML, for the script as JSON without any `<`. The file's
    Content-Security-Policy allows this one script and this style sheet, and no request.

    :param snapshot: the cluster before the plans.
    :param now: the time to show as the time of the solve.
    """
    states = {state.name: state for state in after_all(decisions, snapshot).nodes}
    report = solve_report(decisions, details=True)
    cluster = {
        "topologies": [data.places(each) for each in data.trees(topologies, states)],
        "nodes": {name: data.cell(state) for name, state in states.items()},
    }
    embedded = msgspec.json.encode({"decisions": report["gangs"], "cluster": cluster}).decode()
    script = SCRIPT.decode().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_digest(STYLE)}"
    return _PAGE.render(
        policy=f"{policy}; script-src {_digest(script)}",
        report=report,
        style=STYLE,
        script=script,
        data=embedded.replace("<", "\\u003c"),
        now=now.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    )


def _digest(text: str) -> str:
    """Return the hash of a script or style sheet in the form by which a Content-Security-Policy allows exactly it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
