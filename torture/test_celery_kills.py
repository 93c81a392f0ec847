"""Workers and children of Celery are killed in the middle of a delivery: what they held comes again as it was."""

import os
import signal

from digestif.testing.servers import becomes_true
from tests.integrations.mailroom import Mailroom, Process, counts, lines, sent
from tests.integrations.rooms import STORES
from tests.integrations.rooms import room as room  # a fixture


def test_a_digest_whose_worker_is_killed_in_the_middle_comes_again_as_it_was(room: Mailroom) -> None:
    """Also one whose child is killed: the pool starts another one, and Celery acknowledges the task. Leases count."""
    victims = {"stuck:sqlite": "sqlite", "stuck:redis": "redis", "stuck:child": "redis"}
    for timeline, store in victims.items():
        room.tasks[store].notify(timeline, 1, key=timeline)
    assert becomes_true(lambda: all(begun(room, timeline) for timeline in victims))

    os.kill(begun(room, "stuck:child")[0], signal.SIGKILL)
    for worker in {worker_with(room, begun(room, f"stuck:{store}")[0]) for store in STORES}:
        worker.kill()
        room.start_worker()
    assert all(any(f"stuck:{store}" in task for task in room.unacknowledged()) for store in STORES)

    assert becomes_true(lambda: all(counts(room.setup)[timeline] for timeline in victims))
    for timeline in victims:
        [line] = [line for line in sent(room.setup) if timeline in line["records"]]
        assert line["sent"].endswith(".1")  # the first revision
        assert len(begun(room, timeline)) == 2


def test_a_handler_that_fails_is_called_again_by_a_tick(room: Mailroom) -> None:
    keys = [f"{store}/fails" for store in STORES]
    for store, key in zip(STORES, keys, strict=True):
        room.tasks[store].notify("fails:", 1, key=key)

    assert becomes_true(lambda: all(counts(room.setup)[key] == 1 for key in keys))


def begun(room: Mailroom, timeline: str) -> list[int]:
    """The processes in which a handler got stuck."""
    return [line["pid"] for line in lines(room.setup) if line.get("begun") == timeline]


def worker_with(room: Mailroom, pid: int) -> Process:
    return next(worker for worker in room.workers if worker.pid == os.getpgid(pid))
