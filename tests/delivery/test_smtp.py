"""Mail goes to a real server, and every way in which that can fail has a verdict."""

import asyncio
import email
import email.policy
import logging
import socket
import ssl
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from digestif import ConfigError
from digestif.delivery.channel import Channel, DeliveryFailed, Message
from digestif.delivery.opening import open_channel
from digestif.delivery.smtp import REPLY_LENGTH, SmtpChannel
from digestif.testing.channels import ChannelConformance, Failing, Failure
from tests.delivery.mailserver import (
    HOST,
    PASSWORD,
    USER,
    MailServer,
    mail_server,
    message,
    running_mail_server,
    scripted_server,
)

LOGIN = f"{USER}:{PASSWORD}@"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of `localhost` and 127.0.0.1, and the file that one has to trust."""
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


def run(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 20))


async def failure(channel: Channel, mail: Message | None = None) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as caught:
        await channel.deliver(mail or message())
    return caught.value


async def deliver_once(dsn: str, mail: Message | None = None) -> str:
    channel = open_channel(dsn)
    try:
        return (await channel.deliver(mail or message())).id
    finally:
        await channel.close()


async def fail_once(dsn: str, mail: Message | None = None) -> DeliveryFailed:
    channel = open_channel(dsn)
    try:
        return await failure(channel, mail)
    finally:
        await channel.close()


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


# Verdicts

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


def test_a_wrong_password_is_a_matter_of_configuration(server_tls: ssl.SSLContext, authority: Path) -> None:
    async def scene() -> None:
        async with mail_server(tls=server_tls, login=True) as server:
            failed = await fail_once(server.dsn(f"&tls=starttls&ca={authority / 'ca.pem'}", login="ada:wrong-one@"))

        assert failed.retry
        assert "configuration:" in str(failed)
        assert "refuses the user or the password: 535" in str(failed)
        assert server.commands == []

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


def test_a_port_where_nobody_listens() -> None:
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


# TLS and secrets


@pytest.mark.parametrize("login", ["", LOGIN])
def test_without_starttls_nothing_is_sent(login: str) -> None:
    async def scene() -> None:
        async with mail_server() as server:
            failed = await fail_once(server.dsn("&tls=starttls", login=login))

        assert failed.retry
        assert "configuration:" in str(failed)
        assert "STARTTLS" in str(failed)
        assert (server.commands, server.logins) == ([], [])

    run(scene)


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
def test_a_certificate_that_nobody_vouches_for_ends_it_unless_that_was_asked_for(
    server_tls: ssl.SSLContext, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = "&tls=starttls" if scheme == "smtp" else ""

    async def scene() -> None:
        async with mail_server(tls=server_tls, from_start=scheme == "smtps") as server:
            failed = await fail_once(server.dsn(options, scheme=scheme))
            assert server.mails == []
            assert await deliver_once(server.dsn(f"{options}&verify=no", scheme=scheme)) == "Q1"

        assert failed.retry
        assert "the certificate of" in str(failed)

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


# Recipients


@pytest.mark.parametrize(
    "recipient",
    [
        "",
        "ada",
        "@example.org",
        "ada@",
        "ada@example.org, bob@example.org",
        "ada@example.org bob@example.org",
        "ada@example.org;bob@example.org",
        "Ada <ada@example.org>",
        "<ada@example.org>",
        "ada@example.org\r\nBcc: bob@example.org",
        "ada@example.org\n",
        "ada\0@example.org",
        "ada@exam\tple.org",
        "ada@example..org",
        "ada@example.org.",
        "a..da@example.org",
        '"ada bob"@example.org',
        "ada@-example.org",
        "ada@example.org> SIZE=1",
        "äda@example.org",
        "ada@[127.0.0.1]",
        "=?utf-8?q?ada=0a?=@example.org",
        f"{'a' * 65}@example.org",
        f"ada@{'a.' * 130}org",
        "ada@\ud800.org",
    ],
)
def test_a_recipient_that_is_not_exactly_one_address_is_refused_for_good(recipient: str) -> None:
    async def scene() -> None:
        failed = await fail_once("smtp://localhost:1?from=digests@example.org", message(recipient=recipient))

        assert not failed.retry
        assert "recipient: " in str(failed)

    run(scene)


@pytest.mark.parametrize(
    ("recipient", "sent_to"),
    [
        ("ada+digests@example.org", "ada+digests@example.org"),
        ("ada@localhost", "ada@localhost"),
        ("o'hara=x@example.org", "o'hara=x@example.org"),
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
    ],
)
def test_a_recipient_that_is_one_address_is_written_to(recipient: str, sent_to: str) -> None:
    async def scene() -> None:
        async with mail_server() as server:
            await deliver_once(server.dsn(), message(recipient=recipient))

        assert server.envelopes[0][1] == [sent_to]

    run(scene)


# DSNs


@pytest.mark.parametrize(
    ("dsn", "complaint"),
    [
        ("smtp://localhost", "from: smtp:// needs an address"),
        ("smtp://localhost?from=ada", "from: 'ada' is not an address"),
        ("smtp://localhost?from=a@b.c,d@e.f", "from: "),
        ("smtp://localhost?form=a@b.c", "form: no such option.*did you mean from"),
        ("smtp://localhost?from=a@b.c&reply_to=x", "reply_to: 'x'"),
        ("smtp://localhost?from=a@b.c&tls=maybe", "tls: 'maybe' is neither"),
        ("smtps://localhost?from=a@b.c&tls=none", "tls: smtps:// has TLS"),
        ("smtp://ada:pw@mail.example.org?from=a@b.c&tls=none", "tls: a password is not sent"),
        ("smtp://localhost?from=a@b.c&verify=no", "only for TLS"),
        ("smtps://localhost?from=a@b.c&verify=maybe", "verify: 'maybe'"),
        ("smtps://localhost?from=a@b.c&ca=nowhere.pem", "ca: there is no file"),
        ("smtp://localhost?from=a@b.c&timeout=0", "timeout: '0'"),
        ("smtp://localhost?from=a@b.c&timeout=soon", "timeout: 'soon'"),
        ("smtp://localhost?from=a@b.c&connections=0", "connections: '0'"),
        ("smtp://localhost?from=a@b.c&connections=many", "connections: 'many'"),
        ("smtp://localhost?from=a@b.c&unsubscribe=javascript:x", "unsubscribe: "),
        ("smtp://localhost?from=a@b.c&unsubscribe=https://x/{who}", "unsubscribe: {who} is not known"),
        ("smtp://localhost:0?from=a@b.c", "a port is a number"),
        ("smtp://localhost:99999?from=a@b.c", "a port is a number"),
        ("smtp://?from=a@b.c", "that is not user:password@host:port"),
        ("smtp://host/path?from=a@b.c", "that is not user:password@host:port"),
    ],
)
def test_a_wrong_dsn_is_a_config_error_that_names_the_field(dsn: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        open_channel(dsn)


@pytest.mark.parametrize(
    "dsn",
    [
        "smtp://ada:pass?word@host?from=a@b.c",
        "smtp://ada:pass?from=word@host?from=a@b.c",
        "smtp://ada:pass/word?from=a@b.c",
        "smtp://ada:password?from=a@b.c",
        "smtp://ada:password@ho st?from=a@b.c",
        "smtp://ada:password@mail.example.org?from=a@b.c&tls=none",
    ],
)
def test_no_complaint_shows_a_password(dsn: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_channel(dsn)

    assert "word@" not in str(caught.value).replace("user:password@host", "")
    assert "pass/word" not in str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("smtp://mail.example.org?from=a@b.c", ("mail.example.org", 587, "starttls", "", "")),
        ("smtps://mail.example.org?from=a@b.c", ("mail.example.org", 465, "smtps", "", "")),
        ("smtp://localhost:25?from=a@b.c", ("localhost", 25, "none", "", "")),
        ("smtp://[::1]:2525?from=a@b.c", ("::1", 2525, "none", "", "")),
        ("smtp://[2001:db8::1]/?from=a@b.c", ("2001:db8::1", 587, "starttls", "", "")),
        ("smtp://10.0.0.1?from=a@b.c&tls=none", ("10.0.0.1", 587, "none", "", "")),
        ("smtp://ada%40x.org:p%3A%40%2F%3F@h?from=a@b.c", ("h", 587, "starttls", "ada@x.org", "p:@/?")),
        ("smtp://ada@x.org:pw@h:26?from=a@b.c", ("h", 26, "starttls", "ada@x.org", "pw")),
    ],
)
def test_what_a_dsn_says_about_the_server(dsn: str, expected: tuple[str, int, str, str, str]) -> None:
    channel = open_channel(dsn)

    assert isinstance(channel, SmtpChannel)
    server = channel.server
    assert (server.host, server.port, server.tls.value, server.user, server.password.reveal()) == expected


def test_addresses_in_a_dsn_may_have_names_and_pluses() -> None:
    channel = open_channel("smtp://h?from=The%20Digests%20<ada+x@b.c>&reply_to=bob+y@b.c")

    assert isinstance(channel, SmtpChannel)
    sender, reply_to = channel.letterhead.sender, channel.letterhead.reply_to
    assert (sender.name, str(sender), str(reply_to)) == ("The Digests", "ada+x@b.c", "bob+y@b.c")


# The suite


@pytest.fixture(scope="module")
def server(authority: Path) -> Iterator[MailServer]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority / "server.pem")
    with running_mail_server(tls=tls, login=True) as server:
        yield server


class TestSuite(ChannelConformance):
    supports = frozenset({Failure.LOST, Failure.TROUBLE, Failure.REFUSED, Failure.GONE})

    @pytest.fixture
    def channel(self, server: MailServer, authority: Path) -> Channel:
        return open_channel(server.dsn(f"&tls=starttls&ca={authority / 'ca.pem'}", login=LOGIN))

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        return [PASSWORD]

    @pytest.fixture
    def failing(self, server: MailServer) -> Failing:
        return lambda failure: misbehaving(server, failure)


@contextmanager
def misbehaving(server: MailServer, failure: Failure) -> Iterator[None]:
    async def hang_up(connection: Any) -> None:
        connection.transport.abort()

    server.before_data = hang_up if failure is Failure.LOST else None
    server.answers |= {
        Failure.TROUBLE: {"MAIL": f"451 not now, {PASSWORD}"},
        Failure.REFUSED: {"DATA": f"554 no, {PASSWORD}"},
        Failure.GONE: {"RCPT": f"550 nobody here, {PASSWORD}"},
    }.get(failure, {})
    yield
    server.before_data = None
    server.answers.clear()
