"""The web page: what it shows, that text from objects cannot inject code, and that the page is accessible."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pictures import Manifest, StillPicture, node, pod, pod_group, topology

from cluster.api.token_reviews import Access
from solver.objective import CRITERIA
from webhook.app import create_app
from webhook.live_view import data as live
from webhook.live_view.page import DRAWN, HEADERS, MOST, STYLE, TABLES, page
from webhook.live_view.page import SCRIPT as BUNDLE
from webhook.metrics import Metrics

NODES = [node(f"node-{number}", rack=f"r{number // 2}") for number in range(4)]
GROUP = "pod-group.scheduling.sigs.k8s.io"
GOALS = Path(__file__).parents[2] / "page" / "src" / "goals.ts"
SCRIPT = "<script>alert(1)</script>"
VOID = {"meta", "br", "link"}


class Outline(HTMLParser):
    """The elements of a page, each checked to be closed, and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Only the innermost element may end."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note the text."""
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(" ".join(data.split()))

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every such element."""
        return [attributes for name, attributes in self.elements if name == tag]


def gang_object(name: str, mirrors: str, **status: str) -> Manifest:
    """A Gang that shows another dialect's gang."""
    metadata = {"name": name, "namespace": "default", "annotations": {"phalanx.dev/mirrors": mirrors}}
    return {"apiVersion": "phalanx.dev/v1alpha1", "kind": "Gang", "metadata": metadata, "spec": {}, "status": status}


def shown(picture: StillPicture) -> str:
    """Return the page over the cluster view."""
    return page(live.gangs(picture), live.topology(picture))


@pytest.fixture
def busy() -> StillPicture:
    """Two racks; a gang of four of which two exist, one on a node."""
    members = [pod("p0", labels={GROUP: "llm"}, nodeName="node-0"), pod("p1", labels={GROUP: "llm"})]
    mirror = gang_object("llm", "koordinator/default/llm", phase="Waiting", message="needs 2 more pods")
    return StillPicture([topology("rack"), pod_group(), mirror], nodes=NODES, pods=members)


def test_it_shows_gangs_with_their_members_and_topologies_with_their_room(busy: StillPicture) -> None:
    text = " ".join(text for texts in Outline(shown(busy)).texts.values() for text in texts)
    for each in ("default/llm", "Waiting", "needs 2 more pods", "1 of 2 on nodes", "p0: on node-0", "r0", "28.0", "r1"):
        assert each in text


class Anybody:
    """An access check that allows every caller."""

    def access(self, token: str, verb: str, path: str) -> Access:
        """Always."""
        del token, verb, path
        return Access.ALLOWED


def test_the_tables_are_written_only_for_a_browser_without_scripts(busy: StillPicture) -> None:
    assert DRAWN, "run: make page"
    client = create_app(busy, Anybody(), Metrics()).test_client()
    drawn, written = (client.get(path, headers={"Authorization": "Bearer theirs"}) for path in ("/", f"/?{TABLES}"))
    outline = Outline(drawn.text)
    assert {"table", "h1"}.isdisjoint(name for name, _ in outline.elements)
    assert outline.all("script") == [{"src": "page.js", "defer": ""}]
    assert {"http-equiv": "refresh", "content": f"0; url=?{TABLES}"} in outline.all("meta")
    assert len(Outline(written.text).all("table")) == 2
    assert drawn.headers["Content-Security-Policy"] == written.headers["Content-Security-Policy"]


def test_an_empty_cluster_is_said_in_words() -> None:
    text = shown(StillPicture(synced=False))
    assert "Nobody asks for a gang." in text
    assert "Still reading the cluster" in text


def test_what_users_write_stays_text() -> None:
    mirror = gang_object("llm", "koordinator/default/llm", phase=SCRIPT, message=SCRIPT)
    text = shown(StillPicture([topology("rack"), pod_group(), mirror], nodes=[node("node-0", rack=SCRIPT)]))
    assert text.count("<script") == text.count('<script src="page.js" defer></script>') == bool(BUNDLE)
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2


def test_it_needs_nothing_from_elsewhere_and_may_run_only_its_own(busy: StillPicture) -> None:
    outline = Outline(shown(busy))
    assert outline.all("script") == ([{"src": "page.js", "defer": ""}] if BUNDLE else [])
    assert not any(name in {"link", "img", "iframe", "form"} for name, _ in outline.elements)
    assert all(not name.startswith("on") and name != "style" for _, found in outline.elements for name in found)
    assert all(link["href"] == "" or link["href"].startswith("#") for link in outline.all("a"))
    policy = dict(each.split(" ", 1) for each in HEADERS["Content-Security-Policy"].split("; "))
    assert policy.pop("style-src").startswith("'sha256-")
    assert {policy.pop(each) for each in ("script-src", "connect-src") if BUNDLE} <= {"'self'"}
    assert set(policy.values()) == {"'none'"}
    assert {"default-src", "frame-ancestors", "base-uri", "form-action"} == set(policy)


def test_it_can_be_read_without_eyes_and_used_without_a_mouse(busy: StillPicture) -> None:
    outline = Outline(shown(busy))
    assert outline.all("html")[0]["lang"] == "en"
    assert len(outline.all("h1")) == len(outline.all("main")) == 1
    assert len(outline.all("table")) == len(outline.all("caption")) == 2
    assert all("scope" in each for each in outline.all("th"))
    known = {each["id"] for _, each in outline.elements if "id" in each}
    links = {link["href"][1:] for link in outline.all("a") if link["href"]}
    labels = {each["aria-labelledby"] for _, each in outline.elements if "aria-labelledby" in each}
    assert links | labels <= known
    assert all("tabindex" in each for each in outline.all("div"))


def test_a_long_list_is_cut_and_says_where_the_rest_is() -> None:
    gang: dict[str, Any] = live.gangs(StillPicture([pod_group()]))["gangs"][0]
    whole = {"synced": True, "age": 0.0, "faults": [], "gangs": [{**gang, "name": f"g{n}"} for n in range(MOST + 7)]}
    text = page(whole, live.topology(StillPicture()))
    assert "And 7 more, in <code>/v1/gangs</code>." in text
    assert text.count('<th scope="row">') == MOST


def test_its_style_sheet_has_one_declaration_a_line() -> None:
    assert not [line for line in STYLE.splitlines() if line.count(";") > 1 or ("{" in line and "}" in line)]


def test_its_script_says_of_goals_what_their_values_are() -> None:
    """For a goal of which more is better, the page names the amount achieved.

    For the other goals it names the amount that is missing or spent elsewhere.
    """
    table = re.search(r"const GOALS.*?= \{(.*?)\};", GOALS.read_text(), re.DOTALL)
    assert table
    told = dict(re.findall(r'^ *(\w+): "([^"]+)",$', table.group(1), re.MULTILINE))
    more_is_better = {each.name: each.more_is_better for each in CRITERIA}
    assert told.keys() <= more_is_better.keys()
    had = {goal: words for goal, words in told.items() if more_is_better[goal]}
    assert had == {"extras": "members beyond the minimum", "preferences": "node preferences fulfilled, by weight"}
