"""Endings, at the level of the port: complete, extend, release, bury and replay; none with a stale token."""

from collections.abc import Callable

import pytest

from digestif import Busy, Outcome
from digestif.stores.base import Burial, Completion, Lease, QuarantinedRecord, Release, Store, Take
from digestif.stores.reader import Part
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    LONG_AGO,
    NOW,
    arrive,
    claim_all,
    complete,
    delete,
    everything,
    expire,
    let_wait,
    maintain,
    open_and_take,
    open_digest,
    open_lease,
    record_keys,
    release,
    seconds,
    stored,
    take_all,
)
from digestif.testing.footprint import assert_nothing_left

VERBS: dict[str, Callable[[Store, Lease, int], object]] = {
    "take": lambda store, lease, now: store.take([Take(lease, 1, merge=True)], now=now)[0] is not None,
    "quarantine": lambda store, lease, now: store.quarantine(lease, [QuarantinedRecord("a", "letter", "odd")], now=now),
    "extend": lambda store, lease, now: store.extend([lease], lease=LEASE, now=now)[0],
    "complete": lambda store, lease, now: store.complete([Completion(lease, 5)], now=now)[0],
    "release": lambda store, lease, now: store.release([Release(lease, now + 5)], now=now)[0],
    "release at once": lambda store, lease, now: store.release([Release(lease, None)], now=now)[0],
    "bury": lambda store, lease, now: store.bury([Burial(lease, "poison", 5)], now=now)[0],
    "delete": lambda store, lease, now: store.delete(lease.timeline, token=lease.token, now=now),
}
LATER = NOW + LEASE


def assert_refused(store: Store, lease: Lease, now: int) -> None:
    """Fail unless a token is refused by every verb, none of which changes anything."""
    before = everything(store)
    for verb, use in VERBS.items():
        assert use(store, lease, now) is False, verb
        assert everything(store) == before, verb


LOSSES: dict[str, Callable[[Store, Lease], object]] = {
    "lapsed": lambda store, lease: None,
    "lapsed and maintained": lambda store, lease: maintain(store, LONG_AGO, now=LATER),
    "taken over": lambda store, lease: open_digest(store, now=LATER),
    "taken over and released": lambda store, lease: release(store, open_digest(store, now=LATER), now=LATER),
    "completed": lambda store, lease: complete(store, lease),
    "released": lambda store, lease: release(store, lease),
    "buried": lambda store, lease: store.bury([Burial(lease, "poison", 0)], now=NOW),
    "deleted": lambda store, lease: delete(store, "t"),
    "deleted and added again": lambda store, lease: [delete(store, "t"), arrive(store, "t", ["a"], now=LATER)],
    "deleted, added and opened again": lambda store, lease: [
        delete(store, "t"),
        arrive(store, "t", ["a"], now=LATER),
        open_digest(store, now=LATER),
    ],
}


