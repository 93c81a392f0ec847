"""Forms change what they say, once, and only if a page of ours has sent them. The audit log keeps who did it."""

import asyncio
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

from digestif import Digests, Policy
from digestif.core.damage import Damage
from digestif.core.verdicts import DeliveryFailed
from digestif.errors import ConfigError
from digestif.service.dashboard.actions import ON_TIMELINES
from digestif.service.dashboard.decisions import GONE, ON_DEAD_LETTERS
from digestif.service.dashboard.messages import TEXTS, text_of
from digestif.service.security.audit import audit_entries
from digestif.service.service import Service
from digestif.service.settings import Limits
from digestif.stores.damage import Unreadable
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import serving, settings_with

ACTIONS = [*ON_TIMELINES, *ON_DEAD_LETTERS]


@pytest.fixture
def digests(service: Service) -> Digests:
    return service.digests.sync


def bury(digests: Digests, timeline: str) -> str:
    """Make a dead letter."""

    def refuse(digest: Any) -> None:
        raise DeliveryFailed("mailbox full", retry=False)

    with suppress(ConfigError):  # it has this handler already
        digests.handler(timeline)(refuse)
    digests.add(timeline, {"title": "lost"}, key="r")
    digests.flush(timeline)
    digests.deliver(timeline)
    return digests.dead_letters(timeline)[-1].id


def audit(service: Service) -> list[tuple[str, str, str | None, str | None]]:
    found = asyncio.run(audit_entries(service))
    return [(entry.who, entry.what, entry.timeline, entry.subject) for _, entry in found]


@pytest.mark.parametrize("path", ACTIONS)
def test_a_form_without_the_token_of_its_session_changes_nothing(visitor: Visitor, digests: Digests, path: str) -> None:
    visitor.page("/timeline?key=any")
    letter = bury(digests, "a")
    digests.add("b", 1, key="r")
    before = (digests.ledger(), digests.timeline("b"), digests.dead_letters())
    fields = {"key": "b", "record": "r", "id": letter, "policy": "minimum=1m", "cadence": "off", "confirmed": "yes"}

    assert visitor.post(path, {**fields, "form_token": ""}).status == 403
    assert visitor.post(path, {**fields, "form_token": "x" * 43}).status == 403
    assert Visitor(visitor._client).post(path, {**fields, "form_token": visitor.form_token}).status == 403
    assert (digests.ledger(), digests.timeline("b"), digests.dead_letters()) == before


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"content_type": "text/plain"},
        {"content_type": "application/json"},
    ],
)
def test_a_form_of_another_site_changes_nothing_even_with_the_right_token(
    visitor: Visitor, digests: Digests, headers: dict[str, str]
) -> None:
    digests.add("a", 1)
    visitor.page("/timeline?key=any")

    assert visitor.post("/timeline/delete", {"key": "a"}, **headers).status in (403, 415)
    assert digests.timeline("a").pending == 1


def test_pausing_flushing_and_resuming_say_what_happened(visitor: Visitor, digests: Digests, service: Service) -> None:
    digests.set_policy("a", "first=1h")
    digests.add("a", 1)
    visitor.page("/timeline?key=any")

    answer = visitor.post("/timeline/pause", {"key": "a"})

    assert (answer.status, answer.headers["location"]) == (303, "/timeline?key=a")
    assert TEXTS["paused"] in visitor.page("/timeline?key=a")
    assert TEXTS["paused"] not in visitor.page("/timeline?key=a")
    assert digests.timeline("a").paused
    visitor.post("/timeline/resume", {"key": "a"})
    visitor.post("/timeline/flush", {"key": "a"})
    assert digests.timeline("a").state == "ready"
    visitor.post("/timeline/flush", {"key": "a"})
    assert TEXTS["not-flushed"] in visitor.page("/timeline?key=a")
    visitor.post("/timeline/pause", {"key": "a"})
    assert 'class="message good"' in visitor.page("/timeline?key=a")
    visitor.post("/timeline/pause", {"key": "a"})
    page = visitor.page("/timeline?key=a")
    assert 'class="message note"' in page
    assert 'class="message good"' not in page
    assert audit(service) == [
        ("local", "pause", "a", None),
        ("local", "flush", "a", None),
        ("local", "resume", "a", None),
        ("local", "pause", "a", None),
    ]


def test_flushing_a_paused_timeline_says_that_it_is_delivered_when_it_is_resumed(
    visitor: Visitor, digests: Digests
) -> None:
    digests.set_policy("a", "first=1h")
    digests.add("a", 1)
    digests.pause("a")
    visitor.page("/timeline?key=a")

    visitor.post("/timeline/flush", {"key": "a"})

    said = visitor.page("/timeline?key=a")
    assert "Flushed: it is delivered when you resume it." in said
    assert "as soon as a worker is free" not in said


