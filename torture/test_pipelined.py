"""A thousand times harm between calls that are under way together: each call is done once, and in its order."""

from random import Random

import pytest

from digestif import Digests
from digestif.stores.redis import batches
from tests.stores.redis.saboteur import HARMS, POLICY, Saboteur, Story

SHARE = 5  # records in a call, so that a small batch takes eight of them
TIMES = 1000
FAILOVERS = 100  # of them: they take a second each


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_thousand_harms_neither_lose_nor_repeat_nor_reorder(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "ADDED_RECORDS", SHARE)
    monkeypatch.setattr(batches, "KNOWN_LARGE", 2)  # of six: calls often do not declare what they need
    others = [harm for harm in HARMS if harm != "failover"]
    harms = ["failover"] * FAILOVERS + [others[number % len(others)] for number in range(TIMES - FAILOVERS)]
    Random(partitions).shuffle(harms)
    with Saboteur() as saboteur, Digests(f"{saboteur.url}?partitions={partitions}", policy=POLICY) as digests:
        story = Story(saboteur, digests, seed=partitions)

        for number, harm in enumerate(harms, 1):
            story.add_batch(harm, calls=8)
            if number % 100 == 0:  # about 650 records in each timeline, which make it large
                story.check()

        assert len(saboteur.done) >= TIMES
