"""The servers behind the systems, each fresh, on loopback, in a temporary folder, set up alike for all."""

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, Protocol

from digestif.testing.postgres import PostgresServer
from digestif.testing.processes import HOST, Folder, ServerMissing, ServerProcess, free_port, said_by
from digestif.testing.servers import END, RedisServer

ALERTMANAGER = "prometheus-alertmanager"  # Debian's name


class Backend(Protocol):
    """A server, or what stands for one."""

    def start(self) -> Any: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...
    def pids(self) -> list[int]: ...
    def facts(self) -> dict[str, Any]:
        """What programs need to know of it."""

    def version(self) -> str: ...


class SqliteFile:
    """A file in a folder of its own: there is no process to kill."""

    def __init__(self, _: float) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="digestif-peers-"))

    def start(self) -> None: ...
    def kill(self) -> None: ...

    def close(self) -> None:
        shutil.rmtree(self._folder)

    def pids(self) -> list[int]:
        return []

    def facts(self) -> dict[str, Any]:
        return {"url": f"sqlite:///{self._folder / 'peers.db'}"}

    def version(self) -> str:
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"


class Redis(RedisServer):
    """With the usual append-only file, synced each second."""

    def __init__(self, _: float) -> None:
        super().__init__(appendonly=True, appendfsync="everysec")

    def pids(self) -> list[int]:
        return [self.pid] if self.is_running() else []

    def facts(self) -> dict[str, Any]:
        return {"url": self.url, "host": HOST, "port": self.port}

    def version(self) -> str:
        about = self.cli("INFO", "server")
        return f"Valkey {about['valkey_version']}" if "valkey_version" in about else f"Redis {about['redis_version']}"


class Postgres(PostgresServer):
    """As it is installed: fsync and synchronous_commit are on."""

    def __init__(self, _: float) -> None:
        super().__init__(fsync=True, synchronous_commit="on", max_connections=200)

    def pids(self) -> list[int]:
        return [self.pid] if self.is_running() else []

    def facts(self) -> dict[str, Any]:
        return {"url": self.url}

    def version(self) -> str:
        return f"PostgreSQL {self.sql('SHOW server_version')[0][0].split()[0]}"


CONFIGURATION = """
route:
  receiver: sink
  group_by: [timeline]
  group_wait: {delay}s
  group_interval: {delay}s
  repeat_interval: 1h
receivers:
  - name: sink
    webhook_configs:
      - url: http://127.0.0.1:{receiver}/
        send_resolved: false
"""


class Alertmanager(ServerProcess):
    """Alertmanager, alone, which posts groups to a receiver that the worker program is."""

    def __init__(self, delay: float) -> None:
        super().__init__()
        found = shutil.which(ALERTMANAGER)
        if found is None:
            raise ServerMissing(f"no {ALERTMANAGER}; on Debian: apt-get install {ALERTMANAGER}")
        self.program = Path(found)
        self._delay = delay
        self.receiver = free_port()

    def kill(self) -> None:
        if self.is_running():
            assert self._process
            self._process.send_signal(signal.SIGKILL)
            self._wait(None)

    def pids(self) -> list[int]:
        return [self.pid] if self.is_running() else []

    def facts(self) -> dict[str, Any]:
        return {"host": HOST, "port": self.port, "receiver": self.receiver}

    def version(self) -> str:
        return said_by(self.program).split("version ")[1].split()[0]

    def _launch(self) -> None:
        if self._folder is None:
            self._folder = Folder("digestif-peers-", end=END)
        configuration = self.directory / "alertmanager.yml"
        configuration.write_text(CONFIGURATION.format(delay=f"{self._delay:g}", receiver=self.receiver))
        self._run(
            self.program,
            f"--config.file={configuration}",
            f"--storage.path={self.directory}",
            f"--web.listen-address={HOST}:{self.port}",
            "--cluster.listen-address=",
            "--log.level=error",
        )

    def _answers(self) -> bool:
        import http.client

        connection = http.client.HTTPConnection(HOST, self.port, timeout=1)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


KINDS: dict[str, type[Any]] = {
    "sqlite": SqliteFile,
    "redis": Redis,
    "postgres": Postgres,
    "alertmanager": Alertmanager,
}


def backend(kind: str, delay: float) -> Backend:
    made: Backend = KINDS[kind](delay)
    return made