def test_flushing_a_timeline_that_cools_down_without_records_promises_no_message(
    visitor: Visitor, digests: Digests
) -> None:
    digests.add("a", 1)
    with digests.digest("a"):
        pass
    visitor.page("/timeline?key=a")

    visitor.post("/timeline/flush", {"key": "a"})

    said = visitor.page("/timeline?key=a")
    assert "nothing was pending, so no message is sent" in said
    assert "as soon as a worker is free" not in said


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/timeline/policy", {"policy": "minimum=7m,maximum=9m"}),
        ("/timeline/clear-policy", {}),
        ("/timeline/preference", {"cadence": "daily", "zone": "Europe/Berlin"}),
    ],
)
def test_without_a_pending_record_no_message_claims_that_records_were_rescheduled(
    visitor: Visitor, digests: Digests, path: str, fields: dict[str, str]
) -> None:
    digests.set_policy("a", "minimum=1m,maximum=2m")
    visitor.page("/timeline?key=a")

    visitor.post(path, {"key": "a", **fields})

    [said] = re.findall(r'<p class="message good".*?<span>(.*?)</span>', visitor.page("/timeline?key=a"), re.DOTALL)
    assert "pending and new records" in said
    assert "rescheduled" not in said


def test_a_test_record_that_has_gone_out_already_is_not_said_to_go_out_later(
    visitor: Visitor, digests: Digests
) -> None:
    visitor.page("/timeline?key=a")

    visitor.post("/timeline/test", {"key": "a"})
    with digests.digest("a"):
        pass

    said = visitor.page("/timeline?key=a")
    assert "A test record was added." in said
    assert "it may have been delivered already" in said
    assert "goes out with the next digest" not in said


def test_a_test_record_is_added_and_named_as_one(visitor: Visitor, digests: Digests, service: Service) -> None:
    visitor.page("/timeline?key=any")

    visitor.post("/timeline/test", {"key": "mail:ada"})

    [record] = digests.peek("mail:ada")
    assert record.value["title"] == "Test record"
    assert TEXTS["tested"] in visitor.page("/timeline?key=mail%3Aada")
    assert audit(service) == [("local", "test record", "mail:ada", None)]
    digests.prefer("off", "off")
    visitor.post("/timeline/test", {"key": "off"})
    assert TEXTS["not-tested"] in visitor.page("/timeline?key=off")
    assert digests.ledger().declined == 0


def test_a_test_record_makes_no_timeline_beyond_the_limit() -> None:
    with serving(settings=settings_with(limits=Limits(timelines=1))) as (client, service):
        service.digests.sync.add("a", 1)
        visitor = Visitor(client)
        visitor.page("/timeline?key=b")

        reply = visitor.post("/timeline/test", {"key": "b"})

        assert reply.status == 507
        assert b"as many timelines as are allowed" in reply.body
        assert visitor.post("/timeline/test", {"key": "a"}).status == 303
        assert [timeline.key for timeline in service.digests.sync.timelines()] == ["a"]


def test_the_text_of_a_policy_is_written_from_its_parts_and_changes_nothing_before_it_is_set(
    visitor: Visitor, digests: Digests
) -> None:
    parts = {"key": "a", "minimum": "7m", "increment": " 30s ", "maximum": "1h", "first": "", "quiet": ""}

    page = visitor.page("/timeline?" + urlencode(parts))
    text = "minimum=7m,increment=30s,maximum=1h"

    assert f'value="{text}"' in page
    assert "at least 7 minutes and at most 1 hour after the last digest." in page
    assert digests.policy_of("a").source == "engine"
    visitor.post("/timeline/policy", {"key": "a", "policy": text})
    assert digests.policy_of("a").policy == Policy.parse(text)


def test_times_come_first_in_the_text_of_a_policy(visitor: Visitor) -> None:
    parts = {"key": "a", "max_records": "100", "times": "daily@09:00 Europe/Berlin"}

    assert 'value="daily@09:00 Europe/Berlin,max_records=100"' in visitor.page("/timeline?" + urlencode(parts))


def test_wrong_parts_of_a_policy_are_named_and_stay_in_their_fields(visitor: Visitor) -> None:
    raw = visitor.get("/timeline?" + urlencode({"key": "a", "minimum": "10m<b>", "maximum": "5m"})).body.decode()

    assert 'role="alert"' in raw
    assert (
        'name="minimum" maxlength="200" autocomplete="off" spellcheck="false" placeholder="5m" value="10m&lt;b&gt;"'
        in raw
    )
    assert "<b>" not in raw[raw.index('role="alert"') : raw.index('id="policy-parts"')]


