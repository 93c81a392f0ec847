"""Mail to a real server: deliveries, connections, TLS and secrets."""

import asyncio
import email
import email.policy
import logging
import ssl
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import trustme

from digestif.channels.base import Channel
from digestif.channels.registry import open_channel
from digestif.channels.smtp import SmtpChannel
from digestif.channels.smtp_failures import REPLY_LENGTH
from digestif.testing.channels import UNAVAILABLE, ChannelConformance, Expected, Failing, Failure
from tests.channels.deliveries import message
from tests.channels.gate import Gate, gate_to
from tests.channels.mailserver import (
    HOST,
    PASSWORD,
    USER,
    MailServer,
    deliver_once,
    fail_once,
    failure,
    mail_server,
    run,
    running_mail_server,
)

pytestmark = pytest.mark.long

LOGIN = f"{USER}:{PASSWORD}@"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates for `localhost` and 127.0.0.1, and the file to trust."""
    folder = tmp_path_factory.mktemp("certificates")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    ca.issue_cert("localhost", HOST).private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return folder


@pytest.fixture
def server_tls(authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem")
    return context


# Delivering


def test_a_mail_arrives_as_it_was_built_and_the_receipt_says_what_the_server_calls_it() -> None:
    async def scene() -> None:
        async with mail_server() as server:
            assert await deliver_once(server.dsn()) == "Q1"

        arrived = email.message_from_bytes(server.mails[0], policy=email.policy.default)
        body = arrived.get_body(("plain",))
        assert server.envelopes == [("digests@example.org", ["ada@example.org"])]
        assert (arrived["Subject"], arrived["To"]) == ("Build 1 failed", "ada@example.org")
        assert body is not None
        assert body.get_content() == "Build 1 failed.\r\n"

    run(scene)


def test_lines_of_dots_and_words_that_look_like_commands_arrive_unharmed() -> None:
    text = ".\n..\n.x\nFrom here\nQUIT\n\n.\n"

    async def scene() -> None:
        async with mail_server() as server:
            await deliver_once(server.dsn(), message(text=text, html=""))

        arrived = email.message_from_bytes(server.mails[0], policy=email.policy.default)
        assert arrived.get_content() == text.replace("\n", "\r\n")

    run(scene)


@pytest.mark.parametrize("host", ["localhost", HOST])
def test_starttls_and_a_login(server_tls: ssl.SSLContext, authority: Path, host: str) -> None:
    async def scene() -> None:
        async with mail_server(tls=server_tls, login=True) as server:
            dsn = server.dsn(f"&tls=starttls&ca={authority / 'ca.pem'}", login=LOGIN, host=host)
            assert await deliver_once(dsn) == "Q1"
            assert server.logins

    run(scene)


def test_tls_from_the_start_and_a_login(server_tls: ssl.SSLContext, authority: Path) -> None:
    async def scene() -> None:
        async with mail_server(tls=server_tls, from_start=True, login=True) as server:
            assert await deliver_once(server.dsn(f"&ca={authority / 'ca.pem'}", scheme="smtps", login=LOGIN)) == "Q1"
            assert server.logins

    run(scene)


# Connections


def test_mails_one_after_the_other_share_a_connection_and_close_says_goodbye() -> None:
    async def scene() -> None:
        async with mail_server() as server:
            channel = open_channel(server.dsn())
            for number in range(5):
                await channel.deliver(message(number))
            await channel.close()

            assert len(server.connections) == 1
            assert server.commands[-2:] == ["DATA", "QUIT"]

    run(scene)


def test_mails_at_once_share_two_connections() -> None:
    async def scene() -> None:
        async with mail_server() as server:
            channel = open_channel(server.dsn())
            await asyncio.gather(*(channel.deliver(message(number)) for number in range(12)))
            await channel.close()

            assert (len(server.mails), len(server.connections)) == (12, 2)

    run(scene)


def test_a_kept_connection_that_died_is_replaced_and_the_mail_goes_once() -> None:
    async def scene() -> None:
        async with mail_server() as server:
            channel = open_channel(server.dsn())
            await channel.deliver(message(1))
            server.hang_up()
            await channel.deliver(message(2))
            await channel.close()

            assert (len(server.mails), len(server.connections)) == (2, 2)

    run(scene)


def test_a_kept_connection_of_which_the_server_has_had_enough_is_replaced() -> None:
    async def scene() -> None:
        async with mail_server() as server:
            channel = open_channel(server.dsn())
            await channel.deliver(message(1))
            server.answers_once["MAIL"] = "421 4.7.0 Too many mails on this connection"
            await channel.deliver(message(2))
            await channel.close()

            assert (len(server.mails), len(server.connections)) == (2, 2)

    run(scene)


def test_a_connection_serves_on_after_a_refused_recipient() -> None:
    async def scene() -> None:
        async with mail_server() as server:
            channel = open_channel(server.dsn())
            server.answers["RCPT"] = "550 5.1.1 no such user"
            await failure(channel)
            server.answers.clear()
            await channel.deliver(message(2))
            await channel.close()

            assert (len(server.mails), len(server.connections)) == (1, 1)

    run(scene)


def test_a_delivery_that_is_cancelled_leaves_no_connection_in_the_middle_of_something() -> None:
    async def scene() -> None:
        reached = asyncio.Event()

        async def hang(_: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        async with mail_server() as server:
            channel = open_channel(server.dsn("&connections=1"))
            server.before_data = hang
            first = asyncio.create_task(channel.deliver(message(1)))
            await reached.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            server.before_data = None
            receipt = await channel.deliver(message(2))
            await channel.close()

            assert receipt.id == "Q1"
            assert len(server.connections) == 2

    run(scene)


def test_a_connection_that_is_ended_is_let_go_of_at_once_also_over_tls(
    server_tls: ssl.SSLContext, authority: Path
) -> None:
    """Although the event loop ends right afterwards."""

    async def scene() -> None:
        async with mail_server(tls=server_tls, login=True) as server:
            channel = open_channel(server.dsn(f"&tls=starttls&ca={authority / 'ca.pem'}", login=LOGIN))
            assert isinstance(channel, SmtpChannel)
            await channel.deliver(message())
            [kept] = channel._kept
            assert kept.transport is not None
            socket = kept.transport.get_extra_info("socket")

            kept.close()
            await asyncio.sleep(0)

            assert socket.fileno() == -1
            await channel.close()

    run(scene)


def test_after_close_it_may_be_used_again_also_on_another_event_loop() -> None:
    channels: list[SmtpChannel] = []

    async def scene() -> None:
        async with mail_server() as server:
            if not channels:
                channel = open_channel(server.dsn())
                assert isinstance(channel, SmtpChannel)
                channels.append(channel)
            object.__setattr__(channels[0].server, "port", server.port)
            await asyncio.gather(*(channels[0].deliver(message(number)) for number in range(5)))
            await channels[0].close()
            await channels[0].deliver(message(6))
            await channels[0].close()

            assert len(server.mails) == 6

    run(scene)
    run(scene)


# TLS and secrets


def test_a_wrong_password_is_a_matter_of_configuration(server_tls: ssl.SSLContext, authority: Path) -> None:
    async def scene() -> None:
        async with mail_server(tls=server_tls, login=True) as server:
            failed = await fail_once(server.dsn(f"&tls=starttls&ca={authority / 'ca.pem'}", login="ada:wrong-one@"))

        assert Expected.of(failed) == UNAVAILABLE
        assert str(failed).startswith("configuration:")
        assert "refuses the user or the password: 535" in str(failed)
        assert server.commands == []

    run(scene)


@pytest.mark.parametrize("login", ["", LOGIN])
def test_without_starttls_nothing_is_sent(login: str) -> None:
    async def scene() -> None:
        async with mail_server() as server:
            failed = await fail_once(server.dsn("&tls=starttls", login=login))

        assert Expected.of(failed) == UNAVAILABLE
        assert str(failed).startswith("configuration:")
        assert "STARTTLS" in str(failed)
        assert (server.commands, server.logins) == ([], [])

    run(scene)


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_an_untrusted_certificate_ends_the_delivery_unless_verify_is_no(
    server_tls: ssl.SSLContext, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = "&tls=starttls" if scheme == "smtp" else ""

    async def scene() -> None:
        async with mail_server(tls=server_tls, from_start=scheme == "smtps") as server:
            failed = await fail_once(server.dsn(options, scheme=scheme))
            assert server.mails == []
            assert await deliver_once(server.dsn(f"{options}&verify=no", scheme=scheme)) == "Q1"

        assert Expected.of(failed) == UNAVAILABLE
        assert str(failed).startswith("configuration: the certificate of")

    run(scene)


def test_a_name_that_is_not_in_the_certificate_ends_it(authority: Path, tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    elsewhere = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("elsewhere.example.org").configure_cert(elsewhere)

    async def scene() -> None:
        async with mail_server(tls=elsewhere) as server:
            failed = await fail_once(server.dsn(f"&tls=starttls&ca={tmp_path / 'ca.pem'}"))

        assert "configuration: the certificate of" in str(failed)

    run(scene)


def test_no_reason_log_or_traceback_shows_the_password_or_the_mail(
    server_tls: ssl.SSLContext, authority: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if the server repeats what it was sent."""
    secret = "s3cr3t-w0rd"
    caplog.set_level(logging.DEBUG)
    body = "private " * 200

    async def scene() -> None:
        async with mail_server(tls=server_tls, login=True) as server:
            dsn = server.dsn(f"&tls=starttls&ca={authority / 'ca.pem'}", login=f"ada:{secret}@")
            server.answers["AUTH"] = f"535 5.7.8 bad password {secret} AGFkYQBzM2NyM3QtdzByZA=="
            refused = await fail_once(dsn)
        async with mail_server() as server:
            server.answers["DATA"] = f"554 {body[:450]}"
            echoed = await fail_once(server.dsn(), message(text=body))
        channel = open_channel(dsn)

        assert (refused.__context__, echoed.__context__) == (None, None)
        shown = "".join(map("".join, map(traceback.format_exception, (refused, echoed))))
        logged = "".join(record.getMessage() for record in caplog.records if record.name != "mail.log")  # the server's
        for text in (shown, logged, repr(channel), repr(vars(channel)), repr(refused), repr(echoed)):
            assert secret not in text
            assert "AGFkYQBzM2NyM3QtdzByZA==" not in text
        assert "535 5.7.8 bad password … …" in str(refused)
        assert len(str(echoed)) < REPLY_LENGTH + 100

    run(scene)


