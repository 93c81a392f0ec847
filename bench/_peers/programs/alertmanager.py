"""Alertmanager: the producer posts alerts, the worker is the receiver of its webhooks."""

import json
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import local
from typing import Any

from bench._peers.producing import Event, Producer, obey
from bench._peers.readiness import tell_ready
from bench._peers.sink import Sink
from bench._serve_load import Connection
from bench._serve_subjects import request


class Caller(Producer):
    """Posts to the API, one kept connection for each thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._local = local()

    def add(self, timeline: str, value: dict[str, Any]) -> bool:
        self._post([(timeline, value)])
        return True

    def add_many(self, events: Sequence[Event]) -> None:
        self._post(events)

    def _post(self, events: Sequence[Event]) -> None:
        if not hasattr(self._local, "connection"):
            self._local.connection = Connection(self._port)
        body = [_alert(timeline, value) for timeline, value in events]
        self._local.connection.send(request("/api/v2/alerts", body, len(events)))
        while (status := self._local.connection.status()) is None:
            pass
        if status != 200:
            raise RuntimeError(f"Alertmanager answered {status}")


def _alert(timeline: str, value: dict[str, Any]) -> dict[str, Any]:
    """An alert for an event: alerts with the same labels would be one."""
    labels = {"alertname": "mail", "timeline": timeline, "id": str(value["id"])}
    return {"labels": labels, "annotations": {"sent": str(value["sent"]), "text": value["text"]}}


class Receiver(BaseHTTPRequestHandler):
    """Notes each message; it is due `delay` after the first of the alerts that are new in it."""

    protocol_version = "HTTP/1.1"
    sink: Sink
    delay: float
    seen: set[int]

    def do_POST(self) -> None:
        alerts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"]
        sent = {int(one["labels"]["id"]): int(one["annotations"]["sent"]) / 1000 for one in alerts}
        new = [at for number, at in sent.items() if number not in self.seen]
        self.seen.update(sent)
        self.sink.note(sent, due=min(new) + self.delay if new else None)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    if sys.argv[1] == "producer":
        obey(Caller(options["port"]), options["events"])
    else:
        Receiver.sink, Receiver.delay, Receiver.seen = Sink(options["sink"]), options["delay"], set()
        server = ThreadingHTTPServer(("127.0.0.1", options["receiver"]), Receiver)
        tell_ready()
        server.serve_forever()
