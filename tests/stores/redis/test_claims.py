"""Claims that take several rounds, between which timelines may change."""

from typing import Any

import pytest

from digestif.stores.base import Take
from digestif.stores.redis.leases import CROWD_LASTS
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


def test_a_claim_that_met_another_worker_makes_the_next_ones_choose_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earliest first would make both try the same timelines again and again. Chance turns every order around here."""
    look = RedisStore._claimable
    monkeypatch.setattr("digestif.stores.redis.leases.shuffled", lambda names: names[::-1])
    url = empty_server().url
    names = [f"t{number:03}" for number in range(200)]
    choices: list[list[str]] = []
    with opened(url) as store, opened(url) as other:
        for number, name in enumerate(names):
            arrive(store, name, ["a"], now=NOW + number)

        def be_slow(self: RedisStore, *args: Any, **kwargs: Any) -> Any:
            answer = look(self, *args, **kwargs)
            if self is store:
                choices.append(answer[0])
                if len(choices) == 2:
                    other.claim(0, 2, token="faster", lease=LEASE, now=NOW + 1000)
            return answer

        monkeypatch.setattr(RedisStore, "_claimable", be_slow)
        for number in range(3 + CROWD_LASTS):
            claimed = store.claim(0, 2, token=f"{number}", lease=LEASE, now=NOW + 1000).leases
            assert len(claimed) == 2

    earliest, met, made_up, *later = choices
    assert earliest == names[:2]
    assert met == names[2:4]
    assert made_up == names[10:12][::-1]  # the last of four times as many as are wanted
    assert [choice != sorted(choice) for choice in later] == [True] * CROWD_LASTS + [False]


def test_a_candidate_that_is_taken_costs_the_server_little(monkeypatch: pytest.MonkeyPatch) -> None:
    server = empty_server()
    with opened(server.url) as store, opened(server.url) as other:
        arrive(store, "t", ["a"])
        [candidate] = store._claimable(0, 1, lost=0, known=set(), now=NOW)[0]  # type: ignore[attr-defined]
        open_lease(other, candidate, now=NOW)
        monkeypatch.setattr(RedisStore, "_claimable", lambda *_, **__: ([candidate], None))
        server.cli("CONFIG", "RESETSTAT")

        assert store.claim(0, 1, token="late", lease=LEASE, now=NOW).leases == []

        calls = {name: facts["calls"] for name, facts in server.cli("INFO", "commandstats").items()}
    rounds = calls["cmdstat_evalsha"]
    assert calls["cmdstat_zscore"] == 2 * rounds
    assert "cmdstat_type" not in calls
