"""Takes records out of a store in memory, for tests of losses."""

from msgspec.structs import replace

from digestif import Store
from digestif.core.records import State
from digestif.stores.memory import MemoryRecord, MemoryStore
from digestif.testing.conformance.base import Harm


def harm_in_memory(store: Store, how: Harm, timeline: str) -> None:
    """Remove the value of a record, or the record: the last by its key; or only say that the timeline is idle."""
    assert isinstance(store, MemoryStore)
    tables, slot = store._tables, store.inspect(timeline)
    if how is Harm.IDLE:
        tables.put_slot(timeline, replace(slot, state=State.IDLE, pending=0))
        return
    in_digest = slot.digest and slot.digest.batch
    numbers = {
        Harm.VALUE: slot.batch,
        Harm.RECORD: slot.batch,
        Harm.DIGEST_VALUE: in_digest,
        Harm.DIGEST_RECORD: in_digest,
        Harm.LETTER_RECORD: next((batch for _, batch, _ in tables._letters.values()), None),
    }
    batch = tables._batches[numbers[how] or 0]
    entry = batch.entries.pop(max(batch.entries))
    if how in (Harm.VALUE, Harm.DIGEST_VALUE):
        batch.put(MemoryRecord(entry.stored._replace(payload=None), entry.deadline, entry.expires))
    batch.restore()
