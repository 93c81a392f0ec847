"""Attacks of one tenant on another: what a token for `a:` can learn of `b:`, and push out, from `digestif serve`.

Each takes less than a minute: `./dev torture -k attack_tenants -rP` prints what was learned.
"""

import base64
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import NamedTuple

import pytest

from digestif import Digests, Policy
from digestif.ids import fresh_id
from digestif.testing.servers import RedisServer
from tests.service.dashboard.visitor import Visitor
from tests.service.harness import Client, token_of
from tests.service.programs import started

NAMES = 120  # timelines of b
GUESSES = 123  # requests that once told all of their names
LETTERS = 60
WATCHED = 7.5  # seconds
PUSHES, PUSHED = 6, 190  # requests, and digests of each: more than a history holds
SETTINGS = """store = "{store}"
[limits]
timelines = 200
streams = 20
[policies]
later = "first=1h"
now = "minimum=0s,increment=0s,maximum=0s"
[[routes]]
pattern = "*:now:*"
channel = "file://{folder}/out"
policy = "now"
[[routes]]
pattern = "*"
channel = "file://{folder}/out"
policy = "later"
{tokens}"""


class Attack(NamedTuple):
    """A service, the attacker and the attacked."""

    a: Client
    b: Client
    operator: Client
    store: str

    def visitor(self, client: Client) -> Visitor:
        visitor = Visitor(client)
        assert client.token is not None
        visitor.log_in(client.token)
        visitor.get("/timelines")
        return visitor


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/digestif.db"
    else:
        with RedisServer() as server:
            yield server.url


