"""A life in which every script that writes runs. Tokens and times are given, so it always goes the same way."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from digestif import Digests, Policy, Record
from digestif.core.capacity import Stored
from digestif.core.machine import Seen, Slot, Unfinished
from digestif.core.records import State
from digestif.core.terms import Openings, Override
from digestif.core.transfer import FOREVER
from digestif.ids import derived_id
from digestif.stores.base import (
    Admission,
    Burial,
    ClaimPage,
    Completion,
    Lease,
    LeaseEnd,
    QuarantinedRecord,
    Release,
    Replan,
    Store,
    SuspectGroup,
    Take,
)
from digestif.stores.documents import Bounds, Document
from digestif.stores.redis.repair import Repair
from digestif.stores.redis.store import RedisStore
from digestif.stores.transfer import ExportedRecord, ImportPage, Parcel, ParcelKind, TransferStore
from digestif.testing.conformance.base import Harm
from tests.stores.redis.harm import harm_in

POLICY = Policy(minimum_delay=10, increment_delay=1, maximum_delay=60, ttl=120)


def record(key: str, value: int = 0, timestamp: float = 0.0) -> Record:
    return Record(key, value, timestamp)


def lease(timeline: str, token: str, digest_id: str | None = None) -> Lease:
    """The fields of a lease that a store reads."""
    return Lease(timeline, token, until=0, digest_id=digest_id or token, attempt=1, lapses=0, iteration=0, at=0)


def claimed(store: Store) -> ClaimPage:
    """A worker's page. What it has read along is not kept for a repeated call, and is left out."""
    return store.claim(0, 10, token="page", lease=30_000, now=7_000)._replace(pages={})


def opened(timeline: str, token: str, *, now: int, lasts: int = 30_000) -> Callable[[Digests], Any]:
    return lambda digests: digests.store.open(timeline, token=token, lease=lasts, now=now)


def transfer(digests: Digests) -> TransferStore:
    assert isinstance(digests.store, TransferStore)
    return digests.store


def parcel(name: str, timeline: str, *, records: int = 1, kind: ParcelKind = ParcelKind.PENDING) -> Parcel:
    digest = Unfinished(id=name if kind is ParcelKind.PENDING else "d", batch=0, records=records, opened=0)
    slot = Slot(State.OPEN, parked=State.READY, at=1, since=1, token=name, until=FOREVER, digest=digest)
    return Parcel(name, timeline, kind, records, slot)


def imported(digests: Digests, parcel: Parcel) -> Any:
    records = [ExportedRecord(Stored("k", b"json/1 1", 0.0, 1), None, None)]
    return transfer(digests).import_pages([ImportPage(parcel, 0, records)], fence=None, now=203_000)


def repaired(digests: Digests, harm: Harm, timeline: str) -> Any:
    store = digests.store
    assert isinstance(store, RedisStore)
    harm_in(store, harm, timeline)
    return Repair(store._scripts, 0, ring=store._ring, token=harm, now=300_000).run(dry_run=False)


TERMS = POLICY.terms()
SEEN = Seen(State.WAITING, 462_000, None, None)
OWN_SEEN = Seen(State.WAITING, 400_000, None, 1)


def override(opening: int) -> Override:
    return Override(text="daily@09:00 UTC", since=1, terms=replace(TERMS, openings=Openings((opening,))))


def kept(digests: Digests, key: str) -> bool:
    document = Document(key, b"a message", "g")
    return digests.store.keep("messages", document, bounds=Bounds(entries=1), now=404_000)


class Step(NamedTuple):
    script: str
    act: Callable[[Digests], Any]


