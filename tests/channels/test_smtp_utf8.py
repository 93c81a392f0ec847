"""Addresses beyond ASCII go to servers that announce SMTPUTF8, and to no others."""

import email
import email.policy

import pytest

from digestif.channels.mail import Letterhead, Mailbox, build_mail
from digestif.channels.registry import open_channel
from digestif.testing.channels import FINAL, UNAVAILABLE, Expected
from tests.channels.deliveries import message
from tests.channels.mailserver import deliver_once, fail_once, failure, mail_server, run

RECIPIENTS = ["äda@example.org", "阿达@例え.jp", "дарья.é+x@example.org", "e\u0301va@example.org"]


@pytest.mark.parametrize("recipient", RECIPIENTS)
def test_a_server_that_announces_smtputf8_gets_the_mail_in_utf8(recipient: str) -> None:
    async def scene() -> None:
        async with mail_server(utf8=True) as server:
            await deliver_once(server.dsn(), message(recipient=recipient, subject="Schräg", text="Grüße\n"))

        local, _, domain = recipient.partition("@")
        address = f"{local}@{domain.encode('idna').decode()}"
        assert server.envelopes == [("digests@example.org", [address])]
        assert server.utf8 == [True]
        assert f"\r\nTo: {address}\r\n".encode() in server.mails[0]
        mail = email.message_from_bytes(server.mails[0], policy=email.policy.SMTPUTF8)
        assert (mail["To"], mail["Subject"]) == (address, "Schräg")
        text = mail.get_body(("plain",))
        assert text is not None
        assert text.get_content() == "Grüße\r\n"

    run(scene)


def test_other_mails_to_the_same_server_stay_ascii() -> None:
    async def scene() -> None:
        async with mail_server(utf8=True) as server:
            channel = open_channel(server.dsn())
            for recipient in ("äda@example.org", "ada@example.org", "ada@bücher.example"):
                await channel.deliver(message(recipient=recipient))
            await channel.close()

        assert server.utf8 == [True, False, False]
        assert [mail.isascii() for mail in server.mails] == [False, True, True]
        assert len(server.connections) == 1

    run(scene)


@pytest.mark.parametrize("recipient", RECIPIENTS)
def test_a_server_without_smtputf8_gets_nothing_and_that_is_final(recipient: str) -> None:
    async def scene() -> None:
        async with mail_server() as server:
            channel = open_channel(server.dsn())
            failed = await failure(channel, message(recipient=recipient))
            await channel.deliver(message(recipient="ada@example.org"))
            await channel.close()

        assert Expected.of(failed) == FINAL
        assert f"127.0.0.1:{server.port} takes addresses in ASCII only (no SMTPUTF8)" in str(failed)
        assert recipient.partition("@")[0] in str(failed)
        assert server.envelopes == [("digests@example.org", ["ada@example.org"])]

    run(scene)


@pytest.mark.parametrize("options", ["&reply_to=ädä@example.org", "&reply_to=%C3%A4d%C3%A4@example.org"])
def test_an_address_of_our_own_is_a_matter_of_configuration(options: str) -> None:
    async def scene() -> None:
        async with mail_server() as server:
            failed = await fail_once(server.dsn(options))
        async with mail_server(utf8=True) as other:
            await deliver_once(other.dsn(options))

        assert Expected.of(failed) == UNAVAILABLE
        assert str(failed).startswith("configuration: 127.0.0.1")
        assert "ädä@example.org is not" in str(failed)
        assert server.mails == []
        assert b"\r\nReply-To: \xc3\xa4d\xc3\xa4@example.org\r\n" in other.mails[0]

    run(scene)


def test_a_name_beside_such_an_address_stays_an_encoded_word() -> None:
    head = Letterhead(sender=Mailbox.parse("Ädä <ädä@example.org>"))

    mail = build_mail(message(), head, to=None).as_bytes()

    assert b"From: =?utf-8?b?w4Rkw6Q=?=\r\n <\xc3\xa4d\xc3\xa4@example.org>\r\n" in mail
