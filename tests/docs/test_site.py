"""The docs site: every page is in the navigation, every link leads somewhere, nothing comes from elsewhere."""

import re
import subprocess
import tomllib
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from page_commands import DOCS, ROOT

PAGES = sorted(DOCS.rglob("*.md"))
SITE = ROOT / "dist" / "site"
_CODE = re.compile(r"^(```|~~~).*?^\1$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
LOADED = {
    "img": ("src", "srcset"),
    "script": ("src",),
    "link": ("href",),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
"""By element: the attributes whose addresses a browser fetches by itself when it shows a page."""
FETCHING = re.compile(
    r"^```\s*(mermaid|pyodide)"  # as they are written
    r'|class="[^"]*\b(mermaid|glightbox|pyodide)\b|data-md-exec-state=|data-md-component="source"',  # as they are built
    re.MULTILINE,
)
"""Parts of a page for which the theme's script would fetch programs from elsewhere."""
NOT_FETCHED = ("canonical", "prev", "next", "alternate")
"""Relations of a <link> that a browser does not fetch by itself."""


def named(entries: object) -> Iterator[str]:
    """The pages of a navigation, in its order."""
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, dict):
        for each in entries.values():
            yield from named(each)
    elif isinstance(entries, list):
        for each in entries:
            yield from named(each)


def prose(page: Path) -> str:
    """A page without its code."""
    return _CODE.sub("", page.read_text())


def without_blocks(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Python-Markdown makes them."""
    found: list[str] = []
    for title in re.findall(r"^#+ (.*)$", without_blocks(page), re.MULTILINE):
        plain = unicodedata.normalize("NFKD", re.sub(r"[`*]|\]\([^)]*\)|\[", "", title)).encode("ascii", "ignore")
        found.append(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain.decode()).strip().lower()))
    return set(found)


def test_every_page_has_one_place_in_the_navigation() -> None:
    listed = list(named(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert sorted(listed) == [str(page.relative_to(DOCS)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if re.match(r"\w+://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target in PAGES, f"{link}: there is no such page"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading among {sorted(anchors(target))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_page_has_one_title(page: Path) -> None:
    text = without_blocks(page)
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_no_page_shows_what_is_elsewhere(page: Path) -> None:
    assert foreign(prose(page)) == []
    assert not FETCHING.search(page.read_text())
    assert not re.search(r"!\[[^\]]*\]\(\w+:", prose(page))


class Fetched(HTMLParser):
    """Addresses that a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what the tag fetches."""
        values = dict(attrs)
        if tag == "link" and values.get("rel") in NOT_FETCHED:
            return
        self.found += [values[name] or "" for name in LOADED.get(tag, ()) if name in values]
        self.found += re.findall(r"url\(([^)]*)\)", values.get("style") or "")


def foreign(html: str) -> list[str]:
    """Return the addresses on other servers that the page would fetch."""
    parser = Fetched()
    parser.feed(html)
    return [each for each in parser.found if re.match(r"['\"]?(\w+:)?//", each)]


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<p style="background: url(https://cdn.example/x.png)">',
    ],
)
def test_what_comes_from_elsewhere_is_found(html: str) -> None:
    assert len(foreign(html)) == 1
    assert FETCHING.search("```mermaid\ngraph LR\n```")
    assert FETCHING.search('<pre class="mermaid">')
    assert foreign('<a href="https://example.com">read</a><img src="assets/x.png">') == []


@pytest.mark.thorough
@pytest.mark.long
def test_the_site_is_built_strictly_and_fetches_nothing_from_elsewhere() -> None:
    made = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    built = {path.relative_to(SITE).with_suffix("") for path in SITE.rglob("*.html")} - {Path("404")}
    assert built >= {page.relative_to(DOCS).with_suffix("") for page in PAGES}
    for page in SITE.rglob("*.html"):
        assert foreign(page.read_text()) == [], page
        assert not FETCHING.search(page.read_text()), page
    for style in SITE.rglob("*.css"):
        assert not re.search(r"@import\s+(url\()?['\"]?(https?:)?//|url\(['\"]?(https?:)?//", style.read_text()), style
