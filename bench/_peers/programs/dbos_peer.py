"""DBOS: its debouncer starts a workflow with the last arguments, after a second of silence, at most after six."""

import json
import sys
from threading import Event
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig, DebouncerClient, EnqueueOptions

from bench._peers.producing import Producer, obey
from bench._peers.readiness import tell_ready
from bench._peers.sink import Sink

SETTINGS: dict[str, Any] = json.loads(sys.argv[2])
NAME = "mail"


class Caller(Producer):
    """A program outside of the application, which talks to its database."""

    def __init__(self) -> None:
        client = DBOSClient(system_database_url=SETTINGS["url"], system_database_pool_size=20)
        options: EnqueueOptions = {"workflow_name": NAME, "queue_name": NAME}
        self._debouncer = DebouncerClient(client, options, debounce_timeout_sec=6 * SETTINGS["delay"], queue=NAME)

    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        self._debouncer.debounce(timeline, SETTINGS["delay"], value)
        return True


def deliver() -> None:
    sink = Sink(SETTINGS["sink"])
    config: DBOSConfig = {"name": NAME, "system_database_url": SETTINGS["url"], "log_level": "ERROR"}
    DBOS(config=config)

    @DBOS.workflow(name=NAME)  # type: ignore[untyped-decorator]
    def mail(value: dict[str, Any]) -> None:
        sink.note([value["id"]], due=value["sent"] / 1000 + SETTINGS["delay"])

    DBOS.launch()
    DBOS.register_queue(NAME, polling_interval_sec=SETTINGS["poll"])
    tell_ready()
    Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "producer":
        obey(Caller(), SETTINGS["events"])
    else:
        deliver()