@pytest.fixture(params=["sqlite", "valkey"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def attacked(kind: str, folder: Path, *options: str) -> Iterator[Attack]:
    """A service whose two tenants may do everything with their own timelines."""
    (folder / "out").mkdir()
    tokens = {name: token_of(name, prefix=prefix) for name, prefix in (("a", "a:"), ("b", "b:"), ("operator", ""))}
    tables = "".join(
        f'[[tokens]]\nname = "{each.name}"\nhash = "{each.hash}"\nscopes = ["admin"]\nprefix = "{each.prefix}"\n'
        for _, each in tokens.values()
    )
    with place(kind, folder) as store:
        (folder / "digestif.toml").write_text(SETTINGS.format(store=store, folder=folder, tokens=tables))
        with started(folder, "--config", "digestif.toml", *options) as (_, client):
            a, b, operator = (client.by(token) for token, _ in tokens.values())
            yield Attack(a, b, operator, store)


@pytest.fixture
def attack(kind: str, tmp_path: Path) -> Iterator[Attack]:
    with attacked(kind, tmp_path) as found:
        yield found


@pytest.fixture
def quiet_attack(kind: str, tmp_path: Path) -> Iterator[Attack]:
    """The same without a worker."""
    with attacked(kind, tmp_path, "--no-worker") as found:
        yield found


def show(figures: str) -> None:
    sys.stdout.write(f"{figures}\n")  # pytest -rP shows the figures


def fill(client: Client, names: list[str]) -> None:
    assert client.post("/v1/records", [{"timeline": name, "value": 1} for name in names]).status == 202


def bury(store: str, names: list[str]) -> list[str]:
    """Dead letters of these timelines: their ids."""
    with Digests(store, policy=Policy(attempts=1)) as digests:
        for name in names:
            digests.add(name, 1)
            digests.flush(name)
            with pytest.raises(RuntimeError), digests.digest(name):
                raise RuntimeError("no such mailbox")
        return [digests.dead_letters(name)[0].id for name in names]


def unpacked(text: str) -> bytes:
    """A text, and what it becomes if it is decoded again and again."""
    found = seen = text.encode()
    for _ in range(4):
        try:
            seen = base64.urlsafe_b64decode(seen + b"=" * (-len(seen) % 4))
        except ValueError:
            return found
        found += seen
    return found


def forged(*place: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def test_cursors_tell_no_name_and_no_time_of_others(attack: Attack) -> None:
    theirs = [f"b:secret-{number:03}" for number in range(NAMES)]
    fill(attack.b, theirs[: NAMES // 2])
    fill(attack.a, [f"a:{number}" for number in range(5)])
    fill(attack.b, theirs[NAMES // 2 :])
    answers, requests = [], 0

    for state in ("", "&state=waiting", "&state=ready", "&state=open", "&state=idle"):
        after: str | None = ""
        while after is not None and requests < GUESSES:
            reply = attack.a.get(f"/v1/timelines?limit=1{state}{'&after=' if after else ''}{after}")
            answers.append(reply.body.decode())
            requests, after = requests + 1, reply.json()["after"]
            answers.append(unpacked(after or "").decode("latin-1"))
    now = int(time.time() * 1000)
    for number in range(GUESSES - requests):
        given = forged("waiting", now + 40_000 * number, "b:") if number % 2 else forged(None, f"b:{number}")
        reply = attack.a.get(f"/v1/timelines?state=waiting&limit=1&after={given}")
        requests += 1
        answers.append(reply.body.decode())
        assert reply.status == 422

    told = "".join(answers)
    names = sum(name in told for name in theirs)
    show(f"names of others: {names} of {NAMES} in {requests} requests")
    assert names == 0
    own = pages_of(attack.a, "/v1/timelines?limit=2&state=waiting")
    assert own == 3  # as many as five timelines fill, whatever lies between


def pages_of(client: Client, path: str) -> int:
    pages = 0
    after: str | None = ""
    while after is not None:
        after = client.get(f"{path}{'&after=' if after else ''}{after}").json()["after"]
        pages += 1
    return pages


def test_ids_of_others_are_like_ids_that_do_not_exist(quiet_attack: Attack) -> None:
    attack = quiet_attack
    theirs = bury(attack.store, [f"b:{number}" for number in range(LETTERS)])
    own = bury(attack.store, ["a:1"])
    listed = attack.a.get("/v1/dead-letters?limit=1")
    visitor = attack.visitor(attack.a)
    took: dict[str, list[float]] = {"foreign": [], "missing": []}
    answers: dict[str, set[tuple[int, bytes]]] = {"foreign": set(), "missing": set()}

    for real, guess in zip(theirs, (fresh_id() for _ in theirs), strict=True):
        for kind, each in (("foreign", real), ("missing", guess)):
            for method, act in (("GET", ""), ("POST", "/replay"), ("POST", "/requeue"), ("DELETE", "")):
                began = time.perf_counter()
                reply = attack.a.send(method, f"/v1/dead-letters/{each}{act}")
                took[kind].append(time.perf_counter() - began)
                answers[kind].add((reply.status, reply.body.replace(each.encode(), b"")))
            message = attack.a.get(f"/v1/digests/{each}/message")
            page = visitor.get(f"/dead-letter?id={each}")
            answers[kind] |= {(reply.status, reply.body.replace(each.encode(), b"")) for reply in (message, page)}

    foreign, missing = (statistics.median(took[kind]) * 1000 for kind in ("foreign", "missing"))
    show(f"{LETTERS} foreign ids: told apart 0; median {foreign:.2f} ms, of ids that do not exist {missing:.2f} ms")
    assert answers["foreign"] == answers["missing"]
    assert {status for status, _ in answers["foreign"]} == {404}
    assert max(foreign, missing) < 3 * min(foreign, missing) + 2
    assert [each["id"] for each in listed.json()["dead_letters"]] == own
    assert listed.json()["after"] is None
    assert attack.operator.get("/v1/audit").json()["entries"] == []


@contextmanager
def live(attack: Attack, visitor: Visitor) -> Iterator[tuple[HTTPConnection, HTTPResponse]]:
    connection = attack.a.connect()
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
    connection.request("GET", "/live", headers={"Cookie": cookie})
    with closing(connection):
        yield connection, connection.getresponse()


def changes_in(attack: Attack, seconds: float, *, busy: bool) -> int:
    """How often the open page of `a` is told to look again, while `b` is busy or not."""
    changes, ends = 0, time.monotonic() + seconds
    with live(attack, attack.visitor(attack.a)) as (connection, stream), ThreadPoolExecutor(1) as threads:
        acting = threads.submit(act_until, attack.b, ends) if busy else None
        while (left := ends - time.monotonic()) > 0:
            assert connection.sock is not None or stream.fp is not None
            if connection.sock is not None:
                connection.sock.settimeout(max(0.1, left))
            try:
                changes += stream.readline() == b"event: changed\n"
            except TimeoutError:
                break
        if acting is not None:
            acting.result()
    return changes


def act_until(client: Client, ends: float) -> None:
    number = 0
    while time.monotonic() < ends:
        client.add(f"b:now:{number % 50}", number)
        number += 1


def test_open_pages_do_not_tell_when_others_are_active(attack: Attack) -> None:
    quiet, busy = (changes_in(attack, WATCHED, busy=busy) for busy in (False, True))

    show(f"messages of /live in {WATCHED:.0f} s: {quiet} while others are quiet, {busy} while they are busy")
    assert abs(quiet - busy) <= 1


def test_one_tenant_takes_no_streams_and_no_timelines_of_another(attack: Attack) -> None:
    with ExitStack() as stack:
        visitors = [attack.visitor(client) for client in (attack.a, attack.b)]
        statuses = [stack.enter_context(live(attack, visitors[0]))[1].status for _ in range(30)]
        other = stack.enter_context(live(attack, visitors[1]))[1].status
    fill(attack.b, [f"b:{number}" for number in range(150)])
    added = [attack.a.add(f"a:{number}", 1) for number in range(210)]
    refused = [reply for reply in added if reply.status == 507]

    show(
        f"streams: {statuses.count(200)} of 30 for one token, another gets {other}; new timelines: {210 - len(refused)}"
    )
    assert (statuses.count(200), statuses.count(429), other) == (20, 10, 200)
    assert len(refused) == 10
    assert not any(re.search(r"\d", reply.json()["detail"]) for reply in refused)
    assert attack.b.add("b:new", 1).status == 202


def test_one_tenant_pushes_nothing_of_another_out(attack: Attack) -> None:
    """More digests than a history holds, and policies of 8 MiB in the audit log."""
    once = {"Idempotency-Key": "theirs"}
    first = attack.b.post("/v1/timelines/b:now:1/records", {"value": 1, "key": "r"}, headers=once)
    attack.b.send("PUT", "/v1/timelines/b%3A1/policy", {"policy": "minimum=1m"})
    becomes_delivered(attack.operator)

    blanks = {"policy": "minimum=1m" + " " * ((8 << 20) - 40)}
    policies = [attack.a.send("PUT", "/v1/timelines/a%3A1/policy", blanks).status for _ in range(2)]
    for number in range(PUSHES):
        records = [{"timeline": f"a:now:{each}", "value": number} for each in range(PUSHED)]
        assert attack.a.post("/v1/records", records, headers={"Idempotency-Key": str(number)}).status == 202
        becomes_delivered(attack.operator)

    history = attack.b.get("/v1/digests").json()["digests"]
    again = attack.b.post("/v1/timelines/b:now:1/records", {"value": 1, "key": "r"}, headers=once)
    [sighting] = attack.b.get("/v1/timelines/b:now:1/trace/r").json()["sightings"]
    audit = {each["who"] for each in attack.operator.get("/v1/audit?limit=200").json()["entries"]}
    show(f"{PUSHES * PUSHED} digests and 2 long policies: the other still has {len(history)} of its 1 digest")
    assert set(policies) == {422}
    assert [each["timeline"] for each in history] == ["b:now:1"]
    assert (again.body, again.headers.get("idempotent-replayed")) == (first.body, "true")
    assert (sighting["fate"], sighting["certain"]) == ("delivered", True)
    assert audit == {"b"}


def becomes_delivered(operator: Client) -> None:
    ends = time.monotonic() + 30
    while (ledger := operator.get("/v1/ledger").json())["pending"] + ledger["open"]:
        assert time.monotonic() < ends
        time.sleep(0.1)  # a worker of another process delivers
