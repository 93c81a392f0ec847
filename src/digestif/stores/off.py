"""`off://`: a store that accepts nothing. It switches digests off in one place."""

from collections.abc import Mapping, Sequence

from digestif.core.backlog import Standing
from digestif.core.capacity import Cursor, Stored
from digestif.core.ledger import Ledger, Verification
from digestif.core.machine import IDLE, Slot
from digestif.core.records import DeadLetter, HistoryEntry
from digestif.core.terms import Override, Terms
from digestif.core.times import Millis
from digestif.dsn import Dsn
from digestif.errors import InvalidState
from digestif.stores.base import (
    PAGE_RECORDS,
    Accepted,
    Admission,
    Admitted,
    Arrival,
    Burial,
    ClaimPage,
    Completion,
    Durability,
    Lease,
    LeaseEnd,
    Maintained,
    QuarantinedRecord,
    Release,
    Replan,
    Requeue,
    Requeued,
    SchedulePage,
    Store,
    SuspectGroup,
    Take,
    Taken,
)
from digestif.stores.documents import Bounds, Document
from digestif.stores.reader import Order, Part, Place, TimelinePage


def from_dsn(dsn: Dsn, *, namespace: str) -> "OffStore":
    """`off://` takes no options."""
    dsn.refuse_location()
    dsn.refuse_options()
    return OffStore(namespace=namespace)


