"""Producers and workers switch to another store while it is being filled."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from digestif import Digest, Digests, Policy, Worker
from digestif.transfer import Move
from tests.transfer.stores import dsn_of

pytestmark = pytest.mark.long

QUICK = Policy(minimum_delay=0.05, increment_delay=0.01, maximum_delay=0.2)
RECORDS = 600


class Seen:
    """What was delivered, by whom."""

    def __init__(self) -> None:
        self.keys: Counter[str] = Counter()
        self._all = threading.Condition()

    def __call__(self, digest: Digest) -> None:
        with self._all:
            self.keys.update(f"{digest.timeline}/{record.key}" for record in digest)
            self._all.notify_all()

    def wait_for(self, count: int) -> bool:
        with self._all:
            return self._all.wait_for(lambda: len(self.keys) >= count, timeout=60)


@pytest.mark.parametrize(("here", "there"), [("sqlite", "redis"), ("redis", "postgres")])
def test_every_record_is_delivered_once_while_everybody_goes_over(tmp_path: Path, here: str, there: str) -> None:
    seen = Seen()
    with dsn_of(here, tmp_path) as source, dsn_of(there, tmp_path) as target:
        old, new = Digests(source, policy=QUICK), Digests(target, policy=QUICK)
        for digests in (old, new):
            digests.handler("*")(seen)
        workers = [Worker(digests, poll=0.05) for digests in (old, new)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        move = Move(old.store, new.store)  # type: ignore[arg-type]
        threads.append(threading.Thread(target=lambda: move.run(follow=True)))
        threads += [threading.Thread(target=_produce(old, new, number)) for number in range(3)]
        for thread in threads:
            thread.start()

        assert seen.wait_for(3 * RECORDS)
        move.stop()
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join()
        Move(old.store, new.store).run()  # type: ignore[arg-type]

        assert set(seen.keys.values()) == {1}
        assert new.ledger().delivered == new.ledger().accepted == 3 * RECORDS
        assert old.ledger().accepted == 0
        assert new.verify()
        assert old.verify()
        old.close()
        new.close()


def _produce(old: Digests, new: Digests, number: int) -> Callable[[], None]:
    """Goes over after a third, later or earlier than others."""

    def produce() -> None:
        for place in range(RECORDS):
            digests = old if place < RECORDS // 3 + 40 * number else new
            digests.add(f"t{place % 7}", place, key=f"{number}-{place}")

    return produce
