"""Losses: records that damage from outside took out of a digest or a dead letter, found when it is counted."""

from msgspec.structs import replace

from digestif.core import machine
from digestif.core.machine import Slot
from digestif.core.records import DeadLetter
from digestif.stores.rows.view import Rows


def is_miscounted(rows: Rows, slot: Slot) -> bool:
    """True if the digest holds another number of records than its slot notes; while it is merged it is not counted."""
    digest = slot.digest
    return digest is not None and digest.merging is None and held(rows, digest.batch) != digest.records


def recounted(rows: Rows, slot: Slot) -> tuple[Slot, int]:
    """The slot with the number of records that its digest holds, and how many are gone, which count as lost."""
    digest = slot.digest
    if digest is None or digest.merging is not None:
        return slot, 0
    found = held(rows, digest.batch)
    gone = digest.records - found
    if gone <= 0:  # more than noted: only the slot was wrong
        return slot if gone == 0 else replace(slot, digest=replace(digest, records=found)), 0
    rows.tally["open"] -= gone
    rows.tally["lost"] += gone
    left = machine.after_losing(digest, gone)
    return replace(slot, digest=left), gone


def count_lost(rows: Rows, letter: DeadLetter, *, found: int) -> int:
    """Count as lost what a dead letter notes and does not hold any more; the answer is how many that are."""
    gone = max(0, letter.records - found)
    rows.tally["dead"] -= gone
    rows.tally["lost"] += gone
    return gone


def held(rows: Rows, batch: int) -> int:
    """How many records a batch holds."""
    size = rows.sizes([batch]).get(batch)
    return 0 if size is None else size.records
