"""The survey behind `verify` and `repair`: reads every row, counts every record, and lists what is wrong."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import msgspec

from digestif.core.damage import Damage, legible
from digestif.core.ledger import COUNTERS, Ledger, Verification, corrected
from digestif.core.machine import Slot
from digestif.core.records import State
from digestif.core.times import Millis
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.damage import Unreadable
from digestif.stores.rows import repair
from digestif.stores.rows.view import LetterRow, Rows, Size, TimelineRow, marks
from digestif.stores.transfer import ImportProgress, damage_of_note

REPAIRED = "repaired"  # a note that counts repairs, so that two at a time do not correct the ledger twice

_BATCH = re.compile(rb'"(?:batch|merging)" ?: ?(\d{1,18})')
_COUNTS = ("pending", "open", "dead")

Repair = Callable[[Rows, Millis], None]


class RowFlaw(NamedTuple):
    """Damage, and the repair for it."""

    damage: Damage
    repair: Repair
    timeline: str = ""  # to be locked for the repair
    slot: Slot | None = None  # of that timeline, if it could be read and is to be replaced


@dataclass
class RowSurvey:
    """What was found in one snapshot of the data."""

    ledger: Ledger
    repairs: bytes | None  # the note REPAIRED
    counted: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_COUNTS, 0)))
    flaws: list[RowFlaw] = field(default_factory=list)
    orphaned: int = 0  # records that nothing owns

    @property
    def corrected(self) -> Ledger:
        """The ledger as it should be. Records that nothing owns become dead."""
        return corrected(self.ledger, {**self.counted, "dead": self.counted["dead"] + self.orphaned})

    def corrections(self) -> dict[str, int]:
        """How the counters have to change; those that are impossible, after they were set to 0."""
        found, known = self.corrected, replace(self.ledger, **dict.fromkeys(self.ledger.impossible, 0))
        return {name: getattr(found, name) - getattr(known, name) for name in COUNTERS}


def verify(rows: Rows) -> Verification:
    """Count pending, open and dead records, and look for records that nothing owns."""
    found = survey(rows)
    problems = [str(flaw.damage) for flaw in found.flaws if flaw.damage.part != "ledger"]
    problems += differences(found.ledger, found.counted)
    return Verification(ledger=found.ledger, recounted=dict(found.counted), problems=tuple(problems))


def differences(ledger: Ledger, counted: "Counter[str]") -> list[str]:
    wrong = [
        f"ledger.{fate} is {getattr(ledger, fate)}, {count} found"
        for fate, count in counted.items()
        if getattr(ledger, fate) != count
    ]
    return [*wrong, ledger.imbalance] if ledger.imbalance else wrong


def survey(rows: Rows) -> RowSurvey:
    found = RowSurvey(ledger=rows.ledger(), repairs=rows.note(REPAIRED))
    owned: set[int] = set()
    damaged = list(_look_at_timelines(rows, found, owned))
    _look_at_letters(rows, found, owned)
    _look_for_orphans(rows, found, owned, damaged)
    _look_at_history(rows, found)
    _look_at_notes(rows, found)
    _look_at_ledger(found)
    return found


def _look_at_timelines(rows: Rows, found: RowSurvey, owned: set[int]) -> Iterator[TimelineRow]:
    """Check timelines, and give those whose slot can't be right: `_look_for_orphans` finds their records."""
    after = None
    while page := rows.timeline_rows(after=after, limit=PAGE_TIMELINES):
        after = page[-1].name
        yield from (row for row in page if row.slot is None)
        sound = [(row, row.slot) for row in page if row.slot is not None]
        owned.update(batch for _, slot in sound if slot.state is not State.IDLE for batch in chain(*_batches(slot)))
        sizes = rows.sizes([batch for _, slot in sound for batch in chain(*_batches(slot))])
        for row, slot in sound:
            if _is_idle_with_records(slot, sizes):
                damage = Damage(timeline=row.name, part="slot", problem="it is idle, with records")
                yield row._replace(damage=damage, raw=msgspec.json.encode(slot))
            else:
                _look_at_timeline(row, slot, sizes, found)


