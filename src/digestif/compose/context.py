"""The context of templates: a summary as plain data, with texts and times for the reader, small enough for a mail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from digestif.compose.brand import Brand
from digestif.compose.details import Detail, Details, columns_of, details_line
from digestif.compose.names import TEXT_LENGTH, Names, names_of_list, names_of_notification
from digestif.compose.phrases import distinct_counts, enumerated, label_beside, name_of, named, stands_for_record
from digestif.compose.summary import Group, Subject, Summary, different_records
from digestif.compose.texts import (
    ITEM_LENGTH,
    LABEL_LENGTH,
    VALUE_SIZE,
    author_of,
    body_of,
    cut,
    differing_texts,
    has_heading,
    joined_lines,
    link_of,
    one_line,
    safe_link,
    text_of,
    title_of,
    trimmed,
)
from digestif.compose.times import Times
from digestif.compose.wording import Wording
from digestif.core.records import Record

LINKS = ("open", "settings", "unsubscribe")  # in this order, others after them
MOST_LINKS = 8
MOST_GROUPS = 20
LINK_TAG = 90  # bytes


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The most bytes of escaped text. Each group, subject and item costs a fixed number besides its own text."""

    bytes: int
    body: int  # the most of the only record, or of the newest one
    subject: int
    chip: int  # the count before a subject
    title: int
    group: int
    item: int
    detail: int


# Gmail hides HTML after 102 KB. The others are what the built-in template writes around their texts.
MAIL = SizeLimit(bytes=76_000, body=41_000, subject=345, chip=355, title=100, group=450, item=240, detail=80)
NO_CHOICE = Details()
NO_BRAND = Brand()
SHORT_ITEM = 60  # characters of a text that may stand in a table


def context(
    summary: Summary,
    *,
    times: Times,
    next_delivery: float | None = None,
    links: Mapping[str, str] | None = None,
    title: str | None = None,
    details: Details = NO_CHOICE,
    oldest_first: bool = False,
    brand: Brand = NO_BRAND,
    reason: str = "",
    cadence: str = "",
    limit: SizeLimit = MAIL,
    values: bool = False,
) -> dict[str, Any]:
    """The variables of a template. Groups and subjects beyond the limit are counted in `more` and `more_records`.

    The words are those of `times`. With `values` each subject also has the value of its newest record.
    """
    words = times.wording
    page = _Page(summary, times, details, limit, values, oldest_first)
    groups, more, more_records = page.groups, page.more, page.more_records
    shown_links = _links(links or {}, words)
    upcoming = "" if next_delivery is None else times.moment(next_delivery)
    return {
        "title": one_line(title or ""),
        "headline": page.names.headline if page.names else _headline(summary, words),
        "mail_subject": page.names.mail_subject if page.names else _mail_subject(summary, page.lead, words),
        "facts": _facts(summary, times, page.names.about if page.names else ()),
        "groups": groups,
        "omissions": _omissions(more, more_records, summary.dropped, words),
        "outlook": words.outlook.format(time=upcoming) if upcoming else "",
        "links": shown_links,
        "foot_links": _foot_links(shown_links, page.single),
        "reason": one_line(reason, ITEM_LENGTH),
        "cadence": words.how_often.format(cadence=cadence) if cadence else "",
        "brand": brand.for_templates(),
        "single": page.single,
        "lead": page.lead,
        "timeline": one_line(summary.timeline),
        "count": summary.count,
        "counted": _is_counted(summary),
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
        "wording": words.for_templates,
    }


def _headline(summary: Summary, words: Wording) -> str:
    records = words.records(summary.count)
    if not any(named(subject) for group in summary.groups for subject in group.subjects):
        return words.headline_each.format(records=records)
    return words.headline.format(records=records, subjects=words.count(summary.subjects, words.subject))