class Completions(Suite):
    def test_a_completion_lets_the_timeline_cool_down(self, store: Store) -> None:
        """Fact 17. Completed at t with cool-down m: waiting, due t+m, nothing pending, last delivery t."""
        arrive(store, "t", ["a", "b"])
        lease = open_digest(store)

        assert complete(store, lease, cool_down=700, now=NOW + 9) is True

        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.last, slot.iteration, slot.pending) == ("waiting", NOW + 709, NOW + 9, 1, 0)
        assert store.ledger().delivered == 2
        assert list(stored(store, "t", Part.DIGEST)) == []

    def test_an_urgent_pending_record_shortens_the_cool_down(self, store: Store) -> None:
        """Fact 51. Added while a digest is open, a deadline still holds after the completion."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        arrive(store, "t", ["b"], within=50, now=NOW + 1)
        arrive(store, "t", ["c"], within=900, now=NOW + 1)

        complete(store, lease, cool_down=700, now=NOW + 9)

        assert store.inspect("t").at == NOW + 51

    def test_enough_pending_records_end_the_cool_down_at_once(self, store: Store) -> None:
        """Fact 51. Like a deadline, max_records holds after the completion."""
        for timeline, pending in (("enough", ["b", "c"]), ("too few", ["b"])):
            arrive(store, timeline, ["a"])
            lease = open_digest(store, timeline)
            arrive(store, timeline, pending)
            complete(store, lease, cool_down=700, max_records=2, now=NOW + 9)

        assert store.inspect("enough").at == NOW + 9
        assert store.inspect("too few").at == NOW + 709

    def test_many_digests_are_completed_in_one_call(self, store: Store) -> None:
        """Fact 39. A batch is answered one by one: a stale token among them changes nothing, the others end."""
        for n in range(5):
            arrive(store, f"t{n}", ["a"])
        leases = claim_all(store)
        stale = [lease._replace(token="stale") if lease.timeline == "t3" else lease for lease in leases]

        answers = store.complete([Completion(lease, 10) for lease in stale], now=NOW)

        assert answers == [lease.timeline != "t3" for lease in leases]
        assert store.inspect("t3").state == "open"
        assert (store.ledger().delivered, store.ledger().open) == (4, 1)

    def test_a_digest_is_completed_once(self, store: Store) -> None:
        """Fact 39. The same lease twice in a batch, or again in the next: completed and counted once."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        answers = store.complete([Completion(lease, 5), Completion(lease, 7)], now=NOW)

        assert [*answers, complete(store, lease)] == [True, False, False]
        assert store.ledger().delivered == 1
        assert store.inspect("t").at == NOW + 5

    def test_an_extended_lease_lives_longer(self, store: Store) -> None:
        """Fact 22. Extended: a second worker gets Busy beyond the first expiry, and takes over at the new one."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert store.extend([lease], lease=LEASE, now=NOW + LEASE - 1) == [True]

        with pytest.raises(Busy):
            open_lease(store, now=NOW + 2 * LEASE - 2)
        assert maintain(store, NOW, now=NOW + 2 * LEASE - 2).lapsed == []
        assert complete(store, lease, now=NOW + 2 * LEASE - 2) is True

    def test_a_released_digest_waits_for_its_retry(self, store: Store) -> None:
        """Fact 27. Released until a time: waiting at it, unmoved by adds, its records kept, the iteration too."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert release(store, lease, until=NOW + 500, now=NOW + 9) is True
        arrive(store, "t", ["b"], increment=50, maximum=9_999, within=1, max_records=1, now=NOW + 10)

        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.last, slot.iteration, slot.pending) == ("waiting", NOW + 500, None, 0, 1)
        assert record_keys(stored(store, "t", Part.DIGEST)) == ["a"]
        assert (store.ledger().open, store.ledger().pending) == (1, 1)

    def test_a_buried_digest_is_a_dead_letter_and_the_timeline_goes_on(self, store: Store) -> None:
        """Fact 25. Buried: as after a completion, and the digest is a dead letter with its records."""
        arrive(store, "t", ["a", "b"])
        lease = open_digest(store)

        assert store.bury([Burial(lease, "poison", 700)], now=NOW + 9) == [True]

        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.last, slot.iteration) == ("waiting", NOW + 709, NOW + 9, 1)
        letter = store.letter(lease.digest_id)
        assert letter is not None
        assert (letter.timeline, letter.reason, letter.records, letter.attempts) == ("t", "poison", 2, 1)
        assert (letter.opened, letter.buried) == (seconds(NOW), seconds(NOW + 9))
        assert record_keys(store.letter_records(letter.id, after=None, limit=10)) == ["b", "a"]
        assert (store.ledger().dead, store.ledger().open) == (2, 0)
        assert [ended.outcome for ended in store.history("t", limit=10)] == [Outcome.DEAD]
        assert store.verify()

    def test_an_empty_digest_makes_no_dead_letter(self, store: Store) -> None:
        """Fact 18. An empty digest that is buried ends like a completed one: idle, and nothing is left."""
        let_wait(store, ["t"], at=NOW)
        store.flush("t", now=NOW)
        lease = open_digest(store)

        assert store.bury([Burial(lease, "poison", 700)], now=NOW) == [True]

        assert_nothing_left(store)

    def test_complete_leaves_nothing_of_a_large_digest(self, store: Store) -> None:
        """Fact 30. Completed and retired: what a digest of several pages left behind is gone after maintenance."""
        arrive(store, "t", [f"r{n}" for n in range(2_500)])
        complete(store, open_digest(store))

        claim_all(store)
        maintain(store)

        assert_nothing_left(store)
        assert store.ledger().delivered == 2_500


class StaleTokens(Suite):
    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_stale_token_changes_nothing(self, store: Store, loss: str) -> None:
        """Fact 39. A complete, extend, release (take, quarantine, bury, delete) with a stale token changes nothing."""
        arrive(store, "t", ["a", "b"])
        lease = open_digest(store)
        arrive(store, "t", ["a", "c"], now=NOW + 1)
        LOSSES[loss](store, lease)

        assert_refused(store, lease, LATER)

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_current_token_serves_until_the_last_moment(self, store: Store, verb: str) -> None:
        """Fact 39. A lease has lapsed when now ≥ its expiry: a millisecond before, its token is current."""
        arrive(store, "t", ["a", "b"])
        lease = open_digest(store)

        assert VERBS[verb](store, lease, LATER - 1) is True

    def test_a_token_is_good_for_its_own_timeline_only(self, store: Store) -> None:
        """Fact 39. The token of another timeline is not current."""
        arrive(store, "t", ["a"])
        arrive(store, "u", ["a"])
        open_digest(store, "t")
        lease = open_digest(store, "u")

        assert_refused(store, lease._replace(timeline="t"), NOW)

    def test_the_same_token_again_after_a_takeover_is_still_stale_for_the_old_digest(self, store: Store) -> None:
        """Fact 39. After delete and re-add the new lease is its holder's alone."""
        arrive(store, "t", ["a"])
        old = open_digest(store)
        delete(store, "t")
        arrive(store, "t", ["b"])
        new = open_digest(store)

        assert complete(store, old) is False
        assert complete(store, new) is True
        assert (store.ledger().deleted, store.ledger().delivered) == (1, 1)


