"""The ledger: every record has exactly one fate, at every instant."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from digestif import Busy, Digests, InvalidState, Ledger, Record, StaleLease
from digestif.testing.conformance.actions import Boom, T, add_all, deliver, fail, next_digest, numbered
from digestif.testing.conformance.base import DigestsWith, Suite

STRICT: dict[str, Any] = {
    "minimum_delay": 30,
    "increment_delay": 5,
    "maximum_delay": 90,
    "capacity": 4,
    "ttl": 180,
    "attempts": 2,
    "lapses": 2,
}


class Accounts(Suite):
    def test_the_ledger_balances_at_every_minute_of_a_random_run(self, digests_with: DigestsWith) -> None:
        """Fact 48. Every minute of a random run: the ledger balances, and verify agrees with a recount."""
        digests = digests_with(**STRICT)
        run = RandomRun(digests, Random(0))

        for minute in range(40):
            for second in range(0, 60, 10):
                run.step(T + 60 * minute + second)
            assert digests.ledger().balanced, digests.ledger()
            assert digests.verify(), digests.verify().problems

        ledger = digests.ledger()
        assert min(ledger.delivered, ledger.superseded, ledger.dropped, ledger.expired, ledger.deleted) > 0

    def test_each_fate_is_counted_once(self, digests_with: DigestsWith) -> None:
        """Fact 48. The ledger balances: each of these records has its own fate."""
        digests = digests_with(capacity=2, attempts=1, maximum_delay=300, minimum_delay=0, ttl=600)
        digests.add("dead", "a", now=T)
        fail(digests, "dead")
        digests.add("deleted", "a", now=T)
        digests.delete("deleted", now=T)
        add_all(digests, "dropped", numbered(range(3)))
        deliver(digests, "dropped")
        digests.add("expired", "a", now=T - 600)
        digests.maintenance(T - 900, now=T)
        digests.add("superseded", Record("a", 1, T), now=T)
        digests.add("superseded", Record("a", 2, T), now=T)

        with digests.digest("superseded", now=T):
            digests.add("pending", "a", now=T)
            ledger = digests.ledger()

        assert ledger == Ledger(
            accepted=9, pending=1, open=1, delivered=2, superseded=1, dropped=1, expired=1, deleted=1, dead=1
        )
        assert digests.verify()

    def test_verify_shows_what_it_counted(self, digests: Digests) -> None:
        """Fact 48. verify agrees with a recount: of pending, open and dead records, from the data."""
        add_all(digests, "t", numbered(range(1_200)))
        fail(digests, "t")
        add_all(digests, "t", numbered(range(3)))

        report = digests.verify()

        assert bool(report) is True
        assert report.problems == ()
        assert report.ledger == digests.ledger()
        assert report.recounted == {"pending": 3, "open": 1_200, "dead": 0}


class DeadLetters(Suite):
    @pytest.fixture
    def giving_up(self, digests_with: DigestsWith) -> Digests:
        """One attempt, and the digest is buried."""
        return digests_with(attempts=1, minimum_delay=60)

    def test_a_dead_letter_tells_what_happened(self, giving_up: Digests) -> None:
        """Fact 24. A dead letter tells its timeline, its error, its times and its records."""
        add_all(giving_up, "t", numbered(range(2)))
        with pytest.raises(Boom), giving_up.digest("t", now=T + 1) as digest:
            raise Boom("no such address")

        [letter] = giving_up.dead_letters()

        assert (letter.id, letter.timeline, letter.revision, letter.attempts) == (digest.id, "t", 1, 1)
        assert "no such address" in letter.reason
        assert (letter.records, letter.opened, letter.buried) == (2, T + 1, T + 1)
        assert giving_up.dead_records(letter.id) == list(digest)

    def test_a_replayed_letter_is_delivered_under_the_same_id(self, giving_up: Digests) -> None:
        """Fact 40. A replayed digest has the same key and is not merged; newer records are in the next digest."""
        giving_up.add("t", Record("a", 1, T), now=T)
        buried = fail(giving_up, "t")
        giving_up.add("t", Record("b", 2, T), now=T)

        assert giving_up.replay(buried.id, now=T + 1) is True

        again = deliver(giving_up, "t", 0, now=T + 1)
        assert (list(again), again.idempotency_key, again.attempt) == (list(buried), buried.idempotency_key, 1)
        assert giving_up.dead_letters() == []
        assert [record.key for record in next_digest(giving_up, "t", now=T + 1)] == ["b"]
        assert (giving_up.ledger().delivered, giving_up.ledger().dead) == (2, 0)

    def test_a_replayed_letter_has_all_its_attempts_again(self, digests_with: DigestsWith) -> None:
        """Fact 25. After a replay, attempts count from 1, and the last of them buries again."""
        digests = digests_with(attempts=2)
        digests.add("t", "a", now=T)
        buried = [fail(digests, "t"), fail(digests, "t")][-1]
        digests.replay(buried.id, now=T)

        again = fail(digests, "t")
        assert digests.ledger().dead == 0
        last = fail(digests, "t")

        assert buried.idempotency_key == again.idempotency_key == last.idempotency_key == f"{buried.id}.1"
        assert [letter.id for letter in digests.dead_letters()] == [buried.id]

    def test_replay_waits_for_an_unfinished_digest(self, giving_up: Digests) -> None:
        """Fact 22. Replay while another digest of the timeline is unfinished: Busy."""
        giving_up.add("t", "a", now=T)
        buried = fail(giving_up, "t")
        giving_up.add("t", "b", now=T)
        giving_up.flush("t", now=T)

        with giving_up.digest("t", now=T), pytest.raises(Busy):
            giving_up.replay(buried.id, now=T)

        assert giving_up.replay(buried.id, now=T) is True

    def test_a_discarded_letter_is_gone(self, giving_up: Digests) -> None:
        """Fact 48. Discarded: counted deleted, and neither listed nor replayed any more."""
        giving_up.add("t", "a", now=T)
        buried = fail(giving_up, "t")

        answers = [
            giving_up.discard(buried.id, now=T),
            giving_up.discard(buried.id, now=T),
            giving_up.replay(buried.id, now=T),
        ]

        assert answers == [True, False, False]
        assert giving_up.dead_letters() == []
        assert (giving_up.ledger().dead, giving_up.ledger().deleted) == (0, 1)

    def test_letters_are_listed_in_pages(self, giving_up: Digests) -> None:
        """Fact 24. Dead letters are listed in the order of their burial, in pages, of one timeline or all."""
        for n in range(5):
            giving_up.add(f"t{n % 2}", n, now=T + n)
            giving_up.flush(f"t{n % 2}", now=T + n)
            fail(giving_up, f"t{n % 2}", now=T + n)

        first = giving_up.dead_letters(limit=3)
        second = giving_up.dead_letters(after=first[-1].id, limit=3)

        assert [letter.buried for letter in [*first, *second]] == [T + n for n in range(5)]
        assert [letter.buried for letter in giving_up.dead_letters("t1")] == [T + 1, T + 3]


class RandomRun:
    """A user who calls every verb, in random order."""

    def __init__(self, digests: Digests, random: Random) -> None:
        self.digests = digests
        self.random = random
        self.actions = [
            *[self.add] * 6,
            *[self.deliver] * 3,
            *(self.maintain, self.fail, self.die, self.steer, self.revive, self.retract, self.delete),
        ]

    def step(self, now: float) -> None:
        timeline = self.random.choice("abc")
        with suppress(InvalidState, StaleLease):
            self.random.choice(self.actions)(timeline, now)

    def add(self, timeline: str, now: float) -> None:
        record = Record(f"r{self.random.randrange(9)}", now, now + self.random.randint(-9, 9))
        self.digests.add(timeline, record, within=self.random.choice([None, None, 5]), now=now)

    def deliver(self, timeline: str, now: float) -> None:
        for entry in self.digests.schedule(now, now=now):
            deliver(self.digests, entry.key, now=now)
        deliver(self.digests, timeline, now=now)

    def fail(self, timeline: str, now: float) -> None:
        self.digests.flush(timeline, now=now)
        with suppress(Boom), self.digests.digest(timeline, now=now):
            self.add(timeline, now)
            raise Boom

    def die(self, timeline: str, now: float) -> None:
        self.digests.flush(timeline, now=now)
        with self.digests.digest(timeline, now=now - 30):
            self.maintain(timeline, now)

    def maintain(self, timeline: str, now: float) -> None:
        self.digests.maintenance(now - self.random.choice([0, 90]), now=now)

    def steer(self, timeline: str, now: float) -> None:
        self.random.choice([self.digests.pause, self.digests.resume, self.digests.resume, self.digests.flush])(
            timeline, now=now
        )

    def revive(self, timeline: str, now: float) -> None:
        for letter in self.digests.dead_letters(limit=1):
            self.random.choice([self.digests.replay, self.digests.discard])(letter.id, now=now)

    def retract(self, timeline: str, now: float) -> None:
        self.digests.retract(timeline, f"r{self.random.randrange(9)}", now=now)

    def delete(self, timeline: str, now: float) -> None:
        if self.random.random() < 0.2:
            self.digests.delete(timeline, now=now)
