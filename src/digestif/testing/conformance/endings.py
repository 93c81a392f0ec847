"""Endings: every attempt ends with exactly one event, however it was begun."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from digestif import (
    Buried,
    Claimed,
    Delivered,
    DeliveryFailed,
    Digest,
    Digests,
    Discard,
    Discarded,
    Empty,
    Ended,
    Event,
    Failed,
    LeaseLost,
    PutOff,
    Quarantined,
    Retry,
    Returned,
    StoreError,
    Unsettled,
    Worker,
)
from digestif.ids import fresh_id
from digestif.stores.base import Store
from digestif.testing.conformance.actions import Boom, Interrupt, T
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.footprint import assert_nothing_left
from digestif.testing.partitioned import Partitioned

LEASE = 30.0
LATE = 5.0
Act = Callable[[Digest], object]


class Way:
    """A way to begin an attempt on the timeline `t`; the act is what its block or handler does."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def attempt(self, digests: Digests, act: Act, *, now: float = T + LATE, at_most_once: bool = False) -> list[Event]:
        """Make one attempt; the answer is all events from its beginning on."""
        told: list[Event] = []
        if self.name != "digest":
            digests.handler("t", at_most_once=at_most_once)(act)
        unsubscribe = digests.subscribe(told.append)
        with suppress(Exception, Interrupt):
            getattr(self, f"_{self.name}")(digests, act, now)
        unsubscribe()
        return told

    def _digest(self, digests: Digests, act: Act, now: float) -> None:
        with digests.digest("t", now=now) as digest:
            act(digest)

    def _deliver(self, digests: Digests, act: Act, now: float) -> None:
        digests.deliver("t", now=now)

    def _worker(self, digests: Digests, act: Act, now: float) -> None:
        asyncio.run(Worker(digests).run_once(now))

    def _notify(self, digests: Digests, act: Act, now: float) -> None:
        digests.notify("t", "notified", key="a", now=now)


DIGEST, DELIVER, WORKER, NOTIFY = map(Way, ("digest", "deliver", "worker", "notify"))
opened = pytest.mark.parametrize("way", [DIGEST, DELIVER, WORKER], ids=repr)
handled = pytest.mark.parametrize("way", [DELIVER, WORKER, NOTIFY], ids=repr)
whatever = pytest.mark.parametrize("way", [DIGEST, DELIVER, WORKER, NOTIFY], ids=repr)


