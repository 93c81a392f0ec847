"""What something else than the store deleted is found when it is read, counted and told. Needs the fixture `damage`."""

import pytest

from digestif import Digests, Event, InvalidState, Quarantined, RecordsLost
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, numbered
from digestif.testing.conformance.base import Damager, DigestsWith, Harm, Suite


def heard_by(digests: Digests) -> list[Event]:
    """The losses and quarantines that an engine reports from now on."""
    heard: list[Event] = []

    def listen(event: Event) -> None:
        if isinstance(event, RecordsLost | Quarantined):
            heard.append(event)

    digests.subscribe(listen)
    return heard


def fates(digests: Digests) -> dict[str, int]:
    """The counts that are not 0, once they agree with the data."""
    report = digests.verify()
    assert report.problems == ()
    return {name: count for name in report.ledger.__slots__ if (count := getattr(report.ledger, name))}


class Losses(Suite):
    """Values and records that vanished."""

    def test_a_value_that_vanished_is_a_dead_letter_with_its_key(self, digests: Digests, damage: Damager) -> None:
        """Fact 77. It counts as dead, the event names a letter that exists, and the others are delivered."""
        add_all(digests, "t", numbered(range(3)))
        damage(Harm.VALUE, "t")
        heard = heard_by(digests)

        assert keys(deliver(digests, "t")) == ["r1", "r0"]

        [letter] = digests.dead_letters("t")
        [event] = heard
        assert isinstance(event, Quarantined)
        assert (event.key, event.letter_id, event.reason) == ("r2", letter.id, "the stored value is missing")
        assert digests.dead_records(letter.id) == []
        assert fates(digests) == {"accepted": 3, "delivered": 2, "dead": 1}

    def test_a_dead_letter_without_a_value_can_only_be_discarded(self, digests: Digests, damage: Damager) -> None:
        """Fact 77. Replay and requeue say why they refuse it, and change nothing."""
        digests.add("t", 1, key="r", now=T)
        damage(Harm.VALUE, "t")
        deliver(digests, "t")
        [letter] = digests.dead_letters("t")

        with pytest.raises(InvalidState, match=r"value.*missing.*discard"):
            digests.replay(letter.id, now=T)
        for force in (False, True):
            with pytest.raises(InvalidState, match=r"value.*missing.*discard"):
                digests.requeue(letter.id, force=force, now=T)

        assert digests.dead_letters("t") == [letter]
        assert digests.discard(letter.id, now=T) is True
        assert fates(digests) == {"accepted": 1, "deleted": 1}

    def test_a_record_that_is_gone_with_its_key_is_lost(self, digests: Digests, damage: Damager) -> None:
        """Fact 77. Reading the digest counts it as lost, with one event; the others are delivered."""
        add_all(digests, "t", numbered(range(2)))
        damage(Harm.RECORD, "t")
        heard = heard_by(digests)
        assert not digests.verify()

        assert keys(deliver(digests, "t")) == ["r0"]

        assert heard == [RecordsLost(timeline="t", records=1)]
        assert fates(digests) == {"accepted": 2, "delivered": 1, "lost": 1}

    def test_what_vanished_from_a_digest_that_comes_again_is_lost(
        self, digests_with: DigestsWith, damage: Damager
    ) -> None:
        """Fact 77. The next attempt has another idempotency key: the one before carried the record."""
        digests = digests_with(redelivery="same")
        add_all(digests, "t", numbered(range(3)))
        before = fail(digests, "t")
        damage(Harm.DIGEST_RECORD, "t")
        heard = heard_by(digests)
        assert not digests.verify()

        after = deliver(digests, "t")

        assert keys(after) == ["r1", "r0"]
        assert (after.id, after.revision) == (before.id, before.revision + 1)
        assert heard == [RecordsLost(timeline="t", records=1)]
        assert fates(digests) == {"accepted": 3, "delivered": 2, "lost": 1}

    def test_a_value_that_vanished_from_a_digest_is_a_dead_letter(self, digests: Digests, damage: Damager) -> None:
        """Fact 77. Newer records join what is left."""
        add_all(digests, "t", numbered(range(3)))
        fail(digests, "t")
        damage(Harm.DIGEST_VALUE, "t")
        add_all(digests, "t", numbered([7]))

        assert keys(deliver(digests, "t")) == ["r7", "r1", "r0"]

        assert [letter.records for letter in digests.dead_letters("t")] == [1]
        assert fates(digests) == {"accepted": 4, "delivered": 3, "dead": 1}

    def test_a_digest_that_lost_more_than_its_excess_is_still_read(
        self, digests_with: DigestsWith, damage: Damager
    ) -> None:
        """Fact 77. What is over capacity by the noted number alone is not dropped for ever."""
        digests = digests_with(capacity=5)
        add_all(digests, "t", numbered(range(5)))
        fail(digests, "t")
        for _ in range(3):
            damage(Harm.DIGEST_RECORD, "t")
        add_all(digests, "t", numbered(range(10, 14)))

        digest = deliver(digests, "t")

        assert keys(digest) == ["r13", "r12", "r11", "r10", "r1"]
        assert digest.dropped == 1
        assert fates(digests) == {"accepted": 9, "delivered": 5, "dropped": 1, "lost": 3}

    @pytest.mark.parametrize("failed", [False, True])
    def test_a_digest_all_of_whose_records_vanished_ends_as_empty(
        self, digests: Digests, damage: Damager, failed: bool
    ) -> None:
        """Fact 77. Nothing is delivered, and its timeline is idle."""
        digests.add("t", 1, key="r", now=T)
        if failed:
            fail(digests, "t")
        damage(Harm.DIGEST_RECORD if failed else Harm.RECORD, "t")
        heard = heard_by(digests)

        assert len(deliver(digests, "t")) == 0

        assert heard == [RecordsLost(timeline="t", records=1)]
        assert digests.timeline("t").state == "idle"
        assert fates(digests) == {"accepted": 1, "lost": 1}

    def test_a_dead_letter_that_lost_a_record_gives_back_the_others(
        self, digests_with: DigestsWith, damage: Damager
    ) -> None:
        """Fact 77. A requeue counts what is gone as lost."""
        digests = digests_with(attempts=1)
        add_all(digests, "t", numbered(range(3)))
        fail(digests, "t")
        [letter] = digests.dead_letters("t")
        damage(Harm.LETTER_RECORD, "t")
        heard = heard_by(digests)
        assert not digests.verify()

        assert digests.requeue(letter.id, force=True, now=T) is True

        assert heard == [RecordsLost(timeline="t", records=1)]
        assert fates(digests) == {"accepted": 3, "pending": 2, "lost": 1}

    def test_a_replay_of_such_a_letter_delivers_the_others(self, digests_with: DigestsWith, damage: Damager) -> None:
        """Fact 77. The digest is counted when it is read."""
        digests = digests_with(attempts=1)
        add_all(digests, "t", numbered(range(3)))
        fail(digests, "t")
        [letter] = digests.dead_letters("t")
        damage(Harm.LETTER_RECORD, "t")

        assert digests.replay(letter.id, now=T) is True
        assert keys(deliver(digests, "t")) == ["r1", "r0"]

        assert fates(digests) == {"accepted": 3, "delivered": 2, "lost": 1}

    def test_a_timeline_that_is_idle_with_records_is_named_and_repaired(
        self, digests: Digests, damage: Damager
    ) -> None:
        """Fact 79. Its records become a dead letter; what people chose for it stays."""
        for key in ("a", "b"):
            digests.add("t", 1, key=key, now=T)
        digests.prefer("t", "hourly", now=T)
        digests.pause("t", now=T)
        damage(Harm.IDLE, "t")

        assert any("'t'" in problem and "idle, with records" in problem for problem in digests.verify().problems)
        [found] = digests.repair(now=T)

        assert (found.timeline, found.part, found.records) == ("t", "slot", 2)
        assert digests.verify()
        assert digests.repair(now=T) == []
        assert (digests.ledger().dead, digests.ledger().pending) == (2, 0)
        [letter] = digests.dead_letters("t")
        assert {record.key for record in digests.dead_records(letter.id)} == {"a", "b"}
        timeline = digests.timeline("t")
        assert (timeline.state, timeline.pending, timeline.cadence, timeline.paused) == ("idle", 0, "hourly", True)

    @pytest.mark.parametrize(("harm", "failures"), [(Harm.RECORD, 0), (Harm.DIGEST_RECORD, 1), (Harm.LETTER_RECORD, 2)])
    def test_a_repair_counts_what_is_gone_as_lost(
        self, digests_with: DigestsWith, damage: Damager, harm: Harm, failures: int
    ) -> None:
        """Fact 77. `accepted` stays, wherever the record was."""
        digests = digests_with(attempts=2)
        add_all(digests, "t", numbered(range(2)))
        for _ in range(failures):
            fail(digests, "t")
        damage(harm, "t")
        assert not digests.verify()

        assert digests.repair(now=T) != []

        assert digests.repair(now=T) == []
        assert digests.verify()
        assert (digests.ledger().accepted, digests.ledger().lost) == (2, 1)
