"""celery-batches: a task that gets the calls of a second together; they are sorted by timeline here."""

import json
import sys
from collections import defaultdict
from typing import Any

from celery import Celery, signals
from celery_batches import Batches

from bench._peers.producing import Producer, obey
from bench._peers.readiness import tell_ready
from bench._peers.sink import Sink

SETTINGS: dict[str, Any] = json.loads(sys.argv[2])
PROCESSES = 2

app = Celery("mail", broker=SETTINGS["url"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,  # otherwise a batch that has begun is lost with its process
    worker_prefetch_multiplier=0,  # as its documentation asks: a worker takes as much as it can get
    broker_pool_limit=32,
    worker_redirect_stdouts=False,
)


@app.task(base=Batches, flush_every=10_000, flush_interval=SETTINGS["delay"])  # type: ignore[untyped-decorator]
def mail(requests: list[Any]) -> None:
    """One message for each timeline among the calls; due a second after its first call."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for request in requests:
        timeline, value = request.args
        found[timeline].append(value)
    sink = Sink(SETTINGS["sink"])
    for values in found.values():
        first = min(value["sent"] for value in values) / 1000
        sink.note((value["id"] for value in values), due=first + SETTINGS["delay"])


class Caller(Producer):
    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        mail.apply_async((timeline, value))
        return True


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def tell(**_: object) -> None:
    tell_ready()


if __name__ == "__main__":
    if sys.argv[1] == "producer":
        obey(Caller(), SETTINGS["events"])
    else:
        app.worker_main(["worker", f"--concurrency={PROCESSES}", "--without-gossip", "--without-mingle", "-l", "ERROR"])
