"""What has to agree on a server and in Python: the rules in Lua, and two stores that live the same life.

`RULES` names the rules that Lua has a second time. `Twins` is a store in memory and one on a server, which must look
the same after each step.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from redis import Redis

from digestif import InvalidState
from digestif.core import machine, transfer
from digestif.core.capacity import Stored, age_order
from digestif.core.machine import Slot
from digestif.stores.base import ClaimPage, Lease, Store, Take
from digestif.stores.memory import MemoryStore
from digestif.stores.reader import Part
from digestif.stores.registry import open_store
from digestif.testing.conformance.port import delete, maintain, stored, take_all
from digestif.testing.footprint import assert_nothing_left
from tests.servers import empty_server
from tests.stores.redis.layout import flaws

T = TypeVar("T")

# From the name of a rule in lua/include/machine.lua or transfer.lua to the function in Python.
MACHINE: dict[str, Callable[..., Any]] = {
    "after_add": machine.after_add,
    "after_push": machine.after_push,
    "next_delivery": machine.next_delivery,
    "after_schedule": machine.after_schedule,
    "after_maintenance": machine.after_maintenance,
    "after_lapse": machine.after_lapse,
    "must_be_admitted": machine.must_be_admitted,
    "may_be_admitted": machine.may_be_admitted,
    "after_admission_refused": machine.after_admission_refused,
    "after_plan": machine.after_plan,
    "first_opening": machine.first_opening,
    "last_opening": machine.last_opening,
    "is_live": machine.is_live,
    "is_held": machine.is_held,
    "is_leased_until": machine.is_leased_until,
    "after_early_end": machine.after_early_end,
    "is_empty": machine.is_empty,
    "refuse_opening": machine.refuse_opening,
    "is_suspect": machine.is_suspect,
    "group_size": machine.group_size,
    "may_join": machine.may_join,
    "after_open": machine.after_open,
    "without_pending": machine.without_pending,
    "after_decision": machine.after_decision,
    "excess": machine.excess,
    "must_be_weighed": machine.must_be_weighed,
    "after_weighing": machine.after_weighing,
    "after_completion": machine.after_completion,
    "after_failure": machine.after_failure,
    "after_release": machine.after_release,
    "after_retirement": machine.after_retirement,
    "after_flush": machine.after_flush,
    "after_replay": machine.after_replay,
    "refuse_requeue": machine.refuse_requeue,
    "after_requeue": machine.after_requeue,
    "may_have_gone_out": machine.may_have_gone_out,
    "who_got": machine.who_got,
    "after_losing": machine.after_losing,
    "is_off": machine.is_off,
    "after_switched_off": machine.after_switched_off,
    "after_expiry": machine.after_expiry,
}
TRANSFER: dict[str, Callable[..., Any]] = {
    "after_begin_export": transfer.after_begin_export,
    "after_commit_export": transfer.after_commit_export,
    "after_abort_export": transfer.after_abort_export,
    "after_import_of_timeline": transfer.after_import_of_timeline,
    "after_import_of_pending": transfer.after_import_of_pending,
    "after_import_of_digest": transfer.after_import_of_digest,
    "after_import_completed": transfer.after_import_completed,
}
RULES = MACHINE | TRANSFER
MODULES = (machine, transfer)  # that hold these rules
ONLY_IN_PYTHON: set[Callable[..., Any]] = {
    machine.cut,  # a part of after_open and after_begin_export
    machine.move,  # a part of after_add and others
    machine.plan_in_force,  # a part of after_completion
    machine.due_by_delays,
    machine.seen,  # scripts compare its parts
    machine.flaw,  # scripts check slots as they read them
    machine.who_never_can,  # the engine reports them
    machine.unreachable,
    machine.refuse_without_value,  # scripts answer DIGESTIF_VALUELESS
    machine.refuse_while_moving,  # scripts answer DIGESTIF_MOVING
    transfer.brings_override,  # import_pages.lua compares its parts
    transfer.is_incoming,  # scripts compare whole tokens
    transfer.exports_pending,  # the client makes parcels
    transfer.move_mark,  # mark_move.lua writes it
    transfer.move_start,
    transfer.is_of_move,
}

# Facts of a slot that every store keeps, and of an unfinished digest.
SLOT = ("state", "at", "since", "last", "iteration", "paused", "pending", "dropped", "first", "deadline", "rule", "was")
WINDOW = ("by_delays", "passes", "override")
LEASED = ("token", "until", "group", "alone")
LAPSES = ("lapses", "lapses_alone", "largest")
DIGEST = (
    "id",
    "records",
    "opened",
    "dropped",
    "revision",
    "attempt",
    *LAPSES,
    "frozen",
    "unknown",
    "tried",
    "deciding",
    "replayed",
)


class Refusal(NamedTuple):
    """Nothing was done, for this reason."""

    kind: type[Exception]


class Carried(NamedTuple):
    """What a digest carries."""

    revision: int
    dropped: int
    records: list[tuple[str, bytes | None, float]]


class Twins:
    """A store in memory and one on a server. Every call goes to both, with the same `now` and tokens."""

    def __init__(self, server: Store, client: "Redis") -> None:
        self.memory = MemoryStore()
        self.server = server
        self.client = client

    def attempt(self, act: Callable[[Store], T]) -> T | Refusal:
        """The answer of both, or how both refuse."""
        expected, found = outcome(act, self.memory), outcome(act, self.server)
        assert without_pages(found) == without_pages(expected)
        return found

    def do(self, act: Callable[[Store], T]) -> T:
        """The answer of both."""
        answer = self.attempt(act)
        assert not isinstance(answer, Refusal)
        return answer

    def retract(self, key: str, timeline: str = "t", *, now: int) -> bool:
        return self.do(lambda store: store.retract(timeline, key, now=now))

    def expire(self, *, now: int) -> int:
        """How many records maintenance expires."""
        return self.do(lambda store: sum(many for _, many in maintain(store, now=now).expired))

    def look(self, timeline: str = "t", *, page: int = 400) -> dict[str, Any]:
        """All that can be seen of a timeline and of the counts: the same on both, and in order on the server."""
        expected, found = (seen(store, timeline, page=page) for store in (self.memory, self.server))
        assert found == expected
        assert self.server.verify(), self.server.verify().problems
        assert flaws(self.client, namespace=self.server.namespace) == []
        return found

    def open(self, timeline: str = "t", *, token: str, now: int, lease: int = 30_000) -> Lease:
        return self.do(lambda store: store.open(timeline, token=token, lease=lease, now=now))

    def carry(self, lease: Lease, *, now: int, capacity: int | None = None, merge: bool = True) -> Carried:
        """Take a digest whole."""

        def take(store: Store) -> Carried:
            taken = take_all(store, lease, capacity=capacity, merge=merge, now=now)
            return Carried(taken.revision, taken.dropped, [(r.key, r.payload, r.timestamp) for r in taken.records])

        return self.do(take)

    def take_once(self, request: Take, *, now: int) -> None:
        """Begin to take a digest. How far that goes is each store's own affair."""
        for store in (self.memory, self.server):
            assert store.take([request], now=now) != [None]

    def end(self, *timelines: str, now: int) -> None:
        """Delete timelines, after which nothing is left."""
        for timeline in timelines:
            for store in (self.memory, self.server):
                delete(store, timeline, now=now)
        assert self.server.ledger() == self.memory.ledger()
        assert_nothing_left(self.server)


