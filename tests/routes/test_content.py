"""What a route shows: records as hooks prepare them, subjects by weight, items, and words of its own."""

from typing import Any

import pytest

from digestif import ConfigError, DeliveryFailed, Digest, Digests, Policy, Record, Wording
from digestif.compose.summary import Subject
from digestif.core.ledger import Ledger
from tests.routes.recorder import Recording, T, add, by_reader
from tests.worker.workers import once


def upper(records: list[Record]) -> list[Record]:
    return [record._replace(value={"title": record.value["title"].upper()}) for record in records]


# Prepared records


def test_records_are_shown_as_the_hook_prepares_them(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, prepare=upper)
    add(digests, "t", "a", "b")

    once(digests, now=T)

    [message] = channel.messages
    assert "ABOUT A" in message.text
    assert "about a" not in message.text
    assert [record["value"] for record in message.data["records"]] == [{"title": "ABOUT B"}, {"title": "ABOUT A"}]


def test_the_hook_may_be_a_coroutine_and_sees_all_records_that_are_kept(digests: Digests, channel: Recording) -> None:
    seen: list[list[str]] = []

    async def prepare(records: list[Record]) -> list[Record]:
        seen.append([record.key for record in records])
        return upper(records)

    digests.route("t", channel=channel, keep=lambda records: records[:2], prepare=prepare)
    add(digests, "t", "a", "b", "c")

    once(digests, now=T)

    assert seen == [["c", "b"]]
    assert "ABOUT C" in channel.messages[0].text


def test_what_the_hook_leaves_out_counts_as_delivered(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, prepare=lambda records: records[:1])
    add(digests, "t", "a", "b", "c")

    once(digests, now=T)

    assert channel.records() == ["c"]
    assert digests.ledger() == Ledger(accepted=3, delivered=3)


def test_if_the_hook_leaves_nothing_nothing_is_sent_and_all_counts_as_delivered(
    digests: Digests, channel: Recording
) -> None:
    digests.route("t", channel=channel, prepare=lambda _: [])
    digests.route("split", channel=channel, prepare=lambda _: [], split=by_reader)
    add(digests, "t", "a", "b")
    add(digests, "split", "a")

    once(digests, now=T)

    assert channel.messages == []
    assert digests.ledger() == Ledger(accepted=3, delivered=3)


def test_a_digest_is_prepared_once_for_all_of_its_recipients(digests: Digests, channel: Recording) -> None:
    calls: list[int] = []

    def prepare(records: list[Record]) -> list[Record]:
        calls.append(len(records))
        return [record for record in upper(records) if record.key != "eve"]

    def split(digest: Digest) -> dict[str, list[Record]]:
        titles.append(digest[0].value["title"])
        return by_reader(digest)

    titles: list[str] = []
    digests.route("t", channel=channel, prepare=prepare, split=split)
    add(digests, "t", "ada", "eve", "new")

    once(digests, now=T)

    assert calls == [3]
    assert titles == ["about new"]
    assert {message.recipient: channel.records(place) for place, message in enumerate(channel.messages)} == {
        "ada": ["new"],
        "bob": ["new", "ada"],
        "eve": ["new", "ada"],
    }
    assert all("ABOUT NEW" in message.text for message in channel.messages)


def test_each_attempt_is_prepared_anew_under_the_same_key(digests: Digests, channel: Recording) -> None:
    state = iter(["before", "after"])
    digests.route(
        "t", channel=channel, prepare=lambda records: [record._replace(value=next(state)) for record in records]
    )
    channel.failures["t"] = [DeliveryFailed("no answer", after=1, unknown=True)]
    add(digests, "t", "a")

    once(digests, now=T)
    once(digests, now=T + 2)

    [message] = channel.messages
    assert "after" in message.text
    assert message.key.endswith(".1")


@pytest.mark.parametrize(
    "answer", [None, 7, ["a"], [Record("unknown", 1, T)], [Record("a", 1, T), Record("a", 2, T)], iter([])]
)
def test_a_hook_that_gives_something_else_fails_the_attempt(digests: Digests, channel: Recording, answer: Any) -> None:
    digests.route("t", channel=channel, prepare=lambda _: answer, policy=Policy(attempts=1))
    add(digests, "t", "a")

    once(digests, now=T)

    [letter] = digests.dead_letters()
    assert "prepare: gave" in letter.reason


# Weights


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_subjects_are_sorted_by_numbers_from_outside(digests: Digests, channel: Recording, kind: str) -> None:
    stars = {"a": 1, "b": 5, "c": 3}

    def weigh(subjects: list[Subject]) -> list[int]:
        return [stars[subject.newest.key] for subject in subjects]

    async def weigh_later(subjects: list[Subject]) -> list[int]:
        return weigh(subjects)

    digests.route("t", channel=channel, weight=weigh if kind == "function" else weigh_later, top=2)
    add(digests, "t", "a", "b", "c")

    once(digests, now=T)

    [message] = channel.messages
    assert message.text.index("about b") < message.text.index("about c")
    assert "about a" not in message.text
    assert [subject["weight"] for subject in message.data["summary"]["groups"][0]["subjects"]] == [5, 3]


def test_wrong_weights_fail_the_attempt(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, weight=lambda _: [1], policy=Policy(attempts=1))
    add(digests, "t", "a", "b")

    once(digests, now=T)

    [letter] = digests.dead_letters()
    assert "weight: gave [1], not a list with a number, or a tuple of numbers, for each of 2 subjects" in letter.reason


# Items and words


def test_a_route_lists_items_in_words_of_its_own(digests: Digests, channel: Recording) -> None:
    digests.route(
        "t", channel=channel, group_by=["post"], items=2, wording={"record": ("comment", "comments"), "open": "Read"}
    )
    for number in range(4):
        digests.add("t", {"post": "Tea", "text": f"remark {number}"}, timestamp=T + number, now=T)

    once(digests, now=T)

    [message] = channel.messages
    assert message.subject == "4 comments about Tea"
    assert "- remark 3 · " in message.text
    assert "- remark 2" in message.text
    assert "remark 1" not in message.text
    assert "and 2 more" in message.text


def test_each_reader_may_have_a_language(digests: Digests, channel: Recording) -> None:
    words: dict[str, Any] = {
        "ada": Wording(record=("Ereignis", "Ereignisse")),
        "bob": {"record": ("événement", "événements")},
    }
    digests.route("mail:*", channel=channel, wording=lambda recipient: words[recipient])
    for reader in ("ada", "bob"):
        add(digests, f"mail:{reader}", "a", "b")

    once(digests, now=T)

    texts = {message.recipient: message.text for message in channel.messages}
    assert "2 Ereignisse" in texts["ada"]
    assert "2 événements" in texts["bob"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"prepare": 7}, "prepare: 7 is not a function"),
        ({"weight": "stars"}, "weight: 'stars' is not a function"),
        ({"items": 0}, "items: 0 is not a whole number from 1"),
        ({"wording": "German"}, "wording: 'German' is not a mapping, a Wording or a function"),
        ({"wording": {"unsubcribe": "x"}}, "unsubcribe: no such option of Wording; did you mean unsubscribe?"),
        ({"wording": {"outlook": "{when}"}}, "wording: outlook: '{when}': {when} is not filled in; there is time"),
    ],
)
def test_a_wrong_option_is_refused_when_the_route_is_made(digests: Digests, options: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        digests.route("t", channel="terminal://", **options)
