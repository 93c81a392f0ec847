"""The context of templates: a summary as plain data, with texts and times for the reader, small enough for a mail."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from digestif.compose.fields import label_of
from digestif.compose.summary import Group, Subject, Summary
from digestif.compose.times import Times
from digestif.compose.wording import body_of, link_of, one_line, plural, safe_link, text_of, title_of, trimmed
from digestif.core.records import Record

LINKS = {"open": "Open", "settings": "Settings", "unsubscribe": "Unsubscribe"}  # in this order, others after them
MOST_LINKS = 8
MOST_GROUPS = 20
MOST_DISTINCT = 4


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The most bytes of escaped text. Each subject and each group costs a fixed number besides its own text."""

    bytes: int
    subject: int
    group: int


# Gmail hides HTML after 102 KB. `subject` and `group` are what the built-in template writes around their texts.
MAIL = SizeLimit(bytes=76_000, subject=780, group=450)


def context(
    summary: Summary,
    *,
    times: Times,
    next_delivery: float | None = None,
    links: Mapping[str, str] | None = None,
    title: str | None = None,
    limit: SizeLimit = MAIL,
    values: bool = False,
) -> dict[str, Any]:
    """The variables of a template. Groups and subjects beyond the limit are counted in `more` and `more_records`.

    With `values` each subject also has the value of its newest record.
    """
    groups, hidden, hidden_records = _fitting(summary, times, limit, values)
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
        "counted": summary.subjects != summary.count,  # if each subject is one record, counts say nothing
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
    """The line below the headline."""
    counted = [plural(summary.count, "event")] if summary.single and summary.count > 1 else []
    return _enumerated(
        *counted, *_distinct(summary.distinct), f"{times.window(summary.first, summary.last)} ({times.zone})"
    )


def _omissions(more: int, more_records: int, dropped: int) -> list[str]:
    """Lines about groups and records that are missing; each group has its own note."""
    omissions = []
    if more:
        omissions.append(f"and {plural(more, 'more group')} with {plural(more_records, 'event')}")
    if dropped:
        omissions.append(f"and {plural(dropped, 'older one')} that did not fit")
    return omissions


def _fitting(summary: Summary, times: Times, limit: SizeLimit, values: bool) -> tuple[list[dict[str, Any]], int, int]:
    """The groups within the limit, the number of the others, and the number of their records."""
    dated = not times.same_day(summary.first, summary.last)
    left = limit.bytes
    shown: list[dict[str, Any]] = []
    for group in summary.groups[:MOST_GROUPS]:
        label = one_line(group.label)
        left -= limit.group + _weight(label)
        lines: list[dict[str, Any]] = []
        for subject, line in _lines(group, times, dated):
            left -= limit.subject + _weight(line["label"], line["title"], line["url"], line["facts"])
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
    """The label of a subject; empty if it only repeats the title."""
    text = text_of(subject.newest.value)
    # Without grouping, the label is the key of the only record, which means nothing to people.
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
    """Distinct counts as words; a count of 1 is written so that the name needs no singular."""
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
    """Bytes of the escaped texts: `&amp;`, `&#34;` and `&#39;` add 4 each, `&lt;` and `&gt;` add 3."""
    body = "".join(texts).encode()
    size = len(body)
    return size + 4 * (size - len(body.translate(None, b"&\"'"))) + 3 * (size - len(body.translate(None, b"<>")))
