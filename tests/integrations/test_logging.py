"""DigestHandler: log records become records of a timeline, and logging never breaks or hangs the application."""

import json
import logging
import logging.config
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from digestif import AsyncDigests, ConfigError, Digests, Event, Policy, StoreFailed, StoreUnavailable, summarize
from digestif.clock import monotonic
from digestif.integrations.logging import DigestHandler, _Committer
from tests.alone import alone
from tests.children import Child, Report
from tests.integrations.log_floods import assert_that_every_committed_record_is_delivered, kill_a_flood

SOON = 10.0  # seconds, for what has to happen at once on a machine that may be busy


@pytest.fixture
def digests() -> Iterator[Digests]:
    with Digests("memory://", policy=Policy(first_delay=3600)) as digests:
        yield digests


@contextmanager
def logging_to(digests: Any, *args: Any, **options: Any) -> Iterator[logging.Logger]:
    """A logger of its own with a handler, which is closed at the end."""
    handler = DigestHandler(digests, *args, **options)
    logger = logging.Logger("shop")  # noqa: LOG001  # outside of the tree
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        handler.close()


def handler_of(logger: logging.Logger) -> DigestHandler:
    (handler,) = logger.handlers
    assert isinstance(handler, DigestHandler)
    return handler


def values(digests: Digests, timeline: str = "logs") -> list[Any]:
    return [record.value for record in digests.peek(timeline)]


def messages(digests: Digests, timeline: str = "logs") -> list[str]:
    return sorted(value["message"] for value in values(digests, timeline))


def eventually(condition: Callable[[], object]) -> bool:
    deadline = monotonic() + SOON
    while not condition():
        if monotonic() > deadline:
            return False
        threading.Event().wait(0.002)
    return True


# What is kept


def test_an_error_is_committed_when_the_call_returns(digests: Digests) -> None:
    with logging_to(digests, "logs:shop") as logger:
        logger.error("order %d failed", 7)

        (value,) = values(digests, "logs:shop")
        assert value["message"] == "order 7 failed"
        assert (value["level"], value["logger"], value["exception"]) == ("ERROR", "shop", None)
        assert value["place"].startswith("test_logging.py:")


def test_what_is_below_is_committed_within_a_tenth_of_a_second(digests: Digests) -> None:
    with logging_to(digests) as logger:
        delays = []
        for number in range(5):  # other programs may slow the machine down
            began = monotonic()
            logger.warning("slow")
            assert eventually(partial(lambda number: digests.ledger().accepted > number, number))
            delays.append(monotonic() - began)

    assert min(delays) < 0.1


def test_the_time_of_a_record_is_that_of_the_log_call_and_its_key_is_unique(digests: Digests) -> None:
    with logging_to(digests) as logger:
        record = logger.makeRecord("shop", logging.ERROR, "app.py", 1, "again", (), None)
        for _ in range(3):
            logger.handle(record)

    assert [found.timestamp for found in digests.peek("logs")] == [record.created] * 3


def test_an_exception_is_kept_as_text(digests: Digests) -> None:
    with logging_to(digests) as logger:
        try:
            raise KeyError("basket")
        except KeyError:
            logger.exception("checkout")

    (value,) = values(digests)
    assert value["exception"].startswith("Traceback")
    assert value["exception"].rstrip().endswith("KeyError: 'basket'")


def test_the_cause_is_the_same_for_one_bug_and_differs_for_two_that_are_logged_in_one_place(digests: Digests) -> None:
    def price(basket: dict[str, str]) -> int:
        return int(basket["price"])

    baskets: list[dict[str, str]] = [{}, {"price": "free"}, {"price": "none"}]
    with logging_to(digests) as logger:
        for number, basket in enumerate(baskets):
            try:
                price(basket)
            except (KeyError, ValueError):
                logger.exception("order %d", number)
        logger.error("without an exception")
        logger.error("never raised", exc_info=KeyError("price"))

    line, name = price.__code__.co_firstlineno + 1, price.__qualname__
    place = f"tests/integrations/test_logging.py:{line} {name}"
    never_raised, without, *causes = (value["cause"] for value in values(digests))
    assert causes == [f"ValueError in {place}", f"ValueError in {place}", f"KeyError in {place}"]
    assert [never_raised, without] == [value["place"] for value in values(digests)[:2]]


def test_the_cause_is_in_the_application_though_a_library_raised_it(digests: Digests) -> None:
    with logging_to(digests) as logger:
        try:
            json.loads("no json")
        except ValueError:
            logger.exception("checkout")

    (value,) = values(digests)
    assert value["cause"].startswith("JSONDecodeError in tests/integrations/test_logging.py:")