def _mail_subject(summary: Summary, lead: str, words: Wording) -> str:
    return words.mail_subject.format(
        lead=cut(lead, TEXT_LENGTH), more=words.number(summary.subjects - 1), records=words.records(summary.count)
    )


def _facts(summary: Summary, times: Times, about: tuple[str, ...]) -> str:
    """The line below the headline."""
    distinct = distinct_counts(summary, times.wording)
    return enumerated(*about, *distinct, f"{times.window(summary.first, summary.last)} ({times.zone})")


def _is_counted(summary: Summary) -> bool:
    """False if each subject is one record: then counts say nothing."""
    subjects = (subject for group in summary.groups for subject in group.subjects)
    return summary.subjects != summary.count or any(subject.count > 1 for subject in subjects)


def _omissions(more: int, more_records: int, dropped: int, words: Wording) -> list[str]:
    """Lines about groups and records that are missing; each group has its own note."""
    omissions = []
    if more:
        groups = words.count(more, words.more_group)
        omissions.append(words.more_groups.format(groups=groups, records=words.records(more_records)))
    if dropped:
        omissions.append(words.dropped.format(records=words.count(dropped, words.older_record)))
    return omissions


class _Page:
    """What is shown within a limit: first groups with their subjects, then items as long as there is room."""

    def __init__(
        self, summary: Summary, times: Times, details: Details, limit: SizeLimit, values: bool, oldest_first: bool
    ) -> None:
        self._oldest_first = oldest_first
        self._times = times
        self._details = details
        self._words = times.wording
        self._limit = limit
        self._values = values
        self._dated = not times.same_day(summary.first, summary.last)
        self._left = limit.bytes
        has_chips = values or _is_counted(summary)  # templates of your own may write more; and values are large
        self._subject_cost = limit.subject + (limit.chip if has_chips else 0)
        self._lines: list[tuple[str, Subject, dict[str, Any]]] = []  # with the label of the group
        self.groups = self._fitting(summary.groups[:MOST_GROUPS])
        self.lead: str = self._lines[0][2]["label"] if self._lines else ""
        rest = summary.groups[len(self.groups) :]
        self.more = summary.more + len(rest)
        self.more_records = summary.more_records + different_records(rest)
        self.names: Names | None = None
        self.single = self._single(summary) if summary.single else None
        for group, subject, line in self._lines:
            if self._left > limit.item:
                self._list_items(group, subject, line)
                self._complete_title(subject, line)
                self._add_details(group, subject, line)

    def _fitting(self, groups: tuple[Group, ...]) -> list[dict[str, Any]]:
        shown = []
        for group in groups:
            label = name_of(group, self._words)
            self._left -= self._limit.group + _weight(label) + _link_weight(group.url)
            lines = self._subjects(group, label)
            if lines:
                shown.append(self._group(group, label, lines))
            if self._left < 0:
                break
        return shown

    def _subjects(self, group: Group, label: str) -> list[dict[str, Any]]:
        lines = []
        for subject in group.subjects:
            line = self._line(subject)
            texts = _weight(line["label"], line["url"], line["facts"]) + self._title_cost(line["title"])
            self._left -= self._subject_cost + texts + _link_weight(line["newest_url"])
            if self._left < 0:
                break
            lines.append(line)
            self._lines.append((label, subject, line))
        return lines

    def _group(self, group: Group, label: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
        rest = group.subjects[len(lines) :]
        more, more_records = group.more + len(rest), group.more_records + different_records(rest)
        words, is_conversation = self._words, self._oldest_first and _is_conversation(group)
        each = words.more_items if more == more_records else words.more_subjects
        phrase = words.earlier_items if is_conversation else each
        note = phrase.format(more=words.number(more), records=words.records(more_records))
        return {
            "oldest_first": is_conversation,
            "label": label,
            "url": group.url,
            "count": group.count,
            "size": group.size,
            "first": group.first,
            "last": group.last,
            "distinct": dict(group.distinct),
            "facts": enumerated(words.records(group.count), *distinct_counts(group, words)),
            "subjects": lines[::-1] if is_conversation else lines,
            "more": more,
            "more_records": more_records,
            "note": note if more else "",
        }

    def _line(self, subject: Subject) -> dict[str, Any]:
        value = subject.newest.value
        title = title_of(value, self._words.no_text)
        label = label_beside(title, subject, self._words) or title
        when = self._times.span(subject.first, subject.last, dated=self._dated)
        line = {
            "label": label,
            **self._title("" if title == label else title, author_of(value)),
            "alike": False,
            "url": subject.url or link_of(value),
            "newest_url": link_of(value) if subject.url else "",
            "count": subject.count,
            "distinct": dict(subject.distinct),
            "facts": enumerated(*distinct_counts(subject, self._words), when),
            "first": subject.first,
            "last": subject.last,
            "when": when,
            "weight": subject.weight,
            "details": [],
            "details_line": "",
            "columns": [],
            "items": [],
            "oldest_first": self._oldest_first and not subject.ranked,
            "more_items": 0,
            "items_note": "",
        }
        return line | {"value": trimmed(value)} if self._values else line

    def _title(self, text: str, author: str, before: str = "") -> dict[str, Any]:
        """The title of a subject, also in parts, so that templates write its author bold; nothing without a text."""
        start, name, rest = self._words.signature(author, text) if text else ("", "", "")
        return {"title": f"{before}{start}{name}{rest}", "title_parts": (before + start, name, rest)}

    def _list_items(self, group: str, subject: Subject, line: dict[str, Any]) -> None:
        """List what differs between the newest records of a subject, and say how many more it has."""
        listed = self._items(subject.items, group, line["label"])
        if not listed:
            line["alike"] = 1 < subject.count == len(subject.items) and author_of(subject.newest.value) != ""
            return
        line["items"], line["more_items"], line["items_note"] = self._fitting_items(listed, subject)
        title = title_of(subject.newest.value, length=ITEM_LENGTH)
        if any(item["text"] == title for item in line["items"]):
            self._left += self._title_cost(line["title"])
            line["title"] = ""  # it is one of the items
        line["columns"] = _columns(line["items"])
        if any(item["url"] for item in line["items"]):
            link = "newest_url" if subject.url else "url"
            self._left += _weight(line[link])
            line[link] = ""  # it would be that of the first item

    def _complete_title(self, subject: Subject, line: dict[str, Any]) -> None:
        """Show more of a title and the text below it, and before them the number of records, if there is room."""
        value = subject.newest.value
        count = f"{self._words.number(subject.count)} × " if line["alike"] else ""
        text = title_of(value, self._words.no_text, ITEM_LENGTH) if line["title"] else ""
        body = self._body_beside(subject, line)
        for more in (": ".join(filter(None, (text, body))), text):
            title = self._title(more, author_of(value), count)
            cost = self._title_cost(title["title"]) - self._title_cost(line["title"])
            if 0 < cost < self._left:
                self._left -= cost
                line |= title
                return

    def _title_cost(self, title: str) -> int:
        return self._limit.title + _weight(title) if title else 0

    def _body_beside(self, subject: Subject, line: dict[str, Any]) -> str:
        """Return a line of the longer text below the title, if one record or records that look the same have it."""
        if not _is_alike(subject, line["items"]):
            return ""
        title = title_of(subject.newest.value, length=ITEM_LENGTH)
        text = body_of(subject.newest.value, title)
        body, label = joined_lines(text, ITEM_LENGTH), line["label"].rstrip("…")
        is_label = body == label or (label != line["label"] and body.startswith(label))
        is_said = is_label or title.endswith(body) or self._details.repeat(subject.newest, text)
        return "" if is_said else cut(body, LABEL_LENGTH)

    def _add_details(self, group: str, subject: Subject, line: dict[str, Any]) -> None:
        """Show the details of a subject's only record, or of records that look the same, if there is room."""
        if not _is_alike(subject, line["items"]):
            return  # those of the newest record would be taken for those of all
        value = subject.newest.value
        beside = (title_of(value, length=ITEM_LENGTH), author_of(value)) if line["title"] else ()
        shown = _shown_details(self._details.of(subject.newest, group, line["label"], line["title"], *beside))
        if self._detail_cost(shown) < self._left:
            self._left -= self._detail_cost(shown)
            line |= shown

    def _detail_cost(self, shown: Mapping[str, Any]) -> int:
        return sum(
            self._limit.detail + _weight(detail["name"], detail["text"]) + _link_weight(detail["url"])
            for detail in shown["details"]
        )

    def _fitting_items(
        self, items: list[dict[str, Any]], of: Subject | Summary
    ) -> tuple[list[dict[str, Any]], int, str]:
        shown = []
        for item in items:
            cost = self._limit.item + _weight(item["line"], item["body"], item["url"], item["when"])
            cost += self._detail_cost(item)
            if cost > self._left:
                break
            self._left -= cost
            shown.append(item)
        more = of.count - len(shown)
        in_order = sorted(shown, key=itemgetter("at"), reverse=True)[::-1] if self._oldest_first else shown
        if not shown or not more:
            return in_order, 0, ""
        are_earlier = self._oldest_first and not of.ranked
        phrase = self._words.earlier_items if are_earlier else self._words.more_items
        note = phrase.format(more=self._words.number(more))
        self._left -= self._limit.item + _weight(note)
        return in_order, more, note

    def _items(self, records: Sequence[Record], *labels: str) -> list[dict[str, Any]]:
        """What differs between records of a subject; nothing if they all look the same.

        If a person wrote the same several times, each with a link of its own, or several persons did, all are listed.
        """
        values = [record.value for record in records]
        if len(values) < 2:  # one can't differ
            return []
        texts = differing_texts(values, self._words.no_text)
        links = list(map(link_of, values))
        has_links = len(set(links)) > 1
        authors = set(map(author_of, values))
        is_repeated = has_links if len(authors) == 1 else text_of(values[0]) and not has_heading(values[0])
        if is_repeated and all(authors) and not any(texts):
            texts = [title_of(value, self._words.no_text, ITEM_LENGTH) for value in values]
        items = [
            self._item(record, text, link if has_links else "", labels)
            for record, text, link in zip(records, texts, links, strict=True)
        ]
        return items if any(texts) or len({item["line"] for item in items}) > 1 else []

    def _item(self, record: Record, text: str, url: str, labels: Sequence[str]) -> dict[str, Any]:
        """A record in a list. If only its details tell it from others, they are its line."""
        author, title = author_of(record.value), title_of(record.value, self._words.no_text, ITEM_LENGTH)
        line, parts = self._words.signed(author, text), self._words.signature(author, text)
        found = _shown_details(self._details.of(record, *labels, title, text, author))
        if not line and found["details_line"]:
            line, found["details_line"] = found["details_line"], ""
        item = found | {
            "line": line or title,
            "parts": parts if any(parts) else ("", "", line or title),
            "author": author,
            "text": text,
            "body": "",
            "url": url,
            "at": record.timestamp,
            "when": self._times.span(record.timestamp, record.timestamp, dated=self._dated),
        }
        return item | {"value": trimmed(record.value, size=VALUE_SIZE // 5)} if self._values else item

    def _single(self, summary: Summary) -> dict[str, Any]:
        """The only record as a notification; several records of the only subject as a list, if they differ."""
        value = summary.newest.value
        labels = [label for group in summary.groups for label in (group.label, group.subjects[0].label)]
        listed = self._items(summary.items, *labels)
        if listed:
            listed[0]["body"] = self._body(summary.items[0].value, listed[0]["text"])
        items, more, note = self._fitting_items(listed, summary)
        names = (names_of_list if items else names_of_notification)(summary, self._words)
        body = "" if items else self._body(value, names.headline)
        said = (*labels, names.headline, *names.about, body, author_of(value))
        details = _shown_details(self._details.of(summary.newest, *said) if _is_alike(summary, items) else [])
        self._left -= _weight(body) + self._detail_cost(details)
        self.names = names
        title = title_of(value, self._words.no_text)
        label = self._lines[0][2]["label"] if self._lines else title
        single = {
            "title": title,
            "label": "" if label == title else label,
            "body": body,
            "url": self._single_link(summary, items),
            "author": author_of(value),
            "at": summary.newest.timestamp,
            "when": self._times.moment(summary.newest.timestamp),
            "columns": _columns(items),
            "items": items,
            "oldest_first": self._oldest_first and not summary.ranked,
            "more_items": more,
            "items_note": note,
        }
        single |= details
        return single | {"value": trimmed(value)} if self._values else single

    def _single_link(self, summary: Summary, items: list[dict[str, Any]]) -> str:
        """The link of the only record; if several are listed, that of their subject."""
        own = summary.groups[0].subjects[0].url
        link = "" if any(item["url"] for item in items) else link_of(summary.newest.value)
        return own or link if items else link or own

    def _body(self, value: Any, above: str) -> str:
        body = body_of(value, above)
        if above.endswith(joined_lines(body, ITEM_LENGTH)):
            return ""
        while _weight(body) > self._limit.body:
            body = cut(body, len(body) * 9 // 10)
        return body


def _is_alike(part: Subject | Summary, items: Sequence[dict[str, Any]]) -> bool:
    """Return True for one record, or several of which none is listed, because all look the same."""
    return not items and part.count <= max(1, len(part.items))


def _shown_details(details: Sequence[Detail]) -> dict[str, Any]:
    """Return the details for templates: each with its name and text, and all of them as a line."""
    named = [{"name": detail.name, "text": detail.text, "url": detail.url} for detail in details]
    return {"details": named, "details_line": details_line(details)}


def _columns(items: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the details of all items, if items and details make a small table; else nothing."""
    if any(item["body"] or len(item["line"]) > SHORT_ITEM for item in items if item["details_line"] or item["body"]):
        return []
    return columns_of([[detail["name"] for detail in item["details"]] for item in items])


def _is_conversation(group: Group) -> bool:
    """Return True if each subject is one record, sorted by nothing but time."""
    return all(map(stands_for_record, group.subjects)) and len({subject.weight for subject in group.subjects}) == 1


def _foot_links(links: list[dict[str, str]], single: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return the links at the foot: where the only subject has a link of its own, `open` would be a second one."""
    has_own = single is not None and single["url"]
    return [link for link in links if link["name"] != "open" or not has_own]


def _links(links: Mapping[str, str], words: Wording) -> list[dict[str, str]]:
    order = [name for name in LINKS if name in links] + [name for name in links if name not in LINKS]
    named = ((name, safe_link(links[name])) for name in order[:MOST_LINKS])
    return [{"name": name, "label": _link_label(name, words), "url": url} for name, url in named if url]


def _link_label(name: str, words: Wording) -> str:
    label: str = getattr(words, name) if name in LINKS else one_line(name, 40).capitalize()
    return label


def _link_weight(url: str) -> int:
    """Bytes of a link that not every group or subject has, with the tag around it."""
    return LINK_TAG + _weight(url) if url else 0


def _weight(*texts: str) -> int:
    """Bytes of the escaped texts: `&amp;`, `&#34;` and `&#39;` add 4 each, `&lt;` and `&gt;` add 3."""
    body = "".join(texts).encode()
    size = len(body)
    return size + 4 * (size - len(body.translate(None, b"&\"'"))) + 3 * (size - len(body.translate(None, b"<>")))
