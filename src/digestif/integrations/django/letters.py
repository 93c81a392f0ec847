"""One mail from the records of a digest: as it was written if it is alone, else everything below each other."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from digestif.core.records import Digest

SUBJECT_LENGTH = 200
BODIES = 100  # of mails; of the others the subject is shown
REPORTS = 20  # of errors; of the others the subject is shown


@dataclass(frozen=True, slots=True)
class Letter:
    subject: str  # one line
    text: str
    html: str = ""


def letter_of_mails(digest: Digest) -> Letter:
    """Every mail with its body, the oldest first. The same mail several times is shown once, with its count."""
    values = [record.value for record in reversed(digest)]
    if len(values) == 1 and not digest.dropped:
        return _as_written(values[0])
    counts = Counter((value["subject"], value["body"]) for value in values)
    parts = [
        _section(_counted(subject, count), body if place < BODIES else "")
        for place, ((subject, body), count) in enumerate(counts.items())
    ]
    return Letter(_subject(values, digest.dropped, "messages"), "\n\n".join([*parts, *_dropped(digest)]) + "\n")


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
    return Letter(
        _subject(values[::-1], digest.dropped, "errors"), "\n\n".join([table, *_dropped(digest), *parts]) + "\n"
    )


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
    return subject if len(subject) <= SUBJECT_LENGTH else subject[: SUBJECT_LENGTH - 1] + "…"


def _section(subject: str, body: str) -> str:
    return f"{subject}\n{'-' * min(len(subject), 72)}\n{body}".rstrip()


def _counted(subject: str, count: int) -> str:
    return subject if count == 1 else f"{subject} ({count} times)"


def _dropped(digest: Digest) -> list[str]:
    return [f"{digest.dropped} older ones are counted, but no longer kept."] if digest.dropped else []
