"""Debian's Chromium, and what it notices about a page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK = {"width": 1360, "height": 860}
PHONE = {"width": 390, "height": 844}
VIOLATIONS = """addEventListener("securitypolicyviolation", (event) => {
  console.error(`forbidden: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});"""


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        try:
            yield chromium
        finally:
            chromium.close()


class Desk:
    """A window of the browser, and everything that went wrong in it."""

    def __init__(self, chromium: Browser, **options: Any) -> None:
        look = {"viewport": DESK, "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        self.context: BrowserContext = chromium.new_context(**look)
        self.context.set_default_timeout(15_000)
        self.context.add_init_script(VIOLATIONS)
        self.complaints: list[str] = []
        self.context.on("console", self._hear)
        self.context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        self.page: Page = self.context.new_page()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def forgive(self, text: str) -> None:
        """Forget what a test has brought about itself."""
        self.complaints = [complaint for complaint in self.complaints if text not in complaint]

    def close(self) -> None:
        self.context.close()