class OffStore(Store):
    """Accepts nothing and holds nothing: every timeline is idle for ever."""

    durability = Durability.NOTHING
    enabled = False

    def __init__(self, *, namespace: str = "d") -> None:
        self.namespace = namespace

    def time(self, partition: int) -> Millis:
        return 0

    def note(self, partition: int, name: str) -> bytes | None:
        return None

    def swap_note(self, partition: int, name: str, old: bytes | None, new: bytes | None) -> bool:
        return True

    def keep(
        self, collection: str, document: Document, *, bounds: Bounds, replace: bool | bytes = False, now: Millis | None
    ) -> bool:
        return True

    def kept(self, collection: str, key: str, *, now: Millis | None) -> Document | None:
        return None

    def documents(
        self, collection: str, *, timeline: str | None = None, before: str | None = None, limit: int, now: Millis | None
    ) -> list[Document]:
        return []

    def forget(self, collection: str, key: str, *, body: bytes | None = None) -> bool:
        return False

    def forget_timeline(self, timeline: str) -> None:
        """There is nothing to forget."""

    def add(self, batch: Sequence[Arrival], *, now: Millis | None) -> list[Accepted]:
        return [Accepted()] * len(batch)

    def retract(self, timeline: str, key: str, *, now: Millis | None) -> bool:
        return False

    def schedule(
        self,
        partition: int,
        deadline: Millis,
        *,
        after: tuple[int | str, ...] | None,
        limit: int,
        now: Millis | None,
        asks: bool = False,
    ) -> SchedulePage:
        return SchedulePage([], None)

    def maintain(self, partition: int, deadline: Millis | None, *, limit: int, now: Millis | None) -> Maintained:
        return Maintained()

    def claim(
        self, partition: int, limit: int, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        return ClaimPage([], 0)

    def claim_suspects(
        self, partition: int, group: SuspectGroup, *, token: str, lease: Millis, now: Millis | None, asks: bool = False
    ) -> ClaimPage:
        return ClaimPage([], 0)

    def open(
        self,
        timeline: str,
        *,
        token: str,
        lease: Millis,
        now: Millis | None,
        alone: bool = False,
        asks: bool = False,
    ) -> Lease:
        raise InvalidState(f"{timeline!r} is idle, not ready: digests are switched off")

    def admit(
        self,
        admissions: Sequence[Admission],
        *,
        token: str | None = None,
        lease: Millis = 0,
        now: Millis | None,
    ) -> Admitted:
        return Admitted([], [])

    def take(self, requests: Sequence[Take], *, now: Millis | None) -> list[Taken | None]:
        return [None] * len(requests)

    def quarantine(self, lease: Lease, records: Sequence[QuarantinedRecord], *, now: Millis | None) -> bool:
        return False

    def remove(self, lease: Lease, keys: Sequence[str], *, now: Millis | None) -> int | None:
        return None

    def mark_served(self, lease: Lease, recipients: Sequence[str], *, now: Millis | None) -> bool:
        return False

    def extend(self, leases: Sequence[Lease], *, lease: Millis, now: Millis | None, alone: bool = True) -> list[bool]:
        return [False] * len(leases)

    def leases_beyond(self, time: Millis, *, limit: int) -> list[LeaseEnd]:
        return []

    def end_leases(self, leases: Sequence[LeaseEnd], *, now: Millis | None) -> list[bool]:
        return [False] * len(leases)

    def complete(self, completions: Sequence[Completion], *, now: Millis | None) -> list[bool]:
        return [False] * len(completions)

    def release(self, releases: Sequence[Release], *, now: Millis | None) -> list[bool]:
        return [False] * len(releases)

    def bury(self, burials: Sequence[Burial], *, now: Millis | None) -> list[bool]:
        return [False] * len(burials)

    def delete(self, timeline: str, *, token: str | None = None, now: Millis | None) -> bool:
        return False

    def sweep(self) -> bool:
        return False

    def flush(self, timeline: str, *, now: Millis | None) -> bool:
        return False

    def pause(self, timeline: str, paused: bool, *, now: Millis | None) -> bool:
        return False

    def set_override(self, timeline: str, override: Override, *, now: Millis | None) -> None:
        """There is nothing that could be delivered."""

    def clear_override(self, timeline: str, *, terms: Terms, cool_down: Millis, now: Millis | None) -> bool:
        return False

    def refresh_override(self, timeline: str, override: Override) -> bool:
        return False

    def replan(self, replans: Sequence[Replan], *, now: Millis | None) -> list[bool]:
        return [False] * len(replans)

    def replay(self, letter_id: str, *, now: Millis | None) -> bool:
        return False

    def requeue(self, request: Requeue, *, limit: int = PAGE_RECORDS, now: Millis | None) -> Requeued | None:
        return None

    def discard(self, letter_id: str, *, now: Millis | None) -> bool:
        return False

    def inspect(self, timeline: str) -> Slot:
        return IDLE

    def scan(self, *, prefix: str, after: str | None, limit: int) -> list[tuple[str, Slot]]:
        return []

    def look_over(self, order: Order | None, *, prefix: str, after: Place | None, limit: int) -> TimelinePage:
        return TimelinePage([], None)

    def records(self, timeline: str, part: Part, *, after: Cursor | None, limit: int) -> list[Stored]:
        return []

    def find(self, timeline: str, key: str) -> dict[Part, Stored]:
        return {}

    def letters(self, timeline: str | None, *, after: str | None, limit: int) -> list[DeadLetter]:
        return []

    def letter(self, letter_id: str) -> DeadLetter | None:
        return None

    def letter_records(self, letter_id: str, *, after: Cursor | None, limit: int) -> list[Stored]:
        return []

    def letter_with(self, timeline: str, key: str) -> DeadLetter | None:
        return None

    def history(self, timeline: str | None, *, limit: int, prefix: str = "") -> list[HistoryEntry]:
        return []

    def ledger(self) -> Ledger:
        return Ledger()

    def digests_delivered(self) -> int:
        return 0

    def verify(self) -> Verification:
        return Verification(ledger=Ledger(), recounted={"pending": 0, "open": 0, "dead": 0})

    def standing(self, *, now: Millis, most: int | None = None) -> Standing:
        return Standing(0, 0, 0, 0, 0, None, None)

    def footprint(self) -> Mapping[str, int]:
        return {"timelines": 0, "records": 0, "letters": 0}

    def close(self) -> None:
        """There is nothing to close."""
