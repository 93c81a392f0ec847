"""Where timelines are kept. Public for those who write or open a store: the port, its values, and ways to open one."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from digestif.core import machine
    from digestif.core.backlog import Standing
    from digestif.core.capacity import Cursor, Stored
    from digestif.core.machine import Slot, Unfinished
    from digestif.core.removals import Removals
    from digestif.core.terms import Terms
    from digestif.dsn import Dsn, number, option, yes_or_no
    from digestif.stores.base import (
        HISTORY_KEYS,
        HISTORY_LIMIT,
        PAGE_BYTES,
        PAGE_RECORDS,
        PAGE_TIMELINES,
        Accepted,
        Arrival,
        Burial,
        ClaimPage,
        Completion,
        Due,
        Durability,
        Lease,
        LeaseEnd,
        Maintained,
        QuarantinedRecord,
        Release,
        SchedulePage,
        Store,
        SuspectGroup,
        Take,
        Taken,
        Wakeups,
    )
    from digestif.stores.memory import MemoryStore
    from digestif.stores.reader import Part, StoreReader
    from digestif.stores.redis import from_client
    from digestif.stores.registry import open_store
    from digestif.stores.rows import Rows, RowStore
    from digestif.stores.sqlite import SQLiteStore
    from digestif.stores.transfer import (
        ExportedRecord,
        ExportSource,
        Fence,
        ImportPage,
        ImportProgress,
        Parcel,
        ParcelKind,
        TransferStore,
    )

__all__ = [
    "HISTORY_KEYS",
    "HISTORY_LIMIT",
    "PAGE_BYTES",
    "PAGE_RECORDS",
    "PAGE_TIMELINES",
    "Accepted",
    "Arrival",
    "Burial",
    "ClaimPage",
    "Completion",
    "Cursor",
    "Dsn",
    "Due",
    "Durability",
    "ExportSource",
    "ExportedRecord",
    "Fence",
    "ImportPage",
    "ImportProgress",
    "Lease",
    "LeaseEnd",
    "Maintained",
    "MemoryStore",
    "Parcel",
    "ParcelKind",
    "Part",
    "QuarantinedRecord",
    "Release",
    "Removals",
    "RowStore",
    "Rows",
    "SQLiteStore",
    "SchedulePage",
    "Slot",
    "Standing",
    "Store",
    "StoreReader",
    "Stored",
    "SuspectGroup",
    "Take",
    "Taken",
    "Terms",
    "TransferStore",
    "Unfinished",
    "Wakeups",
    "from_client",
    "machine",
    "number",
    "open_store",
    "option",
    "yes_or_no",
]

_HOMES = {  # where each name is defined
    "digestif.core.backlog": "Standing",
    "digestif.core.capacity": "Cursor Stored",
    "digestif.core.machine": "Slot Unfinished machine",
    "digestif.core.removals": "Removals",
    "digestif.core.terms": "Terms",
    "digestif.dsn": "Dsn number option yes_or_no",
    "digestif.stores.base": "HISTORY_KEYS HISTORY_LIMIT PAGE_BYTES PAGE_RECORDS PAGE_TIMELINES Accepted Arrival "
    "Burial ClaimPage Completion Due Durability Lease LeaseEnd Maintained QuarantinedRecord Release "
    "SchedulePage Store SuspectGroup Take Taken Wakeups",
    "digestif.stores.memory": "MemoryStore",
    "digestif.stores.reader": "Part StoreReader",
    "digestif.stores.redis": "from_client",
    "digestif.stores.registry": "open_store",
    "digestif.stores.rows": "RowStore Rows",
    "digestif.stores.sqlite": "SQLiteStore",
    "digestif.stores.transfer": "ExportSource ExportedRecord Fence ImportPage ImportProgress Parcel ParcelKind "
    "TransferStore",
}

if not _TYPE_CHECKING:
    from digestif.exports import lazy as _lazy

    __getattr__, __dir__ = _lazy(__name__, _HOMES, redis="redis")
