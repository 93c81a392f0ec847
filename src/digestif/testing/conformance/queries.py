"""Queries: what is pending, when it is due and why, and the fate of a record."""

import json

import pytest

from digestif import ConfigError, Digests, Fate, Outcome, Record, StaleLease
from digestif.testing.conformance.actions import (
    T,
    add_all,
    deliver,
    fail,
    keys,
    let_wait,
    next_digest,
    numbered,
    scheduled,
)
from digestif.testing.conformance.base import DigestsWith, Suite


class Timelines(Suite):
    def test_an_unknown_timeline_is_idle(self, digests: Digests) -> None:
        """Fact 1. An unknown timeline: idle, with nothing pending and no due time."""
        timeline = digests.timeline("unknown")

        assert (timeline.key, timeline.state, timeline.due, timeline.pending) == ("unknown", "idle", None, 0)
        assert (timeline.last, timeline.iteration, timeline.paused) == (None, 0, False)
        assert digests.timelines() == []

    def test_a_due_time_is_shown_only_while_waiting(self, digests: Digests) -> None:
        """Fact 12. Each state in turn: due is in seconds, None unless waiting."""
        seen = []
        digests.add("t", "a", now=T)
        seen.append(digests.timeline("t"))
        with digests.digest("t", 60, now=T):
            seen.append(digests.timeline("t"))
        seen.append(digests.timeline("t"))

        assert [(timeline.state, timeline.due) for timeline in seen] == [
            ("ready", None),
            ("open", None),
            ("waiting", T + 60),
        ]

    def test_timelines_are_listed_by_state_and_prefix_in_pages(self, digests: Digests) -> None:
        """Fact 12. Timelines of a state and a prefix, in the order of their keys, in pages."""
        for n in range(250):
            digests.add(f"mail:{n:03}", "ready", first_delay=n % 2, now=T)
        digests.add("sms:1", "ready", now=T)
        found: list[str] = []

        while page := digests.timelines("waiting", prefix="mail:", after=found[-1] if found else None, limit=50):
            assert len(page) <= 50
            assert {timeline.state for timeline in page} == {"waiting"}
            found += [timeline.key for timeline in page]

        assert found == [f"mail:{n:03}" for n in range(1, 250, 2)]
        assert [timeline.key for timeline in digests.timelines(prefix="s")] == ["sms:1"]
        assert len(digests.timelines()) == 100

    def test_a_state_that_does_not_exist_is_refused(self, digests: Digests) -> None:
        """Fact 50. A wrong option is a ConfigError that names it."""
        with pytest.raises(ConfigError, match="state"):
            digests.timelines(state="sleeping")


class Peeks(Suite):
    def test_pending_records_are_shown_and_not_taken(self, digests: Digests) -> None:
        """Fact 16. Peek gives the records that the next digest would carry, newest first, and changes nothing."""
        add_all(digests, "t", numbered([1, 3, 2]))

        assert keys(digests.peek("t", now=T)) == ["r3", "r2", "r1"]
        assert digests.peek("t", now=T) == list(deliver(digests, "t"))
        assert digests.peek("unknown", now=T) == []

    def test_while_a_digest_is_open_the_next_one_is_shown(self, digests: Digests) -> None:
        """Fact 20. While a digest is open: peek gives what was added meanwhile."""
        digests.add("t", Record("a", 1, T), now=T)
        with digests.digest("t", now=T):
            digests.add("t", Record("b", 2, T), now=T)
            assert keys(digests.peek("t", now=T)) == ["b"]

    def test_the_capacity_of_who_looks_is_applied(self, digests_with: DigestsWith) -> None:
        """Fact 8. Five records added with capacity 5, and now it is 2: peek gives what the digest would carry."""
        add_all(digests_with(capacity=5), "t", numbered(range(5)))

        assert keys(digests_with(capacity=2).peek("t", now=T)) == ["r4", "r3"]

    def test_after_a_failure_the_merged_digest_is_shown(self, digests_with: DigestsWith) -> None:
        """Fact 9. After a failure: peek gives old and new records, the later version, up to capacity."""
        digests = digests_with(capacity=3)
        add_all(digests, "t", numbered(range(3)))
        fail(digests, "t")
        digests.add("t", Record("r2", "new", T + 2), now=T)
        add_all(digests, "t", numbered([3]))

        assert [(record.key, record.value) for record in digests.peek("t", now=T)] == [
            ("r3", 3),
            ("r2", "new"),
            ("r1", 1),
        ]
        assert digests.peek("t", now=T) == list(deliver(digests, "t"))

    def test_after_a_lapse_exactly_the_same_digest_is_shown(self, digests: Digests) -> None:
        """Fact 40. After a lapse: peek gives the digest as it was, whatever arrived meanwhile."""
        digests.add("t", Record("a", 1, T), now=T)
        with pytest.raises(StaleLease), digests.digest("t", now=T):
            digests.add("t", Record("b", 2, T), now=T)
            before = digests.peek("t", now=T + 29.999)
            after = digests.peek("t", now=T + 30)
            digests.maintenance(T, now=T + 30)

        assert keys(before) == ["b"]
        assert keys(after) == keys(digests.peek("t", now=T + 31)) == ["a"]