def test_a_flood_becomes_counts_per_place(digests: Digests) -> None:
    with logging_to(digests) as logger:
        for number in range(300):
            logger.warning("slow query %d", number)
        logger.error("payment failed")
    digests.flush("logs")

    with digests.digest("logs") as digest:
        (group,) = summarize(digest, group_by=["place"]).groups

    assert sorted(subject.count for subject in group.subjects) == [1, 300]


def test_a_timeline_may_depend_on_the_record_and_leave_it_out(digests: Digests) -> None:
    def timeline(record: logging.LogRecord) -> str | None:
        return None if record.levelno < logging.ERROR else f"logs:{record.name}"

    with logging_to(digests, timeline) as logger:
        logger.warning("left out")
        logger.error("kept")

    assert messages(digests, "logs:shop") == ["kept"]
    assert digests.ledger().accepted == 1


def test_levels_filters_formatters_and_extra_fields_count(digests: Digests) -> None:
    with logging_to(digests, level="WARNING", fields=["request", "user"]) as logger:
        handler = handler_of(logger)
        handler.addFilter(lambda record: "secret" not in record.getMessage())
        handler.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
        logger.info("too low")
        logger.error("a secret")
        logger.error("kept", extra={"request": {"id": 7}})

    (value,) = values(digests)
    assert (value["message"], value["request"], value["user"]) == ("[ERROR] kept", "{'id': 7}", None)


def test_what_digestif_itself_logs_is_ignored(digests: Digests) -> None:
    with logging_to(digests) as logger:
        for name in ("digestif", "digestif.worker", "digestifs"):
            logger.handle(logger.makeRecord(name, logging.ERROR, "a.py", 1, name, (), None))

    assert messages(digests) == ["digestifs"]


@pytest.mark.parametrize(
    ("message", "args", "kept"),
    [
        ("%d orders", ("no",), "%d orders ('no',)"),
        ("lone \ud800", (), "lone ?"),
        ("x" * 10_000, (), "x" * 3_999 + "…"),
        ({"a": 1}, (), "{'a': 1}"),
    ],
    ids=["wrong arguments", "invalid text", "long", "no text"],
)
def test_whatever_is_logged_is_kept(digests: Digests, message: Any, args: Any, kept: str) -> None:
    with logging_to(digests) as logger:
        logger.error(message, *args)

    assert messages(digests) == [kept]


# How it is set up


def test_it_can_be_configured_by_a_dictionary(tmp_path: Path) -> None:
    dsn = f"sqlite:///{tmp_path / 'logs.db'}"
    handler = {
        "class": "digestif.integrations.logging.DigestHandler",
        "digests": dsn,
        "timeline": "logs:app",
        "level": "ERROR",
        "policy": "hourly,first=10m",
        "namespace": "ops",
    }
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"digest": handler},
            "loggers": {"configured": {"handlers": ["digest"]}},
        }
    )
    logger = logging.getLogger("configured")
    logger.error("kept")
    logger.warning("too low")
    logger.handlers[0].close()
    logger.handlers.clear()

    with Digests(dsn, namespace="ops") as digests:
        assert messages(digests, "logs:app") == ["kept"]
        assert digests.timeline("logs:app").state == "waiting"  # for ten minutes, as the policy says


