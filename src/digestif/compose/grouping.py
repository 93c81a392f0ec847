"""Grouping: from the records of a digest to a summary of groups and subjects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, neg
from typing import Any

from digestif.compose.fields import Field, Identity, Reader, identity, label_of, reader
from digestif.compose.summary import Group, Subject, Summary
from digestif.core.records import Digest
from digestif.core.texts import shortened
from digestif.errors import ConfigError

LEVELS = 2


def summarize(
    digest: Digest,
    *,
    group_by: Sequence[Field] = (),
    distinct: Mapping[str, Field] = {},
    top: int = 10,
    top_groups: int = 20,
) -> Summary:
    """Summarize a digest as `Grouping` describes. Raises ValueError if it is empty."""
    return Grouping(group_by=group_by, distinct=distinct, top=top, top_groups=top_groups).summarize(digest)


class Grouping:
    """How records are grouped: checked once, used for many digests.

    Two fields in `group_by` give groups of subjects, one gives subjects in one group without a label, and none makes
    each record a subject. `distinct` counts different values except None. A path that leads nowhere, a callable that
    raises and a value that JSON can't express read as None, so that one bad record stops no digest.

    Subjects are sorted by count, then by distinct counts in the order of `distinct`; groups by number of subjects, then
    by count; largest first. Ties go to the newer one, then by label. The order of the records does not matter.
    """

    def __init__(
        self,
        *,
        group_by: Sequence[Field] = (),
        distinct: Mapping[str, Field] = {},
        top: int = 10,
        top_groups: int = 20,
    ) -> None:
        self._levels = _readers(group_by)
        self._distinct = _distinct_readers(distinct)
        self._top = _check_top(top, "top")
        self._top_groups = _check_top(top_groups, "top_groups")

    def summarize(self, digest: Digest) -> Summary:
        """Raises ValueError if the digest is empty."""
        if not digest:
            raise ValueError(f"the digest {digest.id} of {shortened(digest.timeline)} is empty: nothing to summarize")
        sheet = _Sheet(digest, self._levels, self._distinct)
        parts = self._parts(sheet)
        shown, rest = parts[: self._top_groups], parts[self._top_groups :]
        whole = sheet.tally(sheet.rows)
        return Summary(
            timeline=digest.timeline,
            count=whole.count,
            subjects=sum(len(part.subjects) for part in parts),
            first=whole.first,
            last=whole.last,
            newest=whole.newest,
            groups=tuple(self._group(part) for part in shown),
            more=len(rest),
            more_records=sum(part.tally.count for part in rest),
            dropped=digest.dropped,
            distinct=whole.distinct,
            faults=len(sheet.faults),
        )

    def _parts(self, sheet: "_Sheet") -> list["_Part"]:
        groups = sheet.groups.split(sheet.rows) if sheet.groups else {None: sheet.rows}
        parts = [
            _Part(key, sheet.tally(rows, sheet.groups), self._subjects(sheet, rows)) for key, rows in groups.items()
        ]
        return sorted(parts, key=_group_rank)

    def _subjects(self, sheet: "_Sheet", rows: Sequence[int]) -> list[Subject]:
        split = sheet.subjects.split(rows)
        tallies = {key: sheet.tally(some, sheet.subjects) for key, some in split.items()}
        return [subject for _, subject in sorted(tallies.items(), key=_subject_rank)]

    def _group(self, part: "_Part") -> Group:
        tally, rest = part.tally, part.subjects[self._top :]
        return Group(
            key=tally.key,
            label=tally.label,
            count=tally.count,
            first=tally.first,
            last=tally.last,
            newest=tally.newest,
            subjects=tuple(part.subjects[: self._top]),
            more=len(rest),
            more_records=sum(subject.count for subject in rest),
            distinct=tally.distinct,
        )


# Options


def _readers(group_by: Sequence[Field]) -> list[Reader]:
    if isinstance(group_by, str) or not isinstance(group_by, Sequence):
        raise ConfigError(f"group_by: {shortened(group_by)} is no list; write it like ['rule', 'issue.id']")
    if len(group_by) > LEVELS:
        raise ConfigError(f"group_by: {len(group_by)} levels, allowed are {LEVELS}: a group and a subject")
    return [reader(field, "group_by") for field in group_by]


def _distinct_readers(distinct: Mapping[str, Field]) -> dict[str, Reader]:
    if not _has_names(distinct):
        raise ConfigError(f"distinct: {shortened(distinct)} has no names; write it like {{'users': 'user.id'}}")
    return {name: reader(field, f"distinct[{shortened(name)}]") for name, field in distinct.items()}


def _has_names(distinct: object) -> bool:
    return isinstance(distinct, Mapping) and all(isinstance(name, str) for name in distinct)


def _check_top(number: object, option: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(f"{option}: {shortened(number)} is not a whole number from 1")
    return number


# Counting. A sheet numbers the records, newest first, so that each field is read once per record.


class _Sheet:
    """The records of a digest as rows, and the fields in use as columns."""

    def __init__(self, digest: Digest, levels: Sequence[Reader], distinct: Mapping[str, Reader]) -> None:
        # Usually they are in this order already. Of the same timestamp, the first stays first: it arrived last.
        self.records = sorted(digest.records, key=attrgetter("timestamp"), reverse=True)
        self.faults: set[int] = set()
        self.groups = self._column(levels[0]) if len(levels) == LEVELS else None
        self.subjects = self._column(levels[-1]) if levels else self._keys()
        self.distinct = {name: self._column(read).identities for name, read in distinct.items()}

    @property
    def rows(self) -> range:
        return range(len(self.records))

    def tally(self, rows: Sequence[int], column: "_Column | None" = None) -> Subject:
        """Count rows that share a value in a column."""
        newest = self.records[rows[0]]
        value = column.values[rows[0]] if column else None
        return Subject(
            key=value,
            label=label_of(value) if column else "",
            count=len(rows),
            first=self.records[rows[-1]].timestamp,
            last=newest.timestamp,
            newest=newest,
            distinct={name: _different(identities, rows) for name, identities in self.distinct.items()},
        )

    def _keys(self) -> "_Column":
        keys = [record.key for record in self.records]
        return _Column(keys, keys)

    def _column(self, read: Reader) -> "_Column":
        values = read(self.records)
        try:
            return _Column(values, list(map(identity, values)))
        except Exception:  # noqa: BLE001  # an encoder may fail in many ways
            return self._column_with_faults(values)

    def _column_with_faults(self, values: list[Any]) -> "_Column":
        identities: list[Identity] = []
        for row, value in enumerate(values):
            try:
                identities.append(identity(value))
            except Exception:  # noqa: BLE001  # one bad record stops no digest
                self.faults.add(row)
                identities.append(None)
                values[row] = None
        return _Column(values, identities)


@dataclass(slots=True)
class _Column:
    """A field of every record."""

    values: Sequence[Any]
    identities: Sequence[Identity]

    def split(self, rows: Sequence[int]) -> Mapping[Identity, Sequence[int]]:
        """The rows by their value."""
        found: dict[Identity, list[int]] = {}
        for row in rows:
            found.setdefault(self.identities[row], []).append(row)
        return found


def _different(identities: Sequence[Identity], rows: Sequence[int]) -> int:
    if len(rows) == 1:
        return int(identities[rows[0]] is not None)
    found = {identities[row] for row in rows}
    return len(found) - (None in found)


# Order


@dataclass(slots=True)
class _Part:
    """A group with all of its subjects."""

    key: Identity
    tally: Subject
    subjects: list[Subject]


def _subject_rank(found: tuple[Identity, Subject]) -> tuple[Any, ...]:
    key, tally = found
    return -tally.count, *map(neg, tally.distinct.values()), -tally.last, tally.label, _tie(key)


def _group_rank(part: _Part) -> tuple[Any, ...]:
    tally = part.tally
    return -len(part.subjects), -tally.count, -tally.last, tally.label, _tie(part.key)


def _tie(key: Identity) -> tuple[str, str | int]:
    """A sort key for different values with the same label."""
    if key is None:
        return "", ""
    return key if isinstance(key, tuple) else ("text", key)
