"""Open pages follow what any process does with the store."""

import subprocess
import sys

from playwright.sync_api import expect

from digestif.service.service import Service
from tests.browser.chromium import Desk
from tests.service.harness import Client, serving

ADD = """
import sys
from digestif import Digests
with Digests(sys.argv[1]) as digests:
    digests.add("from-elsewhere", {"title": "News"}, key="n-1")
"""
DELIVER = """
import sys
from digestif import Digests
with Digests(sys.argv[1]) as digests:
    digests.handler("*")(lambda digest: None)
    digests.deliver("from-elsewhere")
"""


def elsewhere(program: str, store: str) -> None:
    """Run a program in another process."""
    subprocess.run([sys.executable, "-c", program, store], check=True, timeout=60)


def test_what_another_process_adds_and_delivers_shows_on_an_open_page(client: Client, desk: Desk, store: str) -> None:
    page, digests = desk.page, desk.context.new_page()
    for each, path in ((page, "/timelines"), (digests, "/digests")):
        each.goto(client.url + path)
        each.wait_for_selector("#pulse[data-state=on]")
        each.evaluate("window.stayed = true")

    elsewhere(ADD, store)
    expect(page.get_by_role("row", name="from-elsewhere")).to_contain_text("ready")
    elsewhere(DELIVER, store)
    expect(page.get_by_role("row", name="from-elsewhere")).to_contain_text("end of cool-down in")
    digests.bring_to_front()

    expect(digests.get_by_role("row", name="from-elsewhere")).to_contain_text("delivered")
    assert page.evaluate("window.stayed")
    assert digests.evaluate("window.stayed")


def test_only_a_page_that_follows_says_whether_it_is_live(client: Client, desk: Desk, service: Service) -> None:
    service.digests.sync.add("orders", 1, key="r")
    pulse = desk.page.locator("#pulse")

    desk.page.goto(f"{client.url}/timeline?key=orders")
    expect(pulse).to_have_text("Live")
    expect(pulse).to_be_visible()
    desk.page.goto(f"{client.url}/timeline/record?key=orders&record=r")
    desk.page.wait_for_selector("#theme:not([hidden])")  # the script has run
    expect(pulse).to_be_hidden()


def test_the_next_delivery_counts_down(client: Client, desk: Desk, service: Service) -> None:
    service.digests.route("orders", channel="terminal://")  # what no route delivers has no time
    service.digests.sync.set_policy("orders", "first=1h")
    service.digests.sync.add("orders", 1)
    desk.page.goto(f"{client.url}/timelines")
    due = desk.page.locator("td time[data-time=due]")
    seen = due.inner_text()

    expect(due).not_to_have_text(seen)
    assert seen.startswith("in 59 min") or seen == "in 1 h"


def test_what_has_the_focus_keeps_it_when_the_page_follows(client: Client, desk: Desk, store: str) -> None:
    elsewhere(ADD.replace("from-elsewhere", "here"), store)
    page = desk.page
    page.goto(f"{client.url}/timelines")
    page.wait_for_selector("#pulse[data-state=on]")
    page.get_by_role("link", name="here", exact=True).focus()

    elsewhere(ADD, store)

    expect(page.get_by_role("row", name="from-elsewhere")).to_be_visible()
    expect(page.get_by_role("link", name="here", exact=True)).to_be_focused()


def test_a_page_says_when_the_connection_is_lost(desk: Desk) -> None:
    page = desk.page
    with serving() as (client, _):
        page.goto(f"{client.url}/timelines")
        page.wait_for_selector("#pulse[data-state=on]")

    expect(page.locator("#pulse .text")).to_have_text("Connecting again")
    desk.complaints.clear()
