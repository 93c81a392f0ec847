"""What functions say about a reader: the recipient, the zone, the words, the links; and that there is no message."""

from collections.abc import Callable
from typing import Any

import pytest

from digestif import AsyncDigests, ConfigError, Digests, Discard, Policy
from digestif.core.ledger import Ledger
from tests.routes.recorder import Recording, T, add, by_reader
from tests.worker.workers import once


def gone(*_: Any) -> Any:
    raise Discard("the user is deleted")


async def gone_later(*_: Any) -> Any:
    raise Discard("the user is deleted")


# Discarding


@pytest.mark.parametrize("hook", [gone, gone_later], ids=["function", "coroutine"])
@pytest.mark.parametrize("name", ["to", "keep", "prepare", "split", "weight", "links"])
def test_each_hook_may_discard_the_digest(digests: Digests, channel: Recording, name: Any, hook: Any) -> None:
    digests.route("t", channel=channel, **{name: hook})
    add(digests, "t", "a", "b")

    once(digests, now=T)

    assert channel.messages == []
    assert digests.ledger() == Ledger(accepted=2, deleted=2)


@pytest.mark.parametrize("name", ["zone", "wording"])
def test_functions_about_the_reader_may_discard_the_digest(digests: Digests, channel: Recording, name: Any) -> None:
    options: dict[str, Any] = {name: gone}
    digests.route("t", channel=channel, **options)
    add(digests, "t", "a")

    once(digests, now=T)

    assert digests.ledger() == Ledger(accepted=1, deleted=1)


def test_a_recipient_for_whom_a_hook_discards_gets_nothing_and_the_others_get_theirs(
    digests: Digests, channel: Recording
) -> None:
    def links(timeline: str, recipient: str) -> dict[str, str]:
        return gone() if recipient == "bob" else {}

    digests.route("t", channel=channel, split=by_reader, links=links)
    add(digests, "t", "a")

    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == ["ada", "eve"]
    assert digests.ledger() == Ledger(accepted=1, delivered=1)
    assert digests.dead_letters() == []


def test_a_split_digest_that_is_discarded_for_all_is_discarded(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, split=by_reader, links=gone)
    add(digests, "t", "a")

    once(digests, now=T)

    assert digests.ledger() == Ledger(accepted=1, deleted=1)


@pytest.mark.parametrize("name", ["to", "keep", "prepare", "split", "weight", "links", "zone", "wording"])
def test_each_function_of_a_route_may_delete_the_timeline(digests: Digests, channel: Recording, name: Any) -> None:
    def leave(*_: object) -> Any:
        digests.add("t", "meanwhile", now=T)
        raise Discard("the user is deleted", delete=True)

    options: dict[str, Any] = {name: leave}
    digests.route("t", channel=channel, **options)
    add(digests, "t", "a", "b")

    once(digests, now=T)

    assert channel.messages == []
    assert digests.timelines() == []
    assert digests.ledger() == Ledger(accepted=3, deleted=3)


@pytest.mark.parametrize(
    ("gone", "deletes"), [(["bob"], False), (["ada", "bob"], False), (["ada", "bob", "eve"], True)]
)
def test_a_split_timeline_is_deleted_only_if_all_of_its_recipients_are_gone(
    digests: Digests, channel: Recording, gone: list[str], deletes: bool
) -> None:
    """Eve, if she is not gone, only does not want this digest."""

    def links(timeline: str, recipient: str) -> dict[str, str]:
        raise Discard("not for this one", delete=recipient in gone)

    digests.route("t", channel=channel, split=by_reader, links=links)
    add(digests, "t", "a")

    once(digests, now=T)

    assert (digests.timelines() == []) is deletes
    assert digests.ledger() == Ledger(accepted=1, deleted=1)


def test_a_route_that_stores_nothing_deletes_what_is_stored_if_its_reader_is_gone(
    digests: Digests, channel: Recording
) -> None:
    """Such as a choice, which would otherwise stay for ever."""
    digests.prefer("t", "daily", now=T)

    def to(timeline: str) -> str:
        raise Discard("the user is deleted", delete=True)

    digests.route("t", channel=channel, to=to, digest=False)

    assert digests.notify("t", "a", now=T) is False

    assert digests.preference("t") is None


# Answers that are none


@pytest.mark.parametrize("answer", [None, "", " ", ["ada@example.org"], 7])
@pytest.mark.parametrize("is_coroutine", [False, True], ids=["function", "coroutine"])
def test_a_recipient_that_is_no_text_fails_with_what_to_return(
    digests: Digests, channel: Recording, answer: Any, is_coroutine: bool
) -> None:
    async def later(timeline: str) -> Any:
        return answer

    to: Any = later if is_coroutine else lambda _: answer
    digests.route("t", channel=channel, to=to, policy=Policy(attempts=1))
    add(digests, "t", "a")

    once(digests, now=T)

    [letter] = digests.dead_letters()
    assert f"to: gave {answer!r}; return the recipient as a text, or raise Discard" in letter.reason
    assert channel.messages == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"links": lambda *_: None}, "links: gave None, not a mapping"),
        ({"zone": lambda _: 7}, "zone: 7 is not an IANA time zone"),
        ({"wording": lambda _: 7}, "wording: 7 is neither a Wording nor a mapping"),
        ({"links": lambda *_: {7: "https://example.org"}}, "links: gave 7: 'https://example.org', not a name with"),
        ({"links": lambda *_: {"open": 7}}, "links: gave 'open': 7, not a name with an address"),
        ({"split": lambda _: {"ada": None}}, "split: gave None for 'ada', not a list of records"),
        ({"split": lambda _: {"ada": "abc"}}, "split: gave 'abc' for 'ada', not a list of records"),
        ({"wording": {"record": {1: "Tag"}.get}}, "wording: the function of a noun gave None for 0, not a text"),
    ],
)
def test_another_wrong_answer_fails_with_the_name_of_its_option(
    digests: Digests, channel: Recording, options: Any, complaint: str
) -> None:
    digests.route("t", channel=channel, policy=Policy(attempts=1), **options)
    add(digests, "t", "a", "b")

    once(digests, now=T)

    [letter] = digests.dead_letters()
    assert complaint in letter.reason


