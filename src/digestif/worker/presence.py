"""A worker's entry in the note about live workers."""

import os
import socket
import threading
from collections.abc import Sequence

from digestif.attempts.pipeline import Pipeline
from digestif.core.texts import shortened_text
from digestif.core.times import Millis
from digestif.core.workers import LONGEST_NAME, LiveWorker, WorkerNote, noted_patterns, noted_policies, policy_conflicts
from digestif.events.engine import PoliciesDiffer
from digestif.ids import fresh_id
from digestif.notes.workers import note_worker


class Presence:
    """Notes that a worker is alive, until it leaves. Safe to use from several threads."""

    def __init__(self, pipeline: Pipeline, name: str) -> None:
        self._pipeline = pipeline
        self._id = fresh_id()[:12]
        self._name = shortened_text(name, LONGEST_NAME)
        self._host = shortened_text(socket.gethostname(), LONGEST_NAME)
        self._since: Millis | None = None
        self._lock = threading.Lock()
        self._has_left = False
        self._reported: set[str] = set()  # patterns with different policies

    def renew(self) -> None:
        """Note that the worker is alive, unless it has left. Raises StoreError if the store does not answer."""
        with self._lock:
            if self._has_left:
                return
            now = self._pipeline.time()
            self._since = now if self._since is None else self._since
            patterns = noted_patterns([handler.pattern for handler in self._pipeline.handlers])
            policies = noted_policies(self._pipeline.policies.texts(), patterns)
            note = WorkerNote(self._name, self._host, os.getpid(), self._since, now, patterns, policies)
            self._report_conflicts(note_worker(self._pipeline.store, self._id, note, now=now), patterns)

    def _report_conflicts(self, workers: Sequence[LiveWorker], patterns: Sequence[str]) -> None:
        """Emit once for each pattern, as long as workers have different policies for it."""
        found = {each.pattern: each for each in policy_conflicts(workers) if each.pattern in patterns}
        for pattern in found.keys() - self._reported:
            self._pipeline.events.emit(PoliciesDiffer(pattern=pattern, policies=str(found[pattern])))
        self._reported = set(found)

    def leave(self) -> None:
        """Remove the entry for good. Raises StoreError if the store does not answer: then it is gone after a minute."""
        self._has_left = True
        with self._lock:
            if self._since is not None:
                note_worker(self._pipeline.store, self._id, None, now=self._pipeline.time())
