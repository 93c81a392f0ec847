"""What templates are given: a summary as plain data, in the reader's words and times, and small enough for a mail."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from digestif.compose.fields import label_of
from digestif.compose.summary import Group, Subject, Summary
from digestif.compose.times import Times
from digestif.compose.wording import body_of, link_of, one_line, plural, safe_link, spoken, title_of, trimmed
from digestif.core.records import Record

LINKS = {"open": "Open", "settings": "Settings", "unsubscribe": "Unsubscribe"}  # in this order, others after them
MOST_LINKS = 8
MOST_GROUPS = 20
MOST_DISTINCT = 4


@dataclass(frozen=True, slots=True)
class Room:
    """How much fits: bytes of escaped text, of which every subject and every group also takes a fixed share."""

    bytes: int
    subject: int
    group: int


# Gmail hides what comes after 102 KB of HTML. The shares are what the built-in template writes around the texts.
MAIL = Room(bytes=76_000, subject=780, group=450)


def context(
    summary: Summary,
    *,
    times: Times,
    next_delivery: float | None = None,
    links: Mapping[str, str] | None = None,
    title: str | None = None,
    room: Room = MAIL,
    values: bool = False,
) -> dict[str, Any]:
    """Everything a template may say. What does not fit is counted into `more` and `more_records`, exactly.

    With `values` each subject also carries the value of its newest record.
    """
    groups, hidden, hidden_records = _fitting(summary, times, room, values)
    more, more_records = summary.more + hidden, summary.more_records + hidden_records
    upcoming = "" if next_delivery is None else times.moment(next_delivery)
    return {
        "title": one_line(title or ""),
        "headline": _headline(summary),
        "facts": _facts(summary, times),
        "groups": groups,
        "omissions": _omissions(more, more_records, summary.dropped),
        "outlook": f"Next one: usually not before {upcoming}." if upcoming else "",
        "links": _links(links or {}),
        "single": _single(summary.newest, times, values) if summary.single else None,
        "lead": groups[0]["subjects"][0]["label"] if groups else "",
        "timeline": one_line(summary.timeline),
        "count": summary.count,
        "counted": summary.subjects != summary.count,  # or each subject is one event, and numbers say nothing
        "subjects": summary.subjects,
        "distinct": dict(summary.distinct),
        "first": summary.first,
        "last": summary.last,
        "window": times.window(summary.first, summary.last),
        "zone": times.zone,
        "hours": times.hours,
        "more": more,
        "more_records": more_records,
        "dropped": summary.dropped,
        "next": upcoming,
        "next_delivery": next_delivery,
    }


def _headline(summary: Summary) -> str:
    if summary.single:
        return title_of(summary.newest.value)
    if summary.subjects == summary.count:
        return plural(summary.count, "event")
    return f"{plural(summary.count, 'event')} about {plural(summary.subjects, 'subject')}"


def _facts(summary: Summary, times: Times) -> str:
    """What is said below the headline."""
    counted = [plural(summary.count, "event")] if summary.single and summary.count > 1 else []
    return _enumerated(
        *counted, *_distinct(summary.distinct), f"{times.window(summary.first, summary.last)} ({times.zone})"
    )


def _omissions(more: int, more_records: int, dropped: int) -> list[str]:
    """What is not shown at all; what groups leave out they say themselves."""
    omissions = []
    if more:
        omissions.append(f"and {plural(more, 'more group')} with {plural(more_records, 'event')}")
    if dropped:
        omissions.append(f"and {plural(dropped, 'older one')} that did not fit")
    return omissions


def _fitting(summary: Summary, times: Times, room: Room, values: bool) -> tuple[list[dict[str, Any]], int, int]:
    """The groups that fit, then how many do not, and how many records those have."""
    dated = not times.same_day(summary.first, summary.last)
    left = room.bytes
    shown: list[dict[str, Any]] = []
    for group in summary.groups[:MOST_GROUPS]:
        label = one_line(group.label)
        left -= room.group + _weight(label)
        lines: list[dict[str, Any]] = []
        for subject, line in _lines(group, times, dated):
            left -= room.subject + _weight(line["label"], line["title"], line["url"], line["facts"])
            if left < 0:
                break
            lines.append(line | {"value": trimmed(subject.newest.value)} if values else line)
        if lines:
            shown.append(_group(group, label, lines))
        if left < 0:
            break
    rest = summary.groups[len(shown) :]
    return shown, len(rest), sum(group.count for group in rest)


def _group(group: Group, label: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    rest = group.subjects[len(lines) :]
    more, more_records = group.more + len(rest), group.more_records + sum(subject.count for subject in rest)
    return {
        "label": label,
        "count": group.count,
        "size": group.size,
        "first": group.first,
        "last": group.last,
        "distinct": dict(group.distinct),
        "facts": _enumerated(plural(group.count, "event"), *_distinct(group.distinct)),
        "subjects": lines,
        "more": more,
        "more_records": more_records,
        "note": f"and {more:,} more with {plural(more_records, 'event')}" if more else "",
    }


def _lines(group: Group, times: Times, dated: bool) -> Iterator[tuple[Subject, dict[str, Any]]]:
    for subject in group.subjects:
        title = title_of(subject.newest.value)
        label = title if subject.label == title else _label(subject) or title
        when = times.span(subject.first, subject.last, dated=dated)
        yield (
            subject,
            {
                "label": label,
                "title": "" if title == label else title,
                "url": link_of(subject.newest.value),
                "count": subject.count,
                "distinct": dict(subject.distinct),
                "facts": _enumerated(*_distinct(subject.distinct), when),
                "first": subject.first,
                "last": subject.last,
                "when": when,
            },
        )


def _label(subject: Subject) -> str:
    """What a subject is called; nothing if that is its title, of which a label shows less."""
    text = spoken(subject.newest.value)
    # Without grouping, the label is the key of the one record, which says nothing to people.
    is_title = subject.label == subject.newest.key or (text and subject.label == label_of(text))
    return "" if is_title else one_line(subject.label)


def _single(record: Record, times: Times, values: bool) -> dict[str, Any]:
    single = {
        "title": title_of(record.value),
        "body": body_of(record.value),
        "url": link_of(record.value),
        "at": record.timestamp,
        "when": times.moment(record.timestamp),
    }
    return single | {"value": trimmed(record.value)} if values else single


def _distinct(counts: Mapping[str, int]) -> list[str]:
    """Distinct counts as words; one of something is said so that it needs no singular."""
    return [
        f"{one_line(name, 40)}: 1" if count == 1 else f"{count:,} {one_line(name, 40)}"
        for name, count in islice(counts.items(), MOST_DISTINCT)
    ]


def _links(links: Mapping[str, str]) -> list[dict[str, str]]:
    order = [name for name in LINKS if name in links] + [name for name in links if name not in LINKS]
    named = ((name, safe_link(links[name])) for name in order[:MOST_LINKS])
    return [
        {"name": name, "label": LINKS.get(name) or one_line(name, 40).capitalize(), "url": url}
        for name, url in named
        if url
    ]


def _enumerated(*facts: str) -> str:
    return " · ".join(facts)


def _weight(*texts: str) -> int:
    """Bytes of these texts once they are escaped: `&amp;`, `&#34;` and `&#39;`; `&lt;` and `&gt;`."""
    body = "".join(texts).encode()
    size = len(body)
    return size + 4 * (size - len(body.translate(None, b"&\"'"))) + 3 * (size - len(body.translate(None, b"<>")))