def _is_idle_with_records(slot: Slot, sizes: dict[int, Size]) -> bool:
    return slot.state is State.IDLE and _total(sizes, list(chain(*_batches(slot)))).records > 0


def _batches(slot: Slot) -> tuple[list[int], list[int]]:
    """The batches of pending records, and of the digest."""
    digest = slot.digest
    in_digest = [] if digest is None else [batch for batch in (digest.batch, digest.merging) if batch is not None]
    return [] if slot.batch is None else [slot.batch], in_digest


def _look_at_timeline(row: TimelineRow, slot: Slot, sizes: dict[int, Size], found: RowSurvey) -> None:
    pending, in_digest = (_total(sizes, part) for part in _batches(slot))
    found.counted["pending"] += pending.records
    found.counted["open"] += in_digest.records
    wrong = []
    if pending.records != slot.pending:
        wrong.append(f"{slot.pending} pending noted, {pending.records} found")
    noted = 0 if slot.digest is None else slot.digest.records
    if in_digest.records != noted:
        wrong.append(f"{noted} noted in its digest, {in_digest.records} found")
    for problem in wrong:
        _note(found, row.name, "count", problem, repair.count_anew, pending.records + in_digest.records)
    if marks(slot) != row.marks:
        _note(found, row.name, "place", "it does not stand in the schedule where it should", repair.reindex)
    if valueless := pending.valueless + in_digest.valueless:
        problem = f"{valueless} records have no value"
        _note(found, row.name, "record", problem, repair.quarantine_valueless, valueless)


def _note(found: RowSurvey, name: str, part: str, problem: str, action: Callable[..., None], records: int = 0) -> None:
    damage = Damage(timeline=name, part=part, problem=problem, records=records)
    found.flaws.append(RowFlaw(damage, partial(action, timeline=name), name))


def _total(sizes: dict[int, Size], batches: Sequence[int]) -> Size:
    each = [sizes.get(batch, Size()) for batch in batches]
    return Size(sum(size.records for size in each), sum(size.valueless for size in each))


def _look_at_letters(rows: Rows, found: RowSurvey, owned: set[int]) -> None:
    after = 0
    while page := rows.letter_rows(after=after, limit=PAGE_TIMELINES):
        after = page[-1].number
        sizes = rows.sizes([row.batch for row in page])
        for row in page:
            size = sizes.get(row.batch, Size())
            found.counted["dead"] += size.records
            owned.add(row.batch)
            _look_at_letter(row, size.records, found)
            if size.valueless and size.records > 1:  # one that has nothing else was made of it
                problem = f"dead letter {row.id}: {size.valueless} records have no value"
                damage = Damage(timeline=row.timeline, part="record", problem=problem, records=size.valueless)
                found.flaws.append(RowFlaw(damage, partial(repair.divide_letter, row=row)))


def _look_at_letter(row: LetterRow, records: int, found: RowSurvey) -> None:
    damage = row.damage
    if row.letter is not None and row.letter.records != records:
        problem = f"dead letter {row.id}: {row.letter.records} noted, {records} found"
        damage = Damage(timeline=row.timeline, part="letter", problem=problem)
    if damage is not None:
        action = partial(repair.write_letter_anew, row=row, records=records, reason=damage.problem)
        found.flaws.append(RowFlaw(replace(damage, records=records), action))


def _look_for_orphans(rows: Rows, found: RowSurvey, owned: set[int], damaged: Sequence[TimelineRow]) -> None:
    """Find the records of damaged timelines by the batch numbers in their rows, if nothing else owns these batches."""
    stored = rows.footprint()["records"] - rows.trashed_records()
    found.orphaned = max(0, stored - sum(found.counted.values()))  # below 0: another namespace lists some of them
    orphans = {} if found.orphaned == 0 else {b: n for b, n in rows.batches().items() if b not in owned}
    parts = [_salvaged(row.raw, orphans) for row in damaged]
    if len(damaged) == 1 and not any(parts[0]):
        parts = [([], list(orphans))]
    for row, (pending, in_digest) in zip(damaged, parts, strict=True):
        assert row.damage is not None
        records = sum(orphans.pop(batch, 0) for batch in (*pending, *in_digest))
        action = partial(repair.quarantine, row=row, pending=pending, in_digest=in_digest)
        found.flaws.append(RowFlaw(replace(row.damage, records=records), action, row.name, row.slot))
    bare = [row.name for row, salvaged in zip(damaged, parts, strict=True) if not any(salvaged)]
    doubt = f"; they may have been of {', '.join(repr(legible(name)) for name in bare[:10])}" if bare else ""
    for batch, records in orphans.items():
        problem = f"{records} records belong to no timeline and no dead letter{doubt}"
        damage = Damage(timeline=None, part="record", problem=problem, records=records)
        found.flaws.append(RowFlaw(damage, partial(repair.adopt, batch=batch, reason=problem)))


