"""The mail server of `digestif mailbox`, with the client of the standard library."""

import asyncio
import smtplib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from digestif.mailbox import server as module
from digestif.mailbox.server import HOST, Delivery, MailServer

ADA = "ada@example.org"
MAIL = "Subject: Build 7 failed\r\n\r\nIt failed.\r\n"


class Running:
    """A server in a thread, and what it got."""

    def __init__(self) -> None:
        self.port = 0
        self.got: list[Delivery] = []
        self.refused: list[str] = []
        self.server: MailServer
        self.is_full = False
        self.stops_meanwhile = False
        self.held: list[socket.socket] = []  # until the server has ended

    def accept(self, delivery: Delivery) -> None:
        if self.is_full:
            raise OSError("no space left on device")
        if self.stops_meanwhile:
            self.server.stop()
            threading.Event().wait(0.2)  # the server could end now
        self.got.append(delivery)

    @contextmanager
    def client(self) -> Iterator[smtplib.SMTP]:
        with smtplib.SMTP(HOST, self.port, timeout=10) as client:
            yield client

    def socket(self) -> socket.socket:
        return socket.create_connection((HOST, self.port), timeout=10)


@pytest.fixture
def running() -> Iterator[Running]:
    found, ports = Running(), SimpleQueue[int]()
    found.server = server = MailServer(
        0, accept=found.accept, started=ports.put, refused=found.refused.append, refuse=["Bob@example.org"]
    )
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),))
    thread.start()
    found.port = ports.get(timeout=10)
    yield found
    server.stop()
    thread.join(10)
    assert not thread.is_alive()
    for held in found.held:
        held.close()


def test_a_mail_comes_as_it_was_sent_with_its_envelope(running: Running) -> None:
    with running.client() as client:
        client.sendmail("me@example.org", [ADA, "eve@example.org"], MAIL)

    [mail] = running.got
    assert mail == Delivery(sender="me@example.org", recipients=(ADA, "eve@example.org"), content=MAIL.encode())


def test_lines_that_begin_with_a_dot_are_kept(running: Running) -> None:
    text = "Subject: dots\r\n\r\n.\r\n..\r\n.hidden\r\n"

    with running.client() as client:
        client.sendmail("", ADA, text)

    assert running.got[0].content == text.encode()


def test_several_mails_come_over_one_connection(running: Running) -> None:
    with running.client() as client:
        for number in range(3):
            client.sendmail("", ADA, f"Subject: {number}\r\n\r\n")

    assert [mail.content[:10] for mail in running.got] == [f"Subject: {number}".encode() for number in range(3)]


def test_addresses_may_be_in_any_script(running: Running) -> None:
    with running.client() as client:
        client.sendmail("me@example.org", "åda@example.org", MAIL, ["SMTPUTF8", "BODY=8BITMIME"])

    assert running.got[0].recipients == ("åda@example.org",)


@pytest.mark.parametrize("method", ["auth_plain", "auth_login"])
@pytest.mark.parametrize("at_once", [True, False])
def test_any_user_and_password_will_do(running: Running, method: str, at_once: bool) -> None:
    with running.client() as client:
        client.ehlo()
        client.user, client.password = "ada", "secret"  # as login() does
        name = method.removeprefix("auth_").upper()
        code, _ = client.auth(name, getattr(client, method), initial_response_ok=at_once)
        client.sendmail("", ADA, MAIL)

    assert code == 235
    assert len(running.got) == 1


def test_a_log_in_that_is_given_up_or_unknown_is_answered(running: Running) -> None:
    with running.client() as client:
        assert client.docmd("AUTH PLAIN")[0] == 334
        assert client.docmd("*")[0] == 501
        assert client.docmd("AUTH CRAM-MD5")[0] == 504
        assert client.noop()[0] == 250


def test_a_refused_recipient_gets_550_and_the_others_their_mail(running: Running) -> None:
    with running.client() as client:
        refused = client.sendmail("", [ADA, "bob@Example.org"], MAIL)

    assert refused == {"bob@Example.org": (550, b"5.1.1 <bob@Example.org> is refused, as --refuse says")}
    assert running.refused == ["bob@Example.org"]
    assert running.got[0].recipients == (ADA,)