def test_a_record_is_retracted_and_a_timeline_deleted(visitor: Visitor, digests: Digests, service: Service) -> None:
    key = "a/b?c=d&é"
    digests.add(key, 1, key="r/1")
    digests.add(key, 2, key="r/2")
    visitor.page("/timeline?key=any")

    visitor.post("/timeline/retract", {"key": key, "record": "r/1"})
    assert [record.key for record in digests.peek(key)] == ["r/2"]
    answer = visitor.post("/timeline/delete", {"key": key})

    assert answer.headers["location"] == "/timelines"
    assert digests.ledger().deleted == 2
    assert audit(service) == [("local", "delete", key, None), ("local", "retract", key, "r/1")]


def test_a_wrong_policy_is_shown_beside_what_was_typed(visitor: Visitor, digests: Digests) -> None:
    visitor.page("/timeline?key=any")

    reply = visitor.post("/timeline/policy", {"key": "a", "policy": "minimun=5m"})

    assert reply.status == 422
    assert b'value="minimun=5m"' in reply.body
    assert b"minimum" in reply.body


def test_policies_and_preferences_are_set_and_cleared(visitor: Visitor, digests: Digests, service: Service) -> None:
    visitor.page("/timeline?key=any")

    visitor.post("/timeline/policy", {"key": "a", "policy": "minimum=7m,maximum=9m"})
    assert str(digests.policy_of("a").policy).startswith("minimum=7m")
    visitor.post("/timeline/clear-policy", {"key": "a"})
    assert digests.policy_of("a").source == "engine"
    visitor.post("/timeline/preference", {"key": "a", "cadence": "daily", "zone": "Europe/Berlin"})
    preference = digests.preference("a")
    assert preference is not None
    assert (preference.cadence, preference.zone) == ("daily", "Europe/Berlin")
    assert visitor.post("/timeline/preference", {"key": "a", "cadence": "dayly", "zone": ""}).status == 422
    assert [entry[1:] for entry in audit(service)] == [
        ("prefer", "a", "daily, Europe/Berlin"),
        ("clear policy", "a", None),
        ("set policy", "a", "minimum=7m,maximum=9m"),
    ]


def test_both_forms_say_that_a_timeline_keeps_one_of_policy_and_preference_and_what_is_replaced(
    visitor: Visitor, digests: Digests
) -> None:
    one_of_two = "A timeline keeps a policy of its own or a preference, not both."
    neither = visitor.page("/timeline?key=a")
    digests.set_policy("a", "minimum=7m,maximum=9m")
    with_policy = visitor.page("/timeline?key=a")
    digests.prefer("a", "daily")
    with_preference = visitor.page("/timeline?key=a")

    assert [page.count(one_of_two) for page in (neither, with_policy, with_preference)] == [2, 2, 2]
    assert "Setting a" not in neither
    assert "Setting a preference replaces the policy <code>minimum=7m,maximum=9m</code>." in with_policy
    assert "Setting a policy replaces" not in with_policy
    assert "Setting a policy replaces the preference <b>daily</b>." in with_preference
    assert "Setting a preference replaces" not in with_preference


def test_switching_off_asks_first_and_says_how_many_records_it_deleted(
    visitor: Visitor, digests: Digests, service: Service
) -> None:
    key = "a/b?c=d&é"
    for number in range(3):
        digests.add(key, number)
    visitor.page("/timeline?key=any")
    fields = {"key": key, "cadence": "off", "zone": ""}

    asked = visitor.post("/timeline/preference", fields)
    question = visitor.page(asked.headers["location"])
    assert "<b>3 records</b>" in question
    assert 'name="confirmed" value="yes"' in question
    assert digests.timeline(key).pending == 3
    answer = visitor.post("/timeline/preference", {**fields, "confirmed": "yes"})

    said = visitor.page(answer.headers["location"])
    assert "Records deleted: 3." in said
    assert "rescheduled" not in said
    assert digests.timeline(key).off
    assert digests.ledger().deleted == 3
    assert audit(service) == [("local", "prefer", key, "off")]