class Explanations(Suite):
    def test_an_increment_is_explained(self, digests_with: DigestsWith) -> None:
        """Fact 3. Why it is due T+61: waiting, last delivery T, the increment, and the next instant."""
        digests = digests_with(minimum_delay=60, increment_delay=1, maximum_delay=100)
        let_wait(digests, "t", due=T + 60, last=T)
        digests.add("t", "a", now=T + 5)

        why = digests.explain("t", now=T + 10)

        assert (why.timeline, why.state, why.rule, why.next) == ("t", "waiting", "increment", T + 61)
        assert (why.facts["due"], why.facts["last"], why.facts["pending"]) == (T + 61, T, 1)
        assert (why.facts["first_pending"], why.facts["iteration"]) == (T + 5, 1)
        assert "1 s" in why.arithmetic
        assert "increment" in why.arithmetic

    @pytest.mark.parametrize(
        ("rule", "options", "due"),
        [
            ("cap", {"maximum_delay": 7}, 7),
            ("deadline", {"within": 9}, 9),
            ("increment", {"increment_delay": 2}, 302),
            ("increment", {}, 330),
        ],
    )
    def test_the_rule_that_decided_is_named(
        self, digests: Digests, rule: str, options: dict[str, float], due: float
    ) -> None:
        """Fact 7. Which of the rules moved a waiting timeline, and where to."""
        let_wait(digests, "t", due=T + 300, last=T)
        digests.add("t", "a", now=T, **options)  # type: ignore[arg-type]  # delays

        why = digests.explain("t", now=T)

        assert (why.rule, why.next, why.facts["due"]) == (rule, T + due, T + due)
        assert why.arithmetic

    def test_every_state_has_its_explanation(self, digests: Digests) -> None:
        """Fact 17. From idle through ready and open to waiting: the rule, and when something can happen next."""
        seen = [digests.explain("t", now=T)]
        digests.add("t", "a", now=T)
        seen.append(digests.explain("t", now=T + 2))
        with digests.digest("t", 60, now=T + 2) as digest:
            seen.append(digests.explain("t", now=T + 3))
        seen.append(digests.explain("t", now=T + 4))

        assert [(why.state, why.rule, why.next) for why in seen] == [
            ("idle", None, None),
            ("ready", "first", T + 2),
            ("open", "first", T + 32),
            ("waiting", "cool_down", T + 62),
        ]
        assert seen[2].facts["digest"]["id"] == digest.id
        assert seen[2].facts["lease_until"] == T + 32
        assert "1 min" in seen[3].arithmetic

    def test_a_paused_timeline_never_moves_by_itself(self, digests: Digests) -> None:
        """Fact 53. Paused: there is no next instant, and the explanation says why."""
        let_wait(digests, "t", due=T + 60, last=T)
        digests.pause("t", now=T)

        why = digests.explain("t", now=T)

        assert (why.next, why.facts["paused"]) == (None, True)
        assert "paused" in why.summary

    def test_what_is_overdue_can_happen_now(self, digests: Digests) -> None:
        """Fact 13. Due before now: the next instant is now."""
        let_wait(digests, "t", due=T + 60, last=T)

        assert digests.explain("t", now=T + 100).next == T + 100

    def test_an_explanation_is_told_and_can_be_sent(self, digests: Digests) -> None:
        """Fact 17. An explanation reads as text, and its dict as JSON."""
        let_wait(digests, "t", due=T + 60, last=T)

        why = digests.explain("t", now=T)

        assert json.loads(json.dumps(why.to_dict()))["next"] == T + 60
        assert "t: cooling down" in str(why)
        assert why.arithmetic[1:] in str(why)  # it begins a sentence there


