"""One mail from the records of a digest: as it was written if it is alone, else everything below each other."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from digestif.core.records import Digest
from digestif.core.texts import shortened_text

SUBJECT_LENGTH = 200
LETTER_BYTES = 5_000_000  # of a text: servers often refuse mails of 10 MB, and encoding makes a text a third longer
REPORTS = 20  # of errors; of the others the title is shown
EXAMPLES = 5  # of the paths that a bug was met with


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
    subjects = list(dict.fromkeys(value["subject"] for value in values))
    subject = _subject(subjects, len(values) + digest.dropped, "messages")
    return [Letter(_numbered(subject, number, len(texts)), text) for number, text in enumerate(texts, start=1)]


def letter_of_errors(digest: Digest) -> Letter:
    """The bugs with their counts, the most frequent first; then the newest report of each."""
    values = [record.value for record in digest]
    if len(values) == 1 and not digest.dropped:
        return _as_written(values[0])
    bugs: dict[str, list[dict[str, Any]]] = {}
    for value in values:
        bugs.setdefault(_group(value), []).append(value)
    frequent = sorted(bugs.values(), key=len, reverse=True)
    table = "\n".join(_row(bug) for bug in frequent)
    parts = [_section(_title(bug), bug[0]["body"]) for bug in frequent[:REPORTS]]
    notes = [*_dropped(digest), *_left_out(len(bugs) - REPORTS)]
    titles = [_title(bugs[group]) for group in dict.fromkeys(map(_group, reversed(values)))]
    subject = _subject(titles, len(digest) + digest.dropped, "errors")
    return Letter(subject, "\n\n".join([table, *notes, *parts]) + "\n")


def _group(value: dict[str, Any]) -> str:
    return str(value.get("group", value["subject"]))  # the first records had only a subject


def _title(bug: list[dict[str, Any]]) -> str:
    """The title that all errors of a bug have, or without the messages in which they differ."""
    titles = {value.get("title", value["subject"]) for value in bug}
    return str(titles.pop()) if len(titles) == 1 else _group(bug[0])


def _row(bug: list[dict[str, Any]]) -> str:
    """The count of a bug, and some of the paths or messages that it was met with, the newest first."""
    row = f"{len(bug):>6} × {_title(bug)}"
    examples = list(dict.fromkeys(str(value["example"]) for value in bug if "example" in value))
    if not examples:
        return row
    more = f" and {len(examples) - EXAMPLES} more" if len(examples) > EXAMPLES else ""
    return f"{row}\n{' ' * 9}{', '.join(examples[:EXAMPLES])}{more}"


def _as_written(value: dict[str, Any]) -> Letter:
    return Letter(value["subject"], value["body"], value["html"])


def _subject(subjects: list[str], count: int, what: str) -> str:
    """Such as `48 × Build failed`, or `3 messages: Build failed, …`."""
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
