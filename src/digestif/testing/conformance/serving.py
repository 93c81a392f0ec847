"""Records that nobody wants any more, and recipients who have got their part."""

from digestif.stores.base import PAGE_RECORDS, Part, Store
from digestif.testing.conformance.base import Suite
from digestif.testing.conformance.port import (
    LEASE,
    NOW,
    arrive,
    close,
    numbers,
    open_digest,
    record_keys,
    release,
    stored,
)


class Withdrawing(Suite):
    def test_records_leave_the_digest_and_count_as_deleted(self, store: Store) -> None:
        """Fact 48. Of an open digest some are withdrawn: they count as deleted, the others as delivered."""
        arrive(store, "t", ["a", "b", "c"])
        lease = open_digest(store)

        assert store.withdraw(lease, ["a", "c", "unknown"], now=NOW) == 1

        assert record_keys(stored(store, "t", Part.DIGEST)) == ["b"]
        assert close(store, lease)
        assert (store.ledger().deleted, store.ledger().delivered) == (2, 1)
        assert store.verify()

    def test_what_an_earlier_attempt_may_have_carried_raises_the_revision_once(self, store: Store) -> None:
        """Fact 46. One key never stands for two contents: the revision rises, once for a call, however many leave."""
        arrive(store, "t", numbers(0, PAGE_RECORDS))
        release(store, open_digest(store), freeze=True)
        lease = open_digest(store)

        assert store.withdraw(lease, [], now=NOW) == 1
        assert store.withdraw(lease, numbers(0, PAGE_RECORDS - 1), now=NOW) == 2

        assert len(list(stored(store, "t", Part.DIGEST))) == 1
        assert store.verify()

    def test_a_stale_token_withdraws_nothing(self, store: Store) -> None:
        """Fact 39. After a lapse the token is stale."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert store.withdraw(lease, ["a"], now=NOW + LEASE) is None
        assert store.ledger().open == 1


class Serving(Suite):
    def test_who_has_got_a_digest_is_known_to_the_next_attempt(self, store: Store) -> None:
        """Fact 46. Recipients are noted with the digest, each once, and go with it."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert store.serve(lease, ["ada", "böb"], now=NOW)
        assert store.serve(lease, ["ada", "eve"], now=NOW)
        release(store, lease, freeze=True)
        again = open_digest(store)

        digest = store.inspect("t").digest
        assert digest is not None
        assert digest.served == ("ada", "böb", "eve")
        assert close(store, again)
        arrive(store, "t", ["b"])
        assert store.inspect("t").digest is None

    def test_a_stale_token_serves_nobody(self, store: Store) -> None:
        """Fact 39. After a lapse the token is stale."""
        arrive(store, "t", ["a"])
        lease = open_digest(store)

        assert not store.serve(lease, ["ada"], now=NOW + LEASE)
