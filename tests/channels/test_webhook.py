"""Webhooks: what is sent, what an answer means, and what a receiver that misbehaves can do."""

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import trustme
from standardwebhooks import Webhook

from digestif import ConfigError
from digestif.channels.base import Message, Receipt
from digestif.channels.http import wait_of
from digestif.channels.webhook import BODY_BYTES, WebhookChannel, body_of, from_dsn, id_of
from digestif.core.verdicts import DeliveryFailed
from digestif.dsn import Dsn
from digestif.testing.channels import COUNTED, FINAL, UNAVAILABLE, UNKNOWN, Expected, a_message, huge
from tests.channels.deliveries import delivered, run_and_close
from tests.channels.gate import gate_to
from tests.channels.receiver import (
    Behaviour,
    Receiver,
    break_off,
    drip,
    never_answer,
    reset,
    running,
    talk_for_ever,
    talk_nonsense,
)

SECRET = "whsec_" + b64encode(b"\xfb\xff" * 16).decode()  # with + and / in it
OTHER = "whsec_" + b64encode(b"o" * 32).decode()
NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def server() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver


@pytest.fixture
def receiver(server: Receiver) -> Receiver:
    server.behaviour = None
    server.requests.clear()
    server.arrived.clear()
    return server


def deliver(receiver: Receiver, message: Message | None = None, **options: Any) -> Receipt:
    channel = WebhookChannel(f"{receiver.url}/hook", secrets=[SECRET], allow_private=True, **options)
    return delivered(channel, message)


def failure(receiver: Receiver, **options: Any) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as failed:
        deliver(receiver, **options)
    return failed.value


# Requests


def test_a_message_is_posted_as_signed_json(receiver: Receiver) -> None:
    receipt = deliver(receiver)

    [request] = receiver.requests
    verified = Webhook(SECRET).verify(request.body, request.headers)
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["webhook-id"] == a_message().key
    assert verified == {
        "type": "digest",
        "timestamp": "2023-11-14T22:13:20.000Z",
        "data": {
            "key": a_message().key,
            "timeline": "mail:ada",
            "recipient": "ada@example.org",
            "subject": "Build 7 failed, and 1 more",
            "text": "Build 7 failed\nBuild 8 failed\n",
            "count": 2,
            "groups": [{"label": "builds", "count": 2}],
        },
    }
    assert receipt == Receipt(channel="webhook", id=a_message().key, detail="200 thank you")


def test_the_id_and_the_body_stay_the_same_over_attempts_and_the_time_of_sending_does_not(receiver: Receiver) -> None:
    times = iter([NOW, NOW, NOW + 60, NOW + 60])
    channel = WebhookChannel(f"{receiver.url}/hook", secrets=[SECRET], allow_private=True, clock=lambda: next(times))

    async def twice() -> Receipt:
        await channel.deliver(a_message())
        return await channel.deliver(a_message(attempt=2))

    run_and_close(channel, twice)

    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 60


def test_one_connection_serves_several_deliveries(receiver: Receiver) -> None:
    channel = WebhookChannel(receiver.url, secrets=[SECRET], allow_private=True)

    async def thrice() -> Receipt:
        await channel.deliver(a_message())
        await channel.deliver(a_message())
        return await channel.deliver(a_message())

    run_and_close(channel, thrice)

    assert len({request.peer for request in receiver.requests}) == 1


@pytest.mark.filterwarnings("ignore:Unclosed client session:ResourceWarning")  # which is true, and all that happens
def test_a_channel_that_was_not_closed_works_on_the_next_loop_too(receiver: Receiver) -> None:
    channel = WebhookChannel(receiver.url, secrets=[SECRET], allow_private=True)
    receiver.answer(200, Connection="close")

    receipts = [asyncio.run(channel.deliver(a_message())), delivered(channel)]

    assert [receipt.channel for receipt in receipts] == ["webhook", "webhook"]


def test_what_is_our_own_in_the_data_is_not_replaced_by_what_the_message_brings() -> None:
    data = msgspec.json.decode(body_of(a_message(data={"key": "forged", "subject": 5, "note": "kept"})))["data"]

    assert data["key"] == a_message().key
    assert data["subject"] == a_message().subject
    assert data["note"] == "kept"


