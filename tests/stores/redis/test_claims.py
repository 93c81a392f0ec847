"""Claims that take several rounds, between which timelines may change."""

from typing import Any

import pytest

from digestif.stores.base import Take
from digestif.stores.redis.store import RedisStore
from digestif.testing.conformance.port import LEASE, NOW, arrive, complete, open_lease
from tests.servers import empty_server
from tests.stores.redis.hints import opened


def test_a_lease_that_lapsed_within_a_claim_does_not_live_again_by_its_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker is frozen between two rounds, another one delivers, and the timeline is claimed once more."""
    monkeypatch.setattr("digestif.stores.redis.leases.ACTED_TIMELINES", 1)
    look, later = RedisStore._claimable, NOW + LEASE
    url = empty_server().url
    with opened(url) as store, opened(url) as other:
        arrive(store, "t", ["early"])
        rounds: list[str] = []

        def be_frozen(self: RedisStore, *args: Any, **kwargs: Any) -> Any:
            rounds.append("round")
            if len(rounds) == 2:
                complete(other, open_lease(other, "t", now=later), now=later)
                arrive(other, "t", ["late"], now=later)
                other.flush("t", now=later)
            return look(self, *args, **kwargs)

        monkeypatch.setattr(RedisStore, "_claimable", be_frozen)
        lapsed, current = store.claim(0, 2, token="token", lease=LEASE, now=NOW).leases
        nothing, records = store.take([Take(lease, None, merge=True) for lease in (lapsed, current)], now=NOW)

    assert nothing is None
    assert records is not None
    assert [record.key for record in records.records] == ["late"]
    assert lapsed.digest_id != current.digest_id
