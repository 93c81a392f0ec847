"""Slack: messages stay within Slack's limits, and its answers are understood."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from digestif import ConfigError
from digestif.channels.base import Message, Receipt
from digestif.channels.slack import SlackChannel, escaped, from_dsn, payload_of, within_limits
from digestif.core.secret import Secret
from digestif.core.verdicts import DeliveryFailed
from digestif.dsn import Dsn
from digestif.testing.channels import COUNTED, FINAL, UNAVAILABLE, UNKNOWN, Expected, a_message, huge
from tests.channels.deliveries import delivered
from tests.channels.receiver import Receiver, running

PATH = "/services/T00000000/B00000000/XXXXaaaabbbbccccddddeeee"


@pytest.fixture(scope="module")
def server() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver


@pytest.fixture
def receiver(server: Receiver) -> Receiver:
    server.requests.clear()
    server.answer(200, "ok")
    return server


def deliver(receiver: Receiver, message: Message | None = None) -> Receipt:
    return delivered(SlackChannel(Secret(receiver.url + PATH), allow_private=True), message)


def failure(receiver: Receiver) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as failed:
        deliver(receiver)
    return failed.value


def test_blocks_are_posted_with_the_subject_beside_them(receiver: Receiver) -> None:
    receipt = deliver(receiver)

    [request] = receiver.requests
    assert request.path == PATH
    assert request.json == {"text": a_message().subject, "blocks": list(a_message().blocks)}
    assert receipt == Receipt(channel="slack", detail="200 ok")


def test_without_blocks_the_text_is_posted(receiver: Receiver) -> None:
    deliver(receiver, a_message(subject="Two failed", text="a & b", blocks=()))

    assert receiver.requests[0].json == {"text": "Two failed\na &amp; b"}


def test_a_text_has_no_mentions_and_no_links() -> None:
    payload = payload_of(a_message(subject="<!channel> <https://evil.example|us>", blocks=()))

    assert "<" not in payload["text"]
    assert payload["text"].startswith("&lt;!channel&gt;")


def test_a_huge_message_is_cut_to_the_limits_and_says_so(receiver: Receiver) -> None:
    deliver(receiver, huge(a_message()))

    [request] = receiver.requests
    blocks = request.json["blocks"]
    assert len(blocks) == 50
    assert max(len(block["text"]["text"]) for block in blocks[:-1]) == 3000
    assert blocks[-1]["elements"][0]["text"] == "… 1951 more blocks left out"
    assert len(request.body) < 200_000


def mrkdwn(length: int) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": "x" * length}


def plain(length: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": "x" * length}


@pytest.mark.parametrize(
    ("too_long", "just_right"),
    [
        ({"type": "header", "text": plain(151)}, {"type": "header", "text": plain(150)}),
        ({"type": "section", "text": mrkdwn(3001)}, {"type": "section", "text": mrkdwn(3000)}),
        (
            {"type": "section", "fields": [mrkdwn(2001)] * 11},
            {"type": "section", "fields": [mrkdwn(2000)] * 10},
        ),
        (
            {"type": "section", "accessory": {"type": "button", "text": plain(76)}},
            {"type": "section", "accessory": {"type": "button", "text": plain(75)}},
        ),
        (
            {"type": "context", "elements": [mrkdwn(3001)] * 11},
            {"type": "context", "elements": [mrkdwn(3000)] * 10},
        ),
        (
            {"type": "actions", "elements": [{"type": "button", "text": plain(76)}] * 26},
            {"type": "actions", "elements": [{"type": "button", "text": plain(75)}] * 25},
        ),
    ],
    ids=["header", "section", "fields", "accessory", "context", "actions"],
)
def test_each_kind_of_block_has_its_limit(too_long: dict[str, Any], just_right: dict[str, Any]) -> None:
    assert within_limits([just_right]) == [just_right]
    assert str(within_limits([too_long])[0]).replace("…", "x") == str(just_right)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "header", "text": "x"},
        {"type": "section", "text": "x", "fields": 7, "accessory": "x"},
        {"type": "section", "fields": ["x"]},
        {"type": "context", "elements": ["x", 7]},
        {"type": "actions", "elements": ["x"]},
        {"type": "markdown", "text": "x"},
        {},
    ],
)
def test_what_is_no_block_of_slack_is_for_slack_to_judge(block: dict[str, Any]) -> None:
    assert within_limits([block]) == [block]


def test_fifty_blocks_are_not_touched() -> None:
    blocks = [{"type": "divider"}] * 50

    assert within_limits(list(blocks)) == blocks


@pytest.mark.parametrize("end", ["&amp;", "<https://a.example|label>"])
def test_nothing_is_cut_in_its_middle(end: str) -> None:
    lengths = range(2990, 3010)
    texts = ["x" * (length - len(end)) + end + "tail" for length in lengths]

    cut = [within_limits([{"type": "section", "text": {"type": "mrkdwn", "text": text}}])[0] for text in texts]

    for block in cut:
        rest = block["text"]["text"].rstrip("…").removesuffix("tail").removesuffix("tai").removesuffix("ta")
        assert rest.removesuffix("t").removesuffix(end).strip("x") == ""


@pytest.mark.parametrize("character", ["&", "x", "😀"])
@pytest.mark.parametrize("length", [9, 10, 11, 1000])
def test_an_escaped_text_has_at_most_its_length(character: str, length: int) -> None:
    assert len(escaped(character * length, 10)) <= 10


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "no_service"),
        (403, "no_service"),
        (400, "no_team"),
        (404, "channel_not_found"),
        (403, "action_prohibited"),
        (403, "invalid_token"),
        (404, "anything"),
        (403, "anything"),
    ],
)
def test_an_address_that_slack_does_not_serve_is_a_matter_of_configuration(
    receiver: Receiver, status: int, words: str
) -> None:
    receiver.answer(status, words)

    failed = failure(receiver)

    assert Expected.of(failed) == UNAVAILABLE
    assert str(failed) == f"configuration: 127.0.0.1 answered {status}: {words}"


@pytest.mark.parametrize(
    ("status", "words", "verdict"),
    [
        (410, "channel_is_archived", FINAL),
        (410, "anything", FINAL),
        (400, "invalid_payload", COUNTED),
        (500, "rollup_error", COUNTED),
        (302, "redirects", COUNTED),
        (503, "maintenance", UNAVAILABLE),
        (504, "gateway", UNKNOWN),
        (429, "rate_limited", Expected(throttled=True)),
    ],
)
def test_any_other_answer_means_what_it_means_for_a_webhook(
    receiver: Receiver, status: int, words: str, verdict: Expected
) -> None:
    receiver.answer(status, words)

    failed = failure(receiver)

    assert Expected.of(failed) == verdict
    assert words in str(failed)


def test_slack_is_given_the_time_that_it_asks_for(receiver: Receiver) -> None:
    receiver.answer(429, "rate_limited", Retry_After="30")

    assert Expected.of(failure(receiver)) == Expected(throttled=True, after=30)


def test_its_name_tells_addresses_apart_and_shows_their_host_only() -> None:
    dsns = [f"slack://hooks.slack.com{PATH}{rest}" for rest in ("", "x", "?timeout=5")]

    names = [from_dsn(Dsn.parse(dsn)).name for dsn in dsns]

    assert re.fullmatch("slack://hooks.slack.com #[0-9a-f]{8}", names[0])
    assert names[0] == names[2] != names[1]


def test_a_dsn_shows_its_host_only() -> None:
    channel = from_dsn(Dsn.parse(f"slack://hooks.slack.com{PATH}?timeout=5"))

    assert repr(channel) == "SlackChannel(https://hooks.slack.com/…)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("slack://", "url: not an address"),
        (
            "slack://hooks.slack.com",
            "needs the whole address of an incoming webhook: slack://hooks.slack.com/services/",
        ),
        ("slack://hooks.slack.com/", "needs the whole address of an incoming webhook"),
        ("slack://hooks.slack.com?timeout=5", "needs the whole address of an incoming webhook"),
        (f"slack://hooks.slack.com{PATH}?channel=x", "channel: no such option"),
        (f"slack://10.0.0.1{PATH}", "not a public address"),
        (f"slack://ada:pw@hooks.slack.com{PATH}", "no user, no password"),
    ],
)
def test_a_wrong_dsn_says_what_is_wrong_and_not_the_token(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        from_dsn(Dsn.parse(text))

    assert "XXXX" not in str(refused.value)
