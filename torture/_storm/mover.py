"""The role of a storm that moves its store."""

import signal

from digestif import Busy, Move, StoreError
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
                progress = move.run(patience=PATIENCE, follow=not self.scene.finishing)
                is_stopped = not progress.finished  # by SIGTERM
                if progress.finished:
                    self.notes.note("moved", *self.scene.move)
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    self.wait(3600)
            except (Busy, StoreError) as error:
                self.note_failure(error)

    def _report(self, progress: Progress) -> None:
        assert self.scene.move is not None
        if progress.following:
            self.notes.note("following", *self.scene.move)
