"""Summaries: the records of a digest in groups and subjects, counted and put in order. Pure functions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from digestif.compose.fields import bounded
from digestif.core.records import Record


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What several records are about: those that agree in the last level of `group_by`."""

    key: Any  # the value that they agree in
    label: str  # the same as text
    count: int
    first: float  # timestamps, in seconds
    last: float
    newest: Record
    distinct: Mapping[str, int] = {}  # by name: how many different values

    def to_dict(self) -> dict[str, Any]:
        return _tallied(self)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects that agree in the first level of `group_by`; with one level there is one group, without a label."""

    key: Any
    label: str
    count: int  # records
    first: float
    last: float
    newest: Record
    subjects: tuple[Subject, ...]  # by count, then by distinct counts, falling; the first ones
    more: int  # subjects that are not shown
    more_records: int  # …and how many records they have
    distinct: Mapping[str, int] = {}

    @property
    def size(self) -> int:
        """How many subjects there are."""
        return len(self.subjects) + self.more

    def to_dict(self) -> dict[str, Any]:
        subjects = [subject.to_dict() for subject in self.subjects]
        return {**_tallied(self), "subjects": subjects, "more": self.more, "more_records": self.more_records}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A digest as people read it."""

    timeline: str
    count: int  # records
    subjects: int  # how many, over all groups
    first: float
    last: float
    newest: Record
    groups: tuple[Group, ...]  # by number of subjects, then by count, falling; the first ones
    more: int  # groups that are not shown
    more_records: int
    dropped: int  # records that capacity pushed out
    distinct: Mapping[str, int] = {}
    faults: int = 0  # records of which a field could not be read; it counts as None

    @property
    def single(self) -> Record | None:
        """The newest record if there is one subject only: then this reads as an ordinary notification."""
        return self.newest if self.subjects == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON. Large values are cut, so that the whole is as bounded as what it shows."""
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
    """What groups and subjects have in common."""
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
