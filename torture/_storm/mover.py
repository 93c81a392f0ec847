"""The role of a storm that moves its store."""

import signal
from typing import Any

from digestif import Busy, Move, StoreError
from digestif.transfer.lock import LOCK
from digestif.transfer.move import Progress
from torture._storm.actor import Actor
from torture._storm.scene import store_of

LOCK_SECONDS = 0.5  # the lock of a killed process lapses soon
PATIENCE = 5.0  # seconds until it begins again


class Mover(Actor):
    """Moves the store, and follows until it is terminated; in the end it finishes the move."""

    def play(self) -> None:
        assert self.scene.move is not None
        source, target = map(store_of, self.scene.move)
        move = Move(source, target, report=self._report, lock_seconds=LOCK_SECONDS)
        signal.signal(signal.SIGTERM, lambda *_: move.stop())
        is_stopped = False
        while not is_stopped:
            try:
                if self.scene.finishing and _is_finished(source):  # by a process that was killed just after
                    self._rest()
                progress = move.run(patience=PATIENCE, follow=not self.scene.finishing)
                is_stopped = not progress.finished  # by SIGTERM
                if progress.finished:
                    self._rest()
            except (Busy, StoreError) as error:
                self.note_failure(error)

    def _rest(self) -> None:
        """Note that the move is finished, and wait to be ended."""
        assert self.scene.move is not None
        self.notes.note("moved", *self.scene.move)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.wait(3600)

    def _report(self, progress: Progress) -> None:
        assert self.scene.move is not None
        if progress.following:
            self.notes.note("following", *self.scene.move)


def _is_finished(source: Any) -> bool:
    """True if no move of the store is under way; it had been begun before."""
    return source.note(0, LOCK) is None and source.moving_since() is None
