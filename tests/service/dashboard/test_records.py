"""Values open, and each record has a page that says where it is and what became of it."""

import asyncio
import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from digestif import Digests
from digestif.core.verdicts import DeliveryFailed
from digestif.service.excerpts import FORMATTED, MOST_OPENED, OPENED
from digestif.service.service import Service
from digestif.service.settings import Scope
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import serving, settings_with, token_of

HOSTILE = ["a/b?c=d&key=other#x", "<script>alert(1)</script>", "\u202egnp", '"><img src=x>', "%2F..%00", "👩‍💻"]


@pytest.fixture
def digests(service: Service) -> Digests:
    return service.digests.sync


def place(timeline: str, record: str) -> str:
    return "/timeline/record?" + urlencode({"key": timeline, "record": record})


def opened(page: str) -> list[str]:
    return re.findall(r"<details class=\"opens\"[^>]*><summary>.*?</summary><pre[^>]*>(.*?)</pre>", page, re.DOTALL)


def bury(digests: Digests, timeline: str, value: Any, key: str) -> str:
    @digests.handler(timeline)
    def refuse(digest: Any) -> None:
        raise DeliveryFailed("mailbox full", retry=False)

    digests.add(timeline, value, key=key)
    digests.deliver(timeline)
    return digests.dead_letters(timeline)[0].id


# Values


def test_a_value_opens_to_formatted_json_and_a_short_one_needs_not(visitor: Visitor, digests: Digests) -> None:
    value = {"title": "Disk almost full", "labels": {"team": "infra"}, "percent": [97, 98, 99], "host": "web-3"}
    digests.add("a", {"title": "ok"}, key="short")
    digests.add("a", value, key="long")
    letter = bury(digests, "dead", value, key="r")

    page = visitor.page("/timeline?key=a")

    assert opened(page) == [json.dumps(value, indent=2)]
    assert '{"title": "ok"}' in page
    assert opened(visitor.page(f"/dead-letter?id={letter}")) == [json.dumps(value, indent=2)]


def test_a_text_opens_with_its_lines_and_can_not_turn_what_stands_around_it(visitor: Visitor, digests: Digests) -> None:
    digests.add("a", "first\n</pre><b>x\u202ey", key="r")

    raw = visitor.get("/timeline?key=a").body.decode()

    assert opened(raw) == ["first\n&lt;/pre&gt;&lt;b&gt;x\\u202ey"]


def test_a_long_value_is_cut_in_lists_and_whole_on_the_page_of_its_record(visitor: Visitor, digests: Digests) -> None:
    value = {"log": [f"line {number}" for number in range(1000)]}
    assert OPENED < len(json.dumps(value)) < FORMATTED
    digests.add("a", value, key="r")
    letter = bury(digests, "dead", value, key="r")

    page = visitor.page("/timeline?key=a")

    assert opened(page) == [json.dumps(value, indent=2)[:OPENED] + "…"]
    assert "/timeline/record?key=a&record=r" in page
    assert json.dumps(value, indent=2) in visitor.page(place("a", "r"))
    assert json.dumps(value, indent=2) in visitor.page(place("dead", "r"))
    assert f"in the dead letter {letter}" in visitor.page(place("dead", "r"))


def test_the_largest_values_are_shown_up_to_a_bound(visitor: Visitor, digests: Digests) -> None:
    digests.add("a", [[]] * 80_000, key="lists")
    digests.add("a", "x" * 262_000, key="text")

    lists, text, page = (
        visitor.get(path).body for path in (place("a", "lists"), place("a", "text"), "/timeline?key=a")
    )

    assert len(lists) < MOST_OPENED + 10_000
    assert b"[[],[]," in lists
    assert b"x" * 262_000 in text
    assert len(page) < 40_000


# Where a record is


def test_each_record_leads_to_its_page_whatever_its_key_is(visitor: Visitor, digests: Digests) -> None:
    for key in HOSTILE:
        digests.add(f"t:{key}", {"title": "x"}, key=key)
        page = visitor.page("/timeline?" + urlencode({"key": f"t:{key}"}))
        links = re.findall(r'href="(/timeline/record[^"]*)"', page)

        raw = visitor.get(links[0]).body.decode()

        assert len(links) == 1
        assert "it goes out with the next digest" in raw
        assert "<script>alert" not in raw
        assert "<img src=x" not in raw
        assert "\u202e" not in raw


