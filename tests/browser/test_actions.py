"""Every action in the browser, by mouse and by keyboard alone; log-in; what is refused."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect

from digestif import Digests
from digestif.service.dashboard.messages import TEXTS
from digestif.service.service import Service
from digestif.service.settings import Scope
from tests.browser.chromium import Desk
from tests.browser.test_every_page import barriers, bury
from tests.service.harness import Client, serving, settings_with, token_of


@pytest.fixture
def digests(service: Service) -> Digests:
    return service.digests.sync


@pytest.fixture
def page(client: Client, desk: Desk) -> Page:
    """A window that is closed before the service ends."""
    return desk.page


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_timeline_is_paused_resumed_and_flushed(page: Page, client: Client, digests: Digests) -> None:
    digests.set_policy("orders", "first=1h")
    digests.add("orders", {"title": "Order 7"})
    page.goto(f"{client.url}/timeline?key=orders")

    press(page, "Pause")
    expect(page.get_by_text(TEXTS["paused"])).to_be_visible()
    assert digests.timeline("orders").paused
    press(page, "Resume")
    expect(page.get_by_text(TEXTS["resumed"])).to_be_visible()
    press(page, "Flush")
    expect(page.get_by_text(TEXTS["flushed"])).to_be_visible()

    assert digests.timeline("orders").state == "ready"


def test_a_record_is_retracted(page: Page, client: Client, digests: Digests) -> None:
    digests.add("orders", 1, key="o/1")
    digests.add("orders", 2, key="o/2")
    page.goto(f"{client.url}/timeline?key=orders")

    page.get_by_role("row", name="o/1").get_by_role("button", name="Retract").click()

    expect(page.get_by_text(TEXTS["retracted"])).to_be_visible()
    assert [record.key for record in digests.peek("orders")] == ["o/2"]


def test_a_timeline_is_deleted_after_a_question(page: Page, client: Client, digests: Digests) -> None:
    digests.add("orders", 1)
    page.goto(f"{client.url}/timeline?key=orders")

    page.get_by_role("link", name="Delete…").click()
    page.get_by_role("link", name="Keep it").click()
    assert digests.timeline("orders").pending == 1
    page.get_by_role("link", name="Delete…").click()
    press(page, "Delete it")

    expect(page.get_by_text(TEXTS["deleted"])).to_be_visible()
    assert digests.ledger().deleted == 1


def test_a_policy_is_refused_set_and_removed(client: Client, desk: Desk, digests: Digests) -> None:
    page = desk.page
    page.goto(f"{client.url}/timeline?key=orders")
    field = page.get_by_label("Policy for this timeline only")

    field.fill("minimun=5m")
    press(page, "Set policy")
    expect(page.get_by_role("alert")).to_contain_text("minimum")
    expect(field).to_have_value("minimun=5m")
    desk.forgive("422")
    field.fill("minimum=7m,maximum=9m")
    press(page, "Set policy")
    expect(page.get_by_text(TEXTS["policy-set"])).to_be_visible()
    assert digests.policy_of("orders").source == "override"
    press(page, "Remove this policy")

    expect(page.get_by_text(TEXTS["policy-cleared"])).to_be_visible()
    assert digests.policy_of("orders").source == "engine"


@pytest.mark.parametrize("has_script", [True, False])
def test_a_policy_is_written_from_its_parts_and_set(
    chromium: Browser, client: Client, digests: Digests, has_script: bool
) -> None:
    desk = Desk(chromium, java_script_enabled=has_script)
    page = desk.page
    page.goto(f"{client.url}/timeline?key=orders")

    page.get_by_text("Write it from its parts").click()
    page.get_by_label("Shortest time between two digests").fill("7m")
    page.get_by_label("Longest time between two digests").fill("1h")
    press(page, "Write the text")
    expect(page.get_by_label("Policy for this timeline only")).to_have_value("minimum=7m,maximum=1h")
    assert digests.policy_of("orders").source == "engine"
    press(page, "Set policy")

    expect(page.get_by_text(TEXTS["policy-set"])).to_be_visible()
    assert digests.policy_of("orders").source == "override"
    desk.close()


def test_a_test_record_is_added(page: Page, client: Client, digests: Digests) -> None:
    page.goto(f"{client.url}/timeline?key=orders")

    press(page, "Add test record")

    expect(page.get_by_text(TEXTS["tested"])).to_be_visible()
    expect(page.locator("details.opens summary")).to_contain_text("Test record")
    assert len(digests.peek("orders")) == 1


def test_a_preference_is_chosen(page: Page, client: Client, digests: Digests) -> None:
    page.goto(f"{client.url}/timeline?key=orders")

    page.get_by_label("Cadence").select_option("daily")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    press(page, "Set preference")

    expect(page.get_by_text(TEXTS["preferred"])).to_be_visible()
    preference = digests.preference("orders")
    assert preference is not None
    assert (preference.cadence, preference.zone) == ("daily", "Europe/Berlin")


def test_a_timeline_is_switched_off_after_a_question(page: Page, client: Client, digests: Digests) -> None:
    digests.add("orders", 1)
    page.goto(f"{client.url}/timeline?key=orders")

    page.get_by_label("Cadence").select_option("off")
    press(page, "Set preference")
    expect(page.get_by_text("This deletes 1 record")).to_be_visible()
    page.get_by_role("link", name="Keep it on").click()
    assert digests.timeline("orders").pending == 1
    page.get_by_label("Cadence").select_option("off")
    press(page, "Set preference")
    press(page, "Switch off")

    expect(page.get_by_text("Records deleted: 1.")).to_be_visible()
    assert digests.timeline("orders").off


@pytest.mark.parametrize(
    ("button", "said"), [("Replay", "replayed"), ("Requeue", "requeued"), ("Discard", "discarded")]
)
def test_a_dead_letter_is_decided(page: Page, client: Client, digests: Digests, button: str, said: str) -> None:
    bury(digests, "orders")
    page.goto(f"{client.url}/dead-letters")

    page.locator("#live a.key").first.click()
    expect(page.get_by_text("mailbox full")).to_be_visible()
    press(page, "Discard…" if button == "Discard" else button)
    if button == "Discard":
        expect(page.get_by_text("This deletes 1 record.")).to_be_visible()
        assert len(digests.dead_letters()) == 1
        press(page, "Discard")

    expect(page.get_by_text(TEXTS[said])).to_be_visible()
    assert digests.dead_letters() == []
    page.goto(f"{client.url}/status")
    expect(page.get_by_role("row", name="orders")).to_contain_text(button.lower())


@pytest.mark.parametrize("has_script", [True, False])
def test_several_dead_letters_are_discarded_after_a_question(
    chromium: Browser, client: Client, digests: Digests, has_script: bool
) -> None:
    for name in ("orders", "mails", "kept"):
        bury(digests, name)
    desk = Desk(chromium, java_script_enabled=has_script)
    page = desk.page
    page.goto(f"{client.url}/dead-letters")

    if has_script:
        page.get_by_label("all on this page").check()
        page.get_by_role("row", name="kept").get_by_role("checkbox").uncheck()
    else:
        for name in ("orders", "mails"):
            page.get_by_role("row", name=name).get_by_role("checkbox").check()
    press(page, "Discard…")
    expect(page.get_by_text("This deletes 2 records in 2 dead letters")).to_be_visible()
    press(page, "Discard")

    expect(page.get_by_text("Discarded: 2 dead letters")).to_be_visible()
    assert [letter.timeline for letter in digests.dead_letters()] == ["kept"]
    desk.close()


def test_letters_that_were_not_replayed_are_named(page: Page, client: Client, digests: Digests) -> None:
    bury(digests, "orders")
    digests.add("orders", {"title": "next"}, key="n")
    digests.flush("orders")
    digests.deliver("orders")
    page.goto(f"{client.url}/dead-letters")

    page.get_by_label("all on this page").check()
    press(page, "Replay")

    expect(page.get_by_role("heading", name="Replayed: 1 of 2 dead letters")).to_be_visible()
    expect(page.get_by_role("row", name="orders")).to_contain_text("unfinished")
    assert barriers(page) == []


def test_a_selection_and_an_open_value_stay_when_the_page_follows(page: Page, client: Client, digests: Digests) -> None:
    bury(digests, "orders")
    value = {"title": "Disk almost full", "labels": {"team": "infra", "severity": "critical"}}
    digests.set_policy("alerts", "first=1h")
    digests.add("alerts", value, key="a/1")
    page.goto(f"{client.url}/dead-letters")
    page.wait_for_selector("#pulse[data-state=on]")
    page.get_by_role("row", name="orders").get_by_role("checkbox").check()
    bury(digests, "mails")
    expect(page.get_by_role("row", name="mails")).to_be_visible()
    expect(page.get_by_role("row", name="orders").get_by_role("checkbox")).to_be_checked()

    page.goto(f"{client.url}/timeline?key=alerts")
    page.wait_for_selector("#pulse[data-state=on]")
    page.locator("details.opens summary").click()
    digests.add("alerts", 2, key="a/2")

    expect(page.get_by_role("row", name="a/2")).to_be_visible()
    expect(page.get_by_text('"severity": "critical"', exact=False).last).to_be_visible()


def test_a_record_is_followed_to_its_page(page: Page, client: Client, digests: Digests) -> None:
    digests.add("orders", {"title": "Order 7"}, key="o/7?x=<b>")
    page.goto(f"{client.url}/timeline?key=orders")

    page.get_by_role("link", name="o/7?x=<b>").click()
    expect(page.get_by_text("it goes out with the next digest")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("o/7?x=<b>")
    page.go_back()
    page.get_by_label("Key of a record").fill("unknown")
    page.keyboard.press("Enter")

    expect(page.get_by_text("No record with this key was seen")).to_be_visible()


def test_everything_works_by_keyboard_alone(page: Page, client: Client, digests: Digests) -> None:
    for name in ("alpha", "beta"):
        digests.set_policy(name, "first=1h")
        digests.add(name, 1)
    page.goto(f"{client.url}/timelines")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("bet")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=bet*")
    walk_to(page, "beta")
    page.keyboard.press("Enter")
    page.wait_for_url("**/timeline?key=beta")
    walk_to(page, "Pause")
    page.keyboard.press("Enter")

    expect(page.get_by_text(TEXTS["paused"])).to_be_visible()
    assert digests.timeline("beta").paused
    assert not digests.timeline("alpha").paused


def walk_to(page: Page, text: str) -> None:
    """Press Tab until the element with this text has the focus, which must be visible at each step."""
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "[document.activeElement.textContent.trim(), getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert outline != "none", name
        if name == text:
            return
    raise AssertionError(f"Tab does not lead to {text!r}")


# Logging in, and what is refused


def test_logging_in_with_a_wrong_and_a_right_token_and_out_again(desk: Desk) -> None:
    text, token = token_of("ops", Scope.ADMIN)
    with serving(settings=settings_with(token)) as (client, _):
        page = desk.page
        page.goto(f"{client.url}/timelines?prefix=x")
        page.get_by_label("Token").fill("dgf_wrong")
        press(page, "Log in")
        expect(page.get_by_role("alert")).to_contain_text("not known")
        desk.forgive("401")
        page.get_by_label("Token").fill(text)
        press(page, "Log in")

        page.wait_for_url("**/timelines?prefix=x")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_text(TEXTS["logged-out"])).to_be_visible()
        page.goto(f"{client.url}/status")
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_reader_finds_no_buttons(desk: Desk) -> None:
    text, token = token_of("reader", Scope.READ)
    with serving(settings=settings_with(token)) as (client, service):
        service.digests.sync.add("orders", 1)
        page = desk.page
        page.goto(f"{client.url}/timeline?key=orders")
        page.get_by_label("Token").fill(text)
        press(page, "Log in")

        expect(page.get_by_role("heading", name="orders")).to_be_visible()
        assert page.locator("main button:visible").count() == 0
        page.goto("about:blank")


def test_a_form_with_a_wrong_token_is_refused(client: Client, desk: Desk, digests: Digests) -> None:
    digests.add("orders", 1)
    page = desk.page
    page.goto(f"{client.url}/timeline?key=orders")

    page.evaluate("document.querySelectorAll('[name=form_token]').forEach((field) => { field.value = 'x'.repeat(43) })")
    press(page, "Pause")

    expect(page.get_by_text("This form was not sent by the dashboard")).to_be_visible()
    assert not digests.timeline("orders").paused
    desk.forgive("403")


def test_a_form_on_a_page_of_another_site_is_refused(chromium: Browser, client: Client, digests: Digests) -> None:
    digests.add("orders", 1)
    desk = Desk(chromium)
    desk.page.goto(f"{client.url}/timeline?key=orders")
    token = desk.page.locator("[name=form_token]").first.get_attribute("value")
    form = f"""<form method=post action="{client.url}/timeline/delete"><input name=key value=orders>
      <input name=form_token value="{token}"><button>Win a prize</button></form>"""

    with other_site(form) as address, desk.page.expect_response("**/timeline/delete") as answer:
        desk.page.goto(address)
        desk.page.get_by_role("button").click()

    assert answer.value.status == 403
    assert digests.timeline("orders").pending == 1
    desk.close()


@contextmanager
def other_site(html: str) -> Iterator[str]:
    """A page under another name of this computer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