# The suite


@pytest.fixture(scope="module")
def server(authority: Path) -> Iterator[MailServer]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority / "server.pem")
    with running_mail_server(tls=tls, login=True) as server:
        yield server


@pytest.fixture(scope="module")
def gate(server: MailServer) -> Iterator[Gate]:
    with gate_to(server.port) as gate:
        yield gate


class TestSuite(ChannelConformance):
    supports = frozenset(Failure) - {Failure.BUSY, Failure.GATEWAY}  # SMTP names no time to wait, and has no gateways

    @pytest.fixture
    def channel(self, server: MailServer, gate: Gate, authority: Path) -> Channel:
        options = f"&tls=starttls&ca={authority / 'ca.pem'}&timeout=1"
        return open_channel(server.dsn(options, login=LOGIN, port=gate.port))

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    @pytest.fixture
    def failing(self, server: MailServer, gate: Gate) -> Failing:
        return lambda failure: misbehaving(server, gate, failure)


@contextmanager
def misbehaving(server: MailServer, gate: Gate, failure: Failure) -> Iterator[None]:
    async def hang_up(connection: Any) -> None:
        connection.transport.abort()

    async def hang(connection: Any) -> None:
        await asyncio.Event().wait()

    gate.hang_up()  # else a kept connection would need no log-in
    server.before_data = {Failure.LOST: hang_up, Failure.TIMED_OUT: hang}.get(failure)
    server.answers |= {
        Failure.REFUSED_LOGIN: {"AUTH": f"535 not you, {PASSWORD}"},
        Failure.TROUBLE: {"MAIL": f"421 not now, {PASSWORD}"},
        Failure.GREYLISTED: {"RCPT": f"450 not yet, {PASSWORD}"},
        Failure.REFUSED: {"DATA": f"554 no, {PASSWORD}"},
        Failure.GONE: {"RCPT": f"550 nobody here, {PASSWORD}"},
    }.get(failure, {})
    if failure is Failure.UNREACHABLE:
        way: AbstractContextManager[None] = gate.shut()
    else:
        way = gate.silent() if failure is Failure.SILENT else nullcontext()
    with way:
        yield
    server.before_data = None
    server.answers.clear()
