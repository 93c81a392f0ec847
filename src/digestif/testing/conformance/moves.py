"""What a store does while it is being moved into another: it accepts records, and starts no delivery."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import pytest

from digestif import Digests, Policy, Record
from digestif.core.ledger import Ledger
from digestif.core.machine import seen
from digestif.core.records import State
from digestif.core.terms import Terms
from digestif.errors import Busy
from digestif.ids import fresh_id
from digestif.stores.base import Admission, Admitted, Burial, Requeue
from digestif.stores.memory import MemoryStore
from digestif.stores.reader import Part
from digestif.stores.transfer import ImportPage
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    claim_all,
    claim_suspects,
    complete,
    expire,
    let_wait,
    maintain,
    numbers,
    open_digest,
    open_lease,
    record_keys,
    release,
    stored,
)
from digestif.transfer import Move, Progress, abandon

Movable = Any  # a Store that is a TransferStore, too
LATER = NOW + LEASE
T = 1_900_000_000.0
CALM = Policy(minimum_delay=300, increment_delay=30, maximum_delay=1800)


class Moves(Suite):
    @pytest.fixture
    def target(self) -> MemoryStore:
        return MemoryStore(namespace="target")

    # The mark

    @pytest.mark.parametrize("many", [1, 3])
    def test_an_idle_timeline_waits_when_a_record_arrives(self, store: Movable, many: int) -> None:
        """Fact 68. An add answers False, whether it comes alone or with others: the other store will deliver it."""
        with moving(store):
            assert arrive(store, "t", numbers(0, many)) == [False] * many

            slot = store.inspect("t")
            assert (slot.state, slot.at, slot.pending) == (State.WAITING, NOW, many)

    def test_timelines_that_are_busy_accept_records(self, store: Movable) -> None:
        """Fact 68. Ready, open or waiting: a further record joins as it does anywhere else."""
        arrive_everywhere(store, ["ready", "open", "waiting"])
        open_digest(store, "open")
        complete(store, open_digest(store, "waiting"), cool_down=1000)

        with moving(store):
            for timeline in ("ready", "open", "waiting"):
                assert arrive(store, timeline, ["b"], increment=10, maximum=10**6) == [False]

            states = {name: (slot.state, slot.pending) for name, slot in store.scan(prefix="", after=None, limit=9)}
            assert states == {"ready": (State.READY, 2), "open": (State.OPEN, 1), "waiting": (State.WAITING, 1)}
            assert store.inspect("waiting").at == NOW + 1010

    def test_nothing_is_claimed(self, store: Movable) -> None:
        """Fact 68. Neither what is ready, due or lapsed, nor what is empty becomes idle."""
        arrive_everywhere(store, ["ready", "lapsed"])
        let_wait(store, ["empty"], at=NOW + 1)
        open_digest(store, "lapsed")

        with moving(store):
            arrive(store, "due", ["a"])

            assert claim_all(store, now=LATER) == []
            assert claim_suspects(store, alone=True, now=LATER) == []
            page = store.claim(0, 10, token=fresh_id(), lease=LEASE, now=LATER, asks=True)
            assert (page.leases, page.retired, page.suspect, page.candidates) == ([], 0, None, ())
            assert store.inspect("empty").state is State.WAITING

    def test_nothing_is_scheduled(self, store: Movable) -> None:
        """Fact 68. What is due stays waiting."""
        with moving(store):
            arrive(store, "t", ["a"])

            for partition in range(store.partitions):
                page = store.schedule(partition, LATER, after=None, limit=10, now=LATER)
                assert (page.entries, page.after, page.candidates) == ([], None, ())
            assert store.inspect("t").state is State.WAITING

    @pytest.mark.parametrize("token", [None, "token"])
    @pytest.mark.parametrize("until", [None, LATER])
    def test_what_was_a_candidate_before_is_not_admitted(
        self, store: Movable, token: str | None, until: int | None
    ) -> None:
        """Fact 68. The move began between a claim and its decision."""
        let_wait(store, ["t"], at=NOW)
        arrive(store, "t", ["b"], increment=0)
        admission = Admission("t", seen(store.inspect("t")), until)

        with moving(store):
            assert store.admit([admission], token=token, lease=LEASE, now=NOW) == Admitted([], [])

            assert store.inspect("t").state is State.WAITING

    def test_nothing_is_opened_flushed_replayed_or_requeued(self, store: Movable) -> None:
        """Fact 68. Busy, and the error says that the store is being moved and what ends that."""
        arrive_everywhere(store, ["ready", "dead"])
        store.bury([Burial(open_digest(store, "dead"), "no luck", cool_down=1000)], now=NOW)
        [letter] = store.letters(None, after=None, limit=10)

        with moving(store):
            arrive(store, "waiting", ["a"])
            for timeline in ("ready", "waiting", "unknown"):
                with pytest.raises(Busy, match=r"being moved.*--abandon"):
                    open_lease(store, timeline)
                with pytest.raises(Busy, match="being moved"):
                    store.flush(timeline, now=NOW)
            with pytest.raises(Busy, match="being moved"):
                store.replay(letter.id, now=NOW)
            assert not store.replay("unknown", now=NOW)
            with pytest.raises(Busy, match="being moved"):
                store.requeue(Requeue(letter.id, Terms(), delay=0), limit=1, now=NOW)

        assert store.flush("waiting", now=NOW)
        assert store.replay(letter.id, now=NOW)
        assert store.ledger().open == 1
        assert store.verify()

    def test_a_lease_that_runs_may_end(self, store: Movable) -> None:
        """Fact 68. An attempt that was under way is extended, delivered, put off or buried as ever."""
        arrive_everywhere(store, ["done", "failed", "dead", "long"])
        done, failed, dead, long = (open_digest(store, name) for name in ("done", "failed", "dead", "long"))

        with moving(store):
            assert store.extend([long], lease=2 * LEASE, now=NOW) == [True]
            assert complete(store, done, cool_down=1000)
            assert release(store, failed, until=LATER)
            assert store.bury([Burial(dead, "no luck", cool_down=1000)], now=NOW) == [True]

            ledger = store.ledger()
            assert (ledger.delivered, ledger.dead, ledger.open) == (1, 1, 2)
            assert store.inspect("done").last == NOW

    def test_maintenance_goes_on(self, store: Movable) -> None:
        """Fact 68. Records expire, leases lapse, what was dispatched and got lost waits again."""
        arrive(store, "old", ["a"], ttl=1000)
        arrive_everywhere(store, ["ready", "lapsed"])
        open_digest(store, "lapsed")

        with moving(store):
            done = maintain(store, NOW, now=LATER)

            assert done.lapsed == ["lapsed"]
            assert "ready" in [due.timeline for due in done.moved]
            assert expire(store, now=LATER) + sum(many for _, many in done.expired) == 1

    def test_operators_go_on(self, store: Movable) -> None:
        """Fact 68. Records are retracted, timelines paused and deleted, dead letters discarded."""
        arrive(store, "t", ["a", "b"])
        arrive_everywhere(store, ["dead", "gone"])
        store.bury([Burial(open_digest(store, "dead"), "no luck", cool_down=1000)], now=NOW)
        [letter] = store.letters(None, after=None, limit=10)

        with moving(store):
            assert store.retract("t", "a", now=NOW)
            assert store.pause("t", True, now=NOW)
            assert store.pause("t", False, now=NOW)
            assert store.delete("gone", now=NOW)
            assert store.discard(letter.id, now=NOW)
        assert store.verify()

    def test_when_it_is_over_everything_goes_on(self, store: Movable) -> None:
        """Fact 68. What arrived meanwhile is due, an idle timeline is ready at once."""
        with moving(store):
            arrive(store, "t", ["a"])

        assert arrive(store, "fresh", ["a"]) == [True]
        assert sorted(lease.timeline for lease in claim_all(store)) == ["fresh", "t"]

    def test_a_mark_is_set_once_and_taken_away_by_its_own_move(self, store: Movable) -> None:
        """Fact 68. A process that resumes a move sets it again; one that comes late can't end the move of another."""
        assert store.moving_since() is None
        for at in (NOW, LATER):
            for partition in range(store.partitions):
                store.begin_move(partition, "m", now=at)
        assert store.moving_since() == NOW

        for partition in range(store.partitions):
            store.end_move(partition, "another")
        assert arrive(store, "t", ["a"]) == [False]
        for _ in "12":
            for partition in range(store.partitions):
                store.end_move(partition, "m")

        assert store.moving_since() is None
        assert arrive(store, "u", ["a"]) == [True]
        for partition in range(store.partitions):
            store.begin_move(partition, "n", now=NOW)
            store.end_move(partition, None)
        assert store.moving_since() is None

    def test_what_is_due_is_found_earliest_first(self, store: Movable) -> None:
        """Fact 68. It is moved before the others: ready, or waiting and due, not paused; also during a move."""
        let_wait(store, ["empty"], at=NOW + 20)
        let_wait(store, ["later"], at=LATER + 1)
        arrive_everywhere(store, ["paused", "ready"])
        store.pause("paused", True, now=NOW)

        with moving(store):
            arrive(store, "waiting", ["a"], now=NOW + 10)

            found = store.due(limit=10, now=LATER)
            assert {name for name, _ in found} == {"ready", "waiting", "empty"}
            assert all(slot == store.inspect(name) for name, slot in found)
            assert len(store.due(limit=2, now=LATER)) == 2
        if store.partitions == 1:
            assert [name for name, _ in found] == ["ready", "waiting", "empty"]

    # A move

    @pytest.mark.parametrize("outward", [True, False])
    def test_as_many_digests_go_out_as_without_a_move(self, store: Movable, target: MemoryStore, outward: bool) -> None:
        """Fact 68. A record every 20 seconds, and workers at both ends, while the store is moved and after."""
        source, other = (store, target) if outward else (target, store)

        sent = run_for_an_hour(source, other)

        alone = run_without_a_move()
        assert [len(records) for _, records in sent] == [len(records) for _, records in alone]
        assert [at for at, _ in sent] == [at for at, _ in alone]
        assert other.verify()
        assert source.verify()

    @pytest.mark.parametrize("state", ["cooling down", "waiting", "open", "ready"])
    def test_what_follows_joins_its_timeline_and_waits_with_it(
        self, store: Movable, state: str, target: MemoryStore
    ) -> None:
        """Fact 68. A record that arrives at the source later meets the cool-down of its timeline in the target."""
        arrive(target, "t", ["first"])
        move = Move(target, store, now=lambda: NOW)
        move.run()
        if state != "ready":
            lease = open_digest(store)
        if state in ("cooling down", "waiting"):
            complete(store, lease, cool_down=1000)
        if state == "waiting":
            arrive(store, "t", ["second"], increment=0)
        before = store.inspect("t")

        for partition in range(target.partitions):
            target.begin_move(partition, "m", now=NOW)
        assert arrive(target, "t", ["late"], now=NOW + 10) == [False]
        Move(target, store, now=lambda: NOW + 10).run()

        after = store.inspect("t")
        assert (after.state, after.at, after.last) == (before.state, before.at, before.last)
        assert "late" in record_keys(stored(store, "t", Part.PENDING))
        assert store.verify()

    def test_a_delivery_that_ends_during_the_move_takes_its_cool_down_along(
        self, store: Movable, target: MemoryStore
    ) -> None:
        """Fact 68. Also into a timeline that a producer, who switched early, began in the target."""
        for timeline in ("known", "unknown"):
            arrive(target, timeline, ["a"])
            lease = open_digest(target, timeline)
            complete(target, lease, cool_down=1000)
        with moving(store):
            arrive(store, "known", ["b"], now=NOW)

        Move(target, store, now=lambda: NOW).run()

        for timeline in ("known", "unknown"):
            slot = store.inspect(timeline)
            assert (slot.state, slot.at, slot.last) == (State.WAITING, NOW + 1000, NOW)

    def test_a_record_for_a_timeline_that_is_off_in_the_target_is_not_delivered(
        self, store: Movable, target: MemoryStore
    ) -> None:
        """Fact 68. The choice was moved; a producer that has not switched yet does not know it."""
        off, old, new = (Digests(each, policy=CALM) for each in (target, target, store))
        off.prefer("t", "off", now=T)
        Move(target, store, now=lambda: int(T * 1000)).run()

        assert old.add("t", 1, now=T + 1)
        Move(target, store, now=lambda: int(T * 1000) + 1000).run()

        assert (new.ledger().accepted, new.ledger().deleted, new.ledger().pending) == (1, 1, 0)
        assert list(new.schedule(now=T + 10**6)) == []
        assert new.verify()

    @pytest.mark.parametrize("state", ["ready", "waiting", "cooling down", "retry", "paused", "many"])
    @pytest.mark.parametrize("outward", [True, False])
    def test_off_that_arrives_empties_the_timeline(
        self, store: Movable, target: MemoryStore, state: str, outward: bool
    ) -> None:
        """Fact 79. Switched off at the source: what waits at the target is deleted and counted, as if chosen there."""
        source, other = (store, target) if outward else (target, store)
        old, new = Digests(source, policy=CALM), Digests(other, policy=CALM)
        many = fill(new, state)
        due = new.timeline("t").due if state == "cooling down" else None
        old.prefer("t", "off", now=T + 1)

        Move(source, other, now=lambda: int(T * 1000) + 2000).run()

        ledger, timeline = new.ledger(), new.timeline("t")
        assert (ledger.deleted, ledger.pending, ledger.open) == (many, 0, 0)
        assert (timeline.off, timeline.pending, timeline.in_digest) == (True, 0, 0)
        assert timeline.state is (State.IDLE if due is None else State.WAITING)
        assert (timeline.due, timeline.paused) == (due, state == "paused")
        assert new.verify()
        assert old.verify()

    def test_what_off_has_emptied_does_not_come_back(self, store: Movable, target: MemoryStore) -> None:
        """Fact 79. The reader opts in again at the target: the next digest has only what arrived after that."""
        old, new = Digests(target, policy=CALM), Digests(store, policy=CALM)
        new.add("t", 1, key="before", now=T)
        old.prefer("t", "off", now=T + 1)
        Move(target, store, now=lambda: int(T * 1000) + 2000).run()

        new.clear_policy("t", now=T + 3)
        assert new.add("t", 2, key="after", now=T + 4)

        with new.digest("t", now=T + 4) as digest:
            assert [record.key for record in digest] == ["after"]
        assert (new.ledger().accepted, new.ledger().delivered, new.ledger().deleted) == (2, 1, 1)
        assert new.verify()

    def test_off_that_arrives_lets_an_open_digest_end(self, store: Movable, target: MemoryStore) -> None:
        """Fact 79. It is delivered as ever; what is pending beside it is deleted."""
        old, new = Digests(target, policy=CALM), Digests(store, policy=CALM)
        new.add("t", 1, key="open", now=T)

        with new.digest("t", now=T) as digest:
            new.add("t", 2, key="pending", now=T)
            old.prefer("t", "off", now=T + 1)
            Move(target, store, now=lambda: int(T * 1000) + 2000).run()
            assert (new.ledger().open, new.ledger().deleted) == (1, 1)

        assert [record.key for record in digest] == ["open"]
        assert (new.ledger().delivered, new.ledger().deleted, new.ledger().pending) == (1, 1, 0)
        assert new.verify()

    @pytest.mark.parametrize("pages", [1, 2])
    def test_a_digest_that_brings_off_along_is_deleted_with_what_waits(
        self, store: Movable, target: MemoryStore, pages: int
    ) -> None:
        """Fact 79. It was open when people switched it off, and lapsed: it is not tried again in the other store."""
        old, new = Digests(target, policy=CALM), Digests(store, policy=CALM)
        arrive(target, "t", ["a", "b"])
        open_digest(target)
        old.prefer("t", "off", now=NOW / 1000)
        arrive(store, "t", ["waiting"])
        target.page_records = 2 // pages

        Move(target, store, now=lambda: LATER).run()

        assert new.ledger() == Ledger(accepted=3, deleted=3)
        assert (new.timeline("t").state, new.timeline("t").off) == (State.IDLE, True)
        assert new.verify()

    def test_off_that_is_chosen_at_the_target_deletes_a_digest_that_is_arriving(
        self, store: Movable, target: MemoryStore
    ) -> None:
        """Fact 79. Some of its pages have arrived: it is deleted as soon as it is whole."""
        new = Digests(store, policy=CALM)
        arrive(target, "t", ["a", "b"])
        release(target, open_digest(target), until=LATER)
        target.page_records = 1

        def choose_off(done: Progress) -> None:
            if done.records == 1 and not new.timeline("t").off:
                new.prefer("t", "off", now=NOW / 1000)

        Move(target, store, now=lambda: NOW, report=choose_off).run()

        assert new.ledger() == Ledger(accepted=2, deleted=2)
        assert (new.timeline("t").state, new.timeline("t").off) == (State.IDLE, True)
        assert new.verify()

    @pytest.mark.parametrize("chosen", ["off", "paused"])
    @pytest.mark.parametrize("killed", [False, True])
    def test_what_is_chosen_while_a_timeline_is_copied_follows(
        self, store: Movable, target: MemoryStore, chosen: str, killed: bool
    ) -> None:
        """Fact 79. Between the begin of an export and its commit, also if another process goes on with the move."""
        old, new = Digests(store, policy=CALM), Digests(target, policy=CALM)
        arrive(store, "t", ["a", "b"])
        target.page_records = 1
        chosen_at: list[int] = []

        def choose(done: Progress) -> None:
            if done.records == 1 and not chosen_at:
                chosen_at.append(done.records)
                old.prefer("t", "off", now=NOW / 1000) if chosen == "off" else old.pause("t", now=NOW / 1000)
                if killed:
                    raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            Move(store, target, now=lambda: NOW, report=choose).run()
        Move(store, target, now=lambda: LATER).run()

        assert chosen_at
        assert (new.timeline("t").off, new.timeline("t").paused) == (chosen == "off", chosen == "paused")
        assert new.ledger() == (Ledger(accepted=2, deleted=2) if chosen == "off" else Ledger(accepted=2, pending=2))
        assert new.verify()
        assert old.verify()
        assert old.timelines() == []

    def test_an_import_that_is_given_up_leaves_what_was_chosen_here(self, store: Movable, target: MemoryStore) -> None:
        """Fact 79. The source deleted its timeline: the policy that the target had before stays, its own does not."""
        new = Digests(store, policy=CALM)
        for timeline in ("own", "bare"):
            arrive(target, timeline, ["a", "b"])
            Digests(target, policy=CALM).set_policy(timeline, "minimum=3m", now=T)
            release(target, open_digest(target, timeline), until=LATER)
        new.set_policy("own", "minimum=2m", now=T + 1)
        for timeline in ("own", "bare"):
            [parcel] = target.begin_export([timeline], token=timeline, now=NOW)
            assert parcel is not None
            [records] = target.read_export([(parcel, None)], limit=1)
            store.import_pages([ImportPage(parcel, 0, records)], fence=None, now=NOW)
            store.abort_import([parcel], now=NOW)

        assert {each.key for each in new.timelines()} == {"own"}
        assert new.policy_of("own").policy.minimum_delay == 120
        assert new.verify()

    def test_of_two_overrides_the_later_one_holds(self, store: Movable, target: MemoryStore) -> None:
        """Fact 68. A policy that is set at the source during the move follows; an older one changes nothing."""
        old, new = Digests(target, policy=CALM), Digests(store, policy=CALM)
        for timeline in ("older", "newer"):
            old.set_policy(timeline, "minimum=1m", now=T)
        Move(target, store, now=lambda: int(T * 1000)).run()
        old.set_policy("newer", "minimum=3m", now=T + 20)
        old.set_policy("older", "minimum=3m", now=T + 5)
        new.set_policy("older", "minimum=2m", now=T + 10)

        Move(target, store, now=lambda: int(T * 1000) + 20_000).run()

        found = {name: new.policy_of(name).policy.minimum_delay for name in ("older", "newer")}
        assert found == {"older": 120, "newer": 180}

    @pytest.mark.parametrize(
        ("policy", "due"), [("minimum=20m,maximum=1h", 1200), ("minimum=1m", 60), ("minimum=5s", 10)]
    )
    @pytest.mark.parametrize("follows", [0, 1])
    def test_a_policy_that_arrives_moves_what_waits(
        self, store: Movable, target: MemoryStore, policy: str, due: int, follows: int
    ) -> None:
        """Fact 79. Set at the source during the move: the timeline waits at the target as if it had been set there."""
        old, new = Digests(target, policy=CALM), Digests(store, policy=CALM)
        fill(new, "cooling down")
        old.set_policy("t", policy, now=T + 5)
        old.add_many([("t", Record(f"late {n}", n, T)) for n in range(follows)], now=T + 6)

        Move(target, store, now=lambda: int(T * 1000) + 10_000).run()

        assert (new.timeline("t").due, new.timeline("t").pending) == (T + due, 2 + follows)
        assert new.verify()

    def test_a_move_that_is_given_up_leaves_a_store_that_delivers(self, store: Movable, target: MemoryStore) -> None:
        """Fact 68. Nothing of the mark remains, and everything can be claimed."""
        arrive_everywhere(store, numbers(0, 5))
        stopped = Move(store, target, now=lambda: NOW, report=lambda _: stopped.stop())
        stopped.run()
        assert store.moving_since() is not None
        assert arrive(store, "t", ["a"]) == [False]

        abandon(store, now=NOW)

        assert store.moving_since() is None
        assert arrive(store, "u", ["a"]) == [True]
        assert {"t", "u"} <= {lease.timeline for lease in claim_all(store)}


