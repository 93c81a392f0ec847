"""Every page in the browser: nothing is forbidden or fails, and people can use it in light, in dark, on a phone."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from digestif import Digests
from digestif.core.verdicts import DeliveryFailed
from digestif.service.service import Service
from digestif.service.settings import Scope
from tests.browser.chromium import PHONE, Desk
from tests.browser.scene import HOSTILE
from tests.service.harness import Client, serving, settings_with, token_of

PAGES = [
    "/",
    "/?range=1h",
    "/?range=24h",
    "/timelines",
    "/timelines?state=waiting",
    "/timelines?prefix=nothing",
    "/timelines?search=nothing",
    "/timelines?search=ADA&sort=pending",
    "/timelines?state=idle",
    "/timelines?only=due",
    "/timelines?only=unhandled",
    "/timeline?key=alerts%3Acheckout%2Feu-west-1",
    "/timeline?key=unknown",
    "/timeline?key=alerts%3Acheckout%2Feu-west-1&minimum=7m&maximum=nonsense",
    "/timeline/delete?key=alerts%3Acheckout%2Feu-west-1",
    "/timeline/off?key=alerts%3Acheckout%2Feu-west-1&cadence=off",
    "/timeline/record?key=alerts%3Acheckout%2Feu-west-1&record=unknown",
    f"/timeline/record?{urlencode({'key': HOSTILE[0], 'record': HOSTILE[0]})}",
    "/digests",
    "/dead-letters",
    "/channels",
    "/workers",
    "/status",
    "/docs",
]


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_serious_barrier_and_nothing_forbidden(
    chromium: Browser, day: str, path: str, colours: str
) -> None:
    desk = Desk(chromium, color_scheme=colours)
    desk.page.goto(day + path)
    expect(desk.page.locator("h1")).to_be_visible()

    assert barriers(desk.page) == []
    assert desk.complaints == []
    desk.close()


@pytest.mark.parametrize("path", ["/", "/timeline?key=a", "/channels", "/workers"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_pages_without_a_route_have_no_serious_barrier(
    chromium: Browser, client: Client, path: str, colours: str
) -> None:
    desk = Desk(chromium, color_scheme=colours, viewport=PHONE)
    desk.page.goto(client.url + path)
    expect(desk.page.get_by_text("[[routes]]").first).to_be_visible()

    assert barriers(desk.page) == []
    assert desk.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert desk.complaints == []
    desk.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_lists_with_idle_timelines_and_subjects_have_no_serious_barrier(
    chromium: Browser, service: Service, client: Client, colours: str, tmp_path: Path
) -> None:
    service.digests.route("*", channel=f"file://{tmp_path}/out")
    service.digests.keep_messages()
    digests = service.digests.sync
    digests.add("mail:ada", {"title": "A subject that is longer than a phone is wide, by far"})
    digests.deliver("mail:ada")
    digests.flush("mail:ada")
    with digests.digest("mail:ada"):
        pass
    desk = Desk(chromium, color_scheme=colours, viewport=PHONE)

    for path, place in (("/timelines?search=ADA", "Idle nothing is pending"), ("/digests", "to mail:ada")):
        desk.page.goto(client.url + path)
        expect(desk.page.get_by_text(place)).to_be_visible()
        assert barriers(desk.page) == []
        assert desk.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert desk.complaints == []
    desk.close()


@pytest.mark.parametrize("width", [1280, PHONE["width"]])
@pytest.mark.parametrize("path", ["/digests", "/dead-letters"])
def test_a_list_shows_a_usual_reason_whole(
    chromium: Browser, service: Service, client: Client, path: str, width: int
) -> None:
    bury(service.digests.sync, "mail:ada", "127.0.0.1 answered 400: no such customer")
    desk = Desk(chromium, viewport={"width": width, "height": 800}, java_script_enabled=False)
    desk.page.goto(client.url + path)
    reason = desk.page.get_by_text("no such customer")

    expect(reason).to_be_visible()
    assert reason.evaluate(
        "shown => shown.scrollHeight <= shown.clientHeight && shown.scrollWidth <= shown.clientWidth"
    )
    desk.close()


def test_the_sentences_of_an_empty_list_run_on_around_their_links(chromium: Browser, client: Client) -> None:
    desk = Desk(chromium, java_script_enabled=False)
    desk.page.goto(f"{client.url}/digests")
    sentence, link = desk.page.locator("p.empty").bounding_box(), desk.page.locator("p.empty a").bounding_box()

    assert sentence is not None
    assert link is not None
    assert link["width"] < sentence["width"] / 2
    desk.close()


@pytest.mark.parametrize("look", [{"color_scheme": "light"}, {"color_scheme": "dark", "viewport": PHONE}], ids=str)
@pytest.mark.parametrize("path", ["/nowhere", "/dead-letter?id=unknown"])
def test_an_error_page_has_no_serious_barrier_and_leads_back(
    chromium: Browser, day: str, path: str, look: dict[str, Any]
) -> None:
    desk = Desk(chromium, **look)
    desk.page.goto(day + path)

    assert barriers(desk.page) == []
    assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    desk.page.get_by_role("searchbox").fill("alerts:checkout")
    desk.page.get_by_role("button", name="Search").click()
    expect(desk.page.locator("#live a.key").first).to_be_visible()
    desk.forgive("404")
    assert desk.complaints == []
    desk.close()


@pytest.mark.parametrize("path", ["/dead-letter", "/login"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_pages_that_need_something_first_have_no_serious_barrier(
    chromium: Browser, service: Service, client: Client, path: str, colours: str
) -> None:
    desk = Desk(chromium, color_scheme=colours)
    if path == "/login":
        with serving(settings=settings_with(token_of("ops", Scope.ADMIN)[1])) as (guarded, _):
            desk.page.goto(f"{guarded.url}/login")
            assert barriers(desk.page) == []
    else:
        desk.page.goto(f"{client.url}/dead-letter?id={bury(service.digests.sync, 'a')}")
        assert barriers(desk.page) == []
        desk.page.get_by_role("button", name="Discard…").click()
        expect(desk.page.get_by_role("heading", name="Discard this dead letter?")).to_be_visible()
        assert barriers(desk.page) == []
        desk.page.goto("about:blank")
    assert desk.complaints == []
    desk.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_all_of_a_page_without_scrolling_sideways(chromium: Browser, day: str, path: str) -> None:
    desk = Desk(chromium, viewport=PHONE)
    desk.page.goto(day + path)

    assert desk.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    desk.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_which_page_it_is_on(chromium: Browser, day: str, path: str) -> None:
    desk = Desk(chromium, viewport=PHONE, java_script_enabled=False)
    desk.page.goto(day + path)
    tabs = desk.page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link")

    expect(desk.page.locator("nav[aria-label=Pages] a[aria-current]")).to_be_in_viewport(ratio=1)
    for tab in tabs.all():
        expect(tab).to_be_in_viewport(ratio=1)
    desk.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_everywhere(desk: Desk, day: str, name: str) -> None:
    page = desk.page
    page.on("dialog", lambda dialog: desk.complaints.append(dialog.message))  # only a script opens one

    page.goto(f"{day}/timelines")
    page.get_by_role("searchbox").fill(name[:200])
    page.get_by_role("button", name="Search").click()
    page.locator("#live a.key").first.click()

    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("new URL(location).searchParams.get('key')") == name
    assert page.locator("img[src='x']").count() == 0


def test_pages_are_complete_without_javascript(chromium: Browser, day: str) -> None:
    desk = Desk(chromium, java_script_enabled=False)
    page = desk.page

    page.goto(day)
    assert page.locator("polyline.line.events").get_attribute("points")
    page.get_by_role("link", name="Timelines", exact=True).click()
    page.get_by_role("searchbox").fill("alerts:checkout")
    page.get_by_role("button", name="Search").click()
    page.locator("#live a.key").first.click()

    expect(page.locator("svg.life")).to_be_visible()
    expect(page.get_by_role("heading", name="When it is due, and why")).to_be_visible()
    desk.close()


def test_a_list_is_filtered_by_keyboard_and_without_javascript(chromium: Browser, day: str) -> None:
    desk = Desk(chromium, java_script_enabled=False, viewport=PHONE)
    page = desk.page
    page.goto(f"{day}/timelines?search=eu-north")

    page.get_by_label("Route").select_option("alerts:*")
    page.get_by_label("Sort by").select_option("pending records")
    page.get_by_label("Sort by").press("Tab")
    page.keyboard.press("Enter")

    page.wait_for_url("**/timelines?search=eu-north&only=&route=alerts%3A*&cadence=&sort=pending")
    expect(page.get_by_text("matching timelines, sorted")).to_be_visible()
    expect(page.locator("#live a.key").first).to_contain_text("eu-north")
    page.get_by_role("link", name="paused", exact=True).click()
    expect(page.get_by_label("Sort by")).to_have_value("pending")
    desk.close()


def test_times_are_shown_in_the_zone_of_the_reader(chromium: Browser, service: Service, client: Client) -> None:
    digests = service.digests.sync
    service.digests.route("a", channel="terminal://")  # what no route delivers has no time
    digests.set_policy("a", "minimum=1h,maximum=2h")
    digests.add("a", 1)
    titles = {}
    for zone in ("UTC", "Asia/Tokyo"):
        desk = Desk(chromium, timezone_id=zone)
        desk.page.goto(f"{client.url}/timelines")
        titles[zone] = desk.page.locator("time").first.get_attribute("title")
        desk.close()

    assert "UTC" in (titles["UTC"] or "")
    assert "GMT+9" in (titles["Asia/Tokyo"] or "")


def test_times_are_shown_in_the_zone_that_the_reader_chooses(
    chromium: Browser, service: Service, client: Client
) -> None:
    digests = service.digests.sync
    service.digests.route("a", channel="terminal://")  # what no route delivers has no time
    digests.set_policy("a", "minimum=1h,maximum=2h")
    digests.add("a", 1)
    desk = Desk(chromium)
    page, shown = desk.page, desk.page.locator("time").first
    page.goto(f"{client.url}/timeline?key=a")
    choice = page.get_by_label("Zone of the times shown")

    choice.select_option("Asia/Tokyo")
    expect(shown).to_have_attribute("title", re.compile(r"GMT\+9"))
    page.goto(f"{client.url}/timelines")
    expect(shown).to_have_attribute("title", re.compile(r"GMT\+9"))
    expect(choice).to_have_value("Asia/Tokyo")
    choice.select_option("UTC")
    expect(shown).to_have_attribute("title", re.compile("UTC"))
    choice.select_option("")

    expect(shown).to_have_attribute("title", re.compile("CET|CEST|GMT[+][12]"))
    assert desk.complaints == []
    desk.close()


def test_curves_are_drawn(desk: Desk, day: str) -> None:
    desk.page.goto(day)

    expect(desk.page.locator(".chart canvas")).to_have_count(4)
    expect(desk.page.locator(".chart > svg")).to_have_count(0)


def test_the_switch_of_colours_is_remembered(desk: Desk, day: str) -> None:
    page = desk.page
    page.goto(day)
    ground = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
    light = page.evaluate(ground)

    switch = page.locator("#theme")
    switch.click()
    switch.click()
    expect(switch).to_have_text("Theme: dark")
    page.goto(f"{day}/status")

    expect(switch).to_have_text("Theme: dark")
    assert page.evaluate(ground) != light


def test_nothing_moves_for_those_who_asked_for_less_motion(chromium: Browser, day: str) -> None:
    desk = Desk(chromium, reduced_motion="reduce")
    desk.page.goto(day)
    desk.page.wait_for_selector("#pulse[data-state=on]")

    assert desk.page.evaluate("getComputedStyle(document.querySelector('#pulse .dot')).animationName") == "none"
    desk.close()


def test_the_description_of_the_api_leads_to_its_parts_and_follows_the_switch_of_colours(desk: Desk, day: str) -> None:
    page = desk.page
    page.goto(day)
    page.get_by_role("link", name="API", exact=True).click()

    page.get_by_role("link", name="GET /v1/ledger").click()
    expect(page.get_by_role("heading", name="GET /v1/ledger")).to_be_in_viewport()
    ground = page.evaluate("getComputedStyle(document.querySelector('.panel')).backgroundColor")
    page.locator("#theme").click()
    page.locator("#theme").click()

    expect(page.locator("#theme")).to_have_text("Theme: dark")
    assert page.evaluate("getComputedStyle(document.querySelector('.panel')).backgroundColor") != ground


def barriers(page: Page) -> list[str]:
    """What axe-core finds, however small."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}" for each in found for node in each["nodes"]
    ]


def bury(digests: Digests, timeline: str, reason: str = "mailbox full") -> str:
    """Make a dead letter."""

    @digests.handler(timeline)
    def refuse(digest: object) -> None:
        raise DeliveryFailed(reason, retry=False)

    digests.add(timeline, {"title": "lost"}, key="r")
    digests.deliver(timeline)
    return digests.dead_letters(timeline)[0].id
