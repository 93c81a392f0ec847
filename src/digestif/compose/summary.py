"""Summaries: the records of a digest as groups of subjects, counted and sorted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from digestif.compose.fields import bounded
from digestif.core.records import Record

SubjectWeight = float | tuple[float, ...]  # tuples are compared as Python does; a number is like the tuple of it alone


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Records with the same value of the last `group_by` field."""

    key: Any  # the value that the records share; of an object its id, if it has one
    label: str  # that value, or its title, as text
    count: int
    first: float  # timestamps, in seconds
    last: float
    newest: Record
    distinct: Mapping[str, int] = {}  # number of different values, by name
    items: tuple[Record, ...] = ()  # the newest records, newest first; with an order by a field the heaviest first
    ranked: bool = False  # the items are not simply the newest ones
    weight: SubjectWeight = 0  # from outside; the heaviest come first
    rows: Sequence[int] = ()  # the numbers of its records, by which overlaps are found
    url: str = ""  # a link of its own, not that of a record

    def to_dict(self) -> dict[str, Any]:
        return {**_tallied(self), "items": [record.key for record in self.items], "weight": self.weight}


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects with the same value of the first of two `group_by` fields; else one group without a label."""

    key: Any
    label: str
    count: int  # records
    first: float
    last: float
    newest: Record
    subjects: tuple[Subject, ...]  # those with the most records
    more: int  # number of further subjects…
    more_records: int  # …and of their records
    distinct: Mapping[str, int] = {}
    rows: Sequence[int] = ()
    url: str = ""

    @property
    def size(self) -> int:
        """The number of all subjects."""
        return len(self.subjects) + self.more

    def to_dict(self) -> dict[str, Any]:
        subjects = [subject.to_dict() for subject in self.subjects]
        return {**_tallied(self), "subjects": subjects, "more": self.more, "more_records": self.more_records}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A digest for people: its records in groups, with counts."""

    timeline: str
    count: int  # records; one that stands in several groups counts once
    subjects: int  # number of them, in all groups; one that stands in several groups with the same records counts once
    first: float
    last: float
    newest: Record
    groups: tuple[Group, ...]  # those with the most subjects
    more: int  # number of further groups…
    more_records: int  # …and of their records
    dropped: int  # records that capacity dropped
    distinct: Mapping[str, int] = {}
    faults: int = 0  # records with an unreadable field, which counts as None
    items: tuple[Record, ...] = ()  # like those of a subject
    ranked: bool = False

    @property
    def single(self) -> Record | None:
        """The newest record if there is only one subject: then the digest reads like a notification."""
        return self.newest if self.subjects == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """The summary as values for JSON. Large values of records are cut."""
        return {
            "timeline": self.timeline,
            "count": self.count,
            "subjects": self.subjects,
            "first": self.first,
            "last": self.last,
            "newest": _record(self.newest),
            "groups": [group.to_dict() for group in self.groups],
            "more": self.more,
            "more_records": self.more_records,
            "dropped": self.dropped,
            "distinct": dict(self.distinct),
            "faults": self.faults,
        }


def different_records(parts: Iterable[Subject | Group]) -> int:
    """The number of records in some groups or subjects. One that stands in several counts once."""
    listed = list(parts)
    return len(set().union(*(part.rows for part in listed))) or sum(part.count for part in listed)


def _tallied(part: Subject | Group) -> dict[str, Any]:
    """The fields that groups and subjects share."""
    return {
        "key": bounded(part.key),
        "label": part.label,
        "url": part.url,
        "count": part.count,
        "first": part.first,
        "last": part.last,
        "newest": _record(part.newest),
        "distinct": dict(part.distinct),
    }


def _record(record: Record) -> dict[str, Any]:
    return {"key": record.key, "value": bounded(record.value), "timestamp": record.timestamp}
