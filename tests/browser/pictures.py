"""A program that takes the pictures of the dashboard in docs/images: `python -m tests.browser.pictures`.

With a FOLDER it takes every page there: wide and as on a phone, light and dark.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser

from digestif import Digests
from tests.browser import scene
from tests.browser.chromium import DESK, PHONE, Desk, browser

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TIMELINE = "/timeline?key={busiest}"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESK, "color_scheme": "light"},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "device_scale_factor": 2},
    "phone-dark": {"viewport": PHONE, "color_scheme": "dark", "device_scale_factor": 2},
}
IN_DOCS = {
    "dashboard-light.png": ("/", "light"),
    "dashboard-dark.png": ("/", "dark"),
    "dashboard-phone.png": ("/", "phone"),
    "timeline-light.png": (TIMELINE, "light"),
}
MOST_RECORDS = 8  # of the timeline in the picture
PAGES = {
    "overview": "/",
    "timelines": "/timelines?state=waiting",
    "search": "/timelines?search=a&sort=pending",
    "due": "/timelines?only=due",
    "timeline": TIMELINE,
    "off": "/timeline/off?key={busiest}&cadence=off",
    "digests": "/digests",
    "dead-letters": "/dead-letters",
    "channels": "/channels",
    "workers": "/workers",
    "status": "/status",
    "api": "/docs",
    "not-found": "/nowhere",
}


def take(chromium: Browser, address: str, path: Path, look: str, *, whole: bool) -> None:
    """One picture, once the page is live and its curves are drawn."""
    desk = Desk(chromium, **LOOKS[look])
    desk.page.goto(address)
    if desk.page.locator("#live").count():
        desk.page.wait_for_selector("#pulse[data-state=on]")
    desk.page.wait_for_load_state("load")
    if desk.page.locator(".chart").count():
        desk.page.wait_for_selector(".chart canvas")
    if whole:  # as high as the page: what is below the window, such as a frame, is not drawn otherwise
        height = desk.page.evaluate("document.documentElement.scrollHeight")
        desk.page.set_viewport_size({"width": LOOKS[look]["viewport"]["width"], "height": height})
    if desk.page.locator("iframe").count():
        desk.page.frame_locator("iframe").locator("table").first.wait_for()
        desk.page.frame_locator("iframe").locator("body").screenshot()  # once it is painted
    desk.page.screenshot(path=path)
    desk.close()


def take_all(chromium: Browser, address: str, folder: Path | None, *, busiest: str) -> None:
    if folder is None:
        for name, (page, look) in IN_DOCS.items():
            place = address + page.format(busiest=busiest)
            take(chromium, place, IMAGES / name, look, whole=look != "phone")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        for look in LOOKS:
            place = address + page.format(busiest=busiest)
            take(chromium, place, folder / f"{name}-{look}.png", look, whole=True)


def busiest_of(folder: Path) -> str:
    """The timeline of alerts with the most to say, among those that are not due at once, as a part of an address."""
    with Digests(f"sqlite:///{folder / 'digestif.db'}") as digests:
        waiting = digests.timelines("waiting", prefix="alerts:")
    soon = time.time() + 60
    fitting = [each for each in waiting if each.due and each.due > soon and each.pending <= MOST_RECORDS]
    found = max(fitting, key=lambda each: each.pending)
    return quote(found.key, safe="")


def main() -> None:
    with tempfile.TemporaryDirectory() as place, browser() as chromium:
        scene.fill(Path(place), now=time.time())
        with scene.shown(Path(place)) as address:
            chosen = Path(sys.argv[1]) if sys.argv[1:] else None
            take_all(chromium, address, chosen, busiest=busiest_of(Path(place)))


if __name__ == "__main__":
    main()
