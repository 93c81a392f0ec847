"""The systems that are compared: what each is installed from, when its messages are due, what it keeps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bench._peers import install
from bench._peers.install import Runtime
from bench._peers.servers import ALERTMANAGER

AOF = "append-only file, synced each second"
COMMIT = "synced at each commit"
FIRST_AT_ONCE = "the first event at once, then a cool-down of 1 s, 0.1 s more for each event, at most 6 s"


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A system in the comparison."""

    name: str
    server: str  # of servers.KINDS
    program: str  # a module of Python, or a file of Node.js
    runtime: Callable[[], Runtime]
    durability: str
    rule: str  # when a message is due
    keeps: Literal["all", "last"] = "all"  # of the events that it accepted
    batches: str = ""  # its call for many events, if it has one
    note: str = ""


def digestif(store: str, server: str, durability: str) -> Peer:
    return Peer(
        name=f"Digestif, {store}",
        server=server,
        program="bench._peers.programs.digestif",
        runtime=install.own,
        durability=durability,
        rule=FIRST_AT_ONCE,
        batches="`add_many`",
    )


PEERS = [
    digestif("SQLite", "sqlite", COMMIT),
    digestif("Valkey", "redis", AOF),
    digestif("PostgreSQL", "postgres", COMMIT),
    Peer(
        name="origin's layout",
        server="redis",
        program="bench._peers.programs.origin",
        runtime=install.own,
        durability=AOF,
        rule=FIRST_AT_ONCE,
        batches="a pipeline of its script",
        note="Written anew from its description, without a task queue: one thread delivers, a digest at a time, where "
        "it had several tasks. It closes a digest before it is sent, so a kill in between loses it.",
    ),
    Peer(
        name="BullMQ debounce",
        server="redis",
        program="bullmq.mjs",
        runtime=partial(install.from_npm, "bullmq", "latest", beside=("ioredis",)),
        durability=AOF,
        rule="1 s after the last event",
        keeps="last",
        batches="`addBulk`",
        note="An event that comes while the job of its timeline waits for a worker, or runs, is left out: so the last "
        "one may be missing.",
    ),
    Peer(
        name="Alertmanager",
        server="alertmanager",
        program="bench._peers.programs.alertmanager",
        runtime=partial(install.from_apt, ALERTMANAGER),
        durability="none: alerts are in memory",
        rule="`group_wait` and `group_interval` of 1 s",
        batches="one post",
        note="Each message carries all alerts of its group again. The senders it is made for repeat an alert until it "
        "is resolved, which makes up for a kill; here each is sent once, as an event is.",
    ),
    Peer(
        name="graphile-worker array",
        server="postgres",
        program="graphile.mjs",
        runtime=partial(install.from_npm, "graphile-worker", "latest", beside=("pg",)),
        durability=COMMIT,
        rule="1 s after the first event (`preserve_run_at`)",
        batches="`addJobs`, one array for each timeline",
        note="A job that ran when its worker was killed stays locked for four hours.",
    ),
    Peer(
        name="pg-boss debounce",
        server="postgres",
        program="pgboss.mjs",
        runtime=partial(install.from_npm, "pg-boss", "latest", "12.30"),
        durability=COMMIT,
        rule="one job in the current slot of 1 s, one in the next",
        note="Further events of the two slots are refused. It looks for jobs every 0.5 s, the least that it allows.",
    ),
    Peer(
        name="celery-batches",
        server="redis",
        program="bench._peers.programs.celery_batches_peer",
        runtime=partial(install.from_pip, "celery-batches", "celery", "redis", "hiredis", "packaging"),
        durability=AOF,
        rule="every 1 s, all that a worker has collected",
        note="Collected in a worker's memory; after a kill the broker gives it out again once its visibility time-out, "
        "an hour, is over.",
    ),
    Peer(
        name="Huey and a list",
        server="redis",
        program="bench._peers.programs.huey_peer",
        runtime=partial(install.from_pip, "huey", "redis", "hiredis"),
        durability=AOF,
        rule="1 s after the first event",
        batches="a pipeline",
        note="A list in Redis for each timeline, a flag, and a task that empties it. A task that is lost with its "
        "worker leaves the flag set. The scheduler looks every second, the least that it allows.",
    ),
    Peer(
        name="DBOS debouncer",
        server="postgres",
        program="bench._peers.programs.dbos_peer",
        runtime=partial(install.from_pip, "dbos"),
        durability=COMMIT,
        rule="1 s after the last event, at most 6 s after the first",
        keeps="last",
    ),
]