class Replays(Suite):
    def bury(self, store: Store, *record_keys: str) -> str:
        arrive(store, "t", record_keys)
        [lease] = claim_all(store)
        take_all(store, lease)
        store.bury([Burial(lease, "poison", 0)], now=NOW)
        return lease.digest_id

    def test_a_replayed_digest_comes_again_under_its_id(self, store: Store) -> None:
        """Fact 40. Replayed: ready, same id and revision, attempts from 1, dead records are open again."""
        letter_id = self.bury(store, "a", "b")

        assert store.replay(letter_id, now=NOW + 5) is True

        slot = store.inspect("t")
        assert (slot.state, slot.at, slot.since) == ("ready", NOW + 5, NOW + 5)
        assert (store.ledger().dead, store.ledger().open) == (0, 2)
        lease = open_lease(store, now=NOW + 5)
        assert (lease.digest_id, lease.attempt, lease.lapses) == (letter_id, 1, 0)
        taken = take_all(store, lease, now=NOW + 5)
        assert (record_keys(taken.records), taken.revision) == (["b", "a"], 1)
        assert store.letter(letter_id) is None
        assert store.verify()

    def test_a_replayed_digest_is_never_merged(self, store: Store) -> None:
        """Fact 40. Replayed, and failed again: exactly the same digest, newer records wait."""
        letter_id = self.bury(store, "a")
        store.replay(letter_id, now=NOW)
        arrive(store, "t", ["a", "b"])

        revisions = []
        for _ in range(2):
            lease = open_lease(store)
            taken = take_all(store, lease, capacity=None, merge=True)
            revisions.append((record_keys(taken.records), taken.revision))
            release(store, lease)

        assert revisions == [(["a"], 1), (["a"], 1)]
        assert store.inspect("t").pending == 2

    def test_an_unfinished_digest_is_in_the_way(self, store: Store) -> None:
        """Fact 22. Replay while there is an unfinished digest, open or failed: Busy, nothing changes."""
        letter_id = self.bury(store, "a")
        arrive(store, "t", ["b"])
        [lease] = claim_all(store)
        for _ in range(2):
            before = everything(store)
            with pytest.raises(Busy):
                store.replay(letter_id, now=NOW)
            assert everything(store) == before
            release(store, lease, until=NOW + 10)

    def test_a_replayed_digest_does_not_expire(self, store: Store) -> None:
        """Fact 45. Neither a dead letter nor a replayed digest expires."""
        arrive(store, "t", ["a"], ttl=100)
        lease = open_digest(store)
        store.bury([Burial(lease, "poison", 0)], now=NOW)

        assert expire(store, now=NOW + 100) == 0
        assert store.replay(lease.digest_id, now=NOW + 100) is True
        release(store, open_digest(store, now=NOW + 100), now=NOW + 100)
        assert expire(store, now=NOW + 200) == 0
        assert record_keys(open_and_take(store, "t", now=NOW + 200).records) == ["a"]

    def test_an_idle_timeline_comes_to_life_again(self, store: Store) -> None:
        """Fact 40. The timeline was retired meanwhile: replay makes it ready all the same."""
        letter_id = self.bury(store, "a")
        claim_all(store)
        assert store.inspect("t").state == "idle"

        assert store.replay(letter_id, now=NOW) is True

        assert record_keys(open_and_take(store, "t").records) == ["a"]

    def test_what_is_unknown_is_neither_replayed_nor_discarded(self, store: Store) -> None:
        """Fact 40. No such dead letter: False, nothing changes; neither is there one after replay or discard."""
        first, second = self.bury(store, "a"), self.bury(store, "b")
        assert store.discard(second, now=NOW) is True
        assert store.replay(first, now=NOW) is True
        before = everything(store)

        answers = [verb(name, now=NOW) for name in (first, second, "x") for verb in (store.discard, store.replay)]

        assert answers == [False] * 6
        assert everything(store) == before

    def test_a_discarded_letter_is_counted_deleted(self, store: Store) -> None:
        """Fact 48. Discarded: dead records count as deleted, and nothing of them is left."""
        letter_id = self.bury(store, "a", "b")

        assert store.discard(letter_id, now=NOW) is True

        claim_all(store)
        maintain(store)
        assert (store.ledger().dead, store.ledger().deleted) == (0, 2)
        assert store.letter(letter_id) is None
        assert_nothing_left(store)
