"""A program that takes pictures of mails.

`python -m tests.compose.pictures` takes those of docs/images anew. With a FOLDER it takes all of them there: wide and
narrow, light and dark.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, sync_playwright

from digestif import Policy, Wording
from digestif.compose.renderer import Renderer
from digestif.compose.summary import Summary
from tests.compose.comments import (
    COMMENTS,
    GERMAN,
    HEBREW,
    comments,
    hebrew,
    hebrew_comment,
    hebrew_post,
    one_author,
    one_comment,
    one_post,
    several_posts,
)
from tests.compose.samples import LINKS, MONDAY, many, overflow, single

Colours = Literal["light", "dark"]

CHROMIUM = shutil.which("chromium")
WIDTHS = {"wide": 800, "narrow": 360}
COLOURS: tuple[Colours, ...] = ("light", "dark")
IMAGES = Path(__file__).parents[2] / "docs" / "images"
IN_DOCS: dict[str, tuple[str, str, Colours]] = {
    "mail-wide-light.png": ("many", "wide", "light"),
    "mail-narrow-dark.png": ("many", "narrow", "dark"),
    "comments-wide-light.png": ("comments", "wide", "light"),
    "comments-narrow-dark.png": ("comments", "narrow", "dark"),
    "comments-right-to-left.png": ("hebrew", "wide", "light"),
}


def take_those_of_the_docs() -> None:
    found = mails()
    with browser() as chromium:
        for name, (mail, size, colours) in IN_DOCS.items():
            take(chromium, found[mail], IMAGES / name, WIDTHS[size], colours)


def take_all(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for name, html in mails().items():
            for size, width in WIDTHS.items():
                for colours in COLOURS:
                    take(chromium, html, folder / f"mail-{name}-{size}-{colours}.png", width, colours)


def mails() -> dict[str, str]:
    """The HTML of all mails, by name."""
    return {
        "one": html_of(single()),
        "many": html_of(many()),
        "overflow": html_of(overflow()),
        "comments": html_of(comments(), title="Ada’s notebook", wording=COMMENTS),
        "post": html_of(one_post(), title="Ada’s notebook", wording=COMMENTS),
        "comment": html_of(one_comment(), title="Ada’s notebook", wording=COMMENTS),
        "author": html_of(one_author(), title="Ada’s notebook", wording=COMMENTS),
        "posts": html_of(several_posts(), title="Ada’s notebook", wording=COMMENTS),
        "german": html_of(comments(), title="Adas Notizbuch", wording=GERMAN),
        "hebrew": html_of(hebrew(), title="המחברת של עדה", wording=HEBREW),
        "hebrew-comment": html_of(hebrew_comment(), title="המחברת של עדה", wording=HEBREW),
        "hebrew-post": html_of(hebrew_post(), title="המחברת של עדה", wording=HEBREW),
    }


def html_of(summary: Summary, *, title: str = "Acme alerts", wording: Any = None) -> str:
    """The built-in mail with all optional parts. The foot says why and how often in English only."""
    renderer = Renderer(zone="Europe/Berlin", wording=wording)
    about: dict[str, Any] = {"title": title, "links": LINKS, "next_delivery": MONDAY + 9000}
    if not isinstance(wording, Wording):
        about |= {"reason": f"You get this because you follow {title}.", "policy": Policy()}
    return renderer.render(summary, formats=["html"], **about).html


@contextmanager
def browser() -> Iterator[Browser]:
    """The installed Chromium, without a window."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def take(chromium: Browser, html: str, path: Path, width: int, colours: Colours) -> None:
    """One picture of the whole mail."""
    page = chromium.new_page(viewport={"width": width, "height": 400}, color_scheme=colours)
    page.set_content(html)
    page.screenshot(path=path, full_page=True)
    page.close()


if __name__ == "__main__":
    if sys.argv[1:]:
        take_all(Path(sys.argv[1]))
    else:
        take_those_of_the_docs()
