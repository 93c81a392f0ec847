"""Grouping: from the records of a digest to a summary of groups and subjects."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import inf
from operator import attrgetter, neg
from typing import Any, Protocol

from msgspec.structs import replace

from digestif.compose.fields import Field, Identity, Reader, rank_reader, reader
from digestif.compose.levels import Level, identities, identity_of, level_reader, shown_as
from digestif.compose.summary import Group, Subject, SubjectWeight, Summary, different_records
from digestif.core.hooks import check_hook
from digestif.core.placeholders import unfilled_fault
from digestif.core.records import Digest, Record
from digestif.core.texts import shortened
from digestif.errors import ConfigError

HEAVIEST = 1e300  # of the numbers in a weight: any that can be compared
LEVELS = 2
MOST_PLACES = 20  # of one record at one level; further values of its list are ignored

Weight = Callable[[list[Subject]], Sequence[SubjectWeight]]


def summarize(
    digest: Digest | Iterable[Record],
    *,
    group_by: Sequence[Level] = (),
    distinct: Mapping[str, Field] = {},
    top: int = 10,
    top_groups: int = 20,
    items: int = 5,
    weight: Weight | Mapping[str, Any] | None = None,
) -> Summary:
    """Summarize a digest, or records alone, as `Grouping` describes. Raises ValueError if there is no record."""
    return Grouping(
        group_by=group_by, distinct=distinct, top=top, top_groups=top_groups, items=items, weight=weight
    ).summarize(digest)


class Grouping:
    """How records are grouped: checked once, used for many digests.

    Two fields in `group_by` give groups of subjects, one gives subjects in one group without a label, and none makes
    each record a subject. A field whose value is a list puts the record under each value of the list. Objects with an
    `id` or a `key` are compared by that, and labelled by their title or name. A mapping such as
    `{"by": "post.id", "label": "post.title", "url": "post.url"}` takes label and link from other fields of the newest
    record. `distinct` counts different values except None. A path that leads nowhere, a callable that raises and a
    value that JSON can't express read as None, so that one bad record stops no digest.

    `weight` is a function, or a field and an order: `{"by": "severity", "order": ["critical", "warning"]}`. Then a
    subject weighs as much as the heaviest of its records.

    Subjects are sorted by `weight`, then by count, then by distinct counts in the order of `distinct`; groups by number
    of subjects, then by count; largest first. Ties go to the newer one, then by label. The order of the records does
    not matter. Each subject holds its newest `items` records; with a field and an order, its heaviest ones.
    """

    def __init__(
        self,
        *,
        group_by: Sequence[Level] = (),
        distinct: Mapping[str, Field] = {},
        top: int = 10,
        top_groups: int = 20,
        items: int = 5,
        weight: Weight | Mapping[str, Any] | None = None,
    ) -> None:
        self._levels = _readers(group_by)
        self._distinct = _distinct_readers(distinct)
        self._top = _check_top(top, "top")
        self._top_groups = _check_top(top_groups, "top_groups")
        self._items = _check_top(items, "items")
        self._rank = rank_reader(weight) if isinstance(weight, Mapping) else None
        self._weight = None if isinstance(weight, Mapping) else _check_weight(weight)

    def summarize(self, digest: Digest | Iterable[Record]) -> Summary:
        """Raises ValueError if there is no record. Records alone have no timeline, and none was dropped."""
        digest = digest if isinstance(digest, Digest) else _digest_of(digest)
        draft = self.draft(digest)
        return draft.summary() if self._weight is None else draft.weighed(self._weight(draft.subjects))

    def draft(self, digest: Digest) -> "Draft":
        """Count the records, and leave the order open. Raises ValueError if the digest is empty."""
        if not digest:
            which = f"the digest {digest.id} of {shortened(digest.timeline)} is empty" if digest.id else "no records"
            raise ValueError(f"{which}: nothing to summarize")
        sheet = _Sheet(digest, self._levels, self._distinct, self._items, self._rank)
        groups = sheet.groups.split(sheet.rows) if sheet.groups else {None: sheet.rows}
        parts = [
            _Part(key, sheet.tally(rows, key, sheet.groups), self._subjects(sheet, rows))
            for key, rows in groups.items()
        ]
        return Draft(digest, sheet, parts, top=self._top, top_groups=self._top_groups)

    def _subjects(self, sheet: "_Sheet", rows: Sequence[int]) -> "list[_Keyed]":
        split = sheet.subjects.split(rows)
        return [(key, sheet.tally(some, key, sheet.subjects)) for key, some in split.items()]


class Draft:
    """A digest that is counted and not yet sorted: a hook may give each of its subjects a weight."""

    def __init__(self, digest: Digest, sheet: "_Sheet", parts: "list[_Part]", *, top: int, top_groups: int) -> None:
        self._digest = digest
        self._sheet = sheet
        self._parts = parts
        self._top = top
        self._top_groups = top_groups

    @property
    def subjects(self) -> list[Subject]:
        """All subjects. One that stands in several groups is there once for each of them."""
        return [subject for part in self._parts for _, subject in part.subjects]

    def weighed(self, weights: object) -> Summary:
        """A summary in the order of weights, one for each of the `subjects`. Raises ConfigError if not so."""
        given = iter(_check_weights(weights, len(self.subjects)))
        for part in self._parts:
            part.subjects = [(key, replace(subject, weight=next(given))) for key, subject in part.subjects]
        return self.summary()

    def summary(self) -> Summary:
        parts = sorted(self._parts, key=_group_rank)
        shown, rest = parts[: self._top_groups], parts[self._top_groups :]
        whole = self._sheet.tally(self._sheet.rows)
        return Summary(
            timeline=self._digest.timeline,
            count=whole.count,
            subjects=_count_subjects(parts) if self._sheet.overlaps else sum(len(part.subjects) for part in parts),
            first=whole.first,
            last=whole.last,
            newest=whole.newest,
            groups=tuple(self._group(part) for part in shown),
            more=len(rest),
            more_records=different_records(part.tally for part in rest),
            dropped=self._digest.dropped,
            distinct=whole.distinct,
            faults=len(self._sheet.faults),
            items=whole.items,
            ranked=whole.ranked,
        )

    def _group(self, part: "_Part") -> Group:
        tally = part.tally
        subjects = [subject for _, subject in sorted(part.subjects, key=_subject_rank)]
        rest = subjects[self._top :]
        return Group(
            key=tally.key,
            label=tally.label,
            url=tally.url,
            count=tally.count,
            first=tally.first,
            last=tally.last,
            newest=tally.newest,
            subjects=tuple(subjects[: self._top]),
            more=len(rest),
            more_records=different_records(rest),
            distinct=tally.distinct,
            rows=tally.rows,
        )


# Options


def _readers(group_by: Sequence[Level]) -> list[Reader]:
    if isinstance(group_by, str) or not isinstance(group_by, Sequence):
        raise ConfigError(f"group_by: {shortened(group_by)} is no list; write it like ['rule', 'issue.id']")
    if len(group_by) > LEVELS:
        raise ConfigError(f"group_by: {len(group_by)} levels, allowed are {LEVELS}: a group and a subject")
    return [level_reader(level, "group_by") for level in group_by]


def _distinct_readers(distinct: Mapping[str, Field]) -> dict[str, Reader]:
    if not _has_names(distinct):
        raise ConfigError(f"distinct: {shortened(distinct)} has no names; write it like {{'users': 'user.id'}}")
    for fault in filter(None, map(unfilled_fault, distinct)):
        raise ConfigError(f"distinct: {fault}")
    return {name: reader(field, f"distinct[{shortened(name)}]") for name, field in distinct.items()}


def _has_names(distinct: object) -> bool:
    return isinstance(distinct, Mapping) and all(isinstance(name, str) for name in distinct)


def _check_top(number: object, option: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(f"{option}: {shortened(number)} is not a whole number from 1")
    return number


def _check_weight(weight: Weight | None) -> Weight | None:
    if weight is None:
        return None
    if not callable(weight):
        raise ConfigError(f'weight: {shortened(weight)} is neither a function nor {{"by": …, "order": […]}}')
    check_hook("weight", weight, "subjects")
    return weight


def _check_weights(weights: object, subjects: int) -> list[SubjectWeight]:
    if not isinstance(weights, Sequence) or len(weights) != subjects or not all(map(_is_weight, weights)):
        raise ConfigError(
            f"weight: gave {shortened(weights)}, not a list with a number, or a tuple of numbers, "
            f"for each of {subjects} subjects"
        )
    return list(weights)


def _is_weight(weight: object) -> bool:
    return all(map(_is_number, weight)) if isinstance(weight, tuple) else _is_number(weight)


def _is_number(weight: object) -> bool:
    return isinstance(weight, int | float) and -HEAVIEST <= weight <= HEAVIEST


def _digest_of(records: Iterable[Record]) -> Digest:
    """Records that no digest holds, such as those that a handler chose."""
    found = tuple(records)
    for record in found:
        if not isinstance(record, Record):
            raise TypeError(f"{shortened(record)} is not a Record")
    return Digest("", "", 1, 1, 0, found)


# Counting. A sheet numbers the records, newest first, so that each field is read once per record.


class _Sheet:
    """The records of a digest as rows, and the fields in use as columns."""

    def __init__(
        self, digest: Digest, levels: Sequence[Reader], distinct: Mapping[str, Reader], items: int, rank: Reader | None
    ) -> None:
        # Usually they are in this order already. Of the same timestamp, the first stays first: it arrived last.
        self.records = sorted(digest.records, key=attrgetter("timestamp"), reverse=True)
        self.items = items
        self.faults: set[int] = set()
        self.groups = self._level(levels[0]) if len(levels) == LEVELS else None
        self.subjects = self._level(levels[-1]) if levels else self._keys()
        self.distinct = {name: self._column(read(self.records)).identities for name, read in distinct.items()}
        self.weights = None if rank is None else rank(self.records)

    @property
    def rows(self) -> range:
        return range(len(self.records))

    @property
    def overlaps(self) -> bool:
        """True if a record may stand in several groups."""
        return isinstance(self.groups, _ListColumn)

    def tally(self, rows: Sequence[int], key: Identity = None, column: "_Level | None" = None) -> Subject:
        """Count rows that share a value in a column."""
        newest = self.records[rows[0]]
        value, label, url = shown_as(column.value(key, rows[0])) if column else (None, "", "")
        listed = self._chosen(rows)
        return Subject(
            key=value,
            label=label,
            url=url,
            count=len(rows),
            first=self.records[rows[-1]].timestamp,
            last=newest.timestamp,
            newest=newest,
            distinct={name: _different(identities, rows) for name, identities in self.distinct.items()},
            items=tuple([self.records[row] for row in listed]),
            ranked=listed != list(rows[: self.items]),
            rows=rows,
            weight=0 if self.weights is None else max(self.weights[row] for row in rows),
        )

    def _chosen(self, rows: Sequence[int]) -> list[int]:
        """Return the rows of the records to list: the heaviest first, of equal ones the newest."""
        if self.weights is None:
            return list(rows[: self.items])
        return nlargest(self.items, rows, key=self.weights.__getitem__)  # keeps equal ones in their order

    def _keys(self) -> "_Column":
        keys = [record.key for record in self.records]
        return _Column(keys, keys)

    def _level(self, read: Reader) -> "_Level":
        values = read(self.records)
        if not any(issubclass(kind, list | tuple) for kind in set(map(type, values))):
            return self._column(values)
        places = [(row, each) for row, value in enumerate(values) for each in _listed(value)]
        rows = [row for row, _ in places]
        return _ListColumn(rows, self._column([each for _, each in places], rows))

    def _column(self, values: list[Any], rows: Sequence[int] | None = None) -> "_Column":
        try:
            return _Column(values, identities(values))
        except Exception:  # noqa: BLE001  # an encoder may fail in many ways
            return self._column_with_faults(values, self.rows if rows is None else rows)

    def _column_with_faults(self, values: list[Any], rows: Sequence[int]) -> "_Column":
        found: list[Identity] = []
        for place, value in enumerate(values):
            try:
                found.append(identity_of(value))
            except Exception:  # noqa: BLE001  # one bad record stops no digest
                self.faults.add(rows[place])
                found.append(None)
                values[place] = None
        return _Column(values, found)


def _listed(value: Any) -> Sequence[Any]:
    """The values of a list; None if it is empty. Anything else is the only value."""
    return value[:MOST_PLACES] or [None] if isinstance(value, list | tuple) else [value]


class _Level(Protocol):
    """A column by which rows are split."""

    def split(self, rows: Sequence[int]) -> Mapping[Identity, Sequence[int]]:
        """The rows by their value."""

    def value(self, key: Identity, row: int) -> Any:
        """The value of a key that the row has."""


@dataclass(slots=True)
class _Column:
    """A field of every record."""

    values: Sequence[Any]
    identities: Sequence[Identity]

    def split(self, rows: Sequence[int]) -> Mapping[Identity, Sequence[int]]:
        found: dict[Identity, list[int]] = {}
        for row in rows:
            found.setdefault(self.identities[row], []).append(row)
        return found

    def value(self, key: Identity, row: int) -> Any:  # noqa: ARG002  # each row has one
        return self.values[row]


class _ListColumn:
    """A field of every record that is a list in some: these rows have several values."""

    def __init__(self, rows: Sequence[int], column: _Column) -> None:
        self._keys: dict[int, dict[Identity, None]] = {}
        self._values: dict[Identity, Any] = {}
        for row, key, value in zip(rows, column.identities, column.values, strict=True):
            self._keys.setdefault(row, {})[key] = None
            self._values.setdefault(key, value)

    def split(self, rows: Sequence[int]) -> Mapping[Identity, Sequence[int]]:
        found: dict[Identity, list[int]] = {}
        for row in rows:
            for key in self._keys[row]:
                found.setdefault(key, []).append(row)
        return found

    def value(self, key: Identity, row: int) -> Any:  # noqa: ARG002  # the same in each row
        return self._values[key]


def _different(identities: Sequence[Identity], rows: Sequence[int]) -> int:
    if len(rows) == 1:
        return int(identities[rows[0]] is not None)
    found = {identities[row] for row in rows}
    return len(found) - (None in found)


def _count_subjects(parts: Sequence["_Part"]) -> int:
    """The number of subjects in all groups. Two of one key are the same subject if they share a record.

    Otherwise they are different: the same title in two projects is no single notification.
    """
    joined: dict[int, int] = {}  # the places of a subject, as a forest
    first_place: dict[tuple[Identity, int], int] = {}
    for place, (key, subject) in enumerate(_all_subjects(parts)):
        joined[place] = place
        for row in subject.rows:
            other = first_place.setdefault((key, row), place)
            joined[_root(joined, other)] = _root(joined, place)
    return sum(place == parent for place, parent in joined.items())


def _all_subjects(parts: Sequence["_Part"]) -> "Iterator[_Keyed]":
    for part in parts:
        yield from part.subjects


def _root(joined: dict[int, int], place: int) -> int:
    while joined[place] != place:
        joined[place] = joined[joined[place]]  # keeps the ways short
        place = joined[place]
    return place


# Order


_Keyed = tuple[Identity, Subject]


@dataclass(slots=True)
class _Part:
    """A group with all of its subjects, in no order."""

    key: Identity
    tally: Subject
    subjects: list[_Keyed]


def _subject_rank(found: _Keyed) -> tuple[Any, ...]:
    key, tally = found
    return _falling(tally.weight), -tally.count, *map(neg, tally.distinct.values()), -tally.last, tally.label, _tie(key)


def _falling(weight: SubjectWeight) -> tuple[float, ...]:
    """A sort key: the heaviest comes first. A number weighs as much as the tuple of it alone."""
    return (*map(neg, weight), inf) if isinstance(weight, tuple) else (-weight, inf)


def _group_rank(part: _Part) -> tuple[Any, ...]:
    tally = part.tally
    return -len(part.subjects), -tally.count, -tally.last, tally.label, _tie(part.key)


def _tie(key: Identity) -> tuple[str, str | int]:
    """A sort key for different values with the same label."""
    if key is None:
        return "", ""
    return key if isinstance(key, tuple) else ("text", key)
