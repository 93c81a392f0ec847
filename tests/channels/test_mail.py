"""What a mail consists of, to the byte, and that nothing in a message can add to its headers.

`python -m tests.channels.test_mail` writes the golden mails anew; look at the differences before you keep them.
"""

import email
import email.policy
import html
import re
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from digestif.channels.base import Message
from digestif.channels.mail import (
    SUBJECT_LENGTH,
    BadAddress,
    Letterhead,
    ListId,
    Mailbox,
    build_mail,
    message_id,
    one_line,
    thread_id,
)
from tests.channels.deliveries import message

GOLDEN = Path(__file__).parent / "golden"
ADA = Mailbox.parse("ada@example.org")
LETTERHEAD = Letterhead(
    sender=Mailbox.parse("The Digests <digests@example.org>"),
    reply_to=Mailbox.parse("support@example.org"),
    unsubscribe="https://example.org/u/{timeline}/{recipient}",
)
HEADERS = [
    "From",
    "To",
    "Reply-To",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Auto-Submitted",
    "List-ID",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "X-Digestif-Key",
    "MIME-Version",
    "Content-Type",
]
INJECTION = "=?utf-8?q?a=0d=0aBcc:=20eve=40example.org?="
HOSTILE = f"<script>alert(1)</script>\r\nBcc: eve@example.org\r\n\r\n{INJECTION} \u202egnp.exe\u2066 \x00\x1b[2J\ud800"

MAILS = {
    "one": message(
        subject="Build 7 failed",
        text="Build 7 failed\non main, by Ada\n",
        html="<!doctype html>\n<p>Build 7 failed<br>on main, by Ada</p>\n",
    ),
    "many": message(
        subject="12 builds failed: Öffentliche Schnittstelle, 日本語, and 10 more",
        text="".join(f"Build {number} failed {number} ×\n" for number in range(12, 2, -1)) + "… and 2 more\n",
        html="<ul>" + "".join(f"<li>Build {number} failed</li>" for number in range(12, 2, -1)) + "</ul>\n",
        links={"unsubscribe": "mailto:leave@example.org?subject=Ada"},
    ),
    "overflow": message(
        subject="10,000 records, and 2,345 older ones that are not shown",
        text="Build 7 failed 10,000 ×\n\n2,345 older records were dropped: only the newest 10,000 are kept.\n",
        html="",
    ),
    "hostile": message(
        key=HOSTILE,
        timeline=HOSTILE,
        subject=HOSTILE,
        text=HOSTILE + "\n.\n--=_boundary--\n",
        html=f"<p>{html.escape(HOSTILE)}</p>",
        links={"unsubscribe": f"https://example.org/>{HOSTILE}"},
    ),
}


def sent(message: Message, letterhead: Letterhead = LETTERHEAD) -> bytes:
    return build_mail(message, letterhead, to=ADA).as_bytes()


def parsed(mail: bytes) -> EmailMessage:
    return email.message_from_bytes(mail, policy=email.policy.default)


def names_line_by_line(mail: bytes) -> list[str]:
    """Headers as a simple program reads them: a line that does not begin with a blank is a header."""
    head = re.split(rb"\r\n\r\n|\n\n|\r\r", mail)[0]
    return [line.partition(b":")[0].decode() for line in re.split(rb"[\r\n]+", head) if line[:1] not in b" \t"]


