"""Deliveries through notify, ticks and workers: what handlers get, also when processes die and attempts fail."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, count

import pytest

from digestif import Digest, Digests, InvalidState, Policy, Record, Retry, Worker
from digestif.attempts.delivery import Delivery
from digestif.attempts.failures import COLLECTION
from digestif.attempts.judgement import judge
from digestif.attempts.maintenance import maintain
from digestif.attempts.room import Room
from digestif.attempts.steps import run
from digestif.core import policy_text
from digestif.core.machine import Slot
from digestif.stores.base import PAGE_RECORDS, Store
from digestif.testing.conformance.actions import Boom, T, add_all, deliver, keys, let_wait, numbered
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import ROUNDS
from digestif.testing.footprint import assert_nothing_left
from digestif.testing.partitioned import Partitioned

LEASE = 30.0


class Notifications(Suite):
    def test_a_notification_that_makes_its_timeline_ready_is_delivered_at_once(self, digests: Digests) -> None:
        """Fact 34. Add answers True: the handler gets the digest before notify returns, once."""
        sent = sent_by(digests, "t")

        assert digests.notify("t", "a", key="a", now=T) is True

        assert [keys(digest) for digest in sent] == [["a"]]
        assert (digests.timeline("t").state, digests.ledger().delivered) == ("waiting", 1)

    def test_a_notification_that_joins_others_is_not_delivered(self, digests: Digests) -> None:
        """Fact 34. Add answers False: nothing is delivered, and the record is pending."""
        let_wait(digests, "t", due=T + 60)
        sent = sent_by(digests, "t")

        assert digests.notify("t", "a", now=T) is False

        assert sent == []
        assert digests.timeline("t").pending == 1

    def test_only_what_becomes_ready_is_dispatched(self, digests: Digests) -> None:
        """Fact 34. With a dispatch: called once with the timeline for True, never for False; nothing is delivered."""
        dispatched: list[str] = []

        answers = [digests.notify("t", n, dispatch=dispatched.append, now=T) for n in range(3)]

        assert answers == [True, False, False]
        assert dispatched == ["t"]
        assert (digests.timeline("t").state, digests.ledger().pending) == ("ready", 3)

    def test_what_was_dispatched_is_delivered_with_all_that_came_since(self, digests: Digests) -> None:
        """Fact 34. The task that was dispatched delivers once; a second one finds nothing to deliver."""
        sent = sent_by(digests, "t")
        for name in ("a", "b"):
            digests.notify("t", name, key=name, timestamp=T, dispatch=lambda _: None, now=T)

        assert digests.deliver("t", now=T + 1) is True
        with pytest.raises(InvalidState):
            digests.deliver("t", now=T + 1)

        assert [keys(digest) for digest in sent] == [["b", "a"]]

    def test_a_notification_whose_handler_fails_comes_again(self, digests_with: DigestsWith) -> None:
        """Fact 34. The handler raises: notify answers True as ever, and the record comes again by the policy."""
        digests = digests_with(retry=Retry(initial=10, jitter=0))
        seen = failing(digests, "t", times=1)

        assert digests.notify("t", "a", now=T) is True

        assert (digests.timeline("t").state, digests.timeline("t").due) == ("waiting", T + 10)
        assert tick(digests, now=T + 10) == ["t"]
        assert [digest.attempt for digest in seen] == [1, 2]
        assert digests.ledger().delivered == 1

    @pytest.mark.parametrize("clock", ["given", "the store's"])
    def test_without_a_cool_down_every_notification_is_delivered_within_its_call(
        self, digests_with: DigestsWith, clock: str
    ) -> None:
        """Fact 34. Policy.immediate, no worker: three calls, three digests of one record each, one after the other."""
        digests = digests_with(**policy_text.IMMEDIATE)
        sent = sent_by(digests, "t")

        for name in "abc":
            assert digests.notify("t", name, key=name, now=T if clock == "given" else None) is True
            assert keys(sent[-1]) == [name]

        assert len(sent) == digests.ledger().delivered == 3

    def test_without_a_cool_down_what_comes_during_a_delivery_leaves_with_the_call_that_made_it(
        self, digests_with: DigestsWith
    ) -> None:
        """Fact 34. No worker is there, and the producer whose record joined an open digest has gone on."""
        digests = digests_with(**policy_text.IMMEDIATE)
        sent: list[list[str]] = []

        @digests.handler("t")
        def send(digest: Digest) -> None:
            sent.append(keys(digest))
            if len(sent) < 3:
                digests.notify("t", 1, key=f"during {len(sent)}", now=T)

        digests.notify("t", 1, key="first", now=T)

        assert sent == [["first"], ["during 1"], ["during 2"]]
        assert digests.timeline("t").pending == 0

    def test_without_a_cool_down_every_notification_is_dispatched(self, digests_with: DigestsWith) -> None:
        """Fact 34. The timeline is ready when the dispatch is called; while it is ready it is not dispatched again."""
        digests = digests_with(**policy_text.IMMEDIATE)
        sent_by(digests, "t")
        digests.notify("t", "a", now=T)
        states: list[str] = []

        def dispatch(timeline: str) -> None:
            states.append(digests.timeline(timeline).state)

        answers = [digests.notify("t", name, dispatch=dispatch, now=T) for name in "bc"]

        assert (answers, states) == ([True, False], ["ready"])

    def test_a_notification_delivers_a_timeline_whose_time_has_come(self, digests: Digests) -> None:
        """Fact 34. Not before it is due; then with all that waits, and without a pass: the cool-down follows."""
        let_wait(digests, "t", due=T + 60, last=T)
        digests.add("t", "a", key="a", timestamp=T, increment_delay=0, now=T)
        sent = sent_by(digests, "t")

        early = digests.notify("t", "b", key="b", timestamp=T + 1, increment_delay=0, now=T + 59.999)
        due = digests.notify("t", "c", key="c", timestamp=T + 2, increment_delay=0, now=T + 60)

        assert (early, due) == (False, True)
        assert [keys(digest) for digest in sent] == [["c", "b", "a"]]
        assert digests.timeline("t").due == T + 60 + 300

    def test_a_retry_is_made_by_a_notification_once_its_time_has_come(self, digests_with: DigestsWith) -> None:
        """Fact 34. While the retry waits nothing is delivered; then the digest comes with the new records."""
        digests = digests_with(retry=Retry(initial=10, jitter=0), minimum_delay=0)
        seen = failing(digests, "t", times=1)
        digests.notify("t", "a", key="a", timestamp=T, now=T)

        early = digests.notify("t", "b", key="b", timestamp=T + 1, now=T + 9)
        due = digests.notify("t", "c", key="c", timestamp=T + 2, now=T + 10)

        assert (early, due) == (False, True)
        assert [keys(digest) for digest in seen] == [["a"], ["c", "b", "a"]]

    @pytest.mark.parametrize("case", ["paused", "open", "off"])
    def test_what_may_not_be_delivered_stays_when_it_is_notified(self, digests_with: DigestsWith, case: str) -> None:
        """Fact 34. Due, and paused, open or switched off: False, and no handler is called."""
        digests = digests_with(**policy_text.IMMEDIATE)
        digests.add("t", "a", now=T)
        deliver(digests, "t", now=T)
        digests.add("t", "b", now=T)
        sent = sent_by(digests, "t")

        if case == "open":
            digests.flush("t", now=T)
            with digests.digest("t", now=T):
                answer = digests.notify("t", "c", now=T)
        else:
            digests.pause("t", now=T) if case == "paused" else digests.prefer("t", "off", now=T)
            answer = digests.notify("t", "c", now=T)

        assert answer is False
        assert sent == []

    def test_a_worker_that_is_quicker_than_a_notification_delivers_alone(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 34. It claims the timeline between the add and what follows: the record goes out once, quietly."""
        digests = digests_with(over=(over := Overtaken([store])), **policy_text.IMMEDIATE)
        sent = sent_by(digests, "t")
        digests.notify("t", "a", key="a", now=T)
        over.overtaken_by = lambda: work(digests, now=T)

        digests.notify("t", "b", key="b", now=T)

        assert [keys(digest) for digest in sent] == [["a"], ["b"]]
        assert digests.ledger().delivered == 2
        assert digests.verify()

    def test_a_store_that_fails_after_the_record_was_accepted_leaves_it_to_a_worker(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 34. The producer must not add it again: False, and the record is delivered later."""
        digests = digests_with(over=(over := Overtaken([store])), **policy_text.IMMEDIATE)
        sent = sent_by(digests, "t")
        digests.notify("t", "a", key="a", now=T)
        over.overtaken_by = lambda: over.failing.add(0)

        assert digests.notify("t", "b", key="b", now=T) is False

        over.failing.clear()
        work(digests, now=T)
        assert [keys(digest) for digest in sent] == [["a"], ["b"]]


class WorkerTicks(Suite):
    def test_a_tick_delivers_each_due_timeline_once(self, digests: Digests) -> None:
        """Fact 35. Maintenance, then schedule, one delivery per entry; the next tick has nothing to do."""
        names = [f"t{n}" for n in range(5)]
        for name in names:
            let_wait(digests, name, due=T + 10, last=T)
            digests.add(name, name, increment_delay=0, now=T + 1)
        sent = sent_by(digests, "t*")

        assert tick(digests, now=T + 9) == []
        assert sorted(tick(digests, now=T + 10)) == names
        assert tick(digests, now=T + 10) == []

        assert sorted(digest.timeline for digest in sent) == names

    def test_a_tick_finds_what_was_dispatched_and_never_delivered(self, digests: Digests) -> None:
        """Fact 35. A dispatch got lost: a tick five minutes later delivers it, once; no tick before does."""
        sent = sent_by(digests, "t")
        digests.notify("t", "a", key="a", dispatch=lambda _: None, now=T)

        ticks = [tick(digests, now=T + seconds) for seconds in (60, 299, 300, 360)]

        assert ticks == [[], [], ["t"], []]
        assert [keys(digest) for digest in sent] == [["a"]]

    def test_a_delivery_in_an_invalid_state_does_not_call_the_handler(self, digests: Digests) -> None:
        """Fact 35. Waiting, unknown, paused, or open under a lease: InvalidState, and nothing is sent or changed."""
        sent = sent_by(digests, "*")
        let_wait(digests, "waiting", due=T + 60)
        digests.add("paused", "a", now=T)
        digests.pause("paused", now=T)
        digests.add("open", "a", now=T)
        before = digests.ledger()

        with digests.digest("open", now=T):
            for timeline in ("waiting", "unknown", "paused", "open"):
                with pytest.raises(InvalidState):
                    digests.deliver(timeline, now=T)

        assert sent == []
        assert digests.ledger().dead == before.dead == 0
        assert digests.timeline("waiting").due == T + 60

    def test_an_empty_digest_sends_nothing(self, digests: Digests, store: Store) -> None:
        """Fact 35. Scheduled without new records: the handler is not called, and the timeline is idle."""
        sent = sent_by(digests, "t")
        let_wait(digests, "t", due=T + 60)

        assert [entry.key for entry in digests.schedule(T + 60, now=T + 60)] == ["t"]
        assert digests.deliver("t", now=T + 60) is False

        assert sent == []
        assert digests.timeline("t").state == "idle"
        assert_nothing_left(store)

    def test_a_worker_sends_nothing_for_an_empty_timeline(self, digests: Digests, store: Store) -> None:
        """Fact 35. A worker finds a due timeline without records: nothing is sent, and the timeline is idle."""
        sent = sent_by(digests, "t")
        let_wait(digests, "t", due=T + 60)

        work(digests, now=T + 60)

        assert sent == []
        assert_nothing_left(store)


class DeadWorkers(Suite):
    """A process is killed between two store calls: from the n-th call on, the store does not answer it any more."""

    @pytest.mark.parametrize("way", ["worker", "deliver"])
    @pytest.mark.parametrize("case", ["new", "failed before", "killed before", "many records", "unreadable record"])
    def test_wherever_a_process_is_killed_nothing_is_lost_and_no_record_comes_under_two_keys(
        self, store: Store, way: str, case: str
    ) -> None:
        """Fact 46. Killed before each of its store calls in turn; after the lease the next worker delivers the rest."""
        for calls in count():
            scene = Scene(store, f"t{calls}", case)
            is_killed = scene.is_killed_after(calls, way)
            scene.add(["meanwhile"])
            scene.let_others_finish()

            scene.assert_all_came_and_again_only_as_they_were()
            if not is_killed:
                break

        assert calls >= 3  # to claim or open, to take, to complete
        for letter in scene.digests.dead_letters(limit=100):
            assert scene.digests.discard(letter.id, now=T)
        assert_nothing_left(store)

    @pytest.mark.parametrize("way", ["worker", "deliver"])
    def test_wherever_a_process_is_killed_nothing_comes_twice_at_most_once(self, store: Store, way: str) -> None:
        """Fact 46. The same with a handler that is called at most once: it may miss a digest, and none comes twice."""
        for calls in count():
            scene = Scene(store, f"t{calls}", "new", at_most_once=True)
            is_killed = scene.is_killed_after(calls, way)
            scene.let_others_finish()

            came = Counter(key for digest in scene.sent for key in keys(digest))
            assert set(came.values()) <= {1}
            assert scene.digests.verify()
            if not is_killed:
                break

        assert came
        assert_nothing_left(store)


class FailedAttempts(Suite):
    def test_attempts_back_off_and_end_as_a_dead_letter(self, digests_with: DigestsWith) -> None:
        """Fact 47. A handler always fails: attempts back off, the last one buries, the timeline goes on."""
        digests = digests_with(attempts=3, minimum_delay=60, retry=Retry(initial=10, factor=2, jitter=0))
        seen = failing(digests, "t")
        digests.add("t", "poison", now=T)

        attempts = [(now, len(seen)) for now in (0, 9.999, 10, 29.999, 30, 89.999) if work(digests, now=T + now)]

        assert attempts == [(0, 1), (9.999, 1), (10, 2), (29.999, 2), (30, 3), (89.999, 3)]
        assert [digest.attempt for digest in seen] == [1, 2, 3]
        [letter] = digests.dead_letters("t")
        assert letter.id == seen[0].id
        assert (digests.ledger().dead, digests.ledger().open) == (1, 0)
        timeline = digests.timeline("t")
        assert (timeline.state, timeline.due) == ("waiting", T + 90)

    def test_why_the_latest_attempt_failed_is_known_until_the_digest_ends(
        self, digests_with: DigestsWith, store: Store
    ) -> None:
        """Fact 47. After the second of three attempts its reason is shown; after the third, or a delivery, nothing."""
        digests = digests_with(attempts=3, minimum_delay=0, retry=Retry(initial=10, factor=1, jitter=0))
        failing(digests, "t", times=2)
        failing(digests, "buried")
        for timeline in ("t", "buried"):
            digests.add(timeline, 1, now=T)
        work(digests, now=T)
        work(digests, now=T + 10)

        [first, second] = digests.failures(now=T + 12)
        why = digests.explain("t", now=T + 12)

        assert {first.timeline, second.timeline} == {"t", "buried"}
        assert why.failed in (first, second)
        assert str(why.failed) == "attempt 2 of 3 failed 2 s ago: Boom: "
        work(digests, now=T + 20)
        assert digests.failures(now=T + 20) == []
        assert digests.explain("t", now=T + 20).failed is None
        assert store.documents(COLLECTION, limit=10, now=0) == []

    def test_other_timelines_are_on_time_beside_one_that_always_fails(self, digests_with: DigestsWith) -> None:
        """Fact 47. However one timeline fails, the others are delivered when they are due, in the same round."""
        digests = digests_with(minimum_delay=10, increment_delay=0, retry=Retry(initial=1, factor=1, jitter=0))
        failing(digests, "bad")
        sent = sent_by(digests, "good:*")
        due: list[tuple[str, float]] = []
        digests.add("bad", "poison", now=T)

        for second in range(31):
            if second % 10 == 0:
                digests.add(f"good:{second % 3}", second, now=T + second)
                due.append((f"good:{second % 3}", T + second))
            work(digests, now=T + second)
            assert [(digest.timeline, digest[0].timestamp) for digest in sent] == due

        assert len(digests.dead_letters("bad")) == 1

    def test_a_dead_letter_is_delivered_again_under_its_id(self, digests_with: DigestsWith, store: Store) -> None:
        """Fact 47. Replayed when its handler works again: the same records under the same id, attempts from 1."""
        digests = digests_with(attempts=2, minimum_delay=0, retry=Retry(initial=1, jitter=0))
        seen = failing(digests, "t", times=2)
        add_all(digests, "t", numbered(range(3)))
        for now in (0, 1):
            work(digests, now=T + now)
        [letter] = digests.dead_letters()

        assert digests.replay(letter.id, now=T + 100) is True
        work(digests, now=T + 100)

        assert [digest.id for digest in seen] == [letter.id] * 3
        assert [keys(digest) for digest in seen] == [["r2", "r1", "r0"]] * 3
        assert seen[-1].attempt == 1
        assert (digests.ledger().delivered, digests.ledger().dead) == (3, 0)
        work(digests, now=T + 100)
        assert_nothing_left(store)


class Deliveries(Notifications, WorkerTicks, DeadWorkers, FailedAttempts):
    """All topics of this file."""


def sent_by(digests: Digests, pattern: str) -> list[Digest]:
    """The digests that a handler gets from now on; it delivers all of them."""
    sent: list[Digest] = []
    digests.handler(pattern)(sent.append)
    return sent


def failing(digests: Digests, pattern: str, *, times: int = 1_000_000) -> list[Digest]:
    """The digests that a handler gets, which fails the first `times` times."""
    seen: list[Digest] = []

    def fail(digest: Digest) -> None:
        seen.append(digest)
        if len(seen) <= times:
            raise Boom

    digests.handler(pattern)(fail)
    return seen


def tick(digests: Digests, *, now: float) -> list[str]:
    """What an external scheduler does at each tick; the answer is the timelines that it delivered."""
    digests.maintenance(now=now)
    entries = [entry.key for entry in digests.schedule(now=now)]
    for key in entries:
        with suppress(InvalidState):
            digests.deliver(key, now=now)
    return entries


def work(digests: Digests, *, now: float) -> bool:
    """Let a worker deliver what is due, and what is due then."""

    async def rounds() -> bool:
        worker = Worker(digests, concurrency=4, threads=4)
        for _ in range(ROUNDS):
            if not await worker.run_once(now):
                return True
        raise AssertionError("the worker does not come to an end")

    return asyncio.run(rounds())


class Overtaken(Partitioned):
    """A store in which something happens between an add and the next look at its timeline."""

    overtaken_by: Callable[[], object] | None = None

    def inspect(self, timeline: str) -> Slot:
        found = super().inspect(timeline)
        happens, self.overtaken_by = self.overtaken_by, None
        if happens is not None:
            happens()
        return found


class Killed(BaseException):
    """The process is gone."""


class Mortal(Partitioned):
    """A store as a process sees it that is killed after so many calls."""

    def __init__(self, store: Store, *, calls: int) -> None:
        super().__init__([store])
        self._calls = calls

    def _part(self, number: int) -> Store:
        if self._calls == 0:  # and so does every further call
            raise Killed
        self._calls -= 1
        return super()._part(number)


class Scene:
    """One timeline, a process that is to be killed while it delivers it, and others that are not."""

    def __init__(self, store: Store, timeline: str, case: str, *, at_most_once: bool = False) -> None:
        self.sent: list[Digest] = []  # all that may have gone out
        self._store = store
        self._timeline = timeline
        self._at_most_once = at_most_once
        self._accepted: set[str] = set()
        self._unreadable = {f"{timeline}:1"} if case == "unreadable record" else set()
        self.digests = self._engine(Partitioned([store]))
        self.add([str(n) for n in range(PAGE_RECORDS + 100 if case == "many records" else 3)])
        if case == "failed before":
            with pytest.raises(Boom), self.digests.digest(timeline, now=T):
                raise Boom
        elif case == "killed before":
            step(self.digests, now=T, is_killed=True)
        self.add(["newer"])

    def _engine(self, store: Partitioned) -> Digests:
        store.lost = self._unreadable
        digests = Digests(store, policy=Policy(minimum_delay=0), lease=LEASE)
        digests.handler("*", at_most_once=self._at_most_once)(self.sent.append)
        return digests

    def add(self, names: list[str]) -> None:
        """Add records; each has a key that is its own in the whole store."""
        records = [Record(f"{self._timeline}:{name}", name, T) for name in names]
        add_all(self.digests, self._timeline, records)
        self._accepted.update(keys(records))

    def is_killed_after(self, calls: int, way: str, *, now: float = T + LEASE) -> bool:
        """Let a process deliver that is killed after so many store calls; True if that was before it was done."""
        digests = self._engine(Mortal(self._store, calls=calls))
        try:
            if way == "worker":
                step(digests, now=now)
            else:
                digests.deliver(self._timeline, now=now)
        except Killed:
            return True
        return False

    def let_others_finish(self) -> None:
        """After the lapse a worker delivers the rest, and then what has arrived meanwhile."""
        for _ in range(4):
            step(self.digests, now=T + 2 * LEASE)
        assert self.digests.timeline(self._timeline).state == "idle"

    def assert_all_came_and_again_only_as_they_were(self) -> None:
        """Fail unless each record came under one key, and each key always with the same records."""
        carried = {digest.idempotency_key: keys(digest) for digest in self.sent}
        assert [keys(digest) for digest in self.sent] == [carried[digest.idempotency_key] for digest in self.sent]
        assert Counter(chain(*carried.values())) == Counter(self._accepted - self._unreadable)
        assert self.digests.ledger().balanced
        assert self.digests.verify()


def step(digests: Digests, *, now: float, is_killed: bool = False) -> None:
    """A worker's round, one store call after the other; it may be killed after everything was sent."""
    pipeline = digests.engine.pipeline(now)
    maintain(pipeline)
    page = run(pipeline.claim(10, room=Room()))
    if not page.claimed:
        page = run(pipeline.claim_suspects(1, alone=True, room=Room()))
    judged = page.judged
    for delivery in map(Delivery, page.loaded):
        handler = delivery.loaded.claimed.handler
        assert handler is not None
        handler.call([delivery])
        judged.append(judge(delivery, None))
    if not is_killed:
        run(pipeline.end(judged))