def test_an_asynchronous_engine_serves_too() -> None:
    digests = AsyncDigests("memory://")
    with logging_to(digests) as logger:
        logger.error("kept")

    assert digests.sync.ledger().accepted == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"digests": 7}, "digests: a value of type int is neither"),
        ({"timeline": ""}, "timeline: it is empty"),
        ({"timeline": 7}, "timeline: 7"),
        ({"queue_size": 0}, "queue_size: 0"),
        ({"timeout": -1}, "timeout: -1"),
        ({"commit_at": "EROR"}, "commit_at: 'EROR' is no level"),
        ({"commit_at": 1.5}, "commit_at: 1.5"),
        ({"fields": "request"}, "fields: 'request' is no list"),
        ({"digests": "memory://", "polcy": "hourly"}, "polcy"),
        ({"policy": "hourly"}, "policy: only with a DSN"),
        ({"digests": "memory://", "policy": "hurly"}, "did you mean hourly"),
    ],
)
def test_a_wrong_option_is_a_clear_error(digests: Digests, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        DigestHandler(**{"digests": digests, **options})


# When something goes wrong


class Store:
    """Breaks and mends the store of an engine, and counts its calls."""

    def __init__(self, digests: Digests, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = None
        self.during: Callable[[], object] | None = None
        self.calls = 0
        add = digests.store.add

        def added(arrivals: Any, **options: Any) -> Any:
            self.calls += 1
            if self.during is not None:
                self.during()
            if self.error is not None:
                raise self.error
            return add(arrivals, **options)

        monkeypatch.setattr(digests.store, "add", added)


@pytest.fixture
def store(digests: Digests, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("digestif.integrations.logging.RETRY", 0.01)
    return Store(digests, monkeypatch)


def test_what_a_failing_store_did_not_take_is_added_when_it_is_back(digests: Digests, store: Store) -> None:
    events: list[Event] = []
    digests.subscribe(events.append)
    store.error = StoreUnavailable("away")
    with logging_to(digests) as logger:
        logger.error("first")
        for number in range(50):
            logger.error("later %d", number)
        assert eventually(lambda: store.calls > 3)
        store.error = None

    assert len(messages(digests)) == 51
    assert [event for event in events if isinstance(event, StoreFailed)] == events[:1]  # told once


def test_what_one_part_of_the_store_has_accepted_is_not_added_again(digests: Digests, store: Store) -> None:
    with logging_to(digests) as logger:
        handler = handler_of(logger)
        committer = handler._committer
        items = [committer_item(number) for number in range(3)]
        store.error = StoreUnavailable("a part is away").knowing([True, None, False])
        committer._commit(items)

        assert committer._failed == [items[1]]
        committer._failed = []


def committer_item(number: int) -> Any:
    from digestif import Record
    from digestif.integrations.logging import _Item

    return _Item("logs", Record(str(number), {}, 0.0), None)


def test_a_full_queue_drops_counts_and_reports_once(
    digests: Digests, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.error = StoreUnavailable("away")
    with logging_to(digests, queue_size=10) as logger, caplog.at_level(logging.WARNING, "digestif"):
        logger.error("first")
        for number in range(40):
            logger.warning("%d", number)
        assert handler_of(logger).dropped == 30
        store.error = None
        handler_of(logger)._committer._stop.set()
        assert eventually(lambda: len(messages(digests)) == 12)

    assert "30 log records were dropped" in " ".join(messages(digests))
    assert len([record for record in caplog.records if "is full" in record.message]) == 1
    assert digests.ledger().accepted == 12


def test_what_is_left_at_the_end_is_counted_and_reported(
    digests: Digests, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.error = StoreUnavailable("away for good")
    with caplog.at_level(logging.WARNING, "digestif"), logging_to(digests) as logger:
        handler = handler_of(logger)
        for _ in range(5):
            logger.error("lost")
    logger.error("after the end")

    assert handler.dropped == 6
    assert [record.message for record in caplog.records][-1] == "DigestHandler: 5 log records did not reach the store"


def test_a_timeline_that_is_none_costs_only_its_record(digests: Digests, capsys: pytest.CaptureFixture[str]) -> None:
    def timeline(record: logging.LogRecord) -> str:
        if record.getMessage() == "raise":
            raise LookupError("no timeline")
        return "" if record.getMessage() == "bad" else "logs"

    with logging_to(digests, timeline) as logger:
        handler = handler_of(logger)
        for text in ("good", "bad", "raise", "fine"):
            logger.error(text)  # each is a page of its own
        handler.flush()

        (report,) = set(messages(digests)) - {"fine", "good"}
        assert report.startswith("1 log records were dropped")
        assert handler.dropped == 1
    assert "LookupError: no timeline" in capsys.readouterr().err  # as every handler of logging does


def test_what_the_store_logs_while_it_commits_is_ignored(digests: Digests, store: Store) -> None:
    with logging_to(digests) as logger:
        store.during = lambda: logger.error("connecting to the database")
        logger.error("kept")
        handler_of(logger).flush()

    assert messages(digests) == ["kept"]


def test_an_error_logged_inside_of_a_store_is_queued_without_waiting(
    digests: Digests, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may hold locks that the commit needs: waiting for it would be waiting for oneself."""
    gate = threading.Lock()  # as a store has one

    def held() -> None:
        if threading.current_thread() is threading.main_thread():
            log_inside(logger)
        else:
            assert gate.acquire(timeout=SOON)
            gate.release()

    with logging_to(digests, timeout=SOON) as logger:
        store.during = held
        with gate:
            began = monotonic()
            digests.add("logs", {"message": "by hand"})
            took = monotonic() - began

    assert took < SOON / 2
    assert messages(digests) == ["by hand", "inside"]


def log_inside(logger: logging.Logger) -> None:
    """In a frame of the stores."""
    exec("logger.error('inside')", {"__name__": "digestif.stores.somewhere", "logger": logger})


def test_a_store_that_hangs_holds_a_log_call_for_the_timeout_at_most(digests: Digests, store: Store) -> None:
    going_on = threading.Event()
    store.during = lambda: going_on.wait(SOON)
    with logging_to(digests, timeout=0.05) as logger:
        began = monotonic()
        logger.error("patient")
        took = monotonic() - began
        going_on.set()
        store.during = None

    assert 0.04 < took < SOON / 2


def test_a_signal_handler_may_log_in_the_middle_of_a_log_call(digests: Digests) -> None:
    with logging_to(digests, timeout=SOON) as logger:
        before = signal.signal(signal.SIGALRM, lambda *_: logger.error("signal"))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            for number in range(500):
                (logger.error if number % 10 == 0 else logger.warning)("%d", number)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        handler_of(logger).flush()

    assert len([message for message in messages(digests) if message != "signal"]) == 500
    assert "signal" in messages(digests)


# Threads, forks and ends


def test_threads_lose_nothing(digests: Digests) -> None:
    with logging_to(digests) as logger:

        def log(thread: int) -> None:
            for number in range(200):
                logger.warning("%d %d", thread, number)

        threads = [threading.Thread(target=log, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(set(messages(digests))) == 1600


def test_a_flush_waits_for_everything_that_was_logged(digests: Digests) -> None:
    with logging_to(digests) as logger:
        for number in range(3_000):
            logger.warning("%d", number)
        handler_of(logger).flush()

        assert digests.ledger().accepted == 3_000


def test_what_is_logged_in_the_moment_of_the_end_is_committed(digests: Digests) -> None:
    with logging_to(digests) as logger:
        committer = handler_of(logger)._committer
        committer._queue.append(("logs", 0.0, {"message": "last"}, None))
        committer._is_closing = True
        committer._run()

    assert messages(digests) == ["last"]


def test_a_thread_that_was_ended_is_started_again(digests: Digests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with logging_to(digests) as logger:
        with monkeypatch.context() as broken:
            broken.setattr(_Committer, "_page", lambda self: sys.exit())
            logger.warning("first")
            assert eventually(lambda: handler_of(logger)._committer._thread is None)
        logger.error("second")

    assert "second" in messages(digests)


def fork_while_logging(folder: str) -> list[str]:
    """To be run alone."""
    path = f"sqlite:///{Path(folder) / 'logs.db'}"
    handler = DigestHandler(path, "logs:app", policy="default,first=1h")
    logger = logging.Logger("shop")  # noqa: LOG001  # outside of the tree
    logger.addHandler(handler)
    logger.error("before")
    for number in range(20):
        logger.warning("parent %d", number)

    def child(report: Report) -> None:
        logger.error("child")
        logger.warning("child, later")
        handler.flush()

    for _ in range(5):
        Child(child).finish()
    logger.error("after")
    handler.close()
    with Digests(path) as digests:
        return messages(digests, "logs:app")


def test_after_a_fork_both_processes_log_and_nothing_is_there_twice(tmp_path: Path) -> None:
    found = alone(fork_while_logging, str(tmp_path))

    parent = ["after", "before", *(f"parent {number}" for number in range(20))]
    assert found == sorted([*parent, *["child"] * 5, *["child, later"] * 5])


PROGRAM = """
import atexit, logging, sys
from digestif.integrations.logging import DigestHandler

logger = logging.getLogger("shop")
atexit.register(lambda: logger.warning("at the end"))
logger.addHandler(DigestHandler(sys.argv[1], "logs:app", policy="default,first=1h"))
for number in range(2000):
    logger.warning("%d", number)
if len(sys.argv) > 2:
    logging.shutdown()
    logger.error("after the end")
"""


@pytest.mark.parametrize("arguments", [[], ["shutdown"]], ids=["ends", "shuts down logging first"])
def test_a_process_that_ends_commits_what_was_logged(tmp_path: Path, arguments: list[str]) -> None:
    dsn = f"sqlite:///{tmp_path / 'logs.db'}"

    done = subprocess.run([sys.executable, "-c", PROGRAM, dsn, *arguments], capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    with Digests(dsn) as digests:
        assert {str(number) for number in range(2000)} <= set(messages(digests, "logs:app"))
        assert ("at the end" in messages(digests, "logs:app")) == (not arguments)


def test_every_log_record_that_was_committed_before_a_kill_is_delivered(tmp_path: Path) -> None:
    """The same with a hundred thousand is in torture/."""
    found = alone(kill_a_flood, str(tmp_path), 8_000, 4_000)

    assert_that_every_committed_record_is_delivered(found, committed=4_000)
