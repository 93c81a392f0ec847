"""Signal handlers that raise, as Ctrl-C does, wherever the main thread is: nobody is left waiting for ever."""

import signal
import threading
from typing import Any

from digestif import Digests, Policy, StoreError, StoreUnavailable
from digestif.clock import monotonic
from digestif.stores.rows import Rows
from digestif.stores.sqlite import SQLiteStore
from tests.sqlite.alone import alone
from tests.sqlite.groups import one_group
from tests.sqlite.soundness import check_sound, pending_keys


class Interruption(BaseException):
    """As KeyboardInterrupt is: raised by a signal handler, in the main thread, wherever that is."""


def test_an_interruption_of_the_one_who_commits_is_not_given_to_the_others(store: SQLiteStore, path: str) -> None:
    digests = Digests(store)

    def interrupt(rows: Rows) -> None:
        raise Interruption

    with one_group(store) as group:
        leader = group.submit(store._write, interrupt)
        adds = {str(n): group.submit(digests.add, "t", n, key=str(n)) for n in range(5)}

    assert isinstance(leader.exception(), Interruption)
    assert {type(add.exception()) for add in adds.values()} <= {type(None), StoreUnavailable}
    assert {key for key, add in adds.items() if not add.exception()} <= set(pending_keys(path))
    assert digests.add("t", 0, key="later") in (True, False)
    check_sound(path)


def test_a_signal_handler_that_raises_in_a_waiting_thread_does_not_stop_the_others(path: str) -> None:
    assert alone(interrupt_one_who_waits, path) == {"interrupted": True, "stuck": False}
    check_sound(path)


def test_interruptions_at_any_moment_leave_a_store_that_works(path: str) -> None:
    told = alone(interrupt_at_any_moment, path)

    assert told["interruptions"] > 0
    assert told["missing"] == []
    assert told["stuck"] == 0
    assert told["given to others"] == []
    check_sound(path)


def interrupt_one_who_waits(path: str) -> dict[str, bool]:
    store = SQLiteStore(path)
    digests = Digests(store)
    interrupted = False
    with one_group(store) as group:
        signal.signal(signal.SIGUSR1, raise_interruption)

        def interrupt() -> None:
            group.wait_until_queued(1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        threading.Thread(target=interrupt).start()
        try:
            digests.add("t", 0, key="main")
        except Interruption:
            interrupted = True
    other = threading.Thread(target=lambda: digests.add("t", 0, key="other"), daemon=True)
    other.start()
    other.join(10)
    return finish(store, {"interrupted": interrupted, "stuck": other.is_alive()})


def raise_interruption(*_: object) -> None:
    raise Interruption


def interrupt_at_any_moment(path: str) -> dict[str, Any]:
    """The main thread adds and is interrupted again and again by a timer, while others add beside it."""
    store = SQLiteStore(path)
    digests = Digests(store, policy=Policy(capacity=None))
    acknowledged: list[str] = []
    done = threading.Event()

    def add(key: str) -> None:
        digests.add(f"t{len(key)}", 0, key=key)
        acknowledged.append(key)

    given: list[str] = []

    def add_beside(name: int) -> None:
        number = 0
        while not done.is_set():
            try:
                add(f"{name}-{number}")
            except StoreUnavailable:  # its leader was interrupted
                pass
            except BaseException as error:  # noqa: BLE001 -- to be judged by the caller
                given.append(repr(error))
            number += 1

    threads = [threading.Thread(target=add_beside, args=(name,), daemon=True) for name in range(2)]
    for thread in threads:
        thread.start()
    interruptions = 0
    signal.signal(signal.SIGALRM, raise_interruption)
    ends = monotonic() + 1.5
    number = 0
    while monotonic() < ends:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + (number % 50) * 0.00007)
            add(f"main-{number}")
            signal.setitimer(signal.ITIMER_REAL, 0)
        except (Interruption, StoreError):
            interruptions += 1
        number += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    done.set()
    for thread in threads:
        thread.join(10)
    stuck = sum(thread.is_alive() for thread in threads)
    missing = [] if stuck else sorted(set(acknowledged) - set(pending_keys(path)))
    return finish(store, {"interruptions": interruptions, "stuck": stuck, "missing": missing, "given to others": given})


def finish(store: SQLiteStore, told: dict[str, Any]) -> dict[str, Any]:
    if not told["stuck"]:
        store.disconnect()
    return told