BATCH = [("t", record("a", 2)), ("t", record("b")), ("u", record("x")), ("v", record("y")), ("w", record("z"))]
PAGE_U = derived_id("page", "u")
EVERYDAY = [  # of any store
    Step("add", lambda digests: digests.add("t", record("a", 1), now=0)),
    Step("add", lambda digests: digests.add_many(BATCH, now=1)),
    Step("retract", lambda digests: digests.retract("t", "b", now=2)),
    Step("pause", lambda digests: digests.pause("w", now=2)),
    Step("pause", lambda digests: digests.resume("w", now=2)),
    # A failed attempt, and a second one that is merged and loses a record that can't be read
    Step("open", opened("t", "first", now=3_000)),
    Step("extend", lambda digests: digests.store.extend([lease("t", "first")], lease=50_000, now=4_000)),
    Step("release", lambda digests: digests.store.release([Release(lease("t", "first"), 5_000)], now=4_000)),
    Step("add", lambda digests: digests.add_many([("t", record("c")), ("t", record("e"))], now=4.5)),
    Step("schedule", lambda digests: list(digests.schedule(6, now=6))),
    Step("open", opened("t", "second", now=6_000)),
    Step("prepare", lambda digests: digests.store.take([Take(lease("t", "second"), 100, True)], now=6_000)),
    Step(
        "quarantine",
        lambda digests: digests.store.quarantine(
            lease("t", "second"), [QuarantinedRecord(key, f"of-{key}", "it is broken") for key in "ae"], now=6_000
        ),
    ),
    Step("complete", lambda digests: digests.store.complete([Completion(lease("t", "second"), 10_000)], now=7_000)),
    # A worker's page, each digest of which ends otherwise
    Step("claim", lambda digests: claimed(digests.store)),
    Step(
        "bury",
        lambda digests: digests.store.bury([Burial(lease("u", "page", PAGE_U), "it is refused", 10_000)], now=8_000),
    ),
    Step("complete", lambda digests: digests.store.complete([Completion(lease("v", "page"), 10_000)], now=8_000)),
    Step("release", lambda digests: digests.store.release([Release(lease("w", "page"), None)], now=8_000)),
    Step("replay", lambda digests: digests.replay(PAGE_U, now=9)),
    Step("discard", lambda digests: digests.discard("of-a", now=9)),
    Step("requeue", lambda digests: digests.requeue("of-e", now=9)),
    # A lease that is ended, a dispatch that got lost, and records that expire
    Step("open", opened("u", "third", now=9_000)),
    Step("end_leases", lambda digests: digests.store.end_leases([LeaseEnd("u", 39_000)], now=10_000)),
    Step("flush", lambda digests: digests.flush("v", now=9)),
    Step("add", lambda digests: digests.add("t", record("d"), now=9)),
    Step("maintain", lambda digests: digests.maintenance(9, now=10)),
    Step("maintain", lambda digests: digests.store.maintain(0, None, limit=100, now=200_000)),
    Step("delete", lambda digests: digests.store.delete("u", now=200_000)),
    # A digest that loses a record and serves a recipient
    Step("add", lambda digests: digests.add_many([("n", record("k")), ("n", record("l"))], now=200)),
    Step("open", opened("n", "lost", now=200_000, lasts=1)),
    Step(
        "claim_suspects",
        lambda digests: digests.store.claim_suspects(0, SuspectGroup(1, 1), token="fourth", lease=30_000, now=200_001),
    ),
    Step("remove", lambda digests: digests.store.remove(lease("n", "fourth"), ["k"], now=200_000)),
    Step("mark_served", lambda digests: digests.store.mark_served(lease("n", "fourth"), ["ada"], now=200_000)),
    Step("complete", lambda digests: digests.store.complete([Completion(lease("n", "fourth"), 10_000)], now=200_000)),
    # Timelines that go to another store and come from one
    Step("add", lambda digests: digests.add("m", record("p"), now=201)),
    Step("mark_move", lambda digests: transfer(digests).begin_move(0, "move", now=201_000)),
    Step("begin_export", lambda digests: transfer(digests).begin_export(["m"], token="road", now=201_000)),
    Step("abort_export", lambda digests: transfer(digests).abort_export(["m"], now=201_000)),
    Step("begin_export", lambda digests: transfer(digests).begin_export(["m"], token="again", now=201_000)),
    Step(
        "commit_export",
        lambda digests: transfer(digests).commit_export([parcel("leaving:again-0", "m")], now=202_000),
    ),
    Step("import_pages", lambda digests: imported(digests, parcel("leaving:in-0", "q"))),
    Step(
        "import_pages",
        lambda digests: imported(digests, parcel("leaving:in-1", "r", records=2, kind=ParcelKind.DIGEST)),
    ),
    Step("abort_import", lambda digests: transfer(digests).abort_import([parcel("leaving:in-1", "r")], now=203_000)),
    Step("export_counts", lambda digests: transfer(digests).export_counts(0, "export_counts")),
    Step("export_counts", lambda digests: transfer(digests).import_counts("others", {"delivered": 5}, fence=None)),
    Step("swap_note", lambda digests: transfer(digests).swap_note(0, "note", None, b"noted")),
    Step("mark_move", lambda digests: transfer(digests).end_move(0, "move")),
    # Policies of single timelines
    Step("set_override", lambda digests: digests.store.set_override("o", override(300_000), now=204_000)),
    Step("refresh_override", lambda digests: digests.store.refresh_override("o", override(400_000))),
    Step("add", lambda digests: digests.add("o", record("k"), now=205)),
    Step("admit", lambda digests: digests.store.admit([Admission("o", OWN_SEEN, 500_000)], now=400_000)),
    Step("clear_override", lambda digests: digests.store.clear_override("o", terms=TERMS, cool_down=1, now=401_000)),
    Step("add", lambda digests: digests.add("g", record("k"), first_delay=60, now=402)),
    Step("replan", lambda digests: digests.store.replan([Replan("g", SEEN, TERMS, 1)], now=403_000)),
    Step("keep", lambda digests: kept(digests, "m1")),
    Step("keep", lambda digests: kept(digests, "m2")),
    Step("forget", lambda digests: digests.store.forget("messages", "m2")),
    Step("remove_names", lambda digests: transfer(digests).delete_progress([parcel("p", "t")])),
    # Damage, of each kind, and its repair
    Step("add", lambda digests: digests.add_many([("x", record("k")), ("x", record("l"))], now=300)),
]
LIFE = [
    *EVERYDAY,
    Step("agree", lambda digests: repaired(digests, Harm.MISPLACED, "x")),
    Step("quarantine_short", lambda digests: repaired(digests, Harm.VALUE, "x")),
    Step("repair_letter", lambda digests: repaired(digests, Harm.LETTER, "x")),
    Step("correct", lambda digests: repaired(digests, Harm.RECORD, "x")),
    Step("add", lambda digests: digests.add("x", record("m"), now=301)),
    Step("quarantine_timeline", lambda digests: repaired(digests, Harm.GARBLED, "x")),
]
REPAIRS = ["agree", "correct", "repair_letter", "quarantine_timeline", "quarantine_short"]


class Account(NamedTuple):
    """The answers of a life, and what it left behind."""

    answers: list[Any]
    ledger: Any
    timelines: list[Any]
    letters: list[Any]
    history: list[Any]
    footprint: dict[str, int]


def lived(digests: Digests, life: Sequence[Step] = LIFE) -> Account:
    answers = [step.act(digests) for step in life]
    return Account(
        answers,
        digests.ledger(),
        digests.store.scan(prefix="", after=None, limit=100),
        digests.dead_letters(),
        digests.history(),
        dict(digests.store.footprint()),
    )
