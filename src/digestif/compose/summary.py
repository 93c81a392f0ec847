"""Summaries: the records of a digest as groups of subjects, counted and sorted."""

from collections.abc import Mapping
from typing import Any

import msgspec

from digestif.compose.fields import bounded
from digestif.core.records import Record


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Records with the same value of the last `group_by` field."""

    key: Any  # the value that the records share
    label: str  # that value as text
    count: int
    first: float  # timestamps, in seconds
    last: float
    newest: Record
    distinct: Mapping[str, int] = {}  # number of different values, by name

    def to_dict(self) -> dict[str, Any]:
        return _tallied(self)


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
    count: int  # records
    subjects: int  # number of them, in all groups
    first: float
    last: float
    newest: Record
    groups: tuple[Group, ...]  # those with the most subjects
    more: int  # number of further groups…
    more_records: int  # …and of their records
    dropped: int  # records that capacity dropped
    distinct: Mapping[str, int] = {}
    faults: int = 0  # records with an unreadable field, which counts as None

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


def _tallied(part: Subject | Group) -> dict[str, Any]:
    """The fields that groups and subjects share."""
    return {
        "key": bounded(part.key),
        "label": part.label,
        "count": part.count,
        "first": part.first,
        "last": part.last,
        "newest": _record(part.newest),
        "distinct": dict(part.distinct),
    }


def _record(record: Record) -> dict[str, Any]:
    return {"key": record.key, "value": bounded(record.value), "timestamp": record.timestamp}
