"""Damage is reported by name and stops nothing else, and `repair` removes it. Needs the fixture `damage`."""

from collections.abc import Callable

import pytest

from digestif import Damaged as DamagedEvent
from digestif import Digests, Event, Policy, Record, StoreError
from digestif.stores.base import Completion, Release, Store
from digestif.testing.conformance.actions import T, deliver, fail, keys, let_wait, scheduled
from digestif.testing.conformance.base import Damager, DigestsWith, Harm, Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    arrive_everywhere,
    claim,
    claim_all,
    maintain,
    open_digest,
    take_all,
)

SLOTS = [Harm.GARBLED, Harm.IMPOSSIBLE]

in_both_ways = pytest.mark.parametrize("harm", SLOTS)


def told_of(digests: Digests) -> list[DamagedEvent]:
    """The damages that an engine reports from now on."""
    heard: list[DamagedEvent] = []

    def listen(event: Event) -> None:
        if isinstance(event, DamagedEvent):
            heard.append(event)

    digests.subscribe(listen)
    return heard


class DamagedTimelines(Suite):
    """A damaged timeline among others."""

    @in_both_ways
    def test_a_damaged_timeline_keeps_no_other_from_being_claimed(
        self, store: Store, damage: Damager, harm: Harm
    ) -> None:
        """Fact 70. A claim skips it and removes it from the schedule: the next claim does not find it."""
        arrive_everywhere(store, ["bad", "good", "late"])
        damage(harm, "bad")

        leases = claim_all(store)

        assert {lease.timeline for lease in leases} == {"good", "late"}
        assert all(len(take_all(store, lease).records) == 1 for lease in leases)
        assert [claim(store, partition, 10).retired for partition in range(store.partitions)] == [0] * store.partitions

    def test_a_page_full_of_damaged_timelines_stops_nobody(self, store: Store, damage: Damager) -> None:
        """Fact 70. More damaged timelines than a page holds are due before the others."""
        names = [f"bad{n}" for n in range(40)]
        arrive_everywhere(store, names)
        arrive_everywhere(store, ["good"], now=NOW + 1)
        for name in names:
            damage(Harm.GARBLED, name)

        leases = claim_all(store, limit=10, now=NOW + 1)

        assert [lease.timeline for lease in leases] == ["good"]
        assert store.scan(prefix="", after=None, limit=10)[0][0] == "good"
        maintain(store, NOW + 2, now=NOW + 2, limit=10)

    @in_both_ways
    def test_a_damaged_timeline_keeps_no_other_from_being_scheduled(
        self, digests: Digests, damage: Damager, harm: Harm
    ) -> None:
        """Fact 70. Of three due timelines the two sound ones are given."""
        for name in ("a", "bad", "c"):
            let_wait(digests, name)
            digests.add(name, 1, now=T, increment_delay=0)
        damage(harm, "bad")

        assert sorted(scheduled(digests, T + 1)) == ["a", "c"]
        assert digests.maintenance(T + 2, now=T + 2) == 2
        assert sorted(scheduled(digests, T + 3)) == ["a", "c"]

    @in_both_ways
    def test_of_a_damaged_timeline_the_lease_is_lost_and_others_of_the_call_go_on(
        self, store: Store, damage: Damager, harm: Harm
    ) -> None:
        """Fact 70. Its token counts as stale in each verb; those beside it are extended, read, released, completed."""
        names = ["bad", "good", "other"]
        arrive_everywhere(store, names)
        leases = [open_digest(store, name) for name in names]
        damage(harm, "bad")

        assert store.extend(leases, lease=LEASE, now=NOW) == [False, True, True]
        assert store.release([Release(lease, None) for lease in leases[:2]], now=NOW) == [False, True]
        completions = [Completion(lease, 0) for lease in (leases[0], leases[2])]
        assert store.complete(completions, now=NOW) == [False, True]

        assert store.ledger().delivered == 1

    @in_both_ways
    def test_what_names_a_damaged_timeline_says_what_is_wrong_and_what_to_do(
        self, digests: Digests, damage: Damager, harm: Harm
    ) -> None:
        """Fact 70. Every verb about it raises a StoreError that names it and `digestif repair`."""
        digests.add("bad", 1, now=T)
        digests.add("good", 1, now=T)
        damage(harm, "bad")

        calls: list[Callable[[], object]] = [
            lambda: digests.add("bad", 2, now=T),
            lambda: digests.add("bad", 2, within=5, now=T),
            lambda: digests.add_many([("bad", Record("x", 1, T)), ("bad", Record("y", 1, T))], now=T),
            lambda: digests.timeline("bad"),
            lambda: digests.peek("bad"),
            lambda: digests.explain("bad"),
            lambda: digests.retract("bad", "x"),
            lambda: digests.flush("bad"),
            lambda: digests.pause("bad"),
            lambda: digests.delete("bad"),
            lambda: deliver(digests, "bad", now=T),
        ]
        for call in calls:
            with pytest.raises(StoreError, match=r"'bad'.*digestif repair"):
                call()

        assert digests.add("good", 2, key="more", now=T) is False
        assert len(deliver(digests, "good", now=T)) == 2

    def test_what_is_damaged_is_told_once(self, digests: Digests, damage: Damager) -> None:
        """Fact 70. One event names the timeline and what is wrong, however often it is met."""
        digests.add("bad", 1, now=T)
        digests.add("good", 1, now=T)
        damage(Harm.GARBLED, "bad")
        heard = told_of(digests)

        for _ in range(3):
            assert [timeline.key for timeline in digests.timelines()] == ["good"]
            scheduled(digests, T + 1)
            digests.maintenance(T + 2, now=T + 2)

        assert [(event.timeline, event.part) for event in heard] == [("bad", "slot")]
        assert "can't be read" in heard[0].problem

    @in_both_ways
    def test_verify_names_a_damaged_timeline(self, digests: Digests, damage: Damager, harm: Harm) -> None:
        """Fact 70. It is listed in the problems."""
        digests.add("bad", 1, now=T)
        digests.add("good", 1, now=T)
        damage(harm, "bad")

        report = digests.verify()

        assert not report
        assert any("'bad'" in problem and "can't be read" in problem for problem in report.problems)


