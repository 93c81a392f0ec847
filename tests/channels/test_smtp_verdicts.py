"""What each reply and each silence of a mail server means for the digest and for the channel."""

import asyncio
import email
import email.policy
import socket
from typing import Any

import pytest

from digestif.channels.base import DeliveryFailed
from digestif.channels.registry import open_channel
from digestif.testing.channels import COUNTED, FINAL, UNAVAILABLE, UNKNOWN, Expected
from tests.channels.deliveries import message
from tests.channels.mailserver import (
    HOST,
    PASSWORD,
    RESET,
    SILENCE,
    USER,
    MailServer,
    deliver_once,
    fail_once,
    failure,
    mail_server,
    run,
    scripted_server,
    staged_server,
)

LOGIN = f"{USER}:{PASSWORD}@"
LATER = Expected(throttled=True)


@pytest.mark.parametrize(
    ("stage", "reply", "verdict", "reason"),
    [
        # Before the envelope all is about us, and so about every mail.
        ("greeting", "421 4.7.0 too many connections", UNAVAILABLE, "can't take it now: 421 4.7.0"),
        ("greeting", "554 go away", UNAVAILABLE, "refuses to serve us: 554 go away"),
        ("greeting", "HTTP/1.1 400 Bad Request", UNAVAILABLE, "refuses to serve us"),
        ("greeting", SILENCE, UNAVAILABLE, "did not answer within"),
        ("greeting", RESET, UNAVAILABLE, "can't be reached"),
        ("EHLO", "421 shutting down", UNAVAILABLE, "421 shutting down"),
        ("EHLO", SILENCE, UNAVAILABLE, "did not answer within"),
        ("EHLO", RESET, UNAVAILABLE, "ended the connection before it answered"),
        ("AUTH", "535 5.7.8 wrong", UNAVAILABLE, "^configuration: .* refuses the user or the password: 535"),
        ("AUTH", "454 4.7.0 temporary authentication failure", UNAVAILABLE, "can't take it now: 454"),
        ("AUTH", SILENCE, UNAVAILABLE, "did not answer within"),
        ("MAIL", "451 local error in processing", UNAVAILABLE, "can't take it now: 451"),
        ("MAIL", "452 4.3.1 insufficient storage", UNAVAILABLE, "452"),
        ("MAIL", "421 4.7.0 Rate limit exceeded", UNAVAILABLE, "421"),
        ("MAIL", "550 5.7.1 not your domain", UNAVAILABLE, "^configuration: .* refuses the sender: 550"),
        ("MAIL", "530 5.7.0 log in first", UNAVAILABLE, "^configuration: .* wants a user and a password"),
        ("MAIL", "552 5.3.4 too big", COUNTED, "finds the mail too large"),
        ("MAIL", SILENCE, UNAVAILABLE, "did not answer within"),
        ("MAIL", RESET, UNAVAILABLE, "ended the connection"),
        # The recipient is this digest's.
        ("RCPT", "550 5.1.1 no such user", FINAL, "refuses the recipient: 550 5.1.1 no such user"),
        ("RCPT", "553 bad mailbox", FINAL, "refuses the recipient"),
        ("RCPT", "552 5.2.2 mailbox full", FINAL, "refuses the recipient"),
        ("RCPT", "450 4.2.0 mailbox busy", LATER, "can't take it now: 450"),
        ("RCPT", "451 4.7.1 greylisted", LATER, "451"),
        ("RCPT", "452 4.2.2 mailbox full", LATER, "452"),
        ("RCPT", "421 4.3.2 too many", UNAVAILABLE, "421"),
        ("RCPT", "252 who knows", UNAVAILABLE, "refuses to serve us: 252"),
        ("RCPT", SILENCE, UNAVAILABLE, "did not answer within"),
        ("RCPT", RESET, UNAVAILABLE, "ended the connection"),
        *(
            (("RCPT", f"{code} 5.7.0 log in", UNAVAILABLE, "^configuration: .* wants a"))
            for code in (530, 534, 535, 538)
        ),
        # The mail was announced, and not sent yet.
        ("DATA", "554 5.5.1 no", COUNTED, "refuses the mail: 554"),
        ("DATA", "451 not now", LATER, "can't take it now: 451"),
        ("DATA", "421 closing", LATER, "421"),
        ("DATA", "530 5.7.0 log in first", UNAVAILABLE, "^configuration:"),
        ("DATA", "250 what", UNAVAILABLE, "refuses to serve us: 250"),
        ("DATA", SILENCE, UNAVAILABLE, "did not answer within"),
        ("DATA", RESET, UNAVAILABLE, "ended the connection before it answered"),
        # The mail was sent.
        ("body", "554 5.7.1 looks like spam", COUNTED, "refuses the mail: 554"),
        ("body", "552 5.3.4 too big", COUNTED, "finds the mail too large"),
        ("body", "535 5.7.8 no", COUNTED, "refuses the mail: 535"),
        ("body", "451 try again later", LATER, "can't take it now: 451"),
        ("body", "432 rate", LATER, "432"),
        ("body", "421 shutting down", LATER, "421"),
        ("body", "354 go on", UNKNOWN, "354"),
        ("body", "what?", UNKNOWN, "what"),
        ("body", SILENCE, UNKNOWN, "did not answer within"),
        ("body", RESET, UNKNOWN, "ended the connection before it answered"),
    ],
)
def test_a_reply_has_a_verdict(stage: str, reply: str, verdict: Expected, reason: str) -> None:
    timeout = "&timeout=0.3" if reply == SILENCE else ""

    async def scene() -> None:
        async with staged_server(**{stage: reply}) as server:
            failed = await fail_once(server.dsn(timeout, login=LOGIN))

        assert Expected.of(failed) == verdict
        with pytest.raises(DeliveryFailed, match=reason):
            raise failed

    run(scene)


