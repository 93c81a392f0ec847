"""Spellings: an address can be written in many ways, and what its reader chose counts for all of them."""

from collections.abc import Sequence

import pytest

from digestif import Budget, DeliveryFailed, Digest, Digests, Record
from digestif.channels.mail import normal_forms
from tests.routes.recorder import POLICY, Recording, T, add
from tests.worker.workers import once

SPELLINGS = ["ada@example。org", "ada@ⓔxample.org", "ada@EXAMPLE.org", "ada@ｅxample．org", "ada@example｡ORG"]


class Mailing(Recording):
    """Knows addresses as the channel for mail does."""

    knows_spellings = True

    def normal_forms(self, recipient: str) -> Sequence[str]:
        return normal_forms(recipient) if self.knows_spellings else (recipient,)


@pytest.fixture
def channel() -> Mailing:
    return Mailing()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_spelling_of_a_reader_who_opted_out_gets_nothing_and_says_why(
    digests: Digests, channel: Recording, spelling: str
) -> None:
    digests.route("mail:*", channel=channel)
    digests.prefer("mail:ada@example.org", "off", now=T)
    add(digests, f"mail:{spelling}", "a", "b")

    once(digests, now=T)

    assert not channel.messages
    entry, *_ = digests.history()
    assert (entry.outcome, entry.timeline) == ("discarded", f"mail:{spelling}")
    assert "'mail:ada@example.org' has the same reader, and is off" in str(entry.reason)
    assert digests.ledger().deleted == 2
    assert digests.verify()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_spelling_is_written_to_in_normal_form(digests: Digests, channel: Recording, spelling: str) -> None:
    digests.route("mail:*", channel=channel, links={"unsubscribe": "https://x.example/{recipient}"})
    add(digests, f"mail:{spelling}", "a")

    once(digests, now=T)

    [message] = channel.messages
    assert (message.recipient, message.timeline) == ("ada@example.org", f"mail:{spelling}")
    assert message.links["unsubscribe"] == "https://x.example/ada%40example.org"


def test_a_pause_of_the_normal_form_holds_other_spellings_until_it_ends(digests: Digests, channel: Recording) -> None:
    digests.route("mail:*", channel=channel)
    digests.pause("mail:ada@example.org", now=T)
    add(digests, "mail:ada@EXAMPLE.org", "a")

    once(digests, now=T)
    assert not channel.messages
    assert digests.ledger().open == 1

    digests.resume("mail:ada@example.org", now=T + 1)
    once(digests, now=T + 3600)
    assert channel.records() == ["a"]


def test_the_choice_counts_for_records_that_are_sent_without_being_stored(digests: Digests, channel: Recording) -> None:
    digests.route("mail:*", channel=channel, digest=False)
    digests.prefer("mail:ada@example.org", "off", now=T)

    digests.notify("mail:ada@ⓔxample.org", 1, now=T)
    digests.notify("mail:eve@ⓔxample.org", 1, now=T)

    assert [message.recipient for message in channel.messages] == ["eve@example.org"]


@pytest.mark.parametrize(
    ("pattern", "to", "off", "spelling"),
    [
        ("*", None, "ada@example.org", "ada@example。org"),
        ("mail:*:news", None, "mail:ada@example.org:news", "mail:ada@example。org:news"),
        ("*", "{timeline}", "ada@example.org", "ada@example。org"),
        ("*", "lists+{timeline}", "ada@example.org", "ada@example。org"),
        ("*", "ada@{timeline}.org", "example", "Example"),
        ("mail:*", None, "mail:ada@münchen.example", "mail:ada@MÜNCHEN.example"),
        ("mail:*", None, "mail:ada@münchen.example", "mail:ada@xn--mnchen-3ya.example"),
        ("mail:*", None, "mail:ada@xn--mnchen-3ya.example", "mail:ada@münchen.example"),
    ],
)
def test_the_choice_is_found_wherever_the_name_of_a_timeline_holds_the_address(
    digests: Digests, channel: Recording, pattern: str, to: str | None, off: str, spelling: str
) -> None:
    digests.route(pattern, channel=channel, to=to)
    digests.prefer(off, "off", now=T)
    add(digests, spelling, "a")

    once(digests, now=T)

    assert not channel.messages


@pytest.mark.parametrize("name", ["Ada@example.org", "ada@example.org.evil.example", "eve@example.org", "ada"])
def test_other_readers_are_not_concerned(digests: Digests, channel: Recording, name: str) -> None:
    """What is before the @ belongs to the receiver: two cases may be two people."""
    digests.route("mail:*", channel=channel)
    digests.prefer("mail:ada@example.org", "off", now=T)
    add(digests, f"mail:{name}", "a")

    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == [name]


def test_spellings_share_one_budget(channel: Recording) -> None:
    with Digests("memory://", policy=POLICY) as digests:
        digests.route("mail:*", channel=channel, budget=Budget(1, per=3600))
        for spelling in ["ada@example.org", *SPELLINGS]:
            add(digests, f"mail:{spelling}", "a")
            once(digests, now=T)

        assert len(channel.messages) == 1


# Split digests


