"""What each refusal or failure of a mail server means for the digest."""

import asyncio
import email
import email.policy
import socket
from typing import Any

import pytest

from digestif.channels.base import DeliveryFailed
from digestif.channels.registry import open_channel
from tests.channels.deliveries import message
from tests.channels.mailserver import (
    HOST,
    MailServer,
    deliver_once,
    fail_once,
    failure,
    mail_server,
    run,
    scripted_server,
)

AGAIN, NEVER, PATIENCE = (True, False), (False, False), (True, True)


@pytest.mark.parametrize(
    ("command", "reply", "verdict", "reason"),
    [
        ("RCPT", "550 5.1.1 no such user", NEVER, "refuses the recipient: 550 5.1.1 no such user"),
        ("RCPT", "553 bad mailbox", NEVER, "refuses the recipient"),
        ("RCPT", "530 5.7.0 Authentication required", AGAIN, "configuration:"),
        ("RCPT", "450 4.2.0 mailbox busy", AGAIN, "can't take it now: 450"),
        ("RCPT", "452 4.2.2 mailbox full", AGAIN, "452"),
        ("RCPT", "450 4.2.1 receiving mail too quickly", PATIENCE, "450"),
        ("RCPT", "452 4.5.3 too many recipients", PATIENCE, "452"),
        ("RCPT", "451 4.7.1 greylisted", PATIENCE, "451"),
        ("MAIL", "550 5.7.1 not your domain", AGAIN, "configuration: .* refuses the sender: 550"),
        ("MAIL", "530 5.7.0 log in first", AGAIN, "configuration: .* wants a user and a password"),
        ("MAIL", "552 5.3.4 too big", NEVER, "too large"),
        ("MAIL", "451 local error in processing", AGAIN, "451"),
        ("MAIL", "421 4.7.0 Rate limit exceeded", PATIENCE, "421"),
        ("MAIL", "421 shutting down", AGAIN, "421"),
        ("DATA", "554 5.7.1 looks like spam", NEVER, "refuses the mail: 554"),
        ("DATA", "552 5.3.4 too big", NEVER, "too large"),
        ("DATA", "451 try again later", AGAIN, "451"),
        ("DATA", "451 Rate exceeded", PATIENCE, "451"),
        ("DATA", "450 Too many messages", PATIENCE, "450"),
        ("DATA", "432 rate", AGAIN, "432"),
    ],
)
def test_an_answer_has_a_verdict(command: str, reply: str, verdict: tuple[bool, bool], reason: str) -> None:
    async def scene() -> None:
        async with mail_server() as server:
            server.answers[command] = reply
            failed = await fail_once(server.dsn())

        assert (failed.retry, failed.throttled) == verdict
        assert failed.after is None
        with pytest.raises(DeliveryFailed, match=reason):
            raise failed

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

        assert (failed.retry, failed.throttled) == (True, False)
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

        assert failed.retry
        assert "did not answer within 0.5 s" in str(failed)
        assert receipt.id == "Q1"

    run(scene)


def test_a_port_without_a_server() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))

        async def scene() -> None:
            failed = await fail_once(MailServer(port=taken.getsockname()[1]).dsn())

            assert failed.retry
            assert str(failed).endswith("can't be reached: Connection refused")

        run(scene)


@pytest.mark.parametrize(
    ("lines", "throttled", "reason"),
    [
        ([b"554 go away"], False, "refuses to serve us: 554 go away"),
        ([b"421 4.7.0 too many connections"], True, "421"),
        ([b"HTTP/1.1 400 Bad Request"], False, "refuses to serve us"),
        ([], False, "can't be reached"),
        ([b"220 hello"], False, "ended the connection"),
        ([b"220 hello", b"250-hello\r\n250 STARTTLS", b"454 4.7.0 TLS not available"], False, "454"),
        ([b"220 hello", b"250-hello\r\n250 STARTTLS", b"220 go ahead"], False, "ended the connection"),
    ],
)
def test_a_server_that_does_not_get_as_far_as_a_mail(lines: list[bytes], throttled: bool, reason: str) -> None:
    async def scene() -> None:
        async with scripted_server(*lines) as server:
            failed = await fail_once(server.dsn("&tls=starttls"))

        assert (failed.retry, failed.throttled) == (True, throttled)
        with pytest.raises(DeliveryFailed, match=reason):
            raise failed

    run(scene)