def test_a_huge_message_is_cut_and_says_how_much_is_missing(receiver: Receiver) -> None:
    message = huge(a_message())

    deliver(receiver, message)

    [request] = receiver.requests
    data = Webhook(SECRET).verify(request.body, request.headers)["data"]
    labels = sum(len(subject["label"]) for subject in data["subjects"])
    hidden = (len(message.data["subjects"]) - len(data["subjects"])) * len(message.data["subjects"][0]["label"])
    whole = len(message.text) + sum(len(subject["label"]) for subject in message.data["subjects"])
    assert len(request.body) <= BODY_BYTES
    assert data["truncated"] is True
    assert data["left_out"]["entries"] == len(message.data["subjects"]) - len(data["subjects"])
    assert data["left_out"]["characters"] == whole - hidden - labels - len(data["text"])


def test_a_message_that_can_not_be_cut_into_shape_goes_without_its_data() -> None:
    deep: Any = "x" * 64
    for _ in range(9):
        deep = [deep] * 3

    body = body_of(a_message(data={"deep": deep}, text="t" * 1000))

    data = msgspec.json.decode(body)["data"]
    assert len(body) <= BODY_BYTES
    assert "deep" not in data
    assert data["left_out"] == {"entries": 1, "characters": 1000 - 256}


def test_a_message_that_just_fits_is_sent_whole() -> None:
    spare = BODY_BYTES - len(body_of(a_message(text="")))

    assert len(body_of(a_message(text="x" * spare))) == BODY_BYTES
    assert "truncated" not in msgspec.json.decode(body_of(a_message(text="x" * spare)))["data"]
    assert msgspec.json.decode(body_of(a_message(text="x" * (spare + 1))))["data"]["truncated"]


@pytest.mark.parametrize(
    "value", [object(), {1: object()}, "\ud800", {1, object()}], ids=["object", "inside", "surrogate", "set"]
)
def test_data_that_is_not_json_is_refused_for_good(value: Any) -> None:
    with pytest.raises(DeliveryFailed, match="can't be written as JSON") as failed:
        body_of(a_message(data={"value": value}))

    assert not failed.value.retry


def test_different_keys_have_different_ids_that_headers_can_carry() -> None:
    keys = [
        "d.1",
        "d.1.ada@example.org",
        "d.1.%0D",
        "d.1.\r\nx: y",
        "d.1.ä",
        "d.1. ",
        "d.1.\ud800",
        "k" * 999,
        "k" * 998,
    ]

    ids = [id_of(key) for key in keys]

    assert ids[:2] == keys[:2]
    assert len(set(ids)) == len(keys)
    assert all(text.isascii() and text.isprintable() and " " not in text and len(text) <= 256 for text in ids)


# Answers


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_success(receiver: Receiver, status: int) -> None:
    receiver.answer(status)

    assert deliver(receiver).detail == str(status)


@pytest.mark.parametrize(
    ("status", "verdict", "reason"),
    [
        (401, UNAVAILABLE, "configuration: 127.0.0.1 answered 401: not now"),
        (403, UNAVAILABLE, "configuration: 127.0.0.1 answered 403: not now"),
        (503, UNAVAILABLE, "127.0.0.1 answered 503: not now"),
        (502, UNKNOWN, "127.0.0.1 answered 502: not now"),
        (504, UNKNOWN, "127.0.0.1 answered 504: not now"),
        (429, Expected(throttled=True), "127.0.0.1 answered 429: not now"),
        (410, FINAL, "gone: 127.0.0.1 answered 410: not now"),
        *(
            (status, COUNTED, f"127.0.0.1 answered {status}: not now")
            for status in (400, 402, 404, 405, 408, 409, 413, 415, 422, 425, 451, 500, 501, 505, 599)
        ),
    ],
)
def test_an_answer_has_a_verdict(receiver: Receiver, status: int, verdict: Expected, reason: str) -> None:
    receiver.answer(status, "not now")

    failed = failure(receiver)

    assert Expected.of(failed) == verdict
    assert str(failed) == reason


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_but_can_be_corrected(receiver: Receiver, status: int) -> None:
    receiver.answer(status, Location=f"{receiver.url}/elsewhere")

    failed = failure(receiver)

    assert Expected.of(failed) == COUNTED
    assert "redirects are not followed" in str(failed)
    assert [request.path for request in receiver.requests] == ["/hook"]


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (429, Expected(throttled=True, after=120)),
        (503, Expected(unavailable=True, after=120)),
        (500, Expected(after=120)),
        (502, UNKNOWN),  # the wait grows by itself, so that few are sent twice
    ],
)
def test_a_receiver_that_asks_for_patience_gets_it(receiver: Receiver, status: int, verdict: Expected) -> None:
    receiver.answer(status, Retry_After="120")

    assert Expected.of(failure(receiver)) == verdict