def test_a_link_that_a_reader_does_not_have_is_left_out(digests: Digests, channel: Recording) -> None:
    digests.route("t", channel=channel, links=lambda *_: {"open": "https://example.org", "unsubscribe": None})
    add(digests, "t", "a")

    once(digests, now=T)

    assert channel.messages[0].links == {"open": "https://example.org"}


def test_words_may_come_from_a_coroutine_as_recipients_and_zones_may(digests: Digests, channel: Recording) -> None:
    async def words(recipient: str) -> dict[str, Any]:
        return {"record": ("Ereignis", "Ereignisse")}

    digests.route("t", channel=channel, wording=words)  # type: ignore[arg-type]
    add(digests, "t", "a", "b")

    once(digests, now=T)

    assert "2 Ereignisse" in channel.messages[0].text


# Functions of recipient and timeline


class Zones:
    def of(self, recipient: str, timeline: str) -> str:
        return {"mail:1": "Asia/Tokyo"}[timeline]

    def __call__(self, recipient: str, timeline: str) -> str:
        return self.of(recipient, timeline)


@pytest.mark.parametrize("zone", [Zones().of, Zones(), lambda _, timeline: Zones().of("", timeline)])
def test_a_zone_may_depend_on_the_timeline(
    digests: Digests, channel: Recording, zone: Callable[[str, str], str]
) -> None:
    digests.route("mail:*", channel=channel, to="ada@example.org", zone=zone)
    add(digests, "mail:1", "a")

    once(digests, now=T)

    assert "(Asia/Tokyo)" in channel.messages[0].text


def test_words_may_depend_on_the_timeline(digests: Digests, channel: Recording) -> None:
    asked: list[tuple[str, str]] = []

    def words(recipient: str, timeline: str) -> dict[str, Any]:
        asked.append((recipient, timeline))
        return {"record": ("Ereignis", "Ereignisse")}

    digests.route("mail:*", channel=channel, to="ada@example.org", wording=words)
    add(digests, "mail:1", "a", "b")

    once(digests, now=T)

    assert asked == [("ada@example.org", "mail:1")]
    assert "2 Ereignisse" in channel.messages[0].text


def test_a_second_parameter_with_a_default_is_not_the_timeline(digests: Digests, channel: Recording) -> None:
    digests.route("mail:*", channel=channel, zone={"ada": "Asia/Tokyo"}.get)
    add(digests, "mail:ada", "a")
    add(digests, "mail:bob", "a")

    once(digests, now=T)

    texts = {message.recipient: message.text for message in channel.messages}
    assert "(Asia/Tokyo)" in texts["ada"]
    assert "(UTC)" in texts["bob"]


# Options


@pytest.mark.parametrize("engine", [Digests, AsyncDigests])
def test_a_misspelt_channel_is_named(engine: Any) -> None:
    with pytest.raises(ConfigError, match=r"chanel: no such option of Route; did you mean channel\?"):
        engine("memory://").route("x:*", chanel="terminal://")


def test_a_missing_channel_is_an_error_of_the_call(digests: Digests) -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'channel'"):
        digests.route("x:*")  # type: ignore[call-arg]


def test_subjects_of_a_route_may_be_named_by_a_mapping(digests: Digests, channel: Recording) -> None:
    level = {"by": "post.id", "label": "post.title", "url": "post.url"}
    digests.route("t", channel=channel, group_by=[level])
    for number in (1, 2, 2):
        post = {"id": number, "title": f"Post {number}", "url": f"https://blog.example/{number}"}
        digests.add("t", {"post": post, "text": "x"}, now=T)

    once(digests, now=T)

    [message] = channel.messages
    assert "2 × Post 2\n" in message.text
    assert message.data["summary"]["groups"][0]["subjects"][0]["url"] == "https://blog.example/2"


# The next message


@pytest.mark.parametrize(("delay", "is_said"), [(5, False), (119, False), (120, True), (3600, True)])
def test_the_next_message_is_announced_unless_it_comes_within_two_minutes(
    digests: Digests, channel: Recording, delay: float, is_said: bool
) -> None:
    digests.route("t", channel=channel, policy=Policy(minimum_delay=delay, maximum_delay=7200))
    add(digests, "t", "a")

    once(digests, now=T)

    assert ("Next one" in channel.messages[0].text) == is_said
