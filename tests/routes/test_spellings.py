"""Spellings: an address can be written in many ways, and what its reader chose counts for all of them."""

from collections.abc import Sequence

import pytest

from digestif import Budget, Digests
from digestif.channels.mail import normal_forms
from tests.routes.recorder import POLICY, Recording, T, add
from tests.worker.workers import once

SPELLINGS = ["ada@example。org", "ada@ⓔxample.org", "ada@EXAMPLE.org", "ada@ｅxample．org", "ada@example｡ORG"]


class Mailing(Recording):
    """Knows addresses as the channel for mail does."""

    def normal_forms(self, recipient: str) -> Sequence[str]:
        return normal_forms(recipient)


@pytest.fixture
def channel() -> Recording:
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
