"""What the owner of a folder can put at the names beside a database, to reach a file of the user who opens it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from digestif import Digests

NOBODY = 65534
NAMES = ("-lock", "-reserve", "-wal", "-shm", "-journal")
KINDS = ("symbolic link", "hard link", "pipe", "folder")
# Puts a link to the file there, then an empty file, then nothing, at one name after the other, without end.
SWAP = """
import os, sys
database, victim, *names = sys.argv[1:]
spare = database + "-spare"
print("ready", flush=True)
while True:
    for name in names:
        for make in (lambda: os.symlink(victim, spare), lambda: open(spare, "wb").close()):
            make()
            os.replace(spare, database + name)
        try:
            os.unlink(database + name)
        except FileNotFoundError:
            pass
"""


def foreign_folder(folder: Path) -> Path:
    """Make a folder with a closed store, d.db. It is another user's if this process may give it away."""
    folder.mkdir()
    with Digests(f"sqlite:///{folder}/d.db") as digests:
        digests.add("t", 0)
    if os.geteuid() == 0:
        for each in (folder, *folder.iterdir()):
            os.chown(each, NOBODY, NOBODY)
    return folder


class Victim:
    """A file that the owner of the folder wants to have or to harm."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(bytes(32) + b"secret" * 20_000)  # as a kept log begins
        path.chmod(0o600)
        self._before = self._state()

    def put(self, kind: str, database: Path, name: str) -> Path:
        """Put a link to the file, or what makes an open wait, at a name beside the database."""
        place = database.with_name(database.name + name)
        place.unlink(missing_ok=True)
        if kind == "symbolic link":
            place.symlink_to(self._path)
        elif kind == "hard link":
            place.hardlink_to(self._path)
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            place.mkdir()
        return place

    @contextmanager
    def swapped(self, database: Path, *names: str) -> Iterator[None]:
        """Let a process swap links to the file with other files at these names, as fast as it can."""
        command = [sys.executable, "-c", SWAP, str(database), str(self._path), *names]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as swapping:
            assert swapping.stdout is not None
            swapping.stdout.readline()
            try:
                yield
                assert swapping.poll() is None
            finally:
                swapping.kill()

    def is_as_it_was(self) -> bool:
        return self._state() == self._before

    def is_at(self, place: Path) -> bool:
        return place.samefile(self._path)

    def _state(self) -> tuple[object, ...]:
        found = self._path.lstat()
        return found.st_mode, found.st_uid, found.st_gid, found.st_size, found.st_mtime_ns, self._path.read_bytes()
