"""The pages as a site: the navigation reaches each of them, links hold there too, and every picture has an origin."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import _scaling_page as scaling
from bench._peers import page as peers
from tests.browser import pictures as dashboard
from tests.compose import pictures
from tests.docs.pages import DOCS, PAGES, ROOT, anchors, blocks, headings, links
from tests.docs.site import Problem, check
from tests.docs.week import picture

SETTINGS = (ROOT / "mkdocs.yml").read_text("utf-8")
IMAGES = DOCS / "images"

# What makes each picture anew, by ./dev. Those without a program are written by hand, as SVG.
PROGRAMS = {
    picture.PICTURE.name: "python -m tests.docs.week",
    peers.PICTURE.name: "bench peers --twice --write",
    scaling.PICTURE.name: "bench scaling --write",
    **dict.fromkeys(pictures.IN_DOCS, "python -m tests.compose.pictures"),
    **dict.fromkeys(dashboard.IN_DOCS, "python -m tests.browser.pictures"),
}
WRITTEN_BY_HAND = {"move.svg", "states.svg", "timeline.svg"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


# Pages


def test_every_page_is_in_the_navigation_once() -> None:
    """And the navigation names no page that does not exist."""
    navigation = SETTINGS.partition("\nnav:\n")[2].partition("\n\n")[0]
    listed = re.findall(r"^ +- [^:]+: (\S+)$", navigation, re.MULTILINE)

    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_a_site_finds_every_page_under_its_title() -> None:
    """A page begins with its only heading of the first level."""
    for page in DOCS.rglob("*.md"):
        prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        first = [line for line in prose.splitlines() if line.startswith("# ")]

        assert len(first) == 1, page.name
        assert prose.startswith(first[0]), page.name


@each_page
def test_anchors_are_the_same_on_the_site_and_in_the_repository(page: Path) -> None:
    """The two make them from headings by different rules, so not every heading can be linked to."""
    for link in links(page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if anchor and target.is_relative_to(DOCS):
            assert anchor in anchors(target.read_text("utf-8")) & site_anchors(target.read_text("utf-8")), link


def site_anchors(page: str) -> set[str]:
    """By the rule of Python-Markdown, which gives a repeated heading a number."""
    found: set[str] = set()
    for title in headings(page):
        plain = re.sub(r"[^\w\s-]", "", title.encode("ascii", "ignore").decode()).strip().lower()
        anchor = re.sub(r"[-\s]+", "-", plain)
        found.add(anchor if anchor not in found else f"{anchor}_1")
    return found


def test_pages_link_to_nothing_outside_of_their_folder() -> None:
    """The site has no other files."""
    for page in DOCS.rglob("*.md"):
        for link in links(page.read_text("utf-8")):
            path = (page.parent / link.partition("#")[0]).resolve()
            assert path.is_relative_to(DOCS), f"{page.name}: {link}"


def test_the_start_page_and_the_readme_show_the_same_first_example() -> None:
    first = [
        next(block for block in blocks(page.read_text("utf-8")) if block.language == "python")
        for page in (ROOT / "README.md", DOCS / "index.md")
    ]

    assert first[0].text == first[1].text
    assert first[0].output == first[1].output


# Pictures


def test_every_picture_is_shown_on_a_page() -> None:
    """And every picture that a page shows exists, which the test of links says."""
    shown = {Path(link).name for page in PAGES for link in links(page.read_text("utf-8")) if "images/" in link}

    assert shown == {path.name for path in IMAGES.iterdir()}


def test_every_picture_has_a_program_or_is_written_by_hand() -> None:
    assert {path.name for path in IMAGES.iterdir()} == PROGRAMS.keys() | WRITTEN_BY_HAND
    assert PROGRAMS.keys() & WRITTEN_BY_HAND == set()
    assert {Path(name).suffix for name in WRITTEN_BY_HAND} == {".svg"}


def test_contributing_says_what_makes_each_picture() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+\.\w+)` \| (.+) \|$", page, re.MULTILINE))
    made = {name: f"`./dev {program}`" for name, program in PROGRAMS.items()}

    assert rows == made | dict.fromkeys(WRITTEN_BY_HAND, "written by hand")


@each_page
def test_every_picture_is_described(page: Path) -> None:
    text = page.read_text("utf-8")

    assert [alt for alt in re.findall(r"!\[([^\]]*)\]\(", text) if len(alt) < 10] == []
    assert [tag for tag in re.findall(r"<img [^>]*>", text) if not re.search(r'alt="[^"]{10,}"', tag)] == []


# The check of the site that was built


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two pages that lead to each other, and a picture."""
    (tmp_path / "how").mkdir()
    (tmp_path / "dot.svg").write_text("<svg/>", "utf-8")
    (tmp_path / "index.html").write_text('<a href="how/to.html#step">to</a> <img src="dot.svg"> <i id="top">', "utf-8")
    (tmp_path / "how" / "to.html").write_text(
        '<h2 id="step">1</h2> <a href="../#top">up</a> <a href="#step">here</a> <a href="https://example.org">away</a>',
        "utf-8",
    )
    return tmp_path


def problems(site: Path, name: str, html: str) -> Iterator[str]:
    (site / name).write_text(html, "utf-8")
    for problem in check(site):
        assert problem.page == name
        yield problem.link


def test_a_site_whose_links_lead_somewhere_has_no_problem(site: Path) -> None:
    assert list(check(site)) == []


@pytest.mark.parametrize(
    ("html", "link"),
    [
        ('<a href="gone.html">', "gone.html"),
        ('<a href="how/to.html#gone">', "how/to.html#gone"),
        ('<a href="#gone">', "#gone"),
        ('<a href="../outside.html">', "../outside.html"),
        ('<img src="gone.png">', "gone.png"),
        ('<script src="https://example.org/x.js"></script>', "https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "//example.org/x.css"),
        ('<img src="https://example.org/x.png">', "https://example.org/x.png"),
    ],
)
def test_a_link_that_leads_nowhere_and_a_file_from_elsewhere_are_found(site: Path, html: str, link: str) -> None:
    assert list(problems(site, "bad.html", html)) == [link]


def test_a_problem_says_where_it_is_and_what_is_wrong(site: Path) -> None:
    (site / "bad.html").write_text('<a href="gone.html">', "utf-8")

    assert list(check(site)) == [Problem("bad.html", "gone.html", "there is no such file")]
