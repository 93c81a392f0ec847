"""A program that checks the site that `./dev docs` has built: python -m tests.docs.site.

Every link inside of it leads to a file, and to an anchor if it names one. Nothing is loaded from elsewhere.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

SITE = Path(__file__).parents[2] / "site"
# What a browser loads without being asked.
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
NOT_LOADED = {"canonical", "prev", "next"}  # kinds of <link> that only name an address


@dataclass(frozen=True)
class Problem:
    """A link that leads nowhere."""

    page: str
    link: str
    what: str


@dataclass(frozen=True)
class Link:
    """An address in a page, and whether a browser loads it without being asked."""

    target: str
    loaded: bool


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            if value and name in ("href", "src"):
                loaded = (tag, name) in LOADED and dict(attrs).get("rel") not in NOT_LOADED
                self.links.append(Link(value, loaded))


def check(site: Path) -> Iterator[Problem]:
    """What is wrong with the links of a site."""
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":  # served for any address, so its links begin at the root
            continue
        for link in read(path).links:
            if what := wrong(site, path, link):
                yield Problem(str(path.relative_to(site)), link.target, what)


@cache
def read(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


def wrong(site: Path, page: Path, link: Link) -> str:
    """Nothing if the link is right."""
    if re.match(r"(?:[a-z]+:|//)", link.target):
        return "it is loaded from elsewhere" if link.loaded and not link.target.startswith("data:") else ""
    address, anchor = urldefrag(link.target)
    path = (page.parent / unquote(address)).resolve() if address else page
    if path.is_dir():
        path /= "index.html"
    if not path.is_relative_to(site.resolve()) or not path.is_file():
        return "there is no such file"
    if anchor and unquote(anchor) not in read(path).anchors:
        return "there is no such anchor"
    return ""


def main() -> str | None:
    """Give the problems as text, or nothing."""
    pages = len(list(SITE.rglob("*.html")))
    found = [f"site/{problem.page}: {problem.link}: {problem.what}" for problem in check(SITE)]
    if not pages:
        found.append(f"there is no site in {SITE}; ./dev docs builds it")
    sys.stdout.write(f"{pages} pages in {SITE}, {len(found)} links that lead nowhere\n")
    return "\n".join(found) or None


if __name__ == "__main__":
    sys.exit(main())