class Traces(Suite):
    def test_a_record_is_traced_through_its_life(self, digests: Digests) -> None:
        """Fact 38. Where a record is: pending, in a digest, delivered; both versions if there are two."""
        assert digests.trace("t", "a") == []
        digests.add("t", Record("a", 1, T), now=T)
        assert [sighting.fate for sighting in digests.trace("t", "a")] == [Fate.PENDING]

        with digests.digest("t", 0, now=T + 1) as digest:
            digests.add("t", Record("a", 2, T), now=T + 1)
            sightings = digests.trace("t", "a")
            assert [(sighting.fate, sighting.digest_id) for sighting in sightings] == [
                (Fate.PENDING, None),
                (Fate.OPEN, digest.id),
            ]

        second = next_digest(digests, "t", now=T + 2)
        sightings = digests.trace("t", "a")
        assert [(sighting.fate, sighting.digest_id, sighting.ended) for sighting in sightings] == [
            (Fate.DELIVERED, second.id, T + 2),
            (Fate.DELIVERED, digest.id, T + 1),
        ]
        assert digests.trace("t", "b") == []

    def test_a_dead_record_is_traced_until_it_is_discarded(self, digests_with: DigestsWith) -> None:
        """Fact 25. Where a record is: in a dead letter; discarded, that is what became of it."""
        digests = digests_with(attempts=1)
        digests.add("t", Record("a", 1, T), now=T)
        buried = fail(digests, "t")

        dead = digests.trace("t", "a")
        digests.discard(buried.id, now=T + 1)
        discarded = digests.trace("t", "a")

        assert [(sighting.fate, sighting.digest_id) for sighting in dead] == [(Fate.DEAD, buried.id)]
        assert (discarded[0].fate, discarded[0].digest_id) == (Fate.DISCARDED, buried.id)

    def test_a_replayed_record_is_seen_once(self, digests_with: DigestsWith) -> None:
        """Fact 40. Replayed and delivered: one version of a record has one fate, the latest."""
        digests = digests_with(attempts=1)
        digests.add("t", Record("a", 1, T), now=T)
        buried = fail(digests, "t")
        digests.replay(buried.id, now=T + 1)

        replayed = digests.trace("t", "a")
        deliver(digests, "t", now=T + 2)
        delivered = digests.trace("t", "a")

        assert [(sighting.fate, sighting.digest_id) for sighting in replayed] == [(Fate.OPEN, buried.id)]
        assert [(sighting.fate, sighting.ended) for sighting in delivered] == [(Fate.DELIVERED, T + 2)]


class Histories(Suite):
    def test_digests_that_ended_are_remembered(self, digests: Digests) -> None:
        """Fact 17. Completed: remembered with its id, record keys, counts, attempts, times and outcome."""
        add_all(digests, "t", numbered(range(2)))
        fail(digests, "t", now=T + 1)
        add_all(digests, "t", numbered([2]))

        digest = deliver(digests, "t", now=T + 2)

        [entry] = digests.history("t")
        assert (entry.id, entry.timeline, entry.outcome) == (digest.id, "t", Outcome.DELIVERED)
        assert (entry.revision, entry.attempts, entry.records, entry.dropped) == (2, 2, 3, 0)
        assert (entry.opened, entry.ended, entry.keys) == (T + 1, T + 2, ("r2", "r1", "r0"))

    def test_the_latest_comes_first(self, digests: Digests) -> None:
        """Fact 17. Several digests: the latest first, of one timeline or all, no more than asked for."""
        for n, timeline in enumerate("aba"):
            digests.add(timeline, n, now=T + n)
            digests.flush(timeline, now=T + n)
            deliver(digests, timeline, now=T + n)

        assert [(entry.timeline, entry.ended) for entry in digests.history()] == [("a", T + 2), ("b", T + 1), ("a", T)]
        assert [entry.ended for entry in digests.history("a")] == [T + 2, T]
        assert [entry.ended for entry in digests.history(limit=1)] == [T + 2]

    def test_an_empty_digest_is_not_worth_remembering(self, digests: Digests) -> None:
        """Fact 18. An empty digest delivers nothing: it leaves no trace in the history."""
        let_wait(digests, "t")
        scheduled(digests)
        deliver(digests, "t")

        assert len(digests.history("t")) == 1
