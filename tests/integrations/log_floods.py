"""An application that logs from many threads, and is killed in the middle."""

import logging
import threading
from pathlib import Path
from time import sleep

from digestif import Digests, Policy
from digestif.clock import monotonic
from digestif.integrations.logging import DigestHandler
from tests.children import Child, Report, killed_at_the_end

THREADS = 8
UNBOUNDED = Policy(capacity=None, max_bytes=None)
URGENT_EACH = 500  # of so many records one is an error, whose call returns when it is committed
PATIENCE = 300.0  # seconds


def dsn(folder: str) -> str:
    return f"sqlite:///{Path(folder) / 'logs.db'}"


def flood(folder: str, records: int, report: Report) -> None:
    """Log so many records from eight threads; report the number of each error after its call has returned."""
    logger = logging.Logger("shop")  # noqa: LOG001  # outside of the tree
    logger.addHandler(DigestHandler(dsn(folder), "logs:shop", policy=UNBOUNDED, queue_size=records, timeout=PATIENCE))

    def log(thread: int) -> None:
        for number in range(thread, records, THREADS):
            if number % URGENT_EACH == 0:
                logger.error("%d", number)
                report(str(number))
            else:
                logger.warning("%d", number)

    threads = [threading.Thread(target=log, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sleep(PATIENCE)  # until it is killed


def kill_a_flood(folder: str, records: int, committed: int) -> dict[str, int]:
    """Kill the application when so many are committed, and deliver. To be run alone: it forks."""
    Digests(dsn(folder), policy=UNBOUNDED).close()
    child = Child(flood, folder, records)
    with killed_at_the_end([child]), Digests(dsn(folder), policy=UNBOUNDED) as digests:
        deadline = monotonic() + PATIENCE
        while digests.ledger().accepted < committed and monotonic() < deadline:
            sleep(0.005)
        child.kill()
        accepted = digests.ledger().accepted
        with digests.digest("logs:shop") as digest:
            messages = [record.value["message"] for record in digest]
        acknowledged = set(child.lines)
        return {
            "accepted": accepted,
            "delivered": len(messages),
            "twice": len(messages) - len(set(messages)),
            "strange": len(set(messages) - {str(number) for number in range(records)}),
            "errors": len(acknowledged),
            "errors missing": len(acknowledged - set(messages)),
            "balanced": int(digests.ledger().balanced and bool(digests.verify())),
        }


def assert_that_every_committed_record_is_delivered(found: dict[str, int], *, committed: int) -> None:
    assert found["accepted"] >= committed
    assert found["delivered"] == found["accepted"]
    assert found["errors"] > 0
    assert (found["twice"], found["strange"], found["errors missing"], found["balanced"]) == (0, 0, 0, 1)
