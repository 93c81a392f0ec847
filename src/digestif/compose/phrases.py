"""Names of groups and subjects, and counts, as a reader reads them."""

import re
from itertools import islice

from digestif.compose.fields import EMPTY, OTHER, label_of
from digestif.compose.summary import Group, Subject, Summary
from digestif.compose.texts import one_line, text_of
from digestif.compose.wording import Wording

MOST_DISTINCT = 4
NAME_LENGTH = 40


def named(part: Group | Subject) -> str:
    """The label of a group or subject; nothing if it has no text of its own, or if it stands for a record only."""
    return "" if stands_for_record(part) or _is_other(part) or _is_empty(part) else one_line(part.label)


def name_of(part: Group | Subject, words: Wording) -> str:
    """The label of a group or subject, in the reader's words if it has no text of its own."""
    return words.other if _is_other(part) else words.empty if _is_empty(part) else one_line(part.label)


def stands_for_record(part: Group | Subject) -> bool:
    """Without grouping, the key of a subject is that of its only record, which means nothing to people."""
    return isinstance(part, Subject) and part.key == part.newest.key and part.label == label_of(part.key)


def _is_other(part: Group | Subject) -> bool:
    return part.label == OTHER and part.key is None


def _is_empty(part: Group | Subject) -> bool:
    return part.label == EMPTY and part.key != EMPTY


def label_beside(title: str, subject: Subject, words: Wording) -> str:
    """The label of a subject; nothing if it only repeats the title, or is the key of a record."""
    text = text_of(subject.newest.value)
    is_title = subject.label == title or (text and subject.label == label_of(text))
    return "" if is_title or stands_for_record(subject) else name_of(subject, words)


def unsaid(text: str, *names: str) -> list[str]:
    """Those names that neither the text nor a later name says."""
    rest = [*names, text]
    return [name for place, name in enumerate(names, 1) if name and not any(_says(each, name) for each in rest[place:])]


def _says(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def enumerated(*facts: str) -> str:
    """The facts that are not empty, in one line."""
    return " · ".join(filter(None, facts))


def distinct_counts(part: Summary | Group | Subject, words: Wording) -> list[str]:
    """Distinct counts as words. A count of one says nothing, and for one record no count does."""
    counts = ((name, count) for name, count in part.distinct.items() if part.count > 1 and count != 1)
    return [_distinct_count(name, count, words) for name, count in islice(counts, MOST_DISTINCT)]


def _distinct_count(name: str, count: int, words: Wording) -> str:
    plain = one_line(name, NAME_LENGTH)
    return words.count(count, words.distinct.get(name, (plain, plain)))
