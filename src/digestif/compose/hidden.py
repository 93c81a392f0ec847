"""Hidden fields: what a mail does not show of the records that it lists, with the reasons."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from digestif.compose.context import context
from digestif.compose.details import Beside, Details
from digestif.compose.summary import Subject, Summary
from digestif.compose.texts import ITEM_LENGTH, LINE_BREAK
from digestif.compose.times import Times
from digestif.core.records import Record

MOST_RECORDS = 100  # that are looked at


def hidden_fields(summary: Summary, details: Details, times: Times) -> dict[str, str]:
    """Return the fields that readers do not see, each with the reason."""
    found: dict[str, str] = {}
    listed = [(record, beside) for records, beside in _listed(summary, details, times) for record in records]
    for record, beside in listed[:MOST_RECORDS]:
        found = details.hidden(record, beside) | found
    return found


def _listed(summary: Summary, details: Details, times: Times) -> "Iterator[tuple[Sequence[Record], Beside | None]]":
    """Yield the listed records of each subject, with what is shown of them; None for a record that stands alone."""
    page = context(summary, times=times, details=details)
    single = page["single"]
    if single is not None:
        headline = single["label"] or single["title"]
        beside = _beside(single, headline, single["body"], single["author"]) if summary.count > 1 else None
        yield _records(summary, single), beside
        return
    for group, shown in zip(summary.groups, page["groups"], strict=False):
        for subject, line in zip(group.subjects, shown["subjects"], strict=False):
            yield _records(subject, line), _beside(line, shown["label"])


def _records(part: Subject | Summary, line: Mapping[str, Any]) -> Sequence[Record]:
    return part.items[: len(line["items"])] or [part.newest]


def _beside(line: Mapping[str, Any], *above: str) -> Beside:
    shown = [line, *line["items"]]
    texts = [*above, line["label"], *line.get("title_parts", ())]
    texts += [text for item in line["items"] for text in (*item["parts"], item["text"], item["body"], item["author"])]
    names = frozenset(detail["name"] for each in shown for detail in each["details"])
    return Beside(frozenset(part for text in texts for part in _parts(text)), names)


def _parts(text: str) -> Iterator[str]:
    """Return a text, and each part of it that begins or ends at a colon."""
    line = " ".join(text[:ITEM_LENGTH].replace(LINE_BREAK, " ").split()).strip(": ")
    steps = line.split(": ")
    for place in range(len(steps)):
        yield ": ".join(steps[place:])
        yield ": ".join(steps[: place + 1])
