"""A real HTTP server of which a part is away: what readers get through the rest, under a clock that is given."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from digestif import ChannelDown, Digests, Policy, Worker
from digestif.channels import WebhookChannel
from tests.channels.receiver import Receiver, running
from tests.routes.partial_outages import SECRET, away_in_part

pytestmark = pytest.mark.long

T = 1_700_000_000.0
READERS = tuple(f"hook:reader{number}" for number in range(10))
DIGESTS = 30  # for each reader


@pytest.fixture
def server() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver


@pytest.mark.parametrize(("share", "together", "each"), [(0.05, 0.9, 0.8), (0.2, 0.6, 0.4)])
def test_readers_get_their_digests_although_a_share_of_the_messages_is_answered_503(
    server: Receiver, tmp_path: Path, share: float, together: float, each: float
) -> None:
    arrived = away_in_part(server, share, Random(7))
    policy = Policy(minimum_delay=5, increment_delay=0)
    workers = [Digests(f"sqlite:///{tmp_path}/d.db", policy=policy) for _ in range(2)]
    closed: list[object] = []
    for digests in workers:
        digests.route("hook:*", channel=WebhookChannel(server.url, secrets=[SECRET], allow_private=True))
        digests.subscribe(lambda event: closed.append(event) if isinstance(event, ChannelDown) else None)

    for second in range(DIGESTS * len(READERS)):  # each reader gets a record every ten seconds
        now = T + second
        workers[0].add(READERS[second % len(READERS)], second, now=now)
        while asyncio.run(Worker(workers[second % 2]).run_once(now)):
            pass

    got = Counter(reader for reader, _ in arrived)
    assert sum(got.values()) >= together * DIGESTS * len(READERS)
    assert min(got[reader] for reader in READERS) >= each * DIGESTS
    assert len(set(arrived)) == len(arrived)
    assert workers[0].ledger().dead == 0
    assert workers[0].verify()
    for digests in workers:
        digests.close()