def test_a_digest_that_is_being_delivered_is_not_counted_as_deleted_by_off(visitor: Visitor, digests: Digests) -> None:
    digests.add("a", 1)
    with digests.digest("a"):
        digests.add("a", 2)
        digests.add("a", 3)
        question = visitor.page("/timeline/off?key=a&cadence=off")
        answer = visitor.post("/timeline/preference", {"key": "a", "cadence": "off", "confirmed": "yes"})
        said = visitor.page(answer.headers["location"])

    assert "<b>2 records</b>" in question
    assert "A digest of 1 record is being delivered now" in question
    assert "Records deleted: 2." in said
    assert (digests.ledger().deleted, digests.ledger().delivered) == (2, 1)


def test_a_preference_can_be_removed_again(visitor: Visitor, digests: Digests) -> None:
    digests.prefer("a", "daily")
    assert "Remove this preference" in visitor.page("/timeline?key=a")

    visitor.post("/timeline/clear-policy", {"key": "a"})

    assert digests.preference("a") is None
    assert "Remove this preference" not in visitor.page("/timeline?key=a")


@pytest.mark.parametrize("cookie", ["switched-off", "switched-off.x", "switched-off.-1", "deleted.<b>", "other.3"])
def test_a_made_up_cookie_says_nothing(cookie: str) -> None:
    assert text_of(cookie) is None


def test_dead_letters_are_replayed_requeued_and_discarded(visitor: Visitor, digests: Digests, service: Service) -> None:
    first, second, third = (bury(digests, name) for name in "abc")
    visitor.page("/timeline?key=any")
    assert "mailbox full" in visitor.page(f"/dead-letter?id={first}")

    visitor.post("/dead-letter/replay", {"id": first})
    visitor.post("/dead-letter/requeue", {"id": second})
    asked = visitor.post("/dead-letter/discard", {"id": third})
    assert [letter.id for letter in digests.dead_letters()] == [third]
    assert b"<b>1 record</b>" in asked.body
    visitor.post("/dead-letter/discard", {"id": third, "confirmed": "yes"})

    assert digests.dead_letters() == []
    assert digests.timeline("a").in_digest == 1
    assert digests.timeline("b").pending == 1
    assert digests.ledger().deleted == 1
    assert [entry[1:] for entry in audit(service)] == [
        ("discard", "c", third),
        ("requeue", "b", second),
        ("replay", "a", first),
    ]
    assert visitor.post("/dead-letter/replay", {"id": first}).status == 404


