"""A program whose main thread is interrupted again and again by a signal handler that raises."""

import random
import signal
import threading
from itertools import count
from typing import Any

import psycopg

from digestif import Digests, InvalidState, Policy, Record
from digestif.stores.reader import Part
from digestif.testing.conformance.port import stored

POOL = 3  # connections: the fewer, the sooner they are missed
POLICY = Policy(minimum_delay=0, increment_delay=0, capacity=None, attempts=100_000)


def check(account: dict[str, Any]) -> None:
    """Fail unless the ledger is right and only the interrupted thread got errors."""
    assert account["given to others"] == []
    assert account["other errors"] == []
    assert account["missing"] == []
    assert account["verified"]
    assert account["connections"] <= POOL
    assert account["in transactions"] == 0


class Interruption(BaseException):
    """Like KeyboardInterrupt: a signal handler raises it in the main thread, at any moment."""


def interrupt(url: str, times: int) -> dict[str, Any]:
    """Work in the main thread, interrupted so many times by a timer, and in two other threads."""
    acknowledged: list[str] = []
    given: list[str] = []
    errors: list[str] = []
    done = threading.Event()
    digests = Digests(f"{url}?pool={POOL}&timeout=3", policy=POLICY)
    digests.ledger()

    def work(name: str, number: int) -> None:
        keys = [f"{name}-{number}-{n}" for n in range(1 + number % 3)]
        timeline = f"t{number % 5}"
        if len(keys) == 1:
            digests.add(timeline, 0, key=keys[0])
        else:
            digests.add_many([(timeline, Record(key, 0, 0.0)) for key in keys])
        acknowledged.extend(keys)
        if number % 7 == 0:
            digests.flush(timeline)
            try:
                with digests.digest(timeline) as digest:
                    assert len(digest) >= 0
                    raise _Undelivered
            except (_Undelivered, InvalidState):
                pass
        if number % 11 == 0:
            digests.ledger()

    def work_beside(name: int) -> None:
        for number in count():
            if done.is_set():
                return
            try:
                work(str(name), number)
            except BaseException as error:  # noqa: BLE001  # to be judged by the caller
                given.append(repr(error))

    threads = [threading.Thread(target=work_beside, args=(name,), daemon=True) for name in range(2)]
    for thread in threads:
        thread.start()

    def raise_interruption(*_: object) -> None:
        raise Interruption

    signal.signal(signal.SIGALRM, raise_interruption)
    interruptions, chance = 0, random.Random(7)
    for number in count():
        if interruptions == times:
            break
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.00005 + chance.random() * 0.004)
            work("main", number)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:
            interruptions += 1
        except BaseException as error:  # noqa: BLE001  # to be judged by the caller
            errors.append(repr(error))
    signal.setitimer(signal.ITIMER_REAL, 0)
    done.set()
    for thread in threads:
        thread.join(30)
    # An interrupted delivery leaves its digest open, until the lease lapses.
    found = {record.key for n in range(5) for part in Part for record in stored(digests.store, f"t{n}", part)}
    return {
        "given to others": given[:3],
        "other errors": errors[:3],
        "missing": sorted(set(acknowledged) - found)[:3],
        "verified": bool(digests.verify()),
        **connections(url),
    }


def connections(url: str) -> dict[str, int]:
    """Count our connections, and those inside a transaction, as the server sees them."""
    with psycopg.connect(url, autocommit=True) as connection:
        states = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchall()
    return {"connections": len(states), "in transactions": sum(state != "idle" for (state,) in states)}


class _Undelivered(Exception):
    pass
