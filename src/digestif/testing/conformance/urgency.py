"""Urgency and calm: deadlines of single records, full timelines, and silence."""

from digestif import Digests, Record
from digestif.testing.conformance.actions import (
    T,
    add_all,
    assert_leaves_at,
    deliver,
    fail,
    keys,
    let_wait,
    numbered,
    scheduled,
)
from digestif.testing.conformance.base import DigestsWith, Suite


class Urgency(Suite):
    def test_an_urgent_record_pulls_the_whole_digest_forward(self, digests: Digests) -> None:
        """Fact 51. within=10 on one record among many: the digest leaves at its deadline."""
        let_wait(digests, "t", due=T + 300, last=T)
        add_all(digests, "t", numbered(range(5)), now=T + 1)

        digests.add("t", Record("urgent", 1, T), within=10, now=T + 2)

        assert digests.timeline("t").due == T + 12
        assert_leaves_at(digests, "t", T + 12)
        assert len(deliver(digests, "t", now=T + 12)) == 6

    def test_a_later_ordinary_record_does_not_put_it_off(self, digests: Digests) -> None:
        """Fact 51. within=10 on one record among many: a later ordinary add does not put it off."""
        let_wait(digests, "t", due=T + 300, last=T)
        digests.add("t", "urgent", within=10, now=T)

        add_all(digests, "t", numbered(range(5)), now=T + 9)

        assert digests.timeline("t").due == T + 10

    def test_it_is_urgent_after_a_digest_that_was_open_when_it_came(self, digests: Digests) -> None:
        """Fact 51. within=10, added while a digest is open: it still holds after the completion."""
        digests.add("t", "a", now=T)
        with digests.digest("t", 300, now=T):
            digests.add("t", "urgent", within=10, now=T)

        assert digests.timeline("t").due == T + 10

    def test_it_is_urgent_behind_an_ordinary_record_too(self, digests: Digests) -> None:
        """Fact 51. within=10, added while a digest is open and something is pending already: it still holds."""
        digests.add("t", "a", now=T)
        with digests.digest("t", 300, now=T):
            digests.add("t", "ordinary", now=T)
            digests.add("t", "urgent", within=10, now=T)
            digests.add("t", "another", now=T)

        assert digests.timeline("t").due == T + 10

    def test_the_earliest_deadline_counts(self, digests: Digests) -> None:
        """Fact 51. Of several deadlines the earliest counts, and one later than the rule changes nothing."""
        let_wait(digests, "t", due=T + 300, last=T)

        dues = []
        for within in (10_000.0, 50.0, 20.0, 40.0):
            digests.add("t", f"within {within}", within=within, increment_delay=0, now=T)
            dues.append(digests.timeline("t").due)

        assert dues == [T + 300, T + 50, T + 20, T + 20]

    def test_a_deadline_counts_before_the_first_delivery(self, digests: Digests) -> None:
        """Fact 51. within=10 holds for an idle timeline with a first delay, too."""
        answer = digests.add("t", "urgent", within=10, first_delay=60, now=T)

        assert answer is False
        assert digests.timeline("t").due == T + 10

    def test_a_deadline_is_gone_with_its_record(self, digests: Digests) -> None:
        """Fact 51. Only pending records are urgent: a delivered, retracted or replaced one no longer counts."""
        digests.add("t", Record("urgent", 1, T), within=10, now=T)
        with digests.digest("t", 300, now=T):
            digests.add("t", Record("retracted", 1, T), within=10, now=T)
            digests.add("t", Record("replaced", 1, T), within=10, now=T)
            digests.add("t", Record("replaced", 2, T), now=T)
            digests.retract("t", "retracted", now=T)

        assert digests.timeline("t").due == T + 300

    def test_a_deadline_is_gone_with_a_record_that_was_dropped_or_expired(self, digests_with: DigestsWith) -> None:
        """Fact 51. Only pending records are urgent: a dropped or expired one no longer counts at the next add."""
        digests = digests_with(lease=1000, capacity=1, minimum_delay=100, maximum_delay=100, ttl=200)
        due: list[float | None] = []
        for timeline in ("dropped", "expired"):
            digests.add(timeline, "first", now=T)
            with digests.digest(timeline, 100, now=T):
                digests.add(timeline, Record("urgent", 1, T), within=50, now=T)
                if timeline == "dropped":
                    digests.add(timeline, Record("newer", 2, T + 1), now=T)
                digests.maintenance(T - 1, now=T if timeline == "dropped" else T + 200)
            due.append(digests.timeline(timeline).due)

        assert due == [T + 100, T + 100]

    def test_a_retry_is_not_put_off_nor_pulled_forward(self, digests: Digests) -> None:
        """Fact 51. An unfinished digest waits for its retry: an urgent record joins pending and moves nothing."""
        let_wait(digests, "t", due=T + 60, last=T)
        digests.add("t", "a", increment_delay=0, now=T)
        scheduled(digests, T + 60)
        fail(digests, "t", now=T + 60)
        digests.maintenance(T + 60, now=T + 60)

        digests.add("t", "ordinary", increment_delay=30, now=T + 61)
        digests.add("t", "urgent", within=0, now=T + 50)

        assert digests.timeline("t").due == T + 60

    def test_enough_records_make_a_timeline_due_at_once(self, digests_with: DigestsWith) -> None:
        """Fact 51. Like a deadline, max_records=3 pulls the digest forward, when the third record is pending."""
        digests = digests_with(max_records=3)
        let_wait(digests, "t", due=T + 300, last=T)

        dues = []
        for n in range(3):
            digests.add("t", Record(f"r{n}", n, T), increment_delay=0, now=T + 7)
            dues.append(digests.timeline("t").due)

        assert dues == [T + 300, T + 300, T + 7]

    def test_enough_records_during_a_digest_skip_the_cool_down(self, digests_with: DigestsWith) -> None:
        """Fact 51. Like a deadline, max_records=3 holds when a digest completes that was open as they came."""
        digests = digests_with(max_records=3)
        digests.add("t", "a", now=T)
        with digests.digest("t", 300, now=T + 5):
            add_all(digests, "t", numbered(range(3)), now=T + 5)

        assert digests.timeline("t").due == T + 5