@contextmanager
def twins() -> Iterator[Twins]:
    server = empty_server()
    store, client = open_store(server.url, namespace="twin"), server.client()
    try:
        yield Twins(store, client)
    finally:
        store.close()
        client.close()


def outcome(act: Callable[[Store], T], store: Store) -> T | Refusal:
    try:
        return act(store)
    except InvalidState as error:
        return Refusal(type(error))


def without_pages(answer: T) -> T:
    """What a claim has read along is left out: only the server does that."""
    return answer._replace(pages={}) if isinstance(answer, ClaimPage) else answer


def seen(store: Store, timeline: str, *, page: int) -> dict[str, Any]:
    letters = store.letters(None, after=None, limit=1000)
    return {
        "slot": facts(store.inspect(timeline)),
        "ledger": store.ledger(),
        "pending": contents(stored(store, timeline, Part.PENDING, limit=page)),
        "digest": contents(stored(store, timeline, Part.DIGEST, limit=page)),
        "letters": letters,
        "dead": [contents(letter_records(store, letter.id, page=page)) for letter in letters],
        "history": sorted(store.history(None, limit=1000), key=attrgetter("ended", "id")),  # one call may end several
    }


def facts(slot: Slot) -> dict[str, Any]:
    of_slot = {name: getattr(slot, name) for name in (*SLOT, *WINDOW, *LEASED)}
    return of_slot | {f"digest {name}": getattr(slot.digest, name, None) for name in DIGEST}


def contents(records: Iterable[Stored]) -> list[tuple[str, bytes | None, float]]:
    return [(record.key, record.payload, record.timestamp) for record in records]


def letter_records(store: Store, letter_id: str, *, page: int) -> Iterator[Stored]:
    after = None
    while records := store.letter_records(letter_id, after=after, limit=page):
        yield from records
        last = age_order(records[-1])
        assert after is None or last < after, "a page does not go on where the last one ended"
        after = last
