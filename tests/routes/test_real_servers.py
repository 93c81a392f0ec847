"""Routes to real servers, from records to arrival: hostile digests by mail, and a webhook receiver that fails."""

import email
import email.policy
import re
from collections.abc import Iterator

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from digestif import Digests, Policy, Record, Retry
from tests.channels.mailserver import running_mail_server
from tests.channels.receiver import Receiver, reset, running
from tests.worker.workers import once

pytestmark = pytest.mark.long

T = 1_700_000_000.0
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
INJECTION = "=?utf-8?q?Hi=0D=0ABcc:_eve@evil.example?=\r\nBcc: eve@evil.example \u202egnp.exe"
HOSTILE = {
    "one": [{"title": INJECTION, "rule": "r", "url": "javascript:alert(1)"}],
    "many": [
        {"title": f"{INJECTION} {n}<script>alert(1)</script>", "rule": f"<img src=x onerror=a{n}>"} for n in range(50)
    ],
    "10 MB": [{"title": f"<script>{n}" + "x" * 100_000, "rule": "r", "body": "<b>" * 50_000} for n in range(42)],
    "2,000 subjects": [{"title": f"<svg onload=a{n}>", "rule": f"r{n % 30}"} for n in range(2000)],
}
HEADERS = ["From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted"]
HEADERS += ["List-ID", "List-Unsubscribe", "List-Unsubscribe-Post", "X-Digestif-Key", "MIME-Version", "Content-Type"]


@pytest.fixture
def digests() -> Iterator[Digests]:
    policy = Policy(minimum_delay=60, attempts=8, retry=Retry(initial=10, factor=2, maximum=40, jitter=0))
    with Digests("memory://", policy=policy) as digests:
        yield digests


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_digest_arrives_as_a_harmless_mail(digests: Digests, name: str) -> None:
    with running_mail_server() as server:
        digests.route(
            "mail:*",
            channel=server.dsn(),
            group_by=["rule", "title"],
            links={"unsubscribe": "https://example.org/u/{recipient}"},
        )
        for number, value in enumerate(HOSTILE[name]):
            digests.add("mail:ada@example.org", Record(str(number), value, T), now=T)
        once(digests, now=T)
        [body] = server.mails

    mail = email.message_from_bytes(body, policy=email.policy.default)
    html, text = mail.get_body(("html",)), mail.get_body(("plain",))
    assert html is not None
    assert text is not None
    assert mail.keys() == HEADERS
    assert mail.defects == []
    assert not re.search(r"<(script|img|svg|iframe|link|base)|javascript:", html.get_content(), re.IGNORECASE)
    assert len(body) < 200_000


def test_the_ladder_is_followed(digests: Digests) -> None:
    """500, a reset after the body, a redirect, 429, success: each retry at its time, all with one id."""

    async def answers(receiver: Receiver, request: web.Request) -> web.StreamResponse:
        match len(receiver.requests):
            case 1:
                return web.Response(status=500)
            case 2:
                return await reset(receiver, request)
            case 3:
                return web.Response(status=307, headers={"Location": f"{receiver.url}/elsewhere"})
            case 4:
                return web.Response(status=429, headers={"Retry-After": "100"})
            case _:
                return web.Response(status=204)

    with running() as receiver:
        receiver.behave(answers)
        digests.route("hook:*", channel=f"webhook+{receiver.url}/in?secret={SECRET}&allow_private=yes")
        digests.add("hook:a", Record("1", "x", T), now=T)
        seen, last = [], 0
        for second in range(300):
            once(digests, now=T + second)
            if len(receiver.requests) > last:
                last = len(receiver.requests)
                seen.append(second)

    # The reset is not counted as an attempt, so the redirect is the second failure.
    assert seen == [0, 10, 20, 40, 140]
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    for request in receiver.requests:
        Webhook(SECRET).verify(request.body, {k.lower(): v for k, v in request.headers.items()})
    assert digests.ledger().delivered == 1


def test_410_stops_at_once(digests: Digests) -> None:
    with running() as receiver:
        receiver.answer(410)
        digests.route("hook:*", channel=f"webhook+{receiver.url}/in?secret={SECRET}&allow_private=yes")
        digests.add("hook:a", "x", now=T)
        for second in (0, 100, 1000):
            once(digests, now=T + second)

    assert len(receiver.requests) == 1
    assert [letter.reason.count("gone") for letter in digests.dead_letters()] == [1]