def test_a_damaged_dead_letter_does_not_keep_the_page_from_saying_what_became_of_the_others(
    visitor: Visitor, digests: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters, read = [bury(digests, name) for name in "abc"], digests.store.letter

    def read_or_fail(letter_id: str) -> Any:
        if letter_id == letters[1]:
            raise Unreadable(Damage(timeline="b", part="letter", problem="no JSON"))
        return read(letter_id)

    monkeypatch.setattr(digests.store, "letter", read_or_fail)
    visitor.page("/dead-letters")
    page = visitor.post("/dead-letter/replay", [("id", each) for each in letters]).body.decode()

    assert "Replayed: 2 of 3 dead letters" in page
    assert "no JSON" in page
    assert [digests.timeline(name).in_digest for name in "abc"] == [1, 0, 1]


def test_several_dead_letters_are_decided_in_one_step(visitor: Visitor, digests: Digests, service: Service) -> None:
    letters = [bury(digests, name) for name in "abcdef"]
    page = visitor.page("/dead-letters")
    assert re.findall(r'<input type="checkbox" name="id" value="(\w+)"', page) == letters

    replayed = visitor.post("/dead-letter/replay", [("id", letters[0]), ("id", letters[1])])
    requeued = visitor.post("/dead-letter/requeue", [("id", letters[2]), ("id", letters[3])])
    assert (replayed.status, requeued.status) == (303, 303)
    visitor.post("/dead-letter/discard", [("id", letters[4]), ("id", letters[5]), ("confirmed", "yes")])
    said = visitor.page("/dead-letters")

    assert "Discarded: 2 dead letters. Their records are deleted." in said
    assert digests.dead_letters() == []
    assert [digests.timeline(name).in_digest for name in "ab"] == [1, 1]
    assert [digests.timeline(name).pending for name in "cd"] == [1, 1]
    assert digests.ledger().deleted == 2
    assert sorted(audit(service)) == sorted(
        ("local", what, timeline, letter)
        for what, timeline, letter in zip(
            ["replay", "replay", "requeue", "requeue", "discard", "discard"], "abcdef", letters, strict=True
        )
    )


def test_letters_that_can_not_be_decided_are_named_with_the_reason_and_the_others_go_on(
    visitor: Visitor, digests: Digests, service: Service
) -> None:
    first, second = bury(digests, "a"), bury(digests, "a")
    other = bury(digests, "b")
    gone = bury(digests, "c")
    visitor.page("/dead-letters")
    digests.discard(gone)

    reply = visitor.post("/dead-letter/replay", [("id", each) for each in (first, second, gone, other)])
    again = visitor.post("/dead-letter/replay", [("id", second), ("id", gone)])

    page = reply.body.decode()
    assert reply.status == 200
    assert "Replayed: 2 of 4 dead letters" in page
    assert f"/dead-letter?id={second}" in page
    assert "unfinished" in page
    assert GONE in page
    assert (again.status, [letter.id for letter in digests.dead_letters()]) == (409, [second])
    assert [entry[1:] for entry in audit(service)] == [("replay", "b", other), ("replay", "a", first)]


def test_what_may_have_gone_out_is_requeued_with_others_only_if_that_is_chosen(
    visitor: Visitor, digests: Digests
) -> None:
    @digests.handler("doubtful")
    def refuse(digest: Any) -> None:
        raise DeliveryFailed("connection lost", retry=False, unknown=True)

    digests.add("doubtful", 1, key="r")
    digests.deliver("doubtful")
    [doubtful] = [letter.id for letter in digests.dead_letters()]
    letters = [("id", bury(digests, "a")), ("id", doubtful)]
    visitor.page("/dead-letters")

    without = visitor.post("/dead-letter/requeue", letters).body.decode()
    left = [letter.id for letter in digests.dead_letters()]
    visitor.post("/dead-letter/requeue", [("id", doubtful), ("id", bury(digests, "b")), ("force", "yes")])

    assert "Requeued: 1 of 2 dead letters" in without
    assert "may have gone out" in without
    assert left == [doubtful]
    assert digests.dead_letters() == []


def test_discarding_asks_first_and_says_how_many_letters_and_records_go(visitor: Visitor, digests: Digests) -> None:
    digests.add_many([("a", number) for number in range(4)])
    letters = [("id", bury(digests, "a")), ("id", bury(digests, "b"))]
    visitor.page("/dead-letters")

    question = visitor.post("/dead-letter/discard", letters).body.decode()

    assert "<b>6 records</b> in <b>2 dead letters</b>" in question
    assert all(f'name="id" value="{letter}"' in question for _, letter in letters)
    assert len(digests.dead_letters()) == 2
    visitor.post("/dead-letter/discard", [*letters, ("confirmed", "yes")])
    said = visitor.page("/dead-letters")
    assert digests.ledger().deleted == 6
    assert "reschedul" not in said


def test_a_decision_returns_to_the_list_it_was_made_in(visitor: Visitor, digests: Digests) -> None:
    letters = [("id", bury(digests, "a&b")), ("id", bury(digests, "a&b")), ("timeline", "a&b")]
    assert 'name="timeline" value="a&b"' in visitor.page("/dead-letters?timeline=a%26b")

    nothing = visitor.post("/dead-letter/requeue", [("timeline", "a&b")])
    done = visitor.post("/dead-letter/requeue", letters)

    assert [nothing.headers["location"], done.headers["location"]] == ["/dead-letters?timeline=a%26b"] * 2
    assert "Requeued: 2 dead letters" in visitor.page("/dead-letters")


@pytest.mark.parametrize("doubt", [{"unknown": True}, {"lapses": 1}, {"served": ("ada",)}], ids=str)
def test_a_dead_letter_that_may_have_gone_out_can_be_forced(
    visitor: Visitor, digests: Digests, monkeypatch: pytest.MonkeyPatch, doubt: dict[str, Any]
) -> None:
    letter_id = bury(digests, "a")
    plain = visitor.page(f"/dead-letter?id={letter_id}")
    [letter] = digests.dead_letters()
    monkeypatch.setattr(digests.store, "letter", lambda _: replace(letter, **doubt))

    doubtful = visitor.page(f"/dead-letter?id={letter_id}")

    assert 'name="force"' not in plain
    assert 'name="force"' in doubtful


def test_a_traceback_can_not_turn_or_hide_what_stands_around_it(
    visitor: Visitor, digests: Digests, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(digests, "a")
    [letter] = digests.dead_letters()
    monkeypatch.setattr(digests.store, "letter", lambda _: replace(letter, traceback="first\nx\u202ey"))

    assert "first\nx\\u202ey</pre>" in visitor.page(f"/dead-letter?id={letter.id}")


def test_a_form_that_is_too_large_or_unreadable_is_refused(visitor: Visitor) -> None:
    visitor.page("/timeline?key=any")

    assert visitor.post("/timeline/flush", {"key": "a" * 70_000}).status == 413
    assert visitor.post("/timeline/flush", {str(number): "" for number in range(100)}).status == 400
