"""A program with Celery, its workers and its beat as processes of their own, and a log of everything that went out.

`celery -A tests.integrations.mailroom_app` is the program; what it is set up with comes through its environment.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from celery import Celery

from digestif import Digest, Digests, Policy, RetryLater
from digestif.integrations.celery import Tasks, install
from digestif.testing.servers import RedisServer, becomes_true
from tests.logbook import Logbook

ROOT = Path(__file__).parents[2]
VARIABLE = "DIGESTIF_TEST_MAILROOM"
READY = b" ready."
BEAT_READY = b"beat: Starting..."


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything that the processes have to agree on."""

    broker: str
    stores: dict[str, str]  # DSN by the prefix of its tasks
    log: str
    minimum_delay: float = 1.0
    every: float = 0.5
    lost_after: float = 3.0
    lease: float = 2.0
    redelivered_after: int = 3600  # seconds until the broker gives a task of a dead worker to another one

    @classmethod
    def on(cls, server: RedisServer, directory: Path, *names: str, **options: Any) -> "Setup":
        """With these stores, or all. Celery has a database of its own beside the one of Digestif."""
        stores = {"sqlite": f"sqlite:///{directory}/digests.db", "redis": server.url}
        chosen = {name: dsn for name, dsn in stores.items() if not names or name in names}
        return cls(broker=f"{server.url}/1", stores=chosen, log=f"{directory}/log", **options)

    @classmethod
    def of_environment(cls) -> "Setup":
        return cls(**json.loads(os.environ[VARIABLE]))

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, VARIABLE: json.dumps(asdict(self))}


# The program


def make_app(setup: Setup) -> tuple[Celery, dict[str, Tasks]]:
    """The app and, by name, the tasks of each store. The stores are open before any pool forks."""
    app = Celery("mailroom", broker=setup.broker)
    app.conf.update(
        broker_transport_options={
            "visibility_timeout": setup.redelivered_after,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        },
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        worker_send_task_events=False,
    )
    tasks = {}
    for name, dsn in setup.stores.items():
        digests = open_digests(setup, dsn)
        tasks[name] = install(app, digests, every=setup.every, lost_after=setup.lost_after, name_prefix=name)
    return app, tasks


def open_digests(setup: Setup, dsn: str) -> Digests:
    delay = setup.minimum_delay
    policy = Policy(minimum_delay=delay, increment_delay=0, maximum_delay=max(delay, 1), lapses=1000)
    digests = Digests(dsn, policy=policy, lease=setup.lease)
    digests.ledger()

    log = Logbook(Path(setup.log))

    @digests.handler("*")
    def deliver(digest: Digest) -> None:
        log.note({"sent": digest.idempotency_key, "records": [record.key for record in digest]})

    @digests.handler("later:*")
    async def deliver_later(digest: Digest) -> None:
        await asyncio.sleep(0)
        deliver(digest)

    @digests.handler("stuck:*")
    def get_stuck(digest: Digest) -> None:
        log.note({"begun": digest.timeline, "pid": os.getpid(), "group": os.getpgrp()})
        if digest.attempt == 1:
            signal.pause()  # until a signal ends this process
        deliver(digest)

    @digests.handler("fails:*")
    def fail_once(digest: Digest) -> None:
        if digest.attempt == 1:
            raise RetryLater("the mail server is on holiday", after=0.2)
        deliver(digest)

    return digests


# What went out


def lines(setup: Setup) -> list[dict[str, Any]]:
    return list(Logbook(Path(setup.log)).read())


def sent(setup: Setup) -> list[dict[str, Any]]:
    return [line for line in lines(setup) if "sent" in line]


def counts(setup: Setup) -> Counter[str]:
    """How often each record went out."""
    return Counter(key for line in sent(setup) for key in line["records"])


def check_identity(setup: Setup) -> int:
    """Check that a digest that went out again had the same records; return the number of repeated deliveries."""
    known: dict[str, list[str]] = {}
    repeated = 0
    for line in sent(setup):
        repeated += line["sent"] in known
        assert known.setdefault(line["sent"], line["records"]) == line["records"], f"{line} was {known[line['sent']]}"
    owners: dict[str, set[str]] = {}
    for key, records in known.items():
        for record in records:
            owners.setdefault(record, set()).add(key)
    assert [record for record, keys in owners.items() if len(keys) > 1] == []
    return repeated


# Processes


class Process:
    """A process of Celery with its children, in a group of their own. Its words are in a file."""

    def __init__(self, setup: Setup, directory: Path, name: str, ready: bytes, *arguments: str) -> None:
        self.words = directory / f"{name}.log"
        self._ready = ready
        command = [sys.executable, "-m", "celery", "-A", "tests.integrations.mailroom_app", *arguments]
        with self.words.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=setup.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.is_worker = arguments[0] == "worker"
        self.is_alive = True  # as far as we have done nothing about it
        self._is_gone = False  # with its children

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self._process.poll() is None, self.words.read_text()
            return self._ready in self.words.read_bytes()

        assert becomes_true(is_ready), self.words.read_text()

    def kill(self) -> None:
        """End it and all its children with SIGKILL, as the loss of a machine would."""
        os.killpg(self.pid, signal.SIGKILL)  # the main process has not been waited for, so the number is still its own
        self._process.wait()
        self._is_gone, self.is_alive = True, False

    def kill_main(self) -> None:
        """End its main process only; its children notice sooner or later."""
        os.kill(self.pid, signal.SIGKILL)
        self.is_alive = False

    def kill_child(self) -> None:
        """End one of its children; the main process starts another one."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        if children:
            os.kill(int(children[0]), signal.SIGKILL)

    def end(self) -> None:
        """End it and its children."""
        if not self._is_gone:
            self.kill()


class Mailroom:
    """Workers and a beat, ended with the block at the latest, and the tasks for a producer."""

    def __init__(self, setup: Setup, directory: Path) -> None:
        self.setup = setup
        self._directory = directory
        self._started: list[Process] = []
        self._app, self.tasks = make_app(setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._started:
            process.end()
        for tasks in self.tasks.values():
            tasks.digests.close()
        self._app.close()

    def start_worker(self, *, concurrency: int = 2) -> Process:
        name = f"worker{len(self._started)}"
        quickly = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        options = ("-n", f"{name}@test", "-c", str(concurrency), "-l", "INFO", *quickly)
        return self._start(Process(self.setup, self._directory, name, READY, "worker", *options))

    def start_beat(self) -> Process:
        options = ("-s", str(self._directory / "schedule"), "-l", "INFO", "--pidfile=")
        return self._start(Process(self.setup, self._directory, "beat", BEAT_READY, "beat", *options))

    def _start(self, process: Process) -> Process:
        self._started.append(process)
        return process

    @property
    def workers(self) -> list[Process]:
        """Those that have not been killed."""
        return [process for process in self._started if process.is_worker and process.is_alive]

    def unacknowledged(self) -> list[str]:
        """The tasks that the broker would give to another worker."""
        with self._app.connection_for_read() as connection:
            return [task.decode() for task in connection.default_channel.client.hvals("unacked")]

    def is_empty(self) -> bool:
        """True if nothing is left in the stores."""
        return all(tasks.digests.backlog().timelines == 0 for tasks in self.tasks.values())