class Quiet(Suite):
    def test_a_steady_stream_is_delivered_after_the_maximum(self, digests_with: DigestsWith) -> None:
        """Fact 54. quiet=60, maximum=600: a record each 30 s is delivered 600 s after the first pending one."""
        digests = digests_with(quiet=60, maximum_delay=600, minimum_delay=60)
        let_wait(digests, "t", due=T, last=T - 60)

        for second in range(0, 600, 30):
            assert scheduled(digests, T + second - 0.001) == []
            digests.add("t", f"at {second}", now=T + second)

        assert_leaves_at(digests, "t", T + 600)
        assert len(deliver(digests, "t", now=T + 600)) == 20

    def test_a_single_record_is_delivered_after_the_silence(self, digests_with: DigestsWith) -> None:
        """Fact 54. quiet=60, maximum=600: a single one after 60 s of silence past the cool-down."""
        digests = digests_with(quiet=60, maximum_delay=600, minimum_delay=60)
        let_wait(digests, "t", due=T, last=T - 60)

        digests.add("t", Record("a", 1, T), now=T)

        assert_leaves_at(digests, "t", T + 60)
        assert keys(deliver(digests, "t", now=T + 60)) == ["a"]

    def test_silence_never_shortens_the_cool_down(self, digests_with: DigestsWith) -> None:
        """Fact 54. quiet=60: a record early in the cool-down leaves when that ends, a late one 60 s after itself."""
        digests = digests_with(quiet=60, maximum_delay=600, minimum_delay=300)
        let_wait(digests, "early", due=T + 300, last=T)
        let_wait(digests, "late", due=T + 300, last=T)

        digests.add("early", "a", now=T + 10)
        digests.add("late", "a", now=T + 290)

        assert digests.timeline("early").due == T + 300
        assert digests.timeline("late").due == T + 350

    def test_the_maximum_counts_from_the_first_that_is_still_pending(self, digests_with: DigestsWith) -> None:
        """Fact 54. quiet=60, maximum=100: after everything was retracted, the next record begins the count anew."""
        digests = digests_with(quiet=60, maximum_delay=100, minimum_delay=0)
        let_wait(digests, "t", due=T, last=T)
        digests.add("t", Record("a", 1, T), now=T)
        digests.retract("t", "a", now=T + 50)

        digests.add("t", "b", now=T + 90)

        assert digests.timeline("t").due == T + 150

    def test_the_maximum_counts_from_the_first_that_came_during_a_digest(self, digests_with: DigestsWith) -> None:
        """Fact 54. quiet=60, maximum=100: a record that came while a digest was open waits 100 s at most."""
        digests = digests_with(quiet=60, maximum_delay=100, minimum_delay=0, ttl=None)
        digests.add("t", "a", now=T)
        with digests.digest("t", now=T):
            digests.add("t", "b", now=T + 10)

        digests.add("t", "c", now=T + 90)

        assert digests.timeline("t").due == T + 110

    def test_silence_counts_before_the_first_delivery(self, digests_with: DigestsWith) -> None:
        """Fact 54. quiet=60 with a first delay: the first digest waits for silence as well."""
        digests = digests_with(quiet=60, first_delay=60, maximum_delay=600, minimum_delay=0)
        digests.add("t", "a", now=T)

        digests.add("t", "b", now=T + 50)

        assert digests.timeline("t").due == T + 110
