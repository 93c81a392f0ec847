"""The mail in a real browser: hostile contents run nothing and load nothing."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.compose.pictures import CHROMIUM, browser, html_of
from tests.compose.samples import group, hostile, single, subject, summary

pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")]

ATTACKS = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<svg onload=\"document.title='owned'\">",
    "<iframe src=https://evil.example></iframe>",
    "</style></title><link rel=stylesheet href=https://evil.example/x.css>",
    "\"><img src=https://evil.example/pixel style='background:url(https://evil.example/b)'>",
    "<base href=https://evil.example><meta http-equiv=refresh content='0;url=https://evil.example'>",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as chromium:
        yield chromium


def test_hostile_contents_run_nothing_and_load_nothing(chromium: Browser) -> None:
    everywhere = [
        group(text, subject(text, {"title": text, "url": f"https://x.example/{text}"}, count=2)) for text in ATTACKS
    ]
    mails = [
        summary(*everywhere),
        hostile(),
        *(single({"title": text, "message": text, "url": text}) for text in ATTACKS),
    ]
    requests: list[str] = []
    page = chromium.new_page()
    page.on("request", lambda request: requests.append(request.url))
    for mail in mails:
        page.set_content(html_of(mail))

        assert page.title() == "Acme alerts"
        assert page.locator("script, img, svg, iframe, link, base, meta[http-equiv]").count() == 0
        assert set(page.eval_on_selector_all("a", "all => all.map(a => a.protocol)")) == {"https:"}

    assert requests == []


@pytest.mark.parametrize("width", [360, 800])
def test_long_words_do_not_make_the_mail_wider_than_the_screen(chromium: Browser, width: int) -> None:
    word = "x" * 150
    mails = [
        single({"title": word, "message": word * 9}),
        summary(group(word, subject(word, {"title": word}, count=99_999))),
    ]
    page = chromium.new_page(viewport={"width": width, "height": 400})
    for mail in [*mails, summary(*mails[1].groups, *mails[1].groups, users=7)]:
        page.set_content(html_of(mail))

        assert page.evaluate("document.documentElement.scrollWidth") == width