@pytest.mark.parametrize("reply", ["502 what", "554 not you"])
def test_a_server_that_refuses_to_be_greeted_serves_no_mail(reply: str) -> None:
    async def scene() -> None:
        async with staged_server(EHLO=reply, HELO=reply) as server:
            failed = await fail_once(server.dsn())

        assert Expected.of(failed) == UNAVAILABLE
        assert f"refuses to serve us: {reply}" in str(failed)

    run(scene)


def test_every_answer_that_begins_with_2_means_that_the_mail_was_taken() -> None:
    async def scene() -> None:
        async with staged_server(body="259 fine, queued as Q7") as server:
            assert await deliver_once(server.dsn()) == "Q7"

    run(scene)


@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("reply", [RESET, "421 4.4.2 idle for too long"])
def test_a_kept_connection_that_ends_before_the_mail_is_replaced_and_a_second_failure_is_told(
    stage: str, reply: str
) -> None:
    async def scene() -> None:
        script: dict[str, str] = {}
        async with staged_server(script) as server:
            channel = open_channel(server.dsn())
            await channel.deliver(message(1))
            script[stage] = reply
            failed = await failure(channel, message(2))
            await channel.close()

        assert server.commands.count(stage) == 3
        assert server.commands.count("body") == 1
        assert not failed.unknown

    run(scene)


def test_a_kept_connection_that_ends_after_the_mail_is_not_replaced() -> None:
    async def scene() -> None:
        script: dict[str, str] = {}
        async with staged_server(script) as server:
            channel = open_channel(server.dsn())
            await channel.deliver(message(1))
            script["body"] = RESET
            failed = await failure(channel, message(2))
            await channel.close()

        assert Expected.of(failed) == UNKNOWN
        assert server.commands.count("body") == 2

    run(scene)


def test_a_server_that_hangs_up_after_the_body_gets_the_same_mail_again() -> None:
    seen: list[str] = []

    async def scene() -> None:
        async def hang_up(connection: Any) -> None:
            seen.append(message_id_of(connection.envelope.content))
            connection.transport.abort()

        async with mail_server() as server:
            server.before_data = hang_up
            failed = await fail_once(server.dsn())
            server.before_data = None
            await deliver_once(server.dsn(), message(attempt=2))
            seen.append(message_id_of(server.mails[-1]))

        assert Expected.of(failed) == UNKNOWN
        assert "ended the connection" in str(failed)
        assert len(server.connections) == 2  # nothing was tried again behind the policy's back
        assert seen[0] == seen[1]

    run(scene)


def message_id_of(mail: bytes) -> str:
    return str(email.message_from_bytes(mail)["Message-ID"])


def test_a_server_that_does_not_answer_in_time() -> None:
    async def scene() -> None:
        async def hang(_: Any) -> None:
            await asyncio.Event().wait()

        async with mail_server() as server:
            channel = open_channel(server.dsn("&timeout=0.5&connections=1"))
            server.before_data = hang
            failed = await failure(channel)
            server.before_data = None
            receipt = await channel.deliver(message())
            await channel.close()

        assert Expected.of(failed) == UNKNOWN
        assert "did not answer within 0.5 s" in str(failed)
        assert receipt.id == "Q1"

    run(scene)


def test_a_port_without_a_server() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))

        async def scene() -> None:
            failed = await fail_once(MailServer(port=taken.getsockname()[1]).dsn())

            assert Expected.of(failed) == UNAVAILABLE
            assert str(failed).endswith("can't be reached: Connection refused")

        run(scene)


def test_a_name_that_can_not_be_resolved() -> None:
    async def scene() -> None:
        failed = await fail_once("smtp://nobody.invalid:25?from=digests@example.org&tls=none")

        assert Expected.of(failed) == UNAVAILABLE
        assert "can't be reached" in str(failed)

    run(scene)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "can't be reached"),
        ([b"220 hello"], "ended the connection"),
        ([b"220 hello", b"250-hello\r\n250 STARTTLS", b"454 4.7.0 TLS not available"], "454"),
        ([b"220 hello", b"250-hello\r\n250 STARTTLS", b"220 go ahead"], "ended the connection"),
    ],
)
def test_a_server_that_does_not_get_as_far_as_a_mail(lines: list[bytes], reason: str) -> None:
    async def scene() -> None:
        async with scripted_server(*lines) as server:
            failed = await fail_once(server.dsn("&tls=starttls"))

        assert Expected.of(failed) == UNAVAILABLE
        with pytest.raises(DeliveryFailed, match=reason):
            raise failed

    run(scene)
