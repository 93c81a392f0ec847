"""The recount behind `verify`: every record counted from the data, page by page, and compared with the notes."""

from digestif.core.ledger import Ledger, Verification
from digestif.stores.base import PAGE_TIMELINES
from digestif.stores.rows.view import Rows


def recount(rows: Rows) -> Verification:
    """Count pending, open and dead records, and look for records that nothing owns."""
    problems: list[str] = []
    counted = {"pending": 0, "open": 0, "dead": 0}
    _count_timelines(rows, counted, problems)
    _count_letters(rows, counted, problems)
    ledger = rows.ledger()
    owned = sum(counted.values()) + rows.trashed_records()
    stored = rows.footprint()["records"]
    if stored != owned:
        problems.append(f"{stored} records are stored, {owned} belong to a timeline or a dead letter")
    problems += _differences(ledger, counted)
    return Verification(ledger=ledger, recounted=counted, problems=tuple(problems))


def _count_timelines(rows: Rows, counted: dict[str, int], problems: list[str]) -> None:
    after = None
    while page := rows.scan(prefix="", after=after, limit=PAGE_TIMELINES):
        after = page[-1][0]
        digests = [slot.digest for _, slot in page if slot.digest is not None]
        batches = [slot.batch for _, slot in page] + [d.batch for d in digests] + [d.merging for d in digests]
        sizes = rows.sizes([batch for batch in batches if batch is not None])
        for timeline, slot in page:
            pending = sizes.get(slot.batch or 0, 0)
            counted["pending"] += pending
            if pending != slot.pending:
                problems.append(f"{timeline!r}: {slot.pending} pending noted, {pending} found")
            if slot.digest is not None:
                found = sizes.get(slot.digest.batch, 0) + sizes.get(slot.digest.merging or 0, 0)
                counted["open"] += found
                if found != slot.digest.records:
                    problems.append(f"{timeline!r}: {slot.digest.records} noted in its digest, {found} found")


def _count_letters(rows: Rows, counted: dict[str, int], problems: list[str]) -> None:
    after = None
    while page := rows.letters(None, after=after, limit=PAGE_TIMELINES):
        after = page[-1].id
        batches = {letter.id: rows.letter_batch(letter.id) for letter in page}
        sizes = rows.sizes(list(batches.values()))
        for letter in page:
            found = sizes.get(batches[letter.id], 0)
            counted["dead"] += found
            if found != letter.records:
                problems.append(f"dead letter {letter.id}: {letter.records} noted, {found} found")


def _differences(ledger: Ledger, counted: dict[str, int]) -> list[str]:
    wrong = [
        f"ledger.{fate} is {getattr(ledger, fate)}, {count} found"
        for fate, count in counted.items()
        if getattr(ledger, fate) != count
    ]
    if not ledger.balanced:
        wrong.append(f"the ledger does not balance: {ledger.accepted} accepted, {ledger.accounted} accounted for")
    return wrong
