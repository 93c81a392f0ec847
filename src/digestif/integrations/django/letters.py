"""One mail from the records of a digest: as it was written if it is alone, else everything below each other."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from digestif.core.records import Digest
from digestif.core.texts import shortened_text

SUBJECT_LENGTH = 200
LETTER_BYTES = 5_000_000  # of a text: servers often refuse mails of 10 MB, and encoding makes a text a third longer
REPORTS = 20  # of errors; of the others the subject is shown


@dataclass(frozen=True, slots=True)
class Letter:
    subject: str  # one line
    text: str
    html: str = ""


def letters_of_mails(digest: Digest) -> list[Letter]:
    """Every mail with its body, the oldest first: one letter, or several if it would be longer than LETTER_BYTES.

    The same mail several times is shown once, with its count.
    """
    values = [record.value for record in reversed(digest)]
    if len(values) == 1 and not digest.dropped:
        return [_as_written(values[0])]
    counts = Counter((value["subject"], value["body"]) for value in values)
    sections = [_section(_counted(subject, count), body) for (subject, body), count in counts.items()]
    texts = list(_texts([*sections, *_dropped(digest)]))
    subject = _subject(values, digest.dropped, "messages")
    return [Letter(_numbered(subject, number, len(texts)), text) for number, text in enumerate(texts, start=1)]


def letter_of_errors(digest: Digest) -> Letter:
    """The subjects with their counts, the most frequent first; then the newest report of each."""
    values = [record.value for record in digest]
    if len(values) == 1 and not digest.dropped:
        return _as_written(values[0])
    counts = Counter(value["subject"] for value in values)
    newest: dict[str, str] = {}
    for value in values:
        newest.setdefault(value["subject"], value["body"])
    table = "\n".join(f"{count:>6} × {subject}" for subject, count in counts.most_common())
    parts = [_section(subject, newest[subject]) for subject, _ in counts.most_common(REPORTS)]
    notes = [*_dropped(digest), *_left_out(len(counts) - REPORTS)]
    return Letter(_subject(values[::-1], digest.dropped, "errors"), "\n\n".join([table, *notes, *parts]) + "\n")


def _as_written(value: dict[str, Any]) -> Letter:
    return Letter(value["subject"], value["body"], value["html"])


def _subject(values: list[dict[str, Any]], dropped: int, what: str) -> str:
    """Such as `48 × Build failed`, or `3 messages: Build failed, …`."""
    subjects = list(dict.fromkeys(value["subject"] for value in values))
    count = len(values) + dropped
    if len(subjects) == 1:
        subject = f"{count} × {subjects[0]}"
    else:
        subject = f"{count} {what}: {', '.join(subjects)}"
    return shortened_text(subject, SUBJECT_LENGTH)


def _numbered(subject: str, number: int, count: int) -> str:
    if count == 1:
        return subject
    end = f" ({number} of {count})"
    return shortened_text(subject, SUBJECT_LENGTH - len(end)) + end


def _texts(sections: list[str]) -> Iterator[str]:
    """The sections below each other, in texts of at most LETTER_BYTES. No section is longer than that."""
    page: list[str] = []
    size = 0
    for section in sections:
        length = len(section.encode()) + 2  # with what separates it from the next
        if size + length > LETTER_BYTES:
            yield "\n\n".join(page) + "\n"
            page, size = [], 0
        page.append(section)
        size += length
    yield "\n\n".join(page) + "\n"


def _section(subject: str, body: str) -> str:
    return f"{subject}\n{'-' * min(len(subject), 72)}\n{body}".rstrip()


def _counted(subject: str, count: int) -> str:
    return subject if count == 1 else f"{subject} ({count} times)"


def _dropped(digest: Digest) -> list[str]:
    return [f"{digest.dropped} older ones are counted, but no longer kept."] if digest.dropped else []


def _left_out(subjects: int) -> list[str]:
    return [f"The reports of the {subjects} least frequent subjects are left out."] if subjects > 0 else []