class DamagedAccounts(Suite):
    """Damaged dead letters and a damaged history."""

    def test_a_damaged_dead_letter_hides_no_other(self, digests_with: DigestsWith, damage: Damager) -> None:
        """Fact 70. Others are listed and replayed; a call that names it says what to do."""
        digests = digests_with(attempts=1, minimum_delay=0)
        for name in ("bad", "good"):
            digests.add(name, name, key="r", now=T)
            fail(digests, name)
        [bad] = digests.dead_letters("bad")
        damage(Harm.LETTER, "bad")

        assert [letter.timeline for letter in digests.dead_letters()] == ["good"]
        assert digests.dead_letters("bad") == []
        assert any(bad.id in problem for problem in digests.verify().problems)
        for call in (digests.replay, digests.discard, digests.dead_records):
            with pytest.raises(StoreError, match=f"{bad.id}.*digestif repair"):
                call(bad.id)
        [good] = digests.dead_letters(limit=1)
        assert digests.replay(good.id, now=T) is True

    def test_a_damaged_dead_letter_is_written_anew(self, digests_with: DigestsWith, damage: Damager) -> None:
        """Fact 70. Repaired, it has its records and can be replayed."""
        digests = digests_with(attempts=1, minimum_delay=0)
        digests.add("t", "kept", key="r", now=T)
        fail(digests, "t")
        [letter] = digests.dead_letters()
        damage(Harm.LETTER, "t")

        [found] = digests.repair(now=T)

        assert (found.part, found.records) == ("letter", 1)
        assert digests.verify()
        [repaired] = digests.dead_letters()
        assert (repaired.id, repaired.timeline, repaired.records) == (letter.id, letter.timeline, 1)
        assert digests.replay(repaired.id, now=T) is True
        assert keys(deliver(digests, "t", now=T)) == ["r"]
        assert digests.verify()

    def test_a_damaged_entry_of_the_history_hides_no_other(self, digests: Digests, damage: Damager) -> None:
        """Fact 70. The other entries are given, and a repair removes it."""
        for name in ("good", "bad"):
            digests.add(name, 1, now=T)
            deliver(digests, name)
        damage(Harm.HISTORY, "bad")

        assert [entry.timeline for entry in digests.history(limit=1)] == ["good"]
        assert digests.history("bad") == []
        assert not digests.verify()
        assert [found.part for found in digests.repair(now=T)] == ["history"]
        assert digests.verify()
        assert [entry.timeline for entry in digests.history()] == ["good"]


