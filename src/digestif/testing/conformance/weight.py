"""Weight: a digest carries the newest records within the bytes of its policy, the same ones on every store."""

import pytest

from digestif import Digest, Digests, Record, Retry
from digestif.stores.base import PAGE_RECORDS
from digestif.testing.conformance.actions import T, add_all, deliver, fail, keys, next_digest, numbered
from digestif.testing.conformance.base import DigestsWith, Suite, in_sync_mode_only

KILOBYTE = "x" * 1000  # 1,000 bytes and a little more, as they are stored


def heavy(numbers: range) -> list[Record]:
    """Records r0, r1… a second apart, of a kilobyte each."""
    return [Record(f"r{number}", KILOBYTE, T + number) for number in numbers]


class Weight(Suite):
    def test_a_digest_holds_the_newest_within_its_bytes(self, digests_with: DigestsWith) -> None:
        """Fact 67. The rest is counted as dropped, in the digest and in the ledger; peek shows the same."""
        digests = digests_with(max_bytes=5_500)
        add_all(digests, "t", heavy(range(20)))
        expected = [f"r{number}" for number in range(19, 14, -1)]

        assert keys(digests.peek("t", now=T)) == expected
        digest = deliver(digests, "t")

        assert keys(digest) == expected
        assert digest.dropped == 15
        ledger = digests.ledger()
        assert (ledger.delivered, ledger.dropped, ledger.open, ledger.pending) == (5, 15, 0, 0)
        assert digests.verify()

    def test_a_digest_holds_at_least_one_record(self, digests_with: DigestsWith) -> None:
        """Fact 67. The newest is delivered, however heavy it is."""
        digests = digests_with(max_bytes=10)
        add_all(digests, "t", heavy(range(3)))

        digest = deliver(digests, "t")

        assert (keys(digest), digest.dropped) == (["r2"], 2)

    def test_records_within_the_bytes_are_all_delivered(self, digests_with: DigestsWith) -> None:
        """Fact 67. Many small records are looked at, and nothing is dropped."""
        digests = digests_with(max_bytes=100_000)
        add_all(digests, "t", numbered(range(300)))

        digest = deliver(digests, "t")

        assert (len(digest), digest.dropped, digests.ledger().dropped) == (300, 0, 0)

    def test_capacity_comes_first(self, digests_with: DigestsWith) -> None:
        """Fact 67. What capacity dropped and what was too heavy are counted together."""
        digests = digests_with(capacity=8, max_bytes=5_500)
        add_all(digests, "t", heavy(range(20)))

        digest = deliver(digests, "t")

        assert (len(digest), digest.dropped) == (5, 15)
        assert digests.ledger().dropped == 15

    def test_it_is_weighed_again_after_a_merge(self, digests_with: DigestsWith) -> None:
        """Fact 67. Newer records joined after a failure: the newest of all stay."""
        digests = digests_with(max_bytes=5_500)
        add_all(digests, "t", heavy(range(4)))
        first = fail(digests, "t")
        add_all(digests, "t", heavy(range(4, 7)))

        second = deliver(digests, "t")

        assert (len(first), first.dropped) == (4, 0)
        assert keys(second) == ["r6", "r5", "r4", "r3", "r2"]
        assert (second.revision, second.dropped, digests.ledger().dropped) == (2, 2, 2)

    def test_what_may_have_gone_out_is_never_trimmed(self, digests_with: DigestsWith) -> None:
        """Fact 67. The limit became smaller after the digest was read whole and frozen: it comes again as it was."""
        before = digests_with(redelivery="same", max_bytes=None)
        add_all(before, "t", heavy(range(20)))
        first = fail(before, "t")

        second = deliver(digests_with(max_bytes=5_500), "t")

        assert keys(second) == keys(first)
        assert (second.idempotency_key, second.dropped) == (first.idempotency_key, 0)

    @in_sync_mode_only
    @pytest.mark.parametrize("fits", [True, False])
    def test_more_records_than_a_page_are_weighed(self, digests_with: DigestsWith, *, fits: bool) -> None:
        """Fact 67. The store looks at them and drops them in pages."""
        count = 2 * PAGE_RECORDS + 500
        digests = digests_with(capacity=None, max_bytes=10_000_000 if fits else 50_000)
        for start in range(0, count, PAGE_RECORDS):
            records = [Record(f"r{number}", "x" * 90, T + number) for number in range(start, min(start + 1000, count))]
            add_all(digests, "t", records)
        kept = keys(digests.peek("t", now=T))

        digest = deliver(digests, "t")

        assert keys(digest) == kept
        assert (len(digest) == count) is fits
        assert len(digest) + digest.dropped == count
        assert digests.verify()

    def test_a_timeline_goes_on_after_it_dropped_what_was_too_heavy(self, digests_with: DigestsWith) -> None:
        """Fact 67. The next digest counts its own."""
        digests = digests_with(max_bytes=2_500, minimum_delay=10, retry=Retry(initial=1))
        add_all(digests, "t", heavy(range(5)))
        deliver(digests, "t")
        digests.add("t", "light", key="last", now=T + 1)

        digest = _next(digests)

        assert (keys(digest), digest.dropped) == (["last"], 0)


def _next(digests: Digests) -> Digest:
    return next_digest(digests, "t", now=T + 3600)
