"""Samples: the counters every ten seconds, kept in the store for a day."""

from digestif import Digests
from digestif.notes.samples import Sampler
from digestif.stores.base import Store
from digestif.testing.conformance.actions import T, deliver
from digestif.testing.conformance.base import Suite, in_sync_mode_only
from digestif.testing.conformance.port import NOW
from digestif.testing.footprint import assert_nothing_left

SECOND = 1000
HOUR = 3600 * SECOND


class Samples(Suite):
    def test_a_sample_says_what_was_counted_then(self, digests: Digests, store: Store) -> None:
        """Fact 75. Two records in one digest, one that waits: records, messages and timelines are told apart."""
        digests.add_many([("a", 1), ("a", 2), ("b", 1)], now=T)
        deliver(digests, "a", 60, now=T)

        assert Sampler(store).tick(round(T * 1000) + SECOND)

        [sample] = digests.samples(now=T + 2)
        assert (sample.at, sample.accepted, sample.delivered, sample.digests) == (T + 1, 3, 2, 1)
        assert (sample.pending, sample.open, sample.waiting, sample.ready, sample.late) == (1, 0, 1, 1, 1.0)

    def test_of_several_processes_one_notes_each_interval(self, digests: Digests, store: Store) -> None:
        """Fact 75. Three samplers over a minute, each every second: seven intervals have one sample each."""
        samplers = [Sampler(store) for _ in range(3)]

        noted = [sampler.tick(NOW + n * SECOND) for n in range(61) for sampler in samplers]

        found = [sample.at for sample in digests.samples(now=NOW / 1000 + 61)]
        assert sum(noted) == len(found)
        assert len({at // 10 for at in found}) == len(found)
        assert found == sorted(found)
        assert len(found) in (6, 7)

    @in_sync_mode_only
    def test_samples_of_the_last_day_are_kept_and_no_others(self, digests: Digests, store: Store) -> None:
        """Fact 75. One an hour for 60 hours: the last 24 hours are there, in at most 25 notes."""
        sampler = Sampler(store)
        for hour in range(60):
            sampler.tick(NOW + hour * HOUR)
        last = NOW / 1000 + 59 * 3600

        found = [sample.at for sample in digests.samples(now=last)]

        assert found == [last - 3600 * hours for hours in range(24, -1, -1)]
        assert digests.samples(last - 3600, now=last) == digests.samples(now=last)[-2:]
        assert sum(store.note(0, f"samples:{n}") is not None for n in range(100)) == 25
        assert_nothing_left(store)

    def test_after_a_clock_was_set_back_samples_go_on(self, digests: Digests, store: Store) -> None:
        """Fact 75. By half an hour: the next sample is noted within the interval, and later ones are gone."""
        sampler, begin = Sampler(store), NOW // HOUR * HOUR
        for minutes in (10, 20, 50):
            sampler.tick(begin + minutes * 60 * SECOND)

        assert sampler.tick(begin + 25 * 60 * SECOND)
        assert not Sampler(store).tick(begin + 25 * 60 * SECOND + 1)

        found = digests.samples(now=(begin + HOUR) / 1000)
        assert [round(sample.at - begin / 1000) // 60 for sample in found] == [10, 20, 25]

    def test_a_note_that_can_not_be_read_is_written_anew(self, digests: Digests, store: Store) -> None:
        """Fact 75. Garbage under the name of this hour: the next sample takes its place."""
        name = f"samples:{NOW // HOUR % 25}"
        assert store.swap_note(0, name, None, b"[garbage")

        assert digests.samples(now=NOW / 1000) == []
        assert Sampler(store).tick(NOW)
        assert len(digests.samples(now=NOW / 1000)) == 1


class BacklogOverviews(Suite):
    def test_a_small_store_is_counted_at_once(self, digests: Digests) -> None:
        """Fact 75. Twenty timelines: an overview is the backlog."""
        digests.add_many([(f"t{n}", n) for n in range(20)], now=T)

        found = digests.overview(now=T + 5)

        assert found.backlog == digests.backlog(now=T + 5)
        assert (found.counted, found.at_least) == (T + 5, False)

    def test_a_large_store_shows_the_counts_of_the_last_sample(self, digests: Digests, store: Store) -> None:
        """Fact 75. 300 timelines: without a sample the counts are exact or lower bounds, with one they are its."""
        digests.add_many([(f"t{n}", n) for n in range(300)], now=T)
        before = digests.overview(now=T + 5)
        Sampler(store).tick(round(T * 1000) + 6 * SECOND)

        after = digests.overview(now=T + 7)

        assert before.at_least == (before.backlog.timelines < 300)
        assert (after.backlog.timelines, after.backlog.ready, after.backlog.due) == (300, 300, 300)
        assert (after.at_least, after.backlog.late) == (False, 7.0)
        assert after.counted in (T + 6, T + 7)

    def test_an_old_sample_is_not_shown(self, digests: Digests, store: Store) -> None:
        """Fact 75. A sample of two minutes ago says nothing about now."""
        digests.add_many([(f"t{n}", n) for n in range(300)], now=T)
        Sampler(store).tick(round(T * 1000))

        assert digests.overview(now=T + 120).counted == T + 120
