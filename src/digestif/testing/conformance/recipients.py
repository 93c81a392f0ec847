"""Records that are removed from an open digest, recipients who have their part, and notes."""

from digestif.core.machine import UNREACHABLE
from digestif.stores.base import PAGE_RECORDS, Burial, Store
from digestif.stores.reader import Part
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    complete,
    numbers,
    open_digest,
    record_keys,
    release,
    stored,
    take_all,
)


class Removals(Suite):
    def test_records_leave_the_digest_and_count_as_deleted(self, store: Store) -> None:
        """Fact 48. Records that are removed from an open digest count as deleted, the others as delivered."""
        arrive(store, "t", ["a", "b", "c"])
        lease = open_digest(store)

        assert store.remove(lease, ["a", "c", "unknown"], now=NOW) == 1

        assert record_keys(stored(store, "t", Part.DIGEST)) == ["b"]
        assert complete(store, lease)
        assert (store.ledger().deleted, store.ledger().delivered) == (2, 1)
        assert store.verify()

    def test_what_an_earlier_attempt_may_have_carried_raises_the_revision_once(self, store: Store) -> None:
        """Fact 46. An idempotency key never stands for two contents: a call that removes some raises the revision."""
        arrive(store, "t", numbers(0, PAGE_RECORDS))
        release(store, open_digest(store), freeze=True)
        lease = open_digest(store)

        assert store.remove(lease, [], now=NOW) == 1
        assert store.remove(lease, numbers(0, PAGE_RECORDS - 1), now=NOW) == 2

        assert len(list(stored(store, "t", Part.DIGEST))) == 1
        assert store.verify()

    def test_a_stale_token_removes_nothing(self, store: Store) -> None:
        """Fact 39. After a lapse the token is stale."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert store.remove(lease, ["a"], now=NOW + LEASE) is None
        assert store.ledger().open == 1


class NoteSwaps(Suite):
    def test_a_note_is_replaced_only_by_a_caller_that_knows_it(self, store: Store) -> None:
        """Fact 49. A swap changes nothing unless `old` is the note that is there."""
        last = store.partitions - 1

        assert store.note(last, "n") is None
        assert store.swap_note(last, "n", None, b"one")
        assert not store.swap_note(last, "n", None, b"other")
        assert not store.swap_note(last, "n", b"another", b"other")
        assert store.note(last, "n") == b"one"
        assert store.swap_note(last, "n", b"one", b"\0\xff two")
        assert store.note(last, "n") == b"\0\xff two"
        assert store.swap_note(last, "n", b"\0\xff two", None)
        assert store.note(last, "n") is None
        assert store.swap_note(last, "n", None, None)


class ServedRecipients(Suite):
    def test_who_has_got_a_digest_is_known_to_the_next_attempt(self, store: Store) -> None:
        """Fact 46. Recipients are noted in the digest, each once, as long as it is unfinished."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert store.mark_served(lease, ["ada", "böb"], now=NOW)
        assert store.mark_served(lease, ["ada", "eve"], now=NOW)
        release(store, lease, freeze=True)
        again = open_digest(store)

        digest = store.inspect("t").digest
        assert digest is not None
        assert digest.served == ("ada", "böb", "eve")
        assert complete(store, again)
        arrive(store, "t", ["b"])
        assert store.inspect("t").digest is None

    def test_what_some_have_got_is_joined_by_nothing(self, store: Store) -> None:
        """Fact 46. Recipients who have their part would miss merged records: the digest is frozen at any release."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        store.mark_served(lease, ["ada"], now=NOW)
        arrive(store, "t", ["b"])

        release(store, lease, freeze=False)
        again = open_digest(store)

        assert record_keys(take_all(store, again).records) == ["a"]
        assert record_keys(stored(store, "t", Part.PENDING)) == ["b"]

    def test_a_digest_that_is_replayed_knows_who_has_got_it(self, store: Store) -> None:
        """Fact 46. A dead letter names those who have it, not those who could not be reached: a replay tries them."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)
        store.mark_served(lease, ["ada", f"{UNREACHABLE}böb", "eve"], now=NOW)
        assert store.bury([Burial(lease, "nobody home", 0)], now=NOW) == [True]

        letter = store.letter(lease.digest_id)
        assert letter is not None
        assert letter.served == ("ada", "eve")
        assert store.replay(lease.digest_id, now=NOW)

        digest = store.inspect("t").digest
        assert digest is not None
        assert digest.served == ("ada", "eve")

    def test_a_stale_token_serves_nobody(self, store: Store) -> None:
        """Fact 39. After a lapse the token is stale."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert not store.mark_served(lease, ["ada"], now=NOW + LEASE)