def body(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


# To the byte


@pytest.mark.parametrize("name", MAILS)
def test_a_golden_mail_has_not_changed(name: str) -> None:
    assert sent(MAILS[name]) == (GOLDEN / f"{name}.eml").read_bytes()


def test_every_golden_mail_is_compared() -> None:
    assert {path.stem for path in GOLDEN.glob("*.eml")} == set(MAILS)


@pytest.mark.parametrize("name", MAILS)
def test_a_golden_mail_has_exactly_the_headers_that_it_should(name: str) -> None:
    expected = [header for header in HEADERS if name != "many" or header != "List-Unsubscribe-Post"]  # it has a mailto
    if name == "overflow":
        expected.append("Content-Transfer-Encoding")  # it has one part only
    mail = (GOLDEN / f"{name}.eml").read_bytes()

    assert parsed(mail).keys() == expected
    assert names_line_by_line(mail) == expected
    assert parsed(mail).defects == []


def test_the_hostile_mail_says_what_it_was_given_and_does_nothing() -> None:
    mail = parsed((GOLDEN / "hostile.eml").read_bytes())

    assert mail["Subject"].startswith("<script>alert(1)</script> Bcc: eve@example.org = ?utf-8?q?a=0d=0aBcc:")
    assert mail["List-Unsubscribe"].startswith("<https://example.org/%3E%3Cscript%3E")
    assert "=?" not in mail["List-Unsubscribe"]
    assert "<script" not in body(mail, "html")
    assert "<script>" in body(mail, "plain")
    assert not {"\x00", "\x1b"} & {*body(mail, "plain"), *body(mail, "html"), *mail.as_string()}


# Headers

texts = st.text(max_size=300) | st.text(
    st.sampled_from("=?utf-8qb_0aA \r\n\t:<>\u2028\u202e\x85\ud800ü日"), max_size=300
)


@given(subject=texts, other=texts)
@example(subject=INJECTION, other=INJECTION)
@example(subject="=?utf-8?b?DQpCY2M6IGV2ZUBleGFtcGxlLm9yZw==?=", other="\nBcc: eve")
@example(subject="x" * 1000, other="x" * 1000)
@example(subject="", other="")
@example(subject="ends in a blank \n", other=":")
def test_nothing_in_a_message_adds_a_header(subject: str, other: str) -> None:
    mail = sent(message(subject=subject, key=other, timeline=other, text=subject, html=other or "<p>"))

    expected = [header for header in HEADERS if header in parsed(mail) or not header.startswith("List-")]
    assert parsed(mail).keys() == expected
    assert names_line_by_line(mail) == expected
    assert mail.isascii()
    assert max(map(len, mail.split(b"\r\n"))) <= 998
    assert b"\n" not in mail.replace(b"\r\n", b"")


@given(subject=texts)
@example(subject=INJECTION)
def test_not_even_a_relay_that_folds_anew_adds_one(subject: str) -> None:
    relay = email.policy.SMTP.clone(refold_source="all")
    mail = sent(message(subject=subject, key=subject, links={"unsubscribe": f"https://a.org/{subject}"[:250]}))
    passed_on = email.message_from_bytes(mail, policy=relay).as_bytes()

    assert parsed(passed_on).keys() == HEADERS
    assert names_line_by_line(passed_on) == HEADERS


@given(subject=st.text(max_size=SUBJECT_LENGTH))
@example(subject="ü" * SUBJECT_LENGTH)
@example(subject="a b  c " * 20)
def test_a_subject_is_read_as_it_was_meant(subject: str) -> None:
    assert parsed(sent(message(subject=subject)))["Subject"] == (one_line(subject) or "(no subject)")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Build 7 failed", "Build 7 failed"),
        ("two\r\nlines\u2028or\x85three", "two lines or three"),
        ("\x00\x1b[2Jclear", "[2Jclear"),
        ("\u202eexe.gpj\u2066\u2069", "exe.gpj"),
        ("שלום\u200f!", "שלום\u200f!"),
        ("\ud83d\ude00 \ud800", "😀 \N{REPLACEMENT CHARACTER}"),
        (INJECTION, "= " + INJECTION[1:]),
    ],
)
def test_a_line_keeps_what_people_read(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_long_subject_is_cut() -> None:
    subject = parsed(sent(message(subject="x" * 10_000_000)))["Subject"]

    assert len(subject) == SUBJECT_LENGTH
    assert subject.endswith("x…")


def test_a_name_of_the_sender_is_written_safely() -> None:
    for name in ('Ada "the" \\ Byron, Countess', "Jürgen (Öffentlichkeit)", "x" * 100, "Ada\r\nBcc: eve@example.org"):
        mail = parsed(sent(message(), replace(LETTERHEAD, sender=Mailbox.parse(f"{name} <digests@example.org>"))))

        assert mail.keys() == HEADERS
        assert mail["From"].addresses[0].addr_spec == "digests@example.org"
        shown = mail["From"].addresses[0].display_name
        # Python's parser puts a blank between the encoded words of a long name.
        assert shown.replace(" ", "") == one_line(name).replace(" ", "")


@pytest.mark.parametrize("text", ["Ada <a@b.c> <d@e.f>", "a@b.c <", "<>", "Ada <>", "a@b.c, Ada <d@e.f>x", "a b@c.d"])
def test_what_is_not_one_address_is_refused(text: str) -> None:
    with pytest.raises(BadAddress, match="is not an address"):
        Mailbox.parse(text)


# Identity


def test_every_attempt_is_the_same_mail() -> None:
    first = message()

    assert sent(first) == sent(replace(first, attempt=3))


def test_different_keys_are_different_mails_of_one_thread() -> None:
    one, other = message(1), message(2)

    assert message_id(one, LETTERHEAD) != message_id(other, LETTERHEAD)
    assert thread_id(one, LETTERHEAD) == thread_id(other, LETTERHEAD)
    assert thread_id(one, LETTERHEAD) != thread_id(replace(one, timeline="mail:bob"), LETTERHEAD)


def test_mail_programs_are_told_what_it_is_an_answer_to() -> None:
    mail = parsed(sent(message()))

    assert mail["In-Reply-To"] == mail["References"] == thread_id(message(), LETTERHEAD)
    assert re.fullmatch(r"<[0-9a-f]{32}@example\.org>", mail["Message-ID"])


# Unsubscribing


@pytest.mark.parametrize(
    ("link", "template", "header", "one_click"),
    [
        ("https://a.org/u?x=1&y=%20", "", "<https://a.org/u?x=1&y=%20>", True),
        ("", "https://a.org/{timeline}/{recipient}", "<https://a.org/mail%3Aada/ada%40example.org>", True),
        ("https://a.org/own", "https://a.org/{timeline}", "<https://a.org/own>", True),
        ("http://a.org/u", "", "<http://a.org/u>", False),
        ("mailto:leave@a.org", "", "<mailto:leave@a.org>", False),
        ("", "mailto:leave+{recipient}@a.org", "<mailto:leave+ada%40example.org@a.org>", False),
        ("https://a.org/ü\r\nBcc: x", "", "<https://a.org/%C3%BC%0D%0ABcc:%20x>", True),
        ("javascript:alert(1)", "", None, False),
        ("https://a.org/" + "x" * 1000, "", None, False),
        ("", "", None, False),
    ],
)
def test_how_to_unsubscribe(link: str, template: str, header: str | None, one_click: bool) -> None:
    letterhead = replace(LETTERHEAD, unsubscribe=template)
    mail = parsed(sent(message(links={"unsubscribe": link}), letterhead))

    assert mail["List-Unsubscribe"] == header
    assert mail["List-Unsubscribe-Post"] == ("List-Unsubscribe=One-Click" if one_click else None)


# Lists


@pytest.mark.parametrize(
    ("sender", "header"),
    [
        ("The Digests <digests@example.org>", "<digests.example.org>"),
        ("no.reply@example.org", "<no.reply.example.org>"),
        ("digests+eu@example.org", r"<digests-eu-[0-9a-f]{8}\.example\.org>"),
        ("ädä@example.org", r"<-d--[0-9a-f]{8}\.example\.org>"),
        ("{x}@example.org", r"<-x--[0-9a-f]{8}\.example\.org>"),
    ],
)
def test_a_mail_belongs_to_the_list_of_its_sender(sender: str, header: str) -> None:
    mail = parsed(sent(message(), replace(LETTERHEAD, sender=Mailbox.parse(sender))))

    assert re.fullmatch(header, mail["List-ID"])


@pytest.mark.parametrize(
    ("list_id", "timeline", "header"),
    [
        ("alerts.example.org", "mail:ada", r"<alerts\.example\.org>"),
        ("Alerts <alerts.example.org>", "mail:ada", r'"Alerts" <alerts\.example\.org>'),
        ("{timeline}.example.org", "project-7", r"<project-7\.example\.org>"),
        ("{timeline}.example.org", "project:7", r"<project-7-[0-9a-f]{8}\.example\.org>"),
        ("{{{timeline}}} <x.y>", "7", r'"\{7\}" <x\.y>'),
        ("Of {timeline} <{timeline}.x.y>", "a\r\nBcc: b@c", r'"Of a Bcc: b@c" <a-Bcc-b-c-[0-9a-f]{8}\.x\.y>'),
        ("{timeline}.x.y", "é" * 256, r"<--[0-9a-f]{8}\.x\.y>"),
        ("{timeline}.x.y", "x" * 512, r"<x{40}-[0-9a-f]{8}\.x\.y>"),
    ],
)
def test_the_list_of_a_mail_may_be_named(list_id: str, timeline: str, header: str) -> None:
    """Nothing in the name of a timeline adds a header, and no two timelines share a list."""
    mail = parsed(sent(message(timeline=timeline), replace(LETTERHEAD, list_id=ListId.parse(list_id))))

    assert set(mail.keys()) <= set(HEADERS)
    assert re.fullmatch(header, mail["List-ID"])


@given(name=st.text(max_size=200), timeline=st.text(min_size=1, max_size=512))
@example(name=HOSTILE, timeline=HOSTILE)
def test_no_name_of_a_list_or_a_timeline_adds_a_header(name: str, timeline: str) -> None:
    named = ListId(id="{timeline}.example.org", name=name.replace("{", "{{").replace("}", "}}") + "{timeline}")
    mail = parsed(sent(message(timeline=timeline), replace(LETTERHEAD, list_id=named)))

    assert set(mail.keys()) <= set(HEADERS)
    assert re.search(r"<[A-Za-z0-9_-]{1,49}\.example\.org>\Z", mail["List-ID"])


# Bodies


@given(text=st.text(st.characters(exclude_categories=["Cc", "Cs"], include_characters="\n\t"), max_size=2000))
@example(text="x" * 100_000)
@example(text="ü" * 100_000)
@example(text="=\n=20\n \n\t\n.\n..\nFrom \n--=_\n")
@example(text="<ü>\n" * 1000)
def test_text_and_html_are_read_as_they_were_meant(text: str) -> None:
    mail = sent(message(text=text, html=text or "<p>"))
    lines = text if text.endswith("\n") else text + "\n"

    assert body(parsed(mail), "plain") == lines.replace("\n", "\r\n")
    assert max(map(len, mail.split(b"\r\n"))) <= 80
    assert [part.get_content_type() for part in parsed(mail).iter_parts()] == ["text/plain", "text/html"]


def test_no_text_can_end_its_part() -> None:
    boundary = parsed(sent(message())).get_boundary()
    mail = parsed(sent(message(text=f"a\n--{boundary}--\nb", html=f"<p>\n--{boundary}\n</p>")))

    assert body(mail, "plain") == f"a\r\n--{boundary}--\r\nb\r\n"
    assert len(list(mail.iter_parts())) == 2


if __name__ == "__main__":
    for name, golden in MAILS.items():
        (GOLDEN / f"{name}.eml").write_bytes(sent(golden))
