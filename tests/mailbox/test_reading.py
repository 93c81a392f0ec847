"""Any bytes can be read as a mail."""

import pytest

from digestif.mailbox.reading import read


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Type: text/plain; charset*=a\0b''x",
        b"Content-Type: text/plain; charset*1*=x; charset*" + b"9" * 5000 + b"=x",
        b"Content-Type: multipart/mixed; boundary*=a\0''x",
    ],
    ids=["charset", "digits", "boundary"],
)
def test_a_header_that_the_parser_can_t_take_is_shown_as_it_came(header: bytes) -> None:
    found = read(b"Subject: hello\r\n" + header + b"\r\n\r\nthe text\r\n")

    assert "the text" in (found.text or "")