def test_a_mail_that_is_too_large_is_refused_and_the_connection_goes_on(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)
    large = MAIL + "x" * 70 + "\r\n" * 1000

    with running.client() as client:
        client.ehlo()
        assert client.docmd("MAIL FROM:<> SIZE=1001")[0] == 552
        client.docmd("MAIL FROM:<>")
        client.docmd(f"RCPT TO:<{ADA}>")
        assert client.data(large)[0] == 552
        client.sendmail("", ADA, MAIL)

    assert [mail.content for mail in running.got] == [MAIL.encode()]


def test_a_line_without_end_is_a_mail_all_the_same(running: Running) -> None:
    with running.client() as client:
        client.sendmail("", ADA, "Subject: long\r\n\r\n" + "." * 300_000)

    assert running.got[0].content.count(b".") == 300_000


def test_a_mail_that_cannot_be_kept_is_deferred(running: Running) -> None:
    running.is_full = True

    with running.client() as client, pytest.raises(smtplib.SMTPDataError) as deferred:
        client.sendmail("", ADA, MAIL)

    assert deferred.value.smtp_code == 452


def test_a_client_that_breaks_off_leaves_nothing(running: Running) -> None:
    with running.socket() as client:
        client.sendall(f"HELO x\r\nMAIL FROM:<>\r\nRCPT TO:<{ADA}>\r\nDATA\r\nSubject: half".encode())
    with running.client() as client:
        client.sendmail("", ADA, MAIL)

    assert [mail.content for mail in running.got] == [MAIL.encode()]


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        (["RCPT TO:<ada@example.org>"], 503),
        (["DATA"], 503),
        (["MAIL FROM:<>", "DATA"], 503),
        (["MAIL FROM:<>", "MAIL FROM:<>"], 503),
        (["MAIL FROM:<>", "RCPT TO:<>"], 501),
        (["MAIL FROM:me"], 501),
        (["MAIL FROM:<a\x1b[2J@example.org>"], 501),
        (["TURN"], 500),
        (["VRFY ada"], 252),
        (["mail from:<>", "RSET", "mail from:<>"], 250),
    ],
)
def test_commands_out_of_order_are_refused(running: Running, commands: list[str], code: int) -> None:
    with running.client() as client:
        client.helo()
        answers = [client.docmd(command)[0] for command in commands]

    assert answers[-1] == code


def test_too_many_recipients_are_refused(running: Running) -> None:
    with running.client() as client:
        refused = client.sendmail("", [f"{number}@example.org" for number in range(module.RECIPIENTS + 1)], MAIL)

    assert {code for code, _ in refused.values()} == {452}
    assert len(running.got[0].recipients) == module.RECIPIENTS


def test_a_browser_gets_no_mail_through(running: Running) -> None:
    """It sends lines of HTTP first, more than a mail client makes mistakes."""
    headers = "".join(f"X-Header-{number}: value\r\n" for number in range(12))
    mail = f"MAIL FROM:<>\r\nRCPT TO:<{ADA}>\r\nDATA\r\n{MAIL}.\r\n"

    with running.socket() as client:
        client.sendall(f"POST / HTTP/1.1\r\n{headers}\r\n{mail}".encode())
        replies = client.makefile().readlines()

    assert replies[-1].startswith("421 ")
    assert running.got == []


def test_a_command_without_end_ends_the_connection(running: Running) -> None:
    with running.socket() as client:
        client.sendall(b"x" * (module.LINE + 1))
        replies = client.makefile().readlines()

    assert replies[-1].startswith("500 ")


def test_a_silent_client_is_sent_away(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)

    with running.socket() as client:
        replies = client.makefile().readlines()

    assert replies[-1].startswith("421 ")


def test_more_connections_than_allowed_are_sent_away(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 1)

    with running.client(), running.socket() as second:
        assert second.makefile().readline().startswith("421 ")


def test_a_mail_that_is_being_kept_when_the_server_stops_is_answered(running: Running) -> None:
    """Otherwise its sender would have to send it again."""
    running.stops_meanwhile = True

    with running.client() as client:
        client.sendmail("", ADA, MAIL)

    assert len(running.got) == 1


def test_it_ends_while_clients_are_connected(running: Running) -> None:
    """The fixture stops the server, and fails if it does not end."""
    running.held.append(running.socket())
    assert running.held[0].makefile().readline().startswith("220 ")
