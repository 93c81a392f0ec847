"""What a digest of mails or errors looks like, and what an error of a mail server means. No settings are needed."""

import smtplib
from typing import Any

import pytest

from digestif import DeliveryFailed, Digest, Record, Unavailable
from digestif.integrations.django.letters import LETTER_BYTES, REPORTS, Letter, letter_of_errors, letters_of_mails
from digestif.integrations.django.mail import failures_judged


def digest(*mails: tuple[str, str], dropped: int = 0, html: str = "") -> Digest:
    """Of mails in the order of time."""
    records = [
        Record(str(place), {"subject": subject, "body": body, "html": html}, place)
        for place, (subject, body) in enumerate(mails)
    ]
    return Digest("t", "id", 1, 1, dropped, tuple(reversed(records)))


def letter_of_mails(digest: Digest) -> Letter:
    [letter] = letters_of_mails(digest)
    return letter


def test_a_mail_alone_is_as_it_was_written() -> None:
    alone = digest(("Hello", "there"), html="<b>there</b>")

    assert letter_of_mails(alone) == letter_of_errors(alone) == Letter("Hello", "there", "<b>there</b>")


def test_mails_stand_below_each_other_the_oldest_first() -> None:
    letter = letter_of_mails(digest(("Build 7", "failed\n"), ("Build 8", "failed, too")))

    assert letter == Letter(
        "2 messages: Build 7, Build 8", "Build 7\n-------\nfailed\n\nBuild 8\n-------\nfailed, too\n"
    )


def test_the_same_mail_several_times_is_shown_once() -> None:
    letter = letter_of_mails(digest(*[("Build", "failed")] * 48))

    assert letter == Letter("48 × Build", "Build (48 times)\n----------------\nfailed\n")


def test_mails_of_one_subject_keep_their_bodies() -> None:
    letter = letter_of_mails(digest(("Comment", "one"), ("Comment", "two")))

    assert (letter.subject, letter.text.count("Comment")) == ("2 × Comment", 2)
    assert letter.text.index("one") < letter.text.index("two")


def test_errors_are_counted_the_most_frequent_first_with_the_newest_report_of_each() -> None:
    letter = letter_of_errors(digest(("rare", "1"), ("often", "old"), ("often", "new")))

    assert letter.subject == "3 errors: rare, often"
    assert letter.text == "     2 × often\n     1 × rare\n\noften\n-----\nnew\n\nrare\n----\n1\n"


def bug(group: str, message: str, example: str) -> dict[str, str]:
    named = {"group": group, "title": f"{group}: {message}", "example": example}
    return {"subject": f"ERROR: {example}", "body": f"report of {example}", "html": "", **named}


def test_errors_of_one_bug_are_one_subject_with_some_of_its_paths() -> None:
    values = [bug("KeyError", "7", f"/orders/{number}") for number in range(8)] + [bug("ValueError", "x", "/cart")]
    errors = Digest("t", "id", 1, 1, 0, tuple(Record(str(place), value, place) for place, value in enumerate(values)))

    letter = letter_of_errors(errors)

    assert letter.subject == "9 errors: ValueError: x, KeyError: 7"
    assert letter.text.startswith(
        "     8 × KeyError: 7\n         /orders/0, /orders/1, /orders/2, /orders/3, /orders/4 and 3 more\n"
        "     1 × ValueError: x\n         /cart\n\nKeyError: 7\n-----------\nreport of /orders/0\n"
    )


def test_a_bug_with_differing_messages_is_named_without_them() -> None:
    values = [bug("KeyError", message, "/orders") for message in ("7", "8")]

    letter = letter_of_errors(Digest("t", "id", 1, 1, 0, tuple(Record(str(i), v, i) for i, v in enumerate(values))))

    assert letter.subject == "2 × KeyError"
    assert letter.text.startswith("     2 × KeyError\n         /orders\n\nKeyError\n")


def test_errors_that_an_older_release_stored_are_shown_beside_new_ones() -> None:
    values = [bug("KeyError", "7", "/orders/7"), {"subject": "ERROR: old", "body": "old report", "html": ""}]

    letter = letter_of_errors(Digest("t", "id", 1, 1, 0, tuple(Record(str(i), v, i) for i, v in enumerate(values))))

    assert letter.subject == "2 errors: ERROR: old, KeyError: 7"
    assert "     1 × ERROR: old\n\n" in letter.text
    assert "old report" in letter.text


@pytest.mark.parametrize("compose", [letter_of_mails, letter_of_errors])
def test_what_capacity_dropped_is_counted(compose: Any) -> None:
    letter = compose(digest(("Build", "failed"), dropped=500))

    assert letter.subject == "501 × Build"
    assert "500 older ones are counted, but no longer kept." in letter.text


def test_every_mail_has_its_body_however_many_there_are() -> None:
    many = digest(*[(f"subject-{number:04}", f"body-{number:04}") for number in range(1000)])

    letter = letter_of_mails(many)

    assert letter.text.count("body-") == letter.text.count("subject-") == 1000
    assert len(letter.subject) <= 200


def test_what_is_too_large_for_one_mail_is_sent_as_several() -> None:
    """Mail servers refuse what is too large. Nothing is left out, and each says which part it is."""
    body = "ä" * 100_000
    many = digest(*[(f"subject-{number:04}", f"{number:04} {body}") for number in range(60)], dropped=5)

    letters = letters_of_mails(many)

    assert len(letters) == 3
    assert max(len(letter.text.encode()) for letter in letters) <= LETTER_BYTES
    assert [letter.subject[-9:] for letter in letters] == [" (1 of 3)", " (2 of 3)", " (3 of 3)"]
    assert max(len(letter.subject) for letter in letters) == 200
    assert "".join(letter.text for letter in letters).count(body) == 60
    assert letters[-1].text.endswith("5 older ones are counted, but no longer kept.\n")


def test_a_digest_of_errors_names_every_subject_and_says_how_many_reports_are_left_out() -> None:
    many = digest(*[(f"subject-{number:04}", f"body-{number:04}") for number in range(1000)])

    letter = letter_of_errors(many)

    assert letter.text.count("body-") == REPORTS
    assert len({line for line in letter.text.split() if line.startswith("subject-")}) == 1000
    assert f"The reports of the {1000 - REPORTS} least frequent subjects are left out." in letter.text
    assert len(letter.subject) <= 200


@pytest.mark.parametrize(
    ("error", "kind", "retry"),
    [
        (smtplib.SMTPRecipientsRefused({"a@b": (550, b"no such user")}), DeliveryFailed, False),
        (smtplib.SMTPRecipientsRefused({"a@b": (451, b"later")}), DeliveryFailed, True),
        (smtplib.SMTPDataError(554, b"spam"), DeliveryFailed, False),
        (smtplib.SMTPDataError(452, b"full"), DeliveryFailed, True),
        (smtplib.SMTPServerDisconnected("gone"), Unavailable, True),
        (smtplib.SMTPAuthenticationError(535, b"wrong password"), Unavailable, True),
        (ConnectionRefusedError("nobody listens"), Unavailable, True),
    ],
)
def test_an_error_of_the_mail_server_says_whether_others_would_get_through(
    error: Exception, kind: type[DeliveryFailed], retry: bool
) -> None:
    with pytest.raises(DeliveryFailed) as raised, failures_judged():
        raise error

    assert type(raised.value) is kind
    assert raised.value.retry is retry


def test_other_errors_are_left_to_the_policy() -> None:
    with pytest.raises(smtplib.SMTPNotSupportedError), failures_judged():
        raise smtplib.SMTPNotSupportedError("no SMTPUTF8")