def test_a_date_to_come_back_at_is_understood(receiver: Receiver) -> None:
    receiver.answer(429, Retry_After="Tue, 14 Nov 2023 22:15:00 GMT")

    assert failure(receiver, clock=lambda: NOW).after == 100


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("1e3", None),
        ("nan", None),
        ("٣", None),  # a digit, but none of HTTP's
        ("-5", None),
        ("0", 1),  # being throttled counts as no attempt: "at once" would be a loop
        (" 7 ", 7),
        ("999999999999999", 86400),
        ("Tue, 14 Nov 2023 22:13:19 GMT", 1),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400),
        ("Fri, 99 Dec 99999 23:59:59 GMT", None),
    ],
)
def test_a_wait_is_at_least_a_second_and_at_most_a_day(header: str | None, seconds: float | None) -> None:
    assert wait_of(header, now=NOW) == seconds


# Receivers that misbehave


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (reset, "closed the connection without an answer"),
        (break_off, "broke its answer off"),
        (never_answer, "did not answer within 0.3 s"),
        (drip, "did not answer within 0.3 s"),
        (talk_nonsense, "answered something that is not HTTP"),
    ],
)
def test_after_the_body_was_sent_no_valid_answer_means_that_the_outcome_is_unknown(
    receiver: Receiver, behaviour: Behaviour, reason: str
) -> None:
    receiver.behave(behaviour)

    failed = failure(receiver, timeout=0.3)

    assert len(receiver.requests) == 1  # it did arrive, and no library repeated it
    assert Expected.of(failed) == UNKNOWN
    assert str(failed) == f"127.0.0.1 {reason}"
    assert failed.__context__ is None  # it would show the address


def test_a_receiver_that_talks_for_ever_is_not_listened_to(receiver: Receiver) -> None:
    receiver.behave(talk_for_ever)

    receipt = deliver(receiver, timeout=10)

    assert receipt.detail.startswith("200 blah blah")
    assert len(receipt.detail) <= 4 + 200


def test_what_it_says_is_made_harmless(receiver: Receiver) -> None:
    receiver.answer(500, "\x1b[2J\u202egnp.exe\r\n\x00\u200b tail " + "x" * 500)

    text = str(failure(receiver))

    assert text.isprintable()
    assert "gnp.exe" in text
    assert len(text) <= len("127.0.0.1 answered 500: ") + 200


def test_a_receiver_that_ends_a_kept_connection_on_the_next_message_leaves_the_outcome_unknown(
    receiver: Receiver,
) -> None:
    channel = WebhookChannel(receiver.url, secrets=[SECRET], allow_private=True)

    async def twice() -> Receipt:
        await channel.deliver(a_message())
        receiver.behave(reset)
        return await channel.deliver(a_message())

    with pytest.raises(DeliveryFailed) as failed:
        run_and_close(channel, twice)

    assert Expected.of(failed.value) == UNKNOWN
    assert len(receiver.requests) == 2


def test_silence_before_the_body_could_be_sent_means_that_nothing_was(receiver: Receiver) -> None:
    """The connection is accepted, and its TLS is never answered."""
    with gate_to(receiver.port) as gate, gate.silent():
        channel = WebhookChannel(f"https://127.0.0.1:{gate.port}/", secrets=[SECRET], allow_private=True, timeout=0.3)
        with pytest.raises(DeliveryFailed) as failed:
            delivered(channel)

    assert Expected.of(failed.value) == UNAVAILABLE
    assert str(failed.value) == "127.0.0.1 did not answer within 0.3 s"


