"""What routes say of themselves: the sender, why a reader gets a message and how often, details, weight and order."""

import email
import email.policy
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

import pytest

from digestif import Budget, ConfigError, Digest, Digests, Policy, Record
from digestif.routes.preview import digest_of, look_of, rendered
from tests.channels.mailserver import running_mail_server
from tests.routes.recorder import Recording, T
from tests.worker.workers import once

SEVERITIES = {"by": "severity", "order": ["critical", "warning", "info"]}
READER = "mail:ada@example.org"


def add_disks(digests: Digests, timeline: str = READER) -> None:
    """A critical record, and after it three of less weight."""
    values = [
        {"title": "Disk almost full", "host": "web-3", "severity": "critical", "percent": 97},
        *({"title": f"Backup {n}", "host": "web-1", "severity": "info", "percent": n} for n in range(3)),
    ]
    for number, value in enumerate(values):
        digests.add(timeline, Record(str(number), value, T + number), now=T + number)


def mail_of(digests: Digests, *, sender: str = "digests@example.org", **options: Any) -> EmailMessage:
    """The mail that a real server gets."""
    with running_mail_server() as server:
        dsn = server.dsn().replace("digests@example.org", sender)
        digests.route("mail:*", channel=dsn, **options)
        add_disks(digests)
        once(digests, now=T + 10)
        [body] = server.mails
    mail = email.message_from_bytes(body, policy=email.policy.default)
    assert isinstance(mail, EmailMessage)
    return mail


def part(mail: EmailMessage, kind: str) -> str:
    found = mail.get_body((kind,))
    assert found is not None
    return str(found.get_content()).replace("\r\n", "\n")


@pytest.fixture
def digests() -> Iterator[Digests]:
    with Digests("memory://") as digests:
        yield digests


def test_a_mail_comes_from_the_name_of_the_brand(digests: Digests) -> None:
    mail = mail_of(digests, brand={"name": 'Käthe & "Söhne"', "color": "#0a7d55"})

    [sender] = mail["From"].addresses
    assert (sender.display_name, sender.addr_spec) == ('Käthe & "Söhne"', "digests@example.org")
    assert "Käthe &amp; &#34;Söhne&#34;" in part(mail, "html")
    assert "border-top:4px solid #0a7d55" in part(mail, "html")


@pytest.mark.parametrize(
    ("brand", "name"), [({"name": "Web shop"}, "Web shop"), ({"color": "#fff"}, "Alerts"), ({}, "Alerts")]
)
def test_the_name_of_the_brand_comes_before_that_of_the_channel(
    digests: Digests, brand: dict[str, str], name: str
) -> None:
    mail = mail_of(digests, sender="Alerts%20<digests@example.org>", brand=brand)

    assert mail["From"].addresses[0].display_name == name


def test_a_mail_says_to_whom_it_was_sent_and_how_often_it_comes(digests: Digests) -> None:
    mail = mail_of(digests, policy=Policy.immediate())

    for kind in ("plain", "html"):
        assert "Sent to ada@example.org. How often: each event immediately." in part(mail, kind)


def test_a_reason_is_filled_in(digests: Digests) -> None:
    text = part(mail_of(digests, reason="{recipient} watches {timeline}."), "plain")

    assert "ada@example.org watches mail:ada@example.org. How often: the first event immediately" in text


def test_an_empty_reason_is_left_out(digests: Digests) -> None:
    assert "\nHow often: " in part(mail_of(digests, reason=""), "plain")


def test_the_cadence_is_that_of_the_policy_in_force(digests: Digests, channel: Recording) -> None:
    digests.route("mail:*", channel=channel, policy=Policy.immediate())
    digests.set_policy(READER, Policy.hourly(), now=T)
    add_disks(digests)

    once(digests, now=T + 10_000)

    assert "together, 1 hour after the last message." in channel.messages[0].text


def test_a_route_that_sends_each_record_by_itself_says_nothing_of_how_often(
    digests: Digests, channel: Recording
) -> None:
    digests.route("mail:*", channel=channel, digest=False)

    digests.notify(READER, {"title": "New sign-in"}, now=T)

    assert "Sent to ada@example.org." in channel.messages[0].text
    assert "How often" not in channel.messages[0].text


def test_a_recipient_that_is_no_address_is_not_named(digests: Digests, channel: Recording) -> None:
    digests.route("team:*", channel=channel)
    add_disks(digests, "team:ops")

    once(digests, now=T + 10)

    assert "Sent to" not in channel.messages[0].text


def test_details_weight_and_order_hold_for_every_recipient_of_a_split_digest_within_a_budget(
    digests: Digests, channel: Recording
) -> None:
    def split(digest: Digest) -> dict[str, Any]:
        return dict.fromkeys(["ada@example.org", "bob@example.org"], digest.records)

    digests.route(
        "t",
        channel=channel,
        split=split,
        budget=Budget(5, 3600),
        group_by=["host"],
        details=["percent"],
        weight=SEVERITIES,
        order="oldest",
    )
    add_disks(digests, "t")

    once(digests, now=T + 10)

    assert [message.recipient for message in channel.messages] == ["ada@example.org", "bob@example.org"]
    for message in channel.messages:
        text = message.text
        assert text.index("web-3") < text.index("Backup 0") < text.index("Backup 2")
        assert "percent: 97" in text
        assert "severity" not in text
        assert f"Sent to {message.recipient}." in text


def test_a_preview_looks_as_the_message_will(digests: Digests, channel: Recording) -> None:
    digests.route(
        "mail:*",
        channel=channel,
        policy=Policy.immediate(),
        group_by=["host"],
        details=["percent"],
        weight=SEVERITIES,
        order="oldest",
        brand={"name": "Web shop"},
        reason="You watch it.",
    )
    add_disks(digests)
    assert digests.engine.routes is not None
    route = digests.engine.routes.find(READER)
    assert route is not None
    look = look_of(route, READER, digests.policy_of(READER).policy, chosen=None)
    text = rendered(digest_of(READER, digests.peek(READER)), look, formats={"text"}).text

    once(digests, now=T + 10)

    assert channel.messages[0].text == text
    assert channel.messages[0].sender == "Web shop"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brand": {"colour": "#fff"}}, "brand: 'colour': unknown; did you mean color"),
        ({"brand": "Shop"}, "brand: 'Shop' is not a mapping"),
        ({"reason": "{who}"}, "reason: '{who}': {who} is not filled in"),
        ({"reason": 7}, "reason: 7 is not a text"),
        ({"order": "latest"}, "order: 'latest' is neither"),
        ({"details": "host"}, "details: "),
        ({"weight": {"by": "severity"}}, "weight: "),
    ],
)
def test_what_can_not_be_read_is_refused_when_the_route_is_made(
    digests: Digests, channel: Recording, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        digests.route("t", channel=channel, **options)

    assert str(refused.value).startswith(message)
