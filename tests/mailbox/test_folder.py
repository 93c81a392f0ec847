"""What the mailbox keeps, and what it makes of mails that are broken or hostile."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digestif.mailbox import folder as module
from digestif.mailbox.folder import MailFolder
from digestif.mailbox.reading import read
from digestif.mailbox.server import Delivery


def delivery(content: bytes = b"Subject: Hello\r\n\r\nWorld\r\n", *, to: str = "ada@example.org") -> Delivery:
    return Delivery(sender="me@example.org", recipients=(to,), content=content)


@pytest.fixture
def folder(tmp_path: Path) -> MailFolder:
    folder = MailFolder(tmp_path / "kept" / "mails")
    folder.make()
    return folder


def test_a_mail_is_kept_as_it_came_with_its_envelope(folder: MailFolder) -> None:
    kept = folder.keep(delivery(to="åda@example.org"), now=7.5)

    assert folder.mail(kept.number) == kept
    assert (kept.received, kept.sender, kept.recipients) == (7.5, "me@example.org", ("åda@example.org",))
    assert kept.raw == delivery().content


def test_only_its_owner_can_read_it(folder: MailFolder) -> None:
    folder.keep(delivery(), now=0)

    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.path.iterdir()] == [0o600]


def test_numbers_go_on_after_a_restart(folder: MailFolder) -> None:
    folder.keep(delivery(), now=0)

    assert MailFolder(folder.path).keep(delivery(), now=0).number == 2
    assert [mail.number for mail in folder.mails()] == [1, 2]


def test_two_mailboxes_share_a_folder(folder: MailFolder) -> None:
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda n: MailFolder(folder.path).keep(delivery(), now=n).number, range(40)))

    assert sorted(kept) == folder.numbers() == list(range(1, 41))


def test_a_number_that_another_mailbox_has_just_taken_is_left_to_it(
    folder: MailFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.keep(delivery(b"theirs"), now=0)
    with monkeypatch.context() as stale:
        stale.setattr(MailFolder, "_sizes", lambda _: [])
        kept = folder.keep(delivery(b"ours"), now=0)

    assert kept.number == 2
    assert [mail.raw for mail in folder.mails()] == [b"theirs", b"ours"]


def test_only_the_newest_are_kept(folder: MailFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)

    for number in range(5):
        folder.keep(delivery(), now=number)

    assert folder.numbers() == [3, 4, 5]


def test_large_ones_push_out_older_ones_but_the_newest_stays(
    folder: MailFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 1000)

    for size in (10, 300, 300, 5000):
        folder.keep(delivery(b"x" * size), now=0)
        assert folder.numbers()

    assert folder.numbers() == [4]


def test_other_files_are_left_alone_and_a_number_without_a_mail_is_skipped(folder: MailFolder) -> None:
    (folder.path / "notes.txt").write_text("mine")
    (folder.path / "000004.eml").touch()  # its mail is being written, or never was

    assert folder.keep(delivery(), now=0).number == 5
    assert folder.numbers() == [5]
    assert folder.mail(4) is None
    assert (folder.path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("content", [b"Subject: found\r\n\r\n", b'X-Digestif-Envelope: {"to": \r\n\r\n', b"\xff"])
def test_a_mail_that_was_put_there_by_hand_is_listed_too(folder: MailFolder, content: bytes) -> None:
    (folder.path / "000001.eml").write_bytes(content)

    [mail] = folder.mails()
    assert (mail.recipients, mail.received) == ((), 0)


def test_a_mail_cannot_forge_its_envelope(folder: MailFolder) -> None:
    forged = b'X-Digestif-Envelope: {"received": 1, "from": "x", "to": ["boss@example.org"]}\r\n\r\n'

    folder.keep(delivery(forged), now=7)

    [mail] = folder.mails()
    assert mail.recipients == ("ada@example.org",)
    assert mail.raw == forged


# Reading


def test_a_reader_sees_the_decoded_headers_and_both_parts() -> None:
    reading = read(
        b"From: =?utf-8?q?B=C3=BCro?= <office@example.org>\r\nTo: ada@example.org\r\n"
        b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n =?utf-8?b?IGF1cyDDlnNsbw==?=\r\n"
        b"Content-Type: multipart/alternative; boundary=b\r\n\r\n"
        b"--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\nGr\xfc\xdfe\r\n"
        b"--b\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\nPGI+\r\n--b--\r\n"
    )

    assert (reading.sender, reading.subject) == ("Büro <office@example.org>", "Grüße aus Öslo")
    assert (reading.text, reading.html) == ("Grüße", "<b>")


def test_an_attachment_is_not_the_text() -> None:
    reading = read(b"Content-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nnumbers")

    assert (reading.text, reading.html) == (None, None)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"Subject: =?utf-8?b?x?=\r\n\r\nbad base64 in a header",
        b"Subject: =?nope?q?x?=\r\n\r\n",
        b"Subject: \xff\xfe raw bytes\r\n\r\n",
        b"Subject: =?utf-8?q?=FF?= =?us-ascii?q?=FF?=\r\n\r\n",
        b"Content-Type: text/plain; charset=nope\r\n\r\n\xff",
        b"Content-Type: text/plain; charset=hex\r\n\r\n616",
        b"Content-Type: text/plain; charset=undefined\r\n\r\nx",
        b"Content-Type: text/plain; charset=\x00\r\n\r\nx",
        b"Content-Type: text/plain; charset*=utf-8''%FF\r\n\r\nx",
        b"Content-Type: multipart/mixed\r\n\r\nno boundary",
        b"Content-Type: multipart/mixed; boundary=\r\n\r\n--\r\n",
        b"Content-Transfer-Encoding: uuencode\r\n\r\nbegin 666 x\r\n\xff\r\n",
        b"Content-Type: message/rfc822\r\n\r\nContent-Type: message/rfc822\r\n\r\n",
        b"".join(b"Content-Type: multipart/mixed; boundary=%d\r\n\r\n--%d\r\n" % (n, n) for n in range(5000)),
    ],
)
def test_what_is_broken_can_be_read_all_the_same(raw: bytes) -> None:
    reading = read(raw)

    assert isinstance(reading.subject, str)


HEADERS = [
    "Subject: ",
    "Content-Type: ",
    "Content-Transfer-Encoding: base64\r\n",
    "Content-Disposition: ",
    "=?utf-8?q?",
]


@given(
    st.lists(st.one_of(st.sampled_from(HEADERS).map(str.encode), st.binary(max_size=20), st.just(b"\r\n")), max_size=20)
)
def test_any_bytes_can_be_read(pieces: list[bytes]) -> None:
    read(b"".join(pieces))
