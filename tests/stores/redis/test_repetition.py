"""Calls that are repeated because their reply got lost, and calls that arrive long after their client gave up."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest

from digestif import Digests, InvalidState, Ledger, Policy, Record, StoreUnavailable
from digestif.core.capacity import Stored
from digestif.core.machine import Slot, Unfinished
from digestif.core.records import State
from digestif.core.transfer import FOREVER
from digestif.stores.base import Burial, Completion, Lease, QuarantinedRecord, Release, Take
from digestif.stores.redis.client.scripts import load
from digestif.stores.redis.repair import Repair
from digestif.stores.redis.store import RedisStore
from digestif.stores.transfer import ExportedRecord, ImportPage, Parcel, ParcelKind, TransferStore
from digestif.testing.conformance.base import Harm
from digestif.testing.servers import RedisServer
from tests.servers import shared_server
from tests.stores.redis.harm import harm_in
from tests.stores.redis.proxy import SCRIPTS, WRITING, Proxy

POLICY = Policy(minimum_delay=10, increment_delay=1, maximum_delay=60, ttl=120)
# Those left out are no calls, and safe to repeat.
VERBS = [name for name in WRITING if name not in ("confirm", "enter", "settings")]


# A life in which every script that writes runs. Tokens and times are given, so it always goes the same way.


def record(key: str, value: int = 0, timestamp: float = 0.0) -> Record:
    return Record(key, value, timestamp)


def lease(timeline: str, token: str, digest_id: str | None = None) -> Lease:
    """All that a store looks at in a lease."""
    return Lease(timeline, token, until=0, digest_id=digest_id or token, attempt=1, lapses=0, iteration=0, at=0)


def opened(timeline: str, token: str, *, now: int, lasts: int = 30_000) -> Callable[[Digests], Any]:
    return lambda digests: digests.store.open(timeline, token=token, lease=lasts, now=now)


def travelling(digests: Digests) -> TransferStore:
    assert isinstance(digests.store, TransferStore)
    return digests.store


def parcel(name: str, timeline: str, *, records: int = 1, kind: ParcelKind = ParcelKind.PENDING) -> Parcel:
    digest = Unfinished(id=name if kind is ParcelKind.PENDING else "d", batch=0, records=records, opened=0)
    slot = Slot(State.OPEN, parked=State.READY, at=1, since=1, token=name, until=FOREVER, digest=digest)
    return Parcel(name, timeline, kind, records, slot)


def arrived(digests: Digests, travels: Parcel) -> Any:
    cargo = [ExportedRecord(Stored("k", b"json/1 1", 0.0, 1), None, None)]
    return travelling(digests).import_pages([ImportPage(travels, 0, cargo)], fence=None, now=203_000)


def repaired(digests: Digests, harm: Harm, timeline: str) -> Any:
    store = digests.store
    assert isinstance(store, RedisStore)
    harm_in(store, harm, timeline)
    return Repair(store._scripts, 0, ring=store._ring, token=harm, now=300_000).run(dry_run=False)


class Step(NamedTuple):
    script: str
    act: Callable[[Digests], Any]


BATCH = [("t", record("a", 2)), ("t", record("b")), ("u", record("x")), ("v", record("y")), ("w", record("z"))]
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
    Step("add", lambda digests: digests.add("t", record("c"), now=4.5)),
    Step("schedule", lambda digests: list(digests.schedule(6, now=6))),
    Step("open", opened("t", "second", now=6_000)),
    Step("prepare", lambda digests: digests.store.take([Take(lease("t", "second"), 100, True)], now=6_000)),
    Step(
        "quarantine",
        lambda digests: digests.store.quarantine(
            lease("t", "second"), [QuarantinedRecord("a", "letter", "it is broken")], now=6_000
        ),
    ),
    Step("complete", lambda digests: digests.store.complete([Completion(lease("t", "second"), 10_000)], now=7_000)),
    # A worker's page, each digest of which ends otherwise
    Step("claim", lambda digests: digests.store.claim(0, 10, token="page", lease=30_000, now=7_000)),
    Step(
        "bury",
        lambda digests: digests.store.bury([Burial(lease("u", "page", "page-0"), "it is refused", 10_000)], now=8_000),
    ),
    Step("complete", lambda digests: digests.store.complete([Completion(lease("v", "page"), 10_000)], now=8_000)),
    Step("release", lambda digests: digests.store.release([Release(lease("w", "page"), None)], now=8_000)),
    Step("replay", lambda digests: digests.replay("page-0", now=9)),
    Step("discard", lambda digests: digests.discard("letter", now=9)),
    # A lapse, a dispatch that got lost, and records that expire
    Step("open", opened("u", "third", now=9_000, lasts=1_000)),
    Step("flush", lambda digests: digests.flush("v", now=9)),
    Step("add", lambda digests: digests.add("t", record("d"), now=9)),
    Step("maintain", lambda digests: digests.maintenance(9, now=10)),
    Step("maintain", lambda digests: digests.store.maintain(0, None, limit=100, now=200_000)),
    Step("delete", lambda digests: digests.store.delete("u", now=200_000)),
    # A digest that loses a record and serves somebody
    Step("add", lambda digests: digests.add_many([("n", record("k")), ("n", record("l"))], now=200)),
    Step("open", opened("n", "lost", now=200_000, lasts=1)),
    Step(
        "claim_suspects",
        lambda digests: digests.store.claim_suspects(0, alone=True, token="fourth", lease=30_000, now=200_001),
    ),
    Step("remove", lambda digests: digests.store.remove(lease("n", "fourth"), ["k"], now=200_000)),
    Step("mark_served", lambda digests: digests.store.mark_served(lease("n", "fourth"), ["ada"], now=200_000)),
    Step("complete", lambda digests: digests.store.complete([Completion(lease("n", "fourth"), 10_000)], now=200_000)),
    # Timelines that go to another store and come from one
    Step("add", lambda digests: digests.add("m", record("p"), now=201)),
    Step("begin_export", lambda digests: travelling(digests).begin_export(["m"], token="road", now=201_000)),
    Step("abort_export", lambda digests: travelling(digests).abort_export(["m"], now=201_000)),
    Step("begin_export", lambda digests: travelling(digests).begin_export(["m"], token="again", now=201_000)),
    Step(
        "commit_export",
        lambda digests: travelling(digests).commit_export([parcel("leaving:again-0", "m")], now=202_000),
    ),
    Step("import_pages", lambda digests: arrived(digests, parcel("leaving:in-0", "q"))),
    Step(
        "import_pages",
        lambda digests: arrived(digests, parcel("leaving:in-1", "r", records=2, kind=ParcelKind.DIGEST)),
    ),
    Step("abort_import", lambda digests: travelling(digests).abort_import([parcel("leaving:in-1", "r")], now=203_000)),
    Step("export_counts", lambda digests: travelling(digests).export_counts(0, "export_counts")),
    Step("export_counts", lambda digests: travelling(digests).import_counts("others", {"delivered": 5}, fence=None)),
    Step("swap_note", lambda digests: travelling(digests).swap_note(0, "note", None, b"noted")),
    # Damage, of each kind, and its repair
    Step("add", lambda digests: digests.add_many([("x", record("k")), ("x", record("l"))], now=300)),
]
LIFE = [
    *EVERYDAY,
    Step("agree", lambda digests: repaired(digests, Harm.MISPLACED, "x")),
    Step("quarantine_short", lambda digests: repaired(digests, Harm.VALUE, "x")),
    Step("mend_letter", lambda digests: repaired(digests, Harm.LETTER, "x")),
    Step("correct", lambda digests: repaired(digests, Harm.RECORD, "x")),
    Step("add", lambda digests: digests.add("x", record("m"), now=301)),
    Step("quarantine_timeline", lambda digests: repaired(digests, Harm.GARBLED, "x")),
]
MENDING = ["agree", "correct", "mend_letter", "quarantine_timeline", "quarantine_short"]


class Account(NamedTuple):
    """What a life told and what it left behind."""

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


@cache
def undisturbed() -> Account:
    with Digests(shared_server().url, namespace="undisturbed", policy=POLICY) as digests:
        return lived(digests)


# Replies that get lost


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server) as proxy:
        yield proxy


def test_the_life_has_every_script_that_writes_and_an_effect_of_each() -> None:
    account = undisturbed()
    told = [answer for step, answer in zip(LIFE, account.answers, strict=True) if step.script != "add"]

    assert {step.script for step in LIFE} == set(VERBS)
    assert not [answer for answer in told if answer in (False, 0, [], [False], [None])]
    assert account.ledger.balanced
    assert account.ledger == Ledger(
        accepted=8, pending=1, delivered=5, dead=2
    )  # what ended before has left, with `past`


@pytest.mark.parametrize("script", VERBS)
def test_a_call_whose_reply_got_lost_answers_as_it_did_first_and_counts_once(proxy: Proxy, script: str) -> None:
    proxy.lose(script)
    with Digests(proxy.url, policy=POLICY) as digests:
        account = lived(digests)

        assert proxy.lost[script] == sum(step.script == script for step in LIFE)
        assert account == undisturbed()
        assert digests.verify()


def test_every_reply_gets_lost_twice(proxy: Proxy) -> None:
    proxy.lose(*SCRIPTS, times=2)
    with Digests(proxy.url, policy=POLICY) as digests:
        account = lived(digests)

        assert proxy.lost.total() >= 2 * len(LIFE)
        assert account == undisturbed()
        assert digests.verify()


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_batch_that_is_repeated_counts_once_in_each_of_its_partitions(proxy: Proxy, partitions: int) -> None:
    proxy.lose("add", times=2)
    with Digests(f"{proxy.url}?partitions={partitions}", policy=POLICY) as digests:
        batch = [(f"t{number % 20}", record(str(number))) for number in range(1000)]

        answers = digests.add_many(batch, now=0)

        assert proxy.lost["add"] >= 2 * partitions
        assert answers == [True] * 20 + [False] * 980
        assert [each.key for each in digests.peek("t7")] == [str(number) for number in range(987, 0, -20)]
        assert digests.ledger() == Ledger(accepted=1000, pending=1000)
        assert digests.verify()


def test_a_delivery_of_which_every_reply_gets_lost_carries_its_records_once(proxy: Proxy) -> None:
    proxy.lose(*SCRIPTS, times=2)
    with Digests(proxy.url, policy=POLICY) as digests:
        assert digests.add("t", record("a"))
        with pytest.raises(RuntimeError), digests.digest("t"):
            raise RuntimeError("the channel failed")
        digests.add("t", record("b"))
        with digests.digest("t", 0) as digest:
            carried = [each.key for each in digest]

        assert (carried, digest.attempt, digest.revision) == (["b", "a"], 2, 2)
        assert [entry.key for entry in digests.schedule()] == ["t"]
        assert digests.ledger() == Ledger(accepted=2, delivered=2)
        assert digests.verify()


# Stragglers


@pytest.fixture
def impatient(proxy: Proxy) -> Iterator[Digests]:
    """Gives up soon after a call failed."""
    with Digests(f"{proxy.url}?patience=0.6", policy=POLICY) as digests:
        yield digests


def everything(server: RedisServer) -> dict[bytes, bytes | None]:
    """All that the server keeps, as it is."""
    with server.client() as client:
        return {key: client.dump(key) for key in client.keys("*")}


@pytest.mark.parametrize("script", VERBS)
def test_a_call_that_arrives_after_a_later_one_of_its_caller_changes_nothing(
    redis_server: RedisServer, proxy: Proxy, impatient: Digests, script: str
) -> None:
    last = max(place for place, step in enumerate(LIFE) if step.script == script)
    redis_server.client().script_load(load(script).text)  # or the straggler would only be told that it is unknown
    for step in LIFE[:last]:
        step.act(impatient)
    proxy.hold(script)
    with pytest.raises(StoreUnavailable):
        LIFE[last].act(impatient)
    proxy.hold()
    assert impatient.store.pause("bystander", True, now=300_000)
    before = everything(redis_server)

    replies = proxy.run_held()

    assert {str(reply).split()[0] for reply in replies} == {"DIGESTIF_OVERTAKEN"}
    assert everything(redis_server) == before
    assert impatient.verify() or script in MENDING  # then the damage is still there


def test_a_call_that_arrives_late_but_not_too_late_counts_once(proxy: Proxy, impatient: Digests) -> None:
    """Its caller was told that nobody knows; nothing that it did afterwards relies on the answer."""
    proxy.hold("add")
    with pytest.raises(StoreUnavailable):
        impatient.add("t", record("a"))

    replies = proxy.run_held()

    assert len(replies) > 1
    assert set(replies) == {b"1"}
    assert impatient.ledger() == Ledger(accepted=1, pending=1)


def test_also_a_later_call_that_was_refused_keeps_stragglers_out(
    redis_server: RedisServer, proxy: Proxy, impatient: Digests
) -> None:
    impatient.add("t", record("a"))
    proxy.hold("open")
    with pytest.raises(StoreUnavailable):
        impatient.store.open("t", token="forgotten", lease=30_000, now=None)
    proxy.hold()
    with pytest.raises(InvalidState):
        impatient.store.open("idle", token="refused", lease=30_000, now=None)
    before = everything(redis_server)

    replies = proxy.run_held()

    assert {str(reply).split()[0] for reply in replies} == {"DIGESTIF_OVERTAKEN"}
    assert everything(redis_server) == before