def _salvaged(slot: bytes, orphans: dict[int, int]) -> tuple[list[int], list[int]]:
    """The batches, pending and of the digest, that an unreadable slot still names and nothing else owns."""
    head, _, digest = slot.partition(b'"digest"')
    pending, in_digest = ([int(number) for number in _BATCH.findall(text)] for text in (head, digest))
    own = [batch for batch in dict.fromkeys(pending) if batch in orphans]
    return own, [batch for batch in dict.fromkeys(in_digest) if batch in orphans and batch not in own]


def _look_at_history(rows: Rows, found: RowSurvey) -> None:
    found.flaws += [
        RowFlaw(damage, partial(repair.remove_entry, place=place)) for place, damage in rows.damaged_entries()
    ]


def _look_at_notes(rows: Rows, found: RowSurvey) -> None:
    for name, body in rows.notes().items():
        damage = damage_of_note(name, body, decode_progress=msgspec.json.Decoder(ImportProgress).decode)
        if damage is not None:
            found.flaws.append(RowFlaw(damage, partial(repair.remove_note, name=name)))


def _look_at_ledger(found: RowSurvey) -> None:
    """Note counters that are wrong for no damaged timeline."""
    ledger, right, changes = found.ledger, found.corrected, found.corrections()
    unexplained = changes["accepted"] or changes["lost"] or (not found.orphaned and any(changes.values()))
    if unexplained or ledger.impossible or min(getattr(ledger, name) for name in COUNTERS) < 0:
        told = ", ".join(
            f"{counter} {getattr(ledger, counter)}, should be {getattr(right, counter)}"
            for counter in COUNTERS
            if getattr(ledger, counter) != getattr(right, counter)
        )
        damage = Damage(timeline=None, part="ledger", problem=f"the ledger does not agree with the data: {told}")
        found.flaws.append(RowFlaw(damage, repair.leave))


# Repairing, page by page


def pages_of_flaws(found: RowSurvey) -> Iterator[list[RowFlaw]]:
    for start in range(0, len(found.flaws), PAGE_TIMELINES):
        yield found.flaws[start : start + PAGE_TIMELINES]


def repair_page(rows: Rows, *, survey: RowSurvey, flaws: list[RowFlaw], now: Millis) -> bool:
    """Repair a page of flaws, with the last one the ledger. False, with nothing done, if another repair was faster."""
    rows.lock_note(REPAIRED)
    rows.concern(sorted({flaw.timeline for flaw in flaws if flaw.timeline}))
    if rows.note(REPAIRED) != survey.repairs or not all(_is_still_so(rows, flaw) for flaw in flaws):
        return False
    if flaws[0] is survey.flaws[0] and survey.ledger.impossible:
        rows.reset_counters(survey.ledger.impossible)
    for flaw in flaws:
        flaw.repair(rows, now)
    if flaws[-1] is survey.flaws[-1]:  # otherwise another page follows
        for counter, change in survey.corrections().items():
            rows.tally[counter] += change
        rows.put_note(REPAIRED, str(int(survey.repairs or 0) + 1).encode())
    return True


def _is_still_so(rows: Rows, flaw: RowFlaw) -> bool:
    """False if the row was corrected or removed since the survey."""
    if flaw.damage.part != "slot":
        return True
    try:
        return rows.slot(flaw.timeline) == flaw.slot
    except Unreadable:
        return flaw.slot is None
