"""Faults without end: `python -m tests.stores.redis.torture [SECONDS] [always|everysec|impatient|cluster]`.

Processes add and deliver while servers are killed, frozen, paused and made to forget their scripts, and while
processes are killed. After each fault every process has to go on; at the end no acknowledged record may be missing.
Impatient clients give up often, so that many of their requests reach the server later.
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from redis.exceptions import ResponseError

from digestif.clock import monotonic
from digestif.testing.servers import ClusterServers, RedisServer, becomes_true
from tests.stores.redis.load import Load

Fault = Callable[[], object]
POSTPONED = 2.5  # seconds; see test_faults_killed.py


def main(seconds: str = "60", mode: str = "always") -> None:
    with tempfile.TemporaryDirectory() as directory:
        if mode == "cluster":
            on_a_cluster(float(seconds), Path(directory))
        else:
            on_a_server(float(seconds), Path(directory), mode)


def on_a_server(seconds: float, directory: Path, mode: str) -> None:
    fsync, options = ("always", "?timeout=0.1&patience=0.2") if mode == "impatient" else (mode, "")
    deaths: list[tuple[float, float]] = []

    def die() -> None:
        server.kill()
        deaths.append((monotonic() - POSTPONED, monotonic()))
        _let_pass(random.uniform(0, 1))
        server.start()

    with RedisServer(appendonly=True, appendfsync=fsync) as server:
        with Load(server.url + options, directory=directory, processes=3) as load:
            faults: dict[str, Fault] = {
                "kill": die,
                "restart": server.restart,
                "freeze": lambda: _frozen(server, random.uniform(0, 2)),
                "pause": lambda: server.cli("CLIENT", "PAUSE", random.randrange(1000), random.choice(["ALL", "WRITE"])),
                "cut": lambda: server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
                "forget": lambda: server.cli("SCRIPT", "FLUSH"),
                "rewrite": lambda: _rewritten(server),
                "process": load.replace_one,
            }
            counts = _torment(seconds, faults, [load])
        account = load.account(server.url)
    _say(f"{dict(counts)}: {account}")
    if fsync == "always":
        account.check()
    else:
        account.check_with_losses(*deaths)


def on_a_cluster(seconds: float, directory: Path) -> None:
    deaths: list[tuple[float, float]] = []

    def any_primary() -> RedisServer:
        return random.choice(cluster.primaries())

    def die() -> None:
        any_primary().kill()
        deaths.append((monotonic() - 1, monotonic()))
        cluster.wait_until_ok()
        cluster.heal()

    def hand_over() -> None:
        primary = any_primary()
        [replica] = cluster.replicas_of(primary)
        replica.cli("CLUSTER", "FAILOVER")
        becomes_true(lambda: replica in cluster.primaries())
        cluster.wait_until_ok()

    with ClusterServers() as cluster:
        url = f"{cluster.url}?partitions=12"
        with (
            Load(f"{url}&replicas=1", directory=directory, namespace="safe", processes=1) as safe,
            Load(url, directory=directory, namespace="swift", processes=1) as swift,
        ):
            faults: dict[str, Fault] = {
                "kill": die,
                "hand over": hand_over,
                "freeze": lambda: _frozen(any_primary(), random.uniform(0, 1)),
                "cut": lambda: any_primary().cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
                "forget": lambda: any_primary().cli("SCRIPT", "FLUSH"),
                "process": random.choice([safe, swift]).replace_one,
            }
            counts = _torment(seconds, faults, [safe, swift])
        confirmed, hoped = safe.account(url), swift.account()
    _say(f"{dict(counts)}\nwith replicas=1: {confirmed}\nwithout: {hoped}")
    confirmed.check()
    hoped.check_with_losses(*deaths)


def _torment(seconds: float, faults: dict[str, Fault], loads: list[Load]) -> Counter[str]:
    counts: Counter[str] = Counter()
    end = monotonic() + seconds
    for load in loads:
        load.go_on()
    while monotonic() < end:
        name = random.choice(list(faults))
        faults[name]()
        counts[name] += 1
        for load in loads:
            load.go_on(random.randrange(1, 10))
    return counts


def _frozen(server: RedisServer, seconds: float) -> None:
    server.freeze()
    _let_pass(seconds)
    server.thaw()


def _let_pass(seconds: float) -> None:
    becomes_true(lambda: False, timeout=seconds)


def _rewritten(server: RedisServer) -> None:
    with suppress(ResponseError):  # a rewrite is under way
        server.cli("BGREWRITEAOF")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
