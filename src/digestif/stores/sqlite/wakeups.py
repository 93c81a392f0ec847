"""Wake-ups from other processes that write to the same file: its log changes."""

from pathlib import Path

from digestif.stores.wakeups import LocalWakeups


class FileWakeups(LocalWakeups):
    """Compares size and time of the write-ahead log every `glance` seconds, which costs next to nothing."""

    glance = 0.05

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._log = file.with_name(file.name + "-wal")
        self._seen = self._stat()

    def has_changed(self) -> bool:
        before, self._seen = self._seen, self._stat()
        return before != self._seen

    def _stat(self) -> tuple[int, int] | None:
        try:
            found = self._log.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
