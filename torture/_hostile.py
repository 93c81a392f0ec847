"""Hostile callers of a service, by what they hold: nothing, or a token of one of four kinds.

Each attack is one step that ends within seconds; callers choose steps at random until their time is over.
"""

import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from digestif.ids import fresh_id

STEP_SECONDS = 5.0  # for one answer
PAUSE = 0.02  # seconds between two steps of a caller
CALLERS = 2  # of each kind, side by side
NICENESS = 10  # so that the service is measured, not the callers' share of the machine
MIB = 1 << 20


class Target(NamedTuple):
    """A service, and the token of a caller."""

    port: int
    token: str | None
    chance: random.Random

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        """Send a request and read its answer; the status."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            given.setdefault("Authorization", f"Bearer {self.token}")
        connection = HTTPConnection("127.0.0.1", self.port, timeout=STEP_SECONDS)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def post(self, path: str, body: bytes, **headers: str) -> int:
        return self.send("POST", path, body, **{"Content_Type": "application/json", **headers})

    def add(self, value: bytes, timeline: str | None = None, **headers: str) -> int:
        name = timeline or f"evil:{self.chance.randrange(50)}"
        return self.post(f"/v1/timelines/{name}/records", b'{"value":%b}' % value, **headers)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=STEP_SECONDS)

    def head(self, *lines: str, path: str = "/v1/records") -> bytes:
        own = [] if self.token is None else [f"Authorization: Bearer {self.token}"]
        return "\r\n".join([f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *own, *lines, "", ""]).encode()


Attack = Callable[[Target], object]


def many(unit: bytes, size: int) -> bytes:
    """A list of one value again and again, of about this size."""
    return b"[" + b",".join([unit] * (size // (len(unit) + 1))) + b"]"


# without a token


def endless_trailer(target: Target) -> None:
    with target.raw() as wire:
        wire.sendall(target.head("Transfer-Encoding: chunked", "Content-Type: application/json"))
        wire.sendall(b"2\r\n[]\r\n0\r\nX: ")
        for _ in range(200):
            wire.sendall(b"x" * 4096)


def single_bytes(target: Target) -> None:
    with target.raw() as wire:
        wire.sendall(target.head("Transfer-Encoding: chunked", "Content-Type: application/json"))
        for _ in range(500):
            wire.sendall(b"1\r\n \r\n")


def idle_connections(target: Target) -> None:
    wires = [target.raw() for _ in range(300)]
    time.sleep(1.0)
    for wire in wires:
        wire.close()


def slow_heads(target: Target) -> None:
    wires = [target.raw() for _ in range(100)]
    for letter in b"GET /healthz":
        for wire in wires:
            wire.sendall(bytes([letter]))
        time.sleep(0.1)
    for wire in wires:
        wire.close()


def foreign_hosts(target: Target) -> None:
    for _ in range(20):
        target.send("GET", "/healthz", Host=fresh_id() * 200)


def wrong_tokens(target: Target) -> None:
    for _ in range(20):
        target.send("GET", "/v1/timelines", Authorization=f"Bearer dgf_{fresh_id()}")


def large_body_of_a_stranger(target: Target) -> None:
    target.post("/v1/records", b" " * (8 * MIB))


def log_ins(target: Target) -> None:
    for _ in range(10):
        target.send(
            "POST", "/log-in", b"token=" + fresh_id().encode(), Content_Type="application/x-www-form-urlencoded"
        )


# with a token that adds


def numbers(target: Target) -> None:
    target.add(many(b"1e308", 8 * MIB - 100))


def small_numbers(target: Target) -> None:
    target.add(many(b"1e308", 100 << 10))


def empty_lists(target: Target) -> None:
    target.add(many(b"[]", 8 * MIB - 100))


def objects(target: Target) -> None:
    target.add(many(b'{"a":1}', 250 << 10))


def line_breaks(target: Target) -> None:
    target.post("/v1/records", b"\n" * (8 * MIB), Content_Type="application/x-ndjson")


def short_lines(target: Target) -> None:
    target.post("/v1/records", b"{}\n" * (8 * MIB // 3), Content_Type="application/x-ndjson")


def escaped_names(target: Target) -> None:
    target.add(many(b'{"\\u003a":1}', 8 * MIB - 100))


def half_character(target: Target) -> None:
    target.add(b'"' + b"\\n" * (4 * MIB - 100) + b'\\ud800"')


def many_records(target: Target) -> None:
    record = {"timeline": f"evil:{target.chance.randrange(50)}", "value": "x" * 1000}
    target.post("/v1/records", json.dumps([record] * 1000).encode())


def large_records(target: Target) -> None:
    record = {"timeline": f"evil:{target.chance.randrange(50)}", "value": "x" * (250 << 10)}
    target.post("/v1/records", json.dumps([record] * 32).encode())


def new_timelines(target: Target) -> None:
    records = [{"timeline": f"evil:{fresh_id()}", "value": 1} for _ in range(500)]
    target.post("/v1/records", json.dumps(records).encode())


def many_keys(target: Target) -> None:
    for _ in range(20):
        target.add(b"1", Idempotency_Key=fresh_id())


def unfinished_bodies(target: Target) -> None:
    wires = []
    for _ in range(20):
        wire = target.raw()
        wires.append(wire)
        wire.sendall(target.head(f"Content-Length: {8 * MIB}", "Content-Type: application/json"))
        with suppress(OSError):
            wire.sendall(b" " * (7 * MIB))
    time.sleep(0.5)
    for wire in wires:
        wire.close()


# with a token that reads


def pages(target: Target) -> None:
    for path in ("/v1/timelines?limit=1000", "/v1/digests?limit=1000", "/v1/dead-letters?limit=1000"):
        target.send("GET", path)


def records(target: Target) -> None:
    timeline = target.chance.randrange(50)
    for part in ("records?limit=1", "records?limit=1000", "explain", "preview", "records/none"):
        target.send("GET", f"/v1/timelines/evil:{timeline}/{part}")


def foreign_timelines(target: Target) -> None:
    for part in ("", "/records", "/explain"):
        target.send("GET", f"/v1/timelines/good:0{part}")


def forged_cursors(target: Target) -> None:
    for path in ("timelines", "dead-letters"):
        target.send("GET", f"/v1/{path}?after={fresh_id() * target.chance.randrange(1, 50)}")


# with a token that changes


def blank_policies(target: Target) -> None:
    text = json.dumps({"policy": " " * (8 * MIB - 100) + "immediate"}).encode()
    target.send(
        "PUT", f"/v1/timelines/evil:{target.chance.randrange(50)}/policy", text, Content_Type="application/json"
    )


def long_zones(target: Target) -> None:
    text = json.dumps({"cadence": "daily", "zone": "/" * 5000}).encode()
    target.send("PUT", "/v1/timelines/evil:1/preference", text, Content_Type="application/json")


def changes(target: Target) -> None:
    timeline = target.chance.randrange(50)
    for part in ("flush", "pause", "resume"):
        target.send("POST", f"/v1/timelines/evil:{timeline}/{part}")
    target.send("DELETE", f"/v1/timelines/evil:{timeline}")


# with a token that reads everything


def streams(target: Target) -> None:
    wires = []
    for _ in range(50):
        wire = target.raw()
        wires.append(wire)
        own = f"Authorization: Bearer {target.token}"
        wire.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{own}\r\n\r\n".encode())
    time.sleep(1.0)
    for wire in wires:
        wire.close()


def figures(target: Target) -> None:
    for path in ("/v1/ledger", "/v1/status", "/metrics", "/v1/digests?limit=1000", "/v1/audit?limit=1000"):
        target.send("GET", path)


STRANGER: list[Attack] = [
    endless_trailer,
    single_bytes,
    idle_connections,
    slow_heads,
    foreign_hosts,
    wrong_tokens,
    large_body_of_a_stranger,
    log_ins,
]
INGEST: list[Attack] = [
    numbers,
    small_numbers,
    empty_lists,
    objects,
    line_breaks,
    short_lines,
    escaped_names,
    half_character,
    many_records,
    large_records,
    new_timelines,
    many_keys,
    unfinished_bodies,
]
READ: list[Attack] = [pages, records, foreign_timelines, forged_cursors]
ADMIN: list[Attack] = [blank_policies, long_zones, changes, *READ]
WHOLE: list[Attack] = [streams, figures, *READ]
ATTACKS = {"": STRANGER, "ingest": INGEST, "read": READ, "admin": ADMIN, "whole": WHOLE}


class Callers:
    """Callers of all kinds, each in a thread."""

    def __init__(self, port: int, tokens: dict[str, str], *, seed: int) -> None:
        self._port, self._tokens, self._seed = port, tokens, seed
        self.steps: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()  # the service ended the connection, or took too long

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        callers = [(kind, number) for kind in ATTACKS for number in range(CALLERS)]
        threads = [threading.Thread(target=self._call, args=(*caller, end), daemon=True) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _call(self, kind: str, number: int, end: float) -> None:
        chance = random.Random(f"{self._seed} {kind} {number}")
        target = Target(self._port, self._tokens.get(kind), chance)
        while time.monotonic() < end:
            attack = chance.choice(ATTACKS[kind])
            name = attack.__name__
            try:
                attack(target)
                self.steps[name] += 1
            except (OSError, HTTPException):
                self.failed[name] += 1
            time.sleep(PAUSE)


class Receiver(BaseHTTPRequestHandler):
    """Takes the digests of hostile timelines, and answers some of them with an error."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(random.choice((204, 204, 204, 500)))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quietly."""


def main() -> None:
    """Call a service at a port for some seconds, with a seed and tokens; take its digests at another port."""
    port, seconds, seed, own_port = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[5])
    os.nice(NICENESS)
    threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", own_port), Receiver).serve_forever, daemon=True).start()
    callers = Callers(port, json.loads(sys.argv[4]), seed=seed)
    callers.run(seconds)
    sys.stdout.write(json.dumps({"steps": callers.steps, "failed": callers.failed}))


if __name__ == "__main__":
    main()
