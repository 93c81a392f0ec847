"""Messages that were sent are kept by choice; a preview shows the one that would be sent."""

from typing import Any

import pytest

from digestif import ConfigError, Digests, Discard
from digestif.stores.base import Store
from digestif.stores.documents import Document
from digestif.stores.memory import MemoryStore
from digestif.testing.footprint import assert_nothing_left
from digestif.testing.modes import MODES, Mode, digests_in
from tests.routes.recorder import POLICY, Recording, T, add, by_reader


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param  # type: ignore[no-any-return]


def send(digests: Digests, timeline: str, *keys: str, now: float = T) -> None:
    add(digests, timeline, *keys, now=now)
    assert digests.deliver(timeline, now=now)


def test_messages_are_kept_only_if_that_was_asked_for(mode: Mode) -> None:
    with digests_in(mode, MemoryStore(), policy=POLICY) as digests:
        digests.route("mail:*", channel=Recording())
        send(digests, "mail:ada", "a")
        before = digests.messages()

        digests.keep_messages()
        send(digests, "mail:bob", "b", now=T + 1)

        assert before == []
        [kept] = digests.messages()
        assert (kept.timeline, kept.recipient, kept.channel, kept.at) == ("mail:bob", "bob", "recording", T + 1)
        assert "about b" in kept.text
        assert kept.subject
        [entry] = digests.history("mail:bob")
        assert digests.message(entry.id) == kept
        assert digests.message("unknown") is None


def test_each_recipient_of_a_split_digest_has_a_message() -> None:
    with Digests(MemoryStore(), policy=POLICY) as digests:
        digests.keep_messages()
        digests.route("team", channel=Recording(), split=by_reader)

        send(digests, "team", "ada", "bob")

        assert sorted(message.recipient for message in digests.messages("team")) == ["ada", "bob", "eve"]
        assert len({message.id for message in digests.messages()}) == 3


def test_the_last_ones_are_kept_page_by_page() -> None:
    with Digests(MemoryStore(), policy=POLICY) as digests:
        digests.keep_messages(entries=4)
        digests.route("mail:*", channel=Recording())
        for number in range(6):
            send(digests, f"mail:{number}", "a", now=T + number)

        first = digests.messages(limit=3)
        rest = digests.messages(before=first[-1].id, limit=3)

        assert [message.recipient for message in [*first, *rest]] == ["5", "4", "3", "2"]


def test_messages_are_deleted_with_their_timeline() -> None:
    store = MemoryStore()
    with Digests(store, policy=POLICY) as digests:
        digests.keep_messages()
        digests.route("mail:*", channel=Recording())
        send(digests, "mail:ada", "a")

        digests.delete("mail:ada", now=T)

        assert digests.messages() == []
        assert_nothing_left(store)


def test_a_message_that_can_not_be_kept_was_sent_all_the_same() -> None:
    class Full(MemoryStore):
        def keep(self, collection: str, document: Document, **options: Any) -> bool:
            raise OSError("no space left")

    channel = Recording()
    with Digests(Full(), policy=POLICY) as digests:
        digests.keep_messages()
        digests.route("mail:*", channel=channel)

        send(digests, "mail:ada", "a")

        assert len(channel.messages) == 1
        assert digests.ledger().delivered == 1
        assert digests.messages() == []


def test_a_document_that_can_not_be_read_is_left_out() -> None:
    store: Store = MemoryStore()
    with Digests(store, policy=POLICY) as digests:
        digests.keep_messages()
        bounds = digests.engine.archive.bounds
        assert bounds is not None
        store.keep("messages", Document("x", b"garbage", "t"), bounds=bounds, now=0)

        assert digests.messages() == []
        assert digests.message("x") is None


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "10"])
def test_wrong_bounds_are_refused(wrong: Any) -> None:
    with Digests(MemoryStore()) as digests:
        with pytest.raises(ConfigError, match="entries"):
            digests.keep_messages(entries=wrong)
        with pytest.raises(ConfigError, match="bytes"):
            digests.keep_messages(bytes=wrong)


def test_a_preview_is_the_message_that_would_be_sent(mode: Mode) -> None:
    channel = Recording()
    with digests_in(mode, MemoryStore(), policy=POLICY) as digests:
        digests.route("mail:*", channel=channel, title="News", links={"open": "https://app.example/{recipient}"})
        add(digests, "mail:ada", "a", "b")

        shown = digests.preview("mail:ada", now=T)

        assert shown is not None
        assert (shown.recipient, shown.links) == ("ada", {"open": "https://app.example/ada"})
        assert "about a" in shown.text
        assert "about b" in shown.html
        assert channel.messages == []
        digests.deliver("mail:ada", now=T)
        assert channel.messages[0].subject == shown.subject


def test_without_a_route_or_records_there_is_no_preview() -> None:
    with Digests(MemoryStore(), policy=POLICY) as digests:
        add(digests, "mail:ada", "a")
        without_routes = digests.preview("mail:ada", now=T)
        digests.route("mail:*", channel=Recording())

        assert without_routes is None
        assert digests.preview("other", now=T) is None
        assert digests.preview("mail:empty", now=T) is None


def refuse(*_: str) -> Any:
    raise Discard("has left")


@pytest.mark.parametrize("name", ["to", "zone", "wording", "links"])
def test_what_a_function_about_the_reader_discards_has_no_preview(name: str) -> None:
    with Digests(MemoryStore(), policy=POLICY) as digests:
        options: Any = {name: refuse}
        digests.route("mail:*", channel=Recording(), **options)
        add(digests, "mail:ada", "a")

        assert digests.preview("mail:ada", now=T) is None


@pytest.mark.parametrize(("name", "complaint"), [("to", "to: gave None"), ("links", "links: gave None")])
def test_a_preview_tells_of_wrong_answers_as_a_delivery_does(name: str, complaint: str) -> None:
    with Digests(MemoryStore(), policy=POLICY) as digests:
        options: Any = {name: lambda *_: None}
        digests.route("mail:*", channel=Recording(), **options)
        add(digests, "mail:ada", "a")

        with pytest.raises(ConfigError, match=complaint):
            digests.preview("mail:ada", now=T)


@pytest.mark.parametrize("name", ["to", "zone", "wording", "links"])
def test_a_preview_says_that_a_function_about_the_reader_failed(name: str) -> None:
    def fail(*_: str) -> Any:
        raise KeyError("ada")

    with Digests(MemoryStore(), policy=POLICY) as digests:
        options: Any = {name: fail}
        digests.route("mail:*", channel=Recording(), **options)
        add(digests, "mail:ada", "a")

        with pytest.raises(ConfigError, match=r"a function of the route mail:\* failed: KeyError: 'ada'"):
            digests.preview("mail:ada", now=T)