def test_a_record_is_followed_from_pending_to_delivered(visitor: Visitor, service: Service, digests: Digests) -> None:
    digests.add("a", "one", key="r")
    pending = visitor.page(place("a", "r"))
    with digests.digest("a"):
        being_delivered = visitor.page(place("a", "r"))
    delivered = visitor.page(place("a", "r"))
    [entry] = digests.history("a")

    assert ">pending<" in pending
    assert ">one</pre>" in pending
    assert "which has not ended yet" in being_delivered
    assert "in the unfinished digest" in being_delivered
    assert f"Delivered with the digest {entry.id}" in delivered
    assert "Its value is no longer stored" in delivered


def test_a_record_in_a_dead_letter_leads_to_it(visitor: Visitor, digests: Digests) -> None:
    letter = bury(digests, "a", "lost", key="r")

    page = visitor.page(place("a", "r"))

    assert f'href="/dead-letter?id={letter}"' in page
    assert ">lost</pre>" in page
    assert place("a", "r") in visitor.page(f"/dead-letter?id={letter}")


def test_a_delivered_record_leads_to_its_message_if_messages_are_kept() -> None:
    with serving(settings=settings_with(keep_messages=True)) as (client, service):
        service.digests.sync.add("a", 1, key="r")
        service.digests.sync.handler("*")(lambda _: None)
        asyncio.run(service.digests.deliver("a"))
        [entry] = service.digests.sync.history()

        assert f'href="/digest?id={entry.id}"' in Visitor(client).page(place("a", "r"))


def test_a_record_that_was_never_seen_is_said_so(visitor: Visitor) -> None:
    assert "No record with this key was seen" in visitor.page(place("a", "r"))
    assert visitor.get("/timeline/record?key=a&record=").status == 422
    assert visitor.get("/timeline/record?key=a").status == 422


@pytest.fixture
def has_dropped(digests: Digests) -> None:
    """Let the timeline `a` deliver the record `known` and drop a record whose key is not kept."""
    digests.set_policy("a", "minimum=1h,maximum=2h,capacity=1")
    digests.add("a", 1, key="known")
    with digests.digest("a"):
        pass
    digests.add("a", 2, key="dropped")
    digests.add("a", 3, key="pending")


@pytest.mark.usefixtures("has_dropped")
def test_an_unknown_key_is_said_to_be_unknown_before_what_may_have_happened(visitor: Visitor) -> None:
    page = visitor.page(place("a", "typo"))

    assert page.index("No record of this key is known here.") < page.index("perhaps dropped")
    assert "Its value" not in page


@pytest.mark.usefixtures("has_dropped")
def test_a_record_whose_end_is_known_is_not_said_to_have_ended_otherwise_perhaps(
    visitor: Visitor, digests: Digests
) -> None:
    page = visitor.page(place("a", "known"))

    assert [sighting.certain for sighting in digests.trace("a", "known")] == [True, False]
    assert "Delivered with the digest" in page
    assert "Its value is no longer stored" in page
    assert "perhaps" not in page
    assert "No record of this key" not in page


def test_a_record_that_switching_off_may_have_deleted_is_said_so(visitor: Visitor, digests: Digests) -> None:
    digests.set_policy("a", "first=1h")
    digests.add("a", 1, key="r")
    digests.prefer("a", "off")

    page = visitor.page(place("a", "r"))

    assert "No record of this key is known here." in page
    assert ">perhaps deleted or declined<" in page
    assert "It may have been deleted or declined" in page


def test_a_record_of_a_timeline_that_a_token_does_not_reach_is_refused() -> None:
    text, token = token_of("team", Scope.READ, prefix="team:")
    with serving(settings=settings_with(token)) as (client, service):
        service.digests.sync.add("other:bob", "theirs", key="r")
        service.digests.sync.add("team:ada", "ours", key="r")
        visitor = Visitor(client)
        visitor.log_in(text)

        theirs, ours = visitor.get(place("other:bob", "r")), visitor.get(place("team:ada", "r"))

        assert (theirs.status, ours.status) == (403, 200)
        assert b"theirs" not in theirs.body
        assert b"theirs" not in ours.body