def test_a_receiver_without_tls_at_an_address_with_tls_gets_nothing(receiver: Receiver) -> None:
    channel = WebhookChannel(f"https://127.0.0.1:{receiver.port}/", secrets=[SECRET], allow_private=True)

    with pytest.raises(DeliveryFailed, match="can't be connected to") as failed:
        delivered(channel)

    assert Expected.of(failed.value) == UNAVAILABLE


def test_a_missing_receiver_makes_the_channel_unavailable() -> None:
    with running() as receiver:
        pass  # its port is free again

    failed = failure(receiver)

    assert Expected.of(failed) == UNAVAILABLE
    assert "can't be connected to" in str(failed)


def test_a_certificate_of_an_unknown_authority_is_not_trusted() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with running(certificate=context) as receiver:
        failed = failure(receiver)

    assert Expected.of(failed) == UNAVAILABLE
    assert str(failed).startswith("configuration: 127.0.0.1 has a certificate that is not trusted; ca names")
    assert not receiver.requests


# DSNs


def opened(text: str) -> WebhookChannel:
    return from_dsn(Dsn.parse(text))


def test_a_dsn_gives_the_address_as_written_and_all_secrets(receiver: Receiver) -> None:
    query = "a=1%26b%3D%2526"
    channel = opened(
        f"webhook+http://127.0.0.1:{receiver.port}/a%2Fb?secret={SECRET},{OTHER}&query={query}&allow_private=true"
    )

    delivered(channel)

    [request] = receiver.requests
    assert request.path == "/a%2Fb?a=1&b=%26"
    assert Webhook(SECRET).verify(request.body, request.headers)
    assert Webhook(OTHER).verify(request.body, request.headers)


def test_its_name_tells_addresses_apart_and_shows_their_host_only() -> None:
    address = f"webhook+https://receiver.example/hooks/token?secret={SECRET}"
    others = [address.replace("token", "other"), address + "&query=token", address.replace("example", "example:8443")]

    name = opened(address).name

    assert re.fullmatch("webhook\\+https://receiver.example #[0-9a-f]{8}", name)
    assert opened(f"{address},{OTHER}&timeout=5").name == name  # a secret may be changed
    assert len({opened(other).name for other in (address, *others)}) == 4
    assert opened(others[2]).name.startswith("webhook+https://receiver.example:8443 #")


def test_it_shows_where_it_goes_and_no_more() -> None:
    channel = opened(f"webhook+https://receiver.example/hooks/token?secret={SECRET}")

    assert repr(channel) == "WebhookChannel(https://receiver.example/…)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("webhook+https://r.example/", "secret: a webhook needs at least one"),
        ("webhook+https://r.example/?secret=hunter2", "secret: number 1"),
        (f"webhook+https://r.example/?secret={SECRET}&secrets=x", "secrets: no such option .* did you mean secret"),
        (f"webhook+https://r.example/?secret={SECRET}&timeout=soon", "timeout: 'soon' is not a number"),
        (f"webhook+https://r.example/?secret={SECRET}&timeout=0", "timeout: not a number of seconds above 0"),
        (f"webhook+https://r.example/?secret={SECRET}&timeout=nan", "timeout: not a number of seconds above 0"),
        (f"webhook+https://r.example/?secret={SECRET}&allow_private=perhaps", "allow_private: 'perhaps' is neither"),
        (f"webhook+https://10.0.0.1/?secret={SECRET}", "10.0.0.1 is not a public address"),
        (f"webhook+http://r.example/?secret={SECRET}", "add allow_private=yes, or use webhook"),
        (f"webhook+https://?secret={SECRET}", "url: not an address such as"),
        (f"webhook+https://r.example:port/?secret={SECRET}", "url: not an address such as"),
        (f"webhook+https://ada:pw@r.example/?secret={SECRET}", "no user, no password"),
    ],
)
def test_a_wrong_dsn_says_what_is_wrong_and_shows_no_secret(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        opened(text)

    assert SECRET not in str(refused.value)
    assert "hunter2" not in str(refused.value)