ADA = ["ada@EXAMPLE.org", "ada@ⓔxample.org", "ada@example.org"]


def by_spelling(digest: Digest) -> dict[str, list[Record]]:
    """Give the oldest record to one spelling, the newest to another, all to a third; and all to somebody else."""
    all_records = list(digest)
    return {
        "ada@EXAMPLE.org": all_records[-1:],
        "eve@example.org": all_records,
        "ada@ⓔxample.org": all_records[:1],
        "ada@example.org": all_records,
    }


def test_a_split_digest_reaches_a_reader_once_whatever_the_spellings(digests: Digests, channel: Recording) -> None:
    digests.route("team:*", channel=channel, split=by_spelling)
    add(digests, "team:7", "a", "b", "c")

    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == ["ada@example.org", "eve@example.org"]
    assert channel.records(0) == ["c", "b", "a"]
    assert channel.keys[0].endswith(".1.ada@example.org")


def test_shares_that_become_one_have_the_order_of_the_digest(digests: Digests, channel: Recording) -> None:
    def split(digest: Digest) -> dict[str, list[Record]]:
        c, b, a = digest
        return {"ada@EXAMPLE.org": [a, c], "ada@example.org": [b]}

    digests.route("team:*", channel=channel, split=split, prepare=lambda records: [r for r in records if r.key != "c"])
    add(digests, "team:7", "a", "b", "c")

    once(digests, now=T)

    assert [channel.records(place) for place in range(len(channel.messages))] == [["b", "a"]]


def test_a_retry_leaves_out_all_spellings_of_who_was_served(digests: Digests, channel: Recording) -> None:
    digests.route("team:*", channel=channel, split=by_spelling)
    channel.failures["eve@example.org"] = [DeliveryFailed("mailbox full", after=30)]
    add(digests, "team:7", "a")

    once(digests, now=T)
    once(digests, now=T + 30)

    assert [message.recipient for message in channel.messages] == ["ada@example.org", "eve@example.org"]
    assert digests.ledger().delivered == 1


@pytest.mark.parametrize(
    ("noted", "rest"),
    [
        (["ada@EXAMPLE.org"], ["c", "b", "a"]),
        (["ada@example.org"], ["c", "a"]),  # what its other names have
        (ADA, None),
    ],
)
def test_what_another_release_noted_by_spelling_is_not_sent_again_and_the_rest_is(
    digests: Digests, channel: Mailing, noted: list[str], rest: list[str] | None
) -> None:
    digests.route("team:*", channel=channel, split=by_spelling)
    late = DeliveryFailed("mailbox full", after=30)
    channel.failures = {name: [late] for name in [*ADA, "eve@example.org"] if name not in noted}
    channel.knows_spellings = False
    add(digests, "team:7", "a", "b", "c")
    once(digests, now=T)
    assert [message.recipient for message in channel.messages] == noted

    channel.knows_spellings = True
    channel.messages.clear()
    once(digests, now=T + 30)

    got = {message.recipient: channel.records(place) for place, message in enumerate(channel.messages)}
    assert got == {"eve@example.org": ["c", "b", "a"]} | ({} if rest is None else {"ada@example.org": rest})
    assert digests.ledger().delivered == 3


def test_an_address_that_can_never_be_reached_is_not_tried_by_its_other_spellings(
    digests: Digests, channel: Recording
) -> None:
    digests.route("team:*", channel=channel, split=by_spelling)
    channel.failures["ada@example.org"] = [DeliveryFailed("no such mailbox", retry=False)]
    channel.failures["eve@example.org"] = [DeliveryFailed("mailbox full", after=30)]
    add(digests, "team:7", "a")

    once(digests, now=T)
    once(digests, now=T + 30)

    assert [message.recipient for message in channel.messages] == ["eve@example.org"]
    [letter] = digests.dead_letters()
    assert "1 of 2 recipients" in letter.reason


def test_what_a_function_answers_is_written_to_in_normal_form(digests: Digests, channel: Recording) -> None:
    digests.route("user:*", channel=channel, to=lambda timeline: "ada@ⓔxample.org")
    add(digests, "user:7", "a")

    once(digests, now=T)

    assert [message.recipient for message in channel.messages] == ["ada@example.org"]


# Addresses


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("ada@example.org", ("ada@example.org",)),
        ("Ada@EXAMPLE.Org", ("Ada@example.org",)),
        ("ada@xn--MNCHEN-3ya.example", ("ada@münchen.example", "ada@xn--mnchen-3ya.example")),
        ("ada@xn--strae-oqa.example", ("ada@xn--strae-oqa.example",)),  # of later rules: straße
        ("jose\u0301@example.org", ("josé@example.org",)),
        ("ada@example.org.", ("ada@example.org.",)),  # no address: refused when it is sent
        ('"ada"@example.org', ('"ada"@example.org',)),
        ("ada(home)@example.org", ("ada(home)@example.org",)),
        ("Ada <ada@EXAMPLE.org>", ("Ada <ada@EXAMPLE.org>",)),
        ("#channel", ("#channel",)),
    ],
)
def test_the_normal_forms_of_an_address(text: str, forms: tuple[str, ...]) -> None:
    assert normal_forms(text) == forms
