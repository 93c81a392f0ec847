"""A handler for Python's logging: a flood of errors becomes one message, with counts per place.

    logging.getLogger().addHandler(DigestHandler(digests, "logs:shop", level=logging.WARNING))

Log calls put records into a bounded queue; one thread commits them in pages. It is never called back into by a log call
that holds a lock, and every wait for it is bounded, so that logging can't hang or break the application.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakSet

from digestif.aio import AsyncDigests
from digestif.clock import monotonic
from digestif.core.policy import Policy, check_delay
from digestif.core.records import Record
from digestif.core.texts import shortened, shortened_text, traceback_of
from digestif.core.times import Duration
from digestif.digests import Digests
from digestif.dsn import forgetful
from digestif.errors import ConfigError, DigestifError, InvalidRecord, StoreError
from digestif.events.engine import StoreFailed
from digestif.ids import fresh_key
from digestif.intake.arrivals import check_limit, check_text
from digestif.integrations.handlers import UnlockedHandler, cause_of, error_of, is_inside_a_store

TimelineOf = Callable[[logging.LogRecord], str | None]

OWN = "digestif"  # the root of our loggers: what they say of a delivery must not become part of one
LONGEST_MESSAGE = 4_000  # characters

GATHER = 0.01  # seconds that records wait for others to share a commit
RETRY = 1.0  # seconds between two attempts while the store fails
PAGE = 1_000  # records of one commit

_logger = logging.getLogger("digestif")


class DigestHandler(UnlockedHandler):
    """Adds log records to a timeline.

    `digests` is an engine, or the DSN of a store; with a DSN, `options` are those of `Digests`, its policy may be a
    text, and `close` closes it. `timeline` is a key or a function of the LogRecord, None to leave it out. Records from
    the level `commit_at` on (None: none) are committed before the log call returns, waiting at most `timeout` seconds;
    others soon after. `fields` names further attributes of log records to keep, such as those given by `extra`.

    It never raises. What does not fit into a queue of `queue_size` records is dropped and counted in `dropped`.
    """

    @forgetful
    def __init__(
        self,
        digests: Digests | AsyncDigests | str,
        timeline: str | TimelineOf = "logs",
        level: int | str = logging.NOTSET,
        *,
        commit_at: int | str | None = logging.ERROR,
        queue_size: int = 10_000,
        timeout: Duration = 5.0,
        fields: Sequence[str] = (),
        **options: Any,
    ) -> None:
        check_limit("queue_size", queue_size)
        if not callable(timeline) and check_text("timeline", timeline) == "":
            raise ConfigError("timeline: it is empty; give a key, or a function of a LogRecord")
        if isinstance(fields, str):
            raise ConfigError(f"fields: {shortened(fields)} is no list; write it like ['request_id']")
        seconds = check_delay("timeout", timeout)
        super().__init__(level)
        self._timeline = timeline
        self._commit_at = float("inf") if commit_at is None else _level(commit_at)
        self._fields = tuple(fields)
        self._timeout = seconds
        self._owned = _opened(digests, options)
        self._committer = _Committer(self._owned or _engine(digests), size=queue_size, timeout=seconds)

    @property
    def dropped(self) -> int:
        """Log records that did not reach the store, because the queue was full or the store failed until the end."""
        return self._committer.dropped

    def emit(self, record: logging.LogRecord) -> None:
        name = record.name
        if name.startswith(OWN) and (name == OWN or name[len(OWN)] == "."):
            return
        if self._committer.is_committing_here():
            return  # the store's own libraries log: adding that would make them log again
        timeline = self._timeline if isinstance(self._timeline, str) else self._timeline(record)
        if timeline is None:
            return
        is_urgent = record.levelno >= self._commit_at
        self._committer.put(timeline, record.created, self._value(record), is_urgent=is_urgent)

    def _value(self, record: logging.LogRecord) -> dict[str, Any]:
        place, error = f"{record.filename}:{record.lineno}", error_of(record)
        value = {
            "level": record.levelname,
            "logger": record.name,
            "place": place,
            "cause": (None if error is None else cause_of(error)) or place,
            "message": self._message(record),
            "exception": _exception(record),
        }
        for name in self._fields:
            value[name] = _plain(getattr(record, name, None))
        return value

    def _message(self, record: logging.LogRecord) -> str:
        try:
            text = record.getMessage() if self.formatter is None else self.formatter.format(record)
        except Exception:  # noqa: BLE001  # arguments that do not fit the text: the place matters more
            text = f"{record.msg!s} {shortened(record.args)}"
        return text if len(text) <= LONGEST_MESSAGE and text.isascii() else shortened_text(text, LONGEST_MESSAGE)

    def flush(self) -> None:
        """Wait until everything logged so far is committed: at most the `timeout`, and not while the store fails."""
        self._committer.flush()

    def close(self) -> None:
        """Commit what is left, and close the store if it was made from a DSN."""
        has_ended = self._committer.close()
        if self._owned is not None and has_ended:
            with suppress(StoreError):
                self._owned.close()
        super().close()


def _engine(digests: object) -> Digests:
    found = digests.sync if isinstance(digests, AsyncDigests) else digests
    if not isinstance(found, Digests):
        raise ConfigError(
            f"digests: a value of type {type(digests).__name__} is neither an engine nor the DSN of a store"
        )
    return found


def _opened(digests: object, options: dict[str, Any]) -> Digests | None:
    """The engine of a DSN; None if an engine was given."""
    if not isinstance(digests, str):
        if options:
            raise ConfigError(f"{next(iter(options))}: only with a DSN; an engine has its own")
        return None
    policy = options.get("policy")
    if isinstance(policy, str):
        options = {**options, "policy": Policy.parse(policy)}
    try:
        return Digests(digests, **options)
    except TypeError as error:
        raise ConfigError(f"DigestHandler: {error}") from error


def _exception(record: logging.LogRecord) -> str | None:
    if (error := error_of(record)) is not None:
        return traceback_of(error)
    return shortened_text(record.exc_text, LONGEST_MESSAGE) if record.exc_text else None


def _plain(value: object) -> Any:
    """An attribute of a log record as a number or text that can be stored."""
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return shortened_text(value if isinstance(value, str) else str(value), LONGEST_MESSAGE)


# Committing


class _Wakeup:
    """A binary semaphore of C functions alone: a signal handler that logs may set it at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        if self._lock.locked():
            with suppress(RuntimeError):  # another thread was quicker
                self._lock.release()

    def wait(self, seconds: float = -1) -> bool:
        return self._lock.acquire(timeout=seconds)