class Endings(Suite):
    @whatever
    def test_a_delivery_is_told_once(self, digests: Digests, way: Way) -> None:
        """Fact 65. Delivered: how many records, how late, how long it took."""
        add_before(digests, way)

        ended = the_end_of(way.attempt(digests, lambda digest: None))

        assert isinstance(ended, Delivered)
        assert (ended.records, ended.dropped, ended.late) == (1, 0, 0 if way is NOTIFY else LATE)
        assert 0 <= ended.took < 3600

    @whatever
    def test_a_failure_is_told_once_with_its_exception(self, digests_with: DigestsWith, way: Way) -> None:
        """Fact 65. Failed: the very exception, and when it is tried again."""
        digests = digests_with(retry=Retry(initial=10, jitter=0))
        add_before(digests, way)

        ended = the_end_of(way.attempt(digests, raising(boom := Boom("bang"))))

        assert isinstance(ended, Failed)
        assert ended.error is boom
        assert (ended.records, ended.reason) == (1, "Boom: bang")
        assert ended.retry_in == (0 if way is DIGEST else 10)

    @whatever
    def test_the_last_failure_is_told_once_as_a_burial(self, digests_with: DigestsWith, way: Way) -> None:
        """Fact 65. Buried, not Failed as well: the exception of the last attempt."""
        digests = digests_with(attempts=1)
        add_before(digests, way)

        ended = the_end_of(way.attempt(digests, raising(boom := Boom("bang"))))

        assert isinstance(ended, Buried)
        assert ended.error is boom
        assert (ended.records, digests.ledger().dead) == (1, 1)
        [letter] = digests.dead_letters()
        assert letter.reason == "Boom: bang"
        assert "Boom: bang" in letter.traceback
        assert "in act" in letter.traceback  # where it was raised

    @opened
    def test_poison_is_told_once_as_a_burial(self, digests_with: DigestsWith, store: Store, way: Way) -> None:
        """Fact 65. It killed its workers while it was alone: buried before any record is read."""
        digests = digests_with(lapses=1)
        digests.add("t", "a", now=T)
        for lapse in range(2):
            open_alone(store, now=T + lapse * LEASE)

        ended = the_end_of(way.attempt(digests, raising(Boom("never called")), now=T + 2 * LEASE))

        assert isinstance(ended, Buried)
        assert ended.error is None
        assert "alone" in ended.reason
        assert digests.ledger().dead == 1

    @whatever
    def test_a_lost_lease_is_told_once(self, digests: Digests, store: Store, way: Way) -> None:
        """Fact 65. Another process took over meanwhile: LeaseLost, whatever the handler did."""
        add_before(digests, way)

        told = way.attempt(digests, lambda digest: open_alone(store, now=T + LATE + LEASE))

        assert isinstance(the_end_of(told), LeaseLost)

    @handled
    def test_what_nobody_wants_is_told_once(self, digests: Digests, way: Way) -> None:
        """Fact 65. Discarded, with the reason."""
        add_before(digests, way)

        ended = the_end_of(way.attempt(digests, raising(Discard("old news"))))

        assert isinstance(ended, Discarded)
        assert (ended.records, ended.reason, digests.ledger().deleted) == (1, "Discard: old news", 1)

    @handled
    @pytest.mark.parametrize("at_most_once", [False, True], ids=["ordinary", "at most once"])
    def test_an_audience_that_is_gone_is_told_once_and_leaves_nothing(
        self, digests_with: DigestsWith, store: Store, way: Way, at_most_once: bool
    ) -> None:
        """Fact 29. Discarded, and deleted with all that waits, its dead letters and its history; nothing is raised."""
        digests = digests_with(attempts=1, minimum_delay=0, increment_delay=0)
        for name in ("buried", "delivered"):
            digests.add("t", name, now=T)
            digests.flush("t", now=T)
            with suppress(Boom), digests.digest("t", now=T) as digest:
                if digest[0].value == "buried":
                    raise Boom
        add_before(digests, way)
        if way is DELIVER:
            digests.flush("t", now=T)

        def leave(digest: Digest) -> None:
            digests.add("t", "meanwhile", now=T + LATE)
            raise Discard("has left", delete=True)

        ended = the_end_of(way.attempt(digests, leave, at_most_once=at_most_once))

        assert isinstance(ended, Discarded)
        assert (ended.records, ended.reason) == (1, "Discard: has left")
        assert_nothing_left(store)
        delivered = 2 if at_most_once else 1
        assert (digests.ledger().delivered, digests.ledger().deleted) == (delivered, 4 - delivered)
        assert digests.verify()

    @handled
    def test_a_lost_lease_deletes_nothing(self, digests: Digests, store: Store, way: Way) -> None:
        """Fact 39. Another process took over; the handler says that the audience is gone: LeaseLost, all is kept."""
        add_before(digests, way)

        def leave_late(digest: Digest) -> None:
            open_alone(store, now=T + LATE + LEASE)
            raise Discard("has left", delete=True)

        ended = the_end_of(way.attempt(digests, leave_late))

        assert isinstance(ended, LeaseLost)
        assert (digests.ledger().open, digests.ledger().deleted) == (1, 0)

    @handled
    def test_at_most_once_is_told_when_the_handler_has_ended(self, digests: Digests, way: Way) -> None:
        """Fact 65. The digest is completed before the handler runs; the event comes after it."""
        add_before(digests, way)
        delivered: list[int] = []

        told = way.attempt(digests, lambda _: delivered.append(digests.store.ledger().delivered), at_most_once=True)

        assert isinstance(the_end_of(told), Delivered)
        assert delivered == [1]

    @handled
    def test_at_most_once_that_fails_is_told_as_never_coming_again(self, digests: Digests, way: Way) -> None:
        """Fact 65. Failed, with no time at which it is tried again."""
        add_before(digests, way)

        ended = the_end_of(way.attempt(digests, raising(boom := Boom("bang")), at_most_once=True))

        assert isinstance(ended, Failed)
        assert (ended.error, ended.retry_in, digests.ledger().delivered) == (boom, None, 1)

    @pytest.mark.parametrize("way", [DIGEST, DELIVER], ids=repr)
    def test_an_empty_digest_is_told_once(self, digests: Digests, way: Way) -> None:
        """Fact 65. Its only record was retracted: Empty, and nothing was delivered."""
        digests.add("t", "a", key="a", now=T)
        digests.retract("t", "a", now=T)

        ended = the_end_of(way.attempt(digests, lambda digest: None))

        assert isinstance(ended, Empty)
        assert digests.timeline("t").state == "idle"

    @handled
    def test_patience_is_told_once_and_not_as_a_failure(self, digests: Digests, way: Way) -> None:
        """Fact 65. The receiver asked to wait: PutOff, and the attempt does not count."""
        add_before(digests, way)

        ended = the_end_of(way.attempt(digests, raising(DeliveryFailed("slow down", after=7, throttled=True))))

        assert isinstance(ended, PutOff)
        assert (ended.retry_in, "slow down" in ended.reason) == (7, True)

    def test_a_timeline_without_a_handler_is_told_once_as_put_off(self, digests: Digests) -> None:
        """Fact 65. The worker has handlers, but none for this timeline."""
        digests.add("t", "a", now=T)
        digests.handler("other")(print)
        told: list[Event] = []
        digests.subscribe(told.append)

        asyncio.run(Worker(digests).run_once(T))

        assert isinstance(the_end_of(told), PutOff)

    @opened
    def test_a_record_that_cannot_be_read_ends_no_attempt(
        self, digests_with: DigestsWith, store: Store, way: Way
    ) -> None:
        """Fact 65. It is quarantined, by name, and the rest is delivered."""
        over = Partitioned([store])
        digests = digests_with(over=over)
        digests.add_many([("t", "bad"), ("t", "good")], now=T)
        [bad, _] = sorted(digests.peek("t"), key=lambda record: record.value)
        over.lost.add(bad.key)

        told = way.attempt(digests, lambda digest: None)

        ended = the_end_of(told)
        assert isinstance(ended, Delivered)
        assert ended.records == 1
        assert [(event.timeline, event.key) for event in told if isinstance(event, Quarantined)] == [("t", bad.key)]

    @opened
    def test_a_digest_of_which_nothing_can_be_read_is_told_once_as_empty(
        self, digests_with: DigestsWith, store: Store, way: Way
    ) -> None:
        """Fact 65. Its only record is quarantined: Empty, and the record is a dead letter."""
        over = Partitioned([store])
        digests = digests_with(over=over)
        digests.add("t", "bad", key="bad", now=T)
        over.lost.add("bad")

        told = way.attempt(digests, lambda digest: None)

        assert isinstance(the_end_of(told), Empty)
        assert digests.ledger().dead == 1

    @pytest.mark.parametrize("way", [DIGEST, DELIVER, NOTIFY], ids=repr)
    def test_an_interrupt_is_told_once_as_given_back(self, digests: Digests, way: Way) -> None:
        """Fact 65. It may have gone out: Returned, and the next attempt carries exactly the same records."""
        add_before(digests, way)

        ended = the_end_of(way.attempt(digests, raising(Interrupt())))

        assert isinstance(ended, Returned)
        assert ended.begun is True

    @whatever
    def test_a_store_that_never_answers_is_told_once(self, digests_with: DigestsWith, store: Store, way: Way) -> None:
        """Fact 65. The attempt ended and the store does not answer: Unsettled; the lease lapses."""
        over = Partitioned([store])
        digests = digests_with(over=over)
        add_before(digests, way)
        worker_gives_up_soon = pytest.MonkeyPatch()
        worker_gives_up_soon.setattr(Worker, "tuning", Worker.tuning._replace(last_calls=0.05))
        worker_gives_up_soon.setattr("digestif.worker.loop.Loop.idle", _at_once)

        told = way.attempt(digests, lambda digest: over.failing.add(0))
        worker_gives_up_soon.undo()

        ended = the_end_of(told)
        assert isinstance(ended, Unsettled)
        assert isinstance(ended.error, StoreError)
        assert ended.ending == "delivered"


async def _at_once(loop: Any) -> None:
    """As if a signal stopped the worker while it waited for the store."""
    await loop._execution.finished()


def add_before(digests: Digests, way: Way) -> None:
    """Add the record that the attempt is about, unless it comes with it."""
    if way is not NOTIFY:
        digests.add("t", "added", key="a", now=T)


def raising(error: BaseException) -> Act:
    def act(digest: Digest) -> None:
        raise error

    return act


def open_alone(store: Store, *, now: float) -> None:
    """Open the timeline as a process that runs nothing else, and do not end the attempt."""
    store.open("t", token=fresh_id(), lease=int(LEASE * 1000), now=int(now * 1000), alone=True)


def the_end_of(told: list[Event]) -> Ended:
    """The event that ends the only attempt."""
    [begun] = [event for event in told if isinstance(event, Claimed)]
    [ended] = [event for event in told if isinstance(event, Ended)]
    assert told.index(begun) < told.index(ended)
    assert (begun.timeline, begun.digest_id, begun.attempt) == (ended.timeline, ended.digest_id, ended.attempt)
    assert ended.timeline == "t"
    return ended