def fill(digests: Digests, state: str) -> int:
    """Put records into the timeline `t`, which is in this state then; the answer is how many."""
    if state in ("cooling down", "retry"):
        digests.add("t", 1, key="first", now=T)
        lease = open_digest(digests.store, now=int(T * 1000))
        if state == "retry":
            release(digests.store, lease, until=int(T * 1000) + 60_000, now=int(T * 1000))
        else:
            complete(digests.store, lease, cool_down=300_000, now=int(T * 1000))
    elif state == "paused":
        digests.pause("t", now=T)
    keys = numbers(0, 1_200 if state == "many" else 2)
    digests.add_many([("t", Record(key, 1, T)) for key in keys], first_delay=600 if state == "waiting" else None, now=T)
    return len(keys) + (state == "retry")


@contextmanager
def moving(store: Movable, *, move_id: str = "m") -> Iterator[None]:
    """A move that is under way."""
    for partition in range(store.partitions):
        store.begin_move(partition, move_id, now=NOW)
    yield
    for partition in range(store.partitions):
        store.end_move(partition, move_id)


@cache
@cache  # the same for every store
def run_without_a_move() -> list[tuple[float, list[str]]]:
    return run_for_an_hour(MemoryStore(namespace="alone"), None)


def run_for_an_hour(source: Movable, target: Movable | None) -> list[tuple[float, list[str]]]:
    """What goes out, and when: one record every 20 seconds; a move begins after 10 minutes and follows until the 45th;
    after 40 all switch.
    """
    engines = [Digests(store, policy=CALM) for store in (source, target) if store is not None]
    sent: list[tuple[float, list[str]]] = []
    for second in range(0, 3600, 10):
        now = T + second
        producer = engines[0] if second < 2400 else engines[-1]
        if second % 20 == 0:
            producer.add("t", Record(f"{second:04}", second, now), now=now)
        if target is not None and 600 <= second <= 2700 and second % 20 == 0:
            _follow(source, target, now=int(now * 1000), end=second >= 2600)
        for engine in engines:
            sent += _delivered(engine, now)
    return sent


def _follow(source: Movable, target: Movable, *, now: int, end: bool) -> None:
    """A run that stops as soon as the source is empty, as a kill could stop it; the last one goes on to its end."""
    move = Move(source, target, now=lambda: now)
    if not end:
        move = Move(source, target, now=lambda: now, report=lambda done: move.stop() if done.following else None)
    move.run(follow=not end)


def _delivered(digests: Digests, now: float) -> Iterator[tuple[float, list[str]]]:
    digests.maintenance(now - 600, now=now)
    for lease in claim_all(digests.store, now=int(now * 1000)):
        records = record_keys(stored(digests.store, lease.timeline, Part.DIGEST))
        complete(digests.store, lease, cool_down=300_000, now=int(now * 1000))
        yield now, sorted(records)