class _Item(NamedTuple):
    """A log record on its way into the store, or a mark in the queue, without a record, that `flush` waits for."""

    timeline: str
    record: Record | None
    done: _Wakeup | None


_Entry = tuple[str, float, dict[str, Any] | None, _Wakeup | None]  # timeline, time, value, who waits


class _Committer:
    """A bounded queue, and a thread that commits what is in it."""

    def __init__(self, digests: Digests, *, size: int, timeout: float) -> None:
        self._digests = digests
        self._size = size
        self._timeout = timeout
        self._is_closing = False
        self.dropped = 0
        self._begin()
        _committers.add(self)

    def _begin(self) -> None:
        """Without a thread and with nothing queued: at first, and in the child of a fork."""
        self._queue: deque[_Entry] = deque()
        self._urgent: deque[_Entry] = deque()
        self._wake = _Wakeup()
        self._hurry = _Wakeup()
        self._stop = _Wakeup()
        self._thread: threading.Thread | None = None
        self._committing: int | None = None  # the thread that calls the store
        self._failed: list[_Item] = []  # the page to be tried again
        self._is_failing = False
        self._unreported = 0  # drops that no record tells of yet
        self._lock = threading.RLock()

    def is_committing_here(self) -> bool:
        return self._committing == threading.get_ident()

    def put(self, timeline: str, created: float, value: dict[str, Any], *, is_urgent: bool) -> None:
        """Queue a record; an urgent one is committed on return, unless the store fails or is slow."""
        queue = self._urgent if is_urgent else self._queue
        if self._is_closing or len(queue) >= self._size:
            self._drop(1, f"the queue of {self._size} log records is full")
            return
        if not is_urgent:
            queue.append((timeline, created, value, None))
            self._wake.set()
            if self._thread is None:
                self._start()
            return
        done = _Wakeup()
        queue.append((timeline, created, value, done))
        self._hurry.set()
        self._wake.set()
        if self._thread is None:
            self._start()
        if not self._is_failing and not is_inside_a_store():
            done.wait(self._timeout)

    def _drop(self, count: int, reason: str) -> None:
        """Count records that are lost. The first of a series is logged, the number follows in a record."""
        with self._lock:
            is_first = self._unreported == 0
            self.dropped += count
            self._unreported += count
        if is_first and not self._is_closing:
            _logger.warning("DigestHandler: log records are dropped and counted: %s", reason)

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="digestif-logging", daemon=True)
            try:
                self._thread.start()
                return
            except RuntimeError:  # the interpreter is ending, or has no thread left
                self._thread = None
        if not is_inside_a_store():
            self._commit_all()

    # In the thread

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._wake.wait()
                self._hurry.wait(GATHER)
                while not self._commit_all() and not self._is_closing:
                    self._stop.wait(RETRY)
            self._commit_all()
        finally:
            self._thread = None  # should anything end it, the next log call starts another

    def _commit_all(self) -> bool:
        """Commit everything that is queued. False if the store fails."""
        while page := self._failed or self._page():
            self._committing = threading.get_ident()
            error = self._commit(page)
            self._committing = None
            has_begun = error is not None and not self._is_failing
            self._is_failing = error is not None
            for item in page:
                if item.done is not None:
                    item.done.set()
            if has_begun and error is not None:  # after the waiting threads have gone on: other handlers may be slow
                self._digests.events.emit(StoreFailed(operation="log", error=error))
            if error is not None:
                return False
        return True

    def _page(self) -> list[_Item]:
        page: list[_Item] = []
        for queue in (self._urgent, self._queue):
            while queue and len(page) < PAGE:
                timeline, created, value, done = queue.popleft()
                page.append(_Item(timeline, None if value is None else Record(fresh_key(), value, created), done))
        return page

    def _commit(self, page: list[_Item]) -> Exception | None:
        """Add a page. If the store fails, keep what it did not accept, and return the error."""
        items = [item for item in page if item.record is not None]
        self._failed = []
        try:
            timeline = self._add(items)
        except Exception as error:  # noqa: BLE001  # whatever a store raises, its records are tried again
            answers = getattr(error, "answers", None) or [None] * len(items)
            self._failed = [item for item, answer in zip(items, answers, strict=False) if answer is None]
            return error
        if timeline is not None:
            with suppress(DigestifError):  # then the next page tells of it
                self._report_drops(timeline)
        return None

    def _add(self, items: Iterable[_Item]) -> str | None:
        """Add records, and return a timeline that accepted one."""
        pairs = [(item.timeline, item.record) for item in items]
        accepted = None
        try:
            if pairs:
                self._digests.add_many(pairs)
                accepted = pairs[-1][0]
        except InvalidRecord:  # a function gave a timeline that is none: the others are added without that one
            for timeline, record in pairs:
                try:
                    self._digests.add(timeline, record)
                    accepted = timeline
                except InvalidRecord as error:
                    self._drop(1, str(error))
        return accepted

    def _report_drops(self, timeline: str) -> None:
        """Tell the readers once how much is missing."""
        if count := self._unreported:
            self._digests.add(timeline, _report(count))
            with self._lock:
                self._unreported -= count

    # Ending

    def flush(self) -> None:
        if self._thread is None or self._is_failing or self.is_committing_here() or is_inside_a_store():
            return
        done = _Wakeup()
        self._queue.append(("", 0.0, None, done))
        self._hurry.set()
        self._wake.set()
        done.wait(self._timeout)

    def close(self) -> bool:
        """Commit what is left, in a last attempt. False if the thread has not ended in time."""
        if self._is_closing:
            return True
        self._is_closing = True
        thread, deadline = self._thread, monotonic() + self._timeout
        for wakeup in (self._hurry, self._wake, self._stop):
            wakeup.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - monotonic()))
        left = len(self._failed) + len(self._queue) + len(self._urgent)
        if left:
            self._drop(left, "the handler was closed")
        if left or self._unreported:
            _logger.warning("DigestHandler: %d log records did not reach the store", self.dropped)
        return thread is None or not thread.is_alive()


def _report(count: int) -> dict[str, Any]:
    return {
        "level": "WARNING",
        "logger": OWN,
        "place": "DigestHandler",
        "cause": "DigestHandler",
        "message": f"{count} log records were dropped: the queue was full, or the store did not take them",
        "exception": None,
    }


_committers: WeakSet[_Committer] = WeakSet()


def _begin_again() -> None:
    """In the child of a fork: the parent commits what was queued, and threads are not inherited."""
    for committer in list(_committers):
        committer._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)


def _level(level: int | str) -> int:
    """The number of a level, by its name as in `level`, or as it is."""
    found = logging.getLevelNamesMapping().get(level) if isinstance(level, str) else level
    if type(found) is not int:
        raise ConfigError(f"commit_at: {shortened(level)} is no level of logging, such as ERROR")
    return found
