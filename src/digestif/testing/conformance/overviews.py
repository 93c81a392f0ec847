"""Pages of timelines for people: by state in the order of its index, by key, and with few rows read."""

import pytest

from digestif import ConfigError, Digests, Timeline
from digestif.core.times import to_millis
from digestif.stores.base import Store
from digestif.stores.reader import DUE, PAGE_READ
from digestif.testing.conformance.actions import T, deliver
from digestif.testing.conformance.base import DigestsWith, Suite
from digestif.testing.conformance.port import LEASE, NOW, ROUNDS, arrive_everywhere, open_lease


def walk(digests: Digests, limit: int = 3, **wanted: object) -> list[Timeline]:
    """All timelines of a list, page by page."""
    found: list[Timeline] = []
    after = None
    for _ in range(ROUNDS):
        page = digests.timelines_page(after=after, limit=limit, **wanted)  # type: ignore[arg-type]
        assert len(page.timelines) <= limit
        found += page.timelines
        after = page.after
        if after is None:
            return found
    raise AssertionError("the list does not end")


def names(timelines: list[Timeline]) -> list[str]:
    return [timeline.key for timeline in timelines]


class Overviews(Suite):
    def test_waiting_timelines_come_by_their_due_times(self, digests: Digests) -> None:
        """Fact 73. Ten that wait, added in another order than they are due: each comes once, the earliest first."""
        for number in (5, 2, 9, 0, 7, 1, 8, 3, 6, 4):
            digests.add(f"t{number}", 1, first_delay=60 + number, now=T)
        digests.add("ready", 1, now=T)

        found = walk(digests, state="waiting")

        assert names(found) == [f"t{number}" for number in range(10)]
        assert [timeline.due for timeline in found] == [T + 60 + number for number in range(10)]

    def test_ready_timelines_come_by_the_times_they_were_due(self, digests: Digests) -> None:
        """Fact 73. Five that became ready at different times, and others that wait."""
        for number in (3, 1, 4, 0, 2):
            digests.add(f"t{number}", 1, now=T + number)
            digests.add(f"waits{number}", 1, first_delay=60, now=T)

        assert names(walk(digests, state="ready")) == [f"t{number}" for number in range(5)]

    def test_those_that_wait_and_those_that_are_ready_come_in_one_order(self, digests: Digests) -> None:
        """Fact 73. Ready and waiting ones, an open and a paused one: the first two kinds, the most overdue first."""
        for number in (3, 0, 2, 1, 4):
            digests.add(f"ready{number}", 1, now=T + 2 * number)
            digests.add(f"waits{number}", 1, first_delay=1 + 2 * number, now=T)
        digests.add_many([("open", 1), ("paused", 1)], now=T)
        digests.pause("paused", now=T)

        with digests.digest("open", now=T):
            found = walk(digests, limit=3, due=True)

        assert names(found) == [f"{kind}{number}" for number in range(5) for kind in ("ready", "waits")]

    def test_a_page_in_order_of_due_time_reads_no_more_than_any_other(self, store: Store) -> None:
        """Fact 73. 700 that wait and 700 ready ones: a call of the port gives at most 500, a walk finds all."""
        arrive_everywhere(store, [f"w{n:03}" for n in range(700)], first_delay=LEASE)
        arrive_everywhere(store, [f"r{n:03}" for n in range(700)])

        found, after = set[str](), None
        for _ in range(ROUNDS):
            page = store.look_over(DUE, prefix="", after=after, limit=1_000_000)
            assert len(page.timelines) <= PAGE_READ
            found |= {name for name, _ in page.timelines}
            after = page.after
            if after is None:
                break

        assert len(found) == 1400

    def test_open_timelines_come_by_the_end_of_their_leases(self, digests: Digests, store: Store) -> None:
        """Fact 73. Three that were opened one after another."""
        arrive_everywhere(store, ["b", "c", "a", "ready"])
        for number, name in enumerate("cab"):
            open_lease(store, name, now=NOW + number)

        assert names(walk(digests, state="open", limit=1)) == ["c", "a", "b"]
        assert names(walk(digests, state="open", limit=10)) == ["c", "a", "b"]

    def test_timelines_that_are_due_at_the_same_time_come_once_each(self, digests: Digests) -> None:
        """Fact 73. Sixty due at the same millisecond, in pages of seven."""
        digests.add_many([(f"t{n}", n) for n in range(60)], first_delay=60, now=T)

        found = names(walk(digests, limit=7, state="waiting"))

        assert sorted(found) == sorted({f"t{n}" for n in range(60)})

    def test_a_page_goes_on_after_a_timeline_that_has_left(self, digests: Digests) -> None:
        """Fact 73. The last timeline of a page is deleted before the next page is read: the others follow."""
        digests.add_many([(f"t{n}", n) for n in range(6)], first_delay=60, now=T)
        first = digests.timelines_page(state="waiting", limit=3)

        digests.delete(first.timelines[-1].key, now=T)
        rest = digests.timelines_page(state="waiting", after=first.after, limit=10)

        assert sorted(names(first.timelines) + names(rest.timelines)) == [f"t{n}" for n in range(6)]
        assert rest.after is None

    def test_paused_timelines_have_a_list_of_their_own(self, digests: Digests) -> None:
        """Fact 73. Paused ones are in no state's list; `paused=True` gives them, with a state those of that state."""
        digests.add_many([(f"t{n}", n) for n in range(6)], first_delay=60, now=T)
        digests.add("ready", 1, now=T)
        for name in ("t1", "t4", "ready", "idle"):
            digests.pause(name, now=T)

        assert len(walk(digests, state="waiting")) == 4
        assert sorted(names(walk(digests, paused=True))) == ["idle", "ready", "t1", "t4"]
        assert names(walk(digests, paused=True, state="ready")) == ["ready"]
        assert names(walk(digests, paused=False)) == ["t0", "t2", "t3", "t5"]

    def test_a_paused_timeline_is_on_the_first_page_however_many_are_not(self, digests: Digests) -> None:
        """Fact 73. Paused ones have an index of their own."""
        digests.add_many([(f"t{n}", n) for n in range(PAGE_READ + 100)], now=T)
        digests.pause("t99", now=T)

        page = digests.timelines_page(paused=True, limit=10)

        assert (names(page.timelines), page.after) == (["t99"], None)

    def test_a_paused_timeline_stays_on_its_list_in_every_state(self, digests: Digests) -> None:
        """Fact 73. Waiting, open, cooling down, idle; a lease that lives counts as open, and no other."""
        found: list[tuple[list[str], int]] = []

        def note() -> None:
            found.append((names(walk(digests, paused=True)), digests.store.standing(now=to_millis(T)).open))

        digests.pause("t", now=T)
        note()
        digests.resume("t", now=T)
        digests.add("t", 1, now=T)
        with digests.digest("t", now=T):
            digests.pause("t", now=T)
            note()
        note()
        digests.resume("t", now=T)
        note()
        digests.pause("t", now=T)
        digests.delete("t", now=T)
        note()

        assert found == [(["t"], 0), (["t"], 1), (["t"], 0), ([], 0), ([], 0)]
        assert digests.verify()

    def test_without_a_state_timelines_come_by_their_keys(self, digests: Digests) -> None:
        """Fact 73. All states, with a prefix, and those that are idle and stored."""
        for name in ("b:2", "a:1", "b:1", "c", "b:é", "b"):
            digests.add(name, 1, now=T)
        digests.prefer("b:0", "daily", zone="UTC", now=T)

        assert names(walk(digests)) == ["a:1", "b", "b:0", "b:1", "b:2", "b:é", "c"]
        assert names(walk(digests, prefix="b:", limit=2)) == ["b:0", "b:1", "b:2", "b:é"]
        assert names(walk(digests, state="idle")) == ["b:0"]

    def test_a_prefix_within_a_state_keeps_the_order_of_the_state(self, digests: Digests) -> None:
        """Fact 73. Every fifth of 50 begins so: pages may be short, but the walk finds all of them."""
        for number in range(50):
            prefix = "wanted" if number % 5 == 0 else "other"
            digests.add(f"{prefix}:{50 - number}", 1, first_delay=60 + number, now=T)

        found = names(walk(digests, limit=4, state="waiting", prefix="wanted:"))

        assert found == [f"wanted:{50 - number}" for number in range(0, 50, 5)]

    def test_a_timeline_moves_to_the_list_of_its_state(self, digests_with: DigestsWith) -> None:
        """Fact 73. Ready, then waiting after its delivery: it is in one list at a time."""
        digests = digests_with(minimum_delay=60)
        digests.add("t", 1, now=T)
        before = [len(walk(digests, state=state)) for state in ("waiting", "ready", "open")]
        deliver(digests, "t", now=T)
        after = [len(walk(digests, state=state)) for state in ("waiting", "ready", "open")]

        assert (before, after) == ([0, 1, 0], [1, 0, 0])

    @pytest.mark.parametrize("after", ["x", "", "W10", "WyJyZWFkeSIsMSwidCJd", "é", "bnVsbA"])
    def test_a_cursor_of_another_list_is_refused(self, digests: Digests, after: str) -> None:
        """Fact 73. Words that no page gave, or a page of ready timelines: ConfigError."""
        with pytest.raises(ConfigError, match="after"):
            digests.timelines_page(state="waiting", after=after)

    def test_a_large_limit_gives_what_a_page_reads(self, store: Store) -> None:
        """Fact 73. A limit of a million: one call of the port gives at most 500, and a walk finds all 700."""
        timelines = [f"t{n:03}" for n in range(700)]
        arrive_everywhere(store, timelines, first_delay=LEASE)

        found: list[str] = []
        page = store.look_over(None, prefix="", after=None, limit=10**6)
        while True:
            assert len(page.timelines) <= 500
            found += [name for name, _ in page.timelines]
            if page.after is None:
                break
            page = store.look_over(None, prefix="", after=page.after, limit=10**6)

        assert found == timelines