class Repairs(Suite):
    """`repair` keeps all records that can be read, and the ledger agrees afterwards."""

    @in_both_ways
    def test_the_records_of_a_damaged_timeline_become_dead_letters(
        self, digests: Digests, damage: Damager, harm: Harm
    ) -> None:
        """Fact 70. Pending records and those of a digest, which may have gone out, become two dead letters."""
        digests.add("bad", 1, key="in digest", now=T)
        digests.add("good", 1, now=T)
        fail(digests, "bad")
        digests.add("bad", 2, key="pending", now=T)
        damage(harm, "bad")

        [found] = digests.repair(now=T)

        assert (found.timeline, found.part, found.records) == ("bad", "slot", 2)
        assert digests.verify()
        assert digests.ledger().dead == 2
        assert digests.timeline("bad").state == "idle"
        letters = digests.dead_letters("bad")
        contents = {record.key: letter for letter in letters for record in digests.dead_records(letter.id)}
        assert set(contents) == {"in digest", "pending"}
        assert {key: letter.lapses for key, letter in contents.items()} == {"in digest": 1, "pending": 0}
        assert all("can't be read" in letter.reason for letter in letters)
        assert len(deliver(digests, "good", now=T)) == 1

    def test_a_repaired_timeline_goes_on_and_its_letters_can_be_replayed(
        self, digests: Digests, damage: Damager
    ) -> None:
        """Fact 70. It is idle: the next record makes it ready, and the dead letter can be replayed after it."""
        digests.add("bad", 1, key="old", now=T)
        damage(Harm.GARBLED, "bad")
        digests.repair(now=T)

        assert digests.add("bad", 2, key="new", now=T) is True
        assert keys(deliver(digests, "bad", now=T)) == ["new"]
        [letter] = digests.dead_letters("bad")
        assert digests.replay(letter.id, now=T) is True
        assert keys(deliver(digests, "bad", now=T)) == ["old"]
        assert digests.verify()

    def test_a_dry_run_changes_nothing(self, digests: Digests, damage: Damager) -> None:
        """Fact 70. A dry run gives the same answer as a repair, and changes nothing."""
        digests.add("bad", 1, now=T)
        damage(Harm.GARBLED, "bad")

        found = digests.repair(dry_run=True, now=T)

        assert [each.timeline for each in found] == ["bad"]
        assert not digests.verify()
        assert digests.dead_letters() == []
        assert digests.repair(now=T) == found
        assert digests.repair(now=T) == []

    def test_where_nothing_is_damaged_a_repair_finds_nothing(self, digests_with: DigestsWith) -> None:
        """Fact 70. Timelines in every state, a dead letter, a history: nothing of it is touched."""
        digests = digests_with(attempts=1, minimum_delay=0)
        for name in ("ready", "open", "retry", "dead", "paused", "urgent"):
            digests.add(name, 1, key="r", now=T, within=9 if name == "urgent" else None)
        let_wait(digests, "waiting", due=T + 60)
        digests.pause("paused", now=T)
        fail(digests, "dead")
        before = digests.timelines(), digests.dead_letters(), digests.history(), digests.ledger()

        with digests.digest("open", now=T):
            assert digests.repair(now=T) == []
            assert digests.verify()

        assert digests.repair(now=T) == []
        assert before[1] == digests.dead_letters()
        assert digests.verify()

    def test_a_record_without_a_value_is_quarantined(self, digests: Digests, damage: Damager) -> None:
        """Fact 70. The others of its timeline stay pending."""
        digests.add("t", 1, key="a", now=T)
        digests.add("t", 2, key="b", now=T)
        damage(Harm.VALUE, "t")

        assert any("'t'" in problem for problem in digests.verify().problems)
        [found] = digests.repair(now=T)

        assert (found.timeline, found.part, found.records) == ("t", "record", 1)
        assert digests.verify()
        assert (digests.ledger().pending, digests.ledger().dead) == (1, 1)
        assert len(deliver(digests, "t", now=T)) == 1

    def test_a_record_that_is_gone_is_told_and_counted_as_lost(self, digests: Digests, damage: Damager) -> None:
        """Fact 77. The ledger is corrected from the data, and the answer says by how much; `accepted` stays."""
        digests.add("t", 1, key="a", now=T)
        digests.add("t", 2, key="b", now=T)
        damage(Harm.RECORD, "t")
        assert not digests.verify()

        found = digests.repair(now=T)

        assert "ledger" in [each.part for each in found]
        assert digests.verify()
        assert (digests.ledger().accepted, digests.ledger().pending, digests.ledger().lost) == (2, 1, 1)
        assert len(deliver(digests, "t", now=T)) == 1

    def test_a_timeline_that_nobody_would_find_is_put_back_into_the_schedule(
        self, digests: Digests, damage: Damager
    ) -> None:
        """Fact 70. Its slot says that it waits, and no index contains it."""
        let_wait(digests, "t", due=T + 60)
        digests.add("t", 1, key="a", now=T, increment_delay=0)
        damage(Harm.MISPLACED, "t")
        assert scheduled(digests, T + 3600) == []
        assert any("'t'" in problem for problem in digests.verify().problems)

        [found] = digests.repair(now=T)

        assert (found.timeline, found.part) == ("t", "place")
        assert digests.verify()
        assert scheduled(digests, T + 3600) == ["t"]
        assert keys(deliver(digests, "t", now=T + 3600)) == ["a"]

    def test_many_damaged_timelines_are_repaired_together(self, store: Store, damage: Damager) -> None:
        """Fact 70. Each keeps its own records."""
        names = [f"t{n}" for n in range(30)]
        for name in names:
            arrive(store, name, [f"{name}:a", f"{name}:b"])
        for name in names:
            damage(Harm.IMPOSSIBLE, name)
        digests = Digests(store, policy=Policy())

        assert len(digests.repair(now=T)) == 30

        letters = digests.dead_letters(limit=100)
        assert {letter.timeline: letter.records for letter in letters} == dict.fromkeys(names, 2)
        assert digests.verify()
