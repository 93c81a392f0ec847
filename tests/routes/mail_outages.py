"""Readers, workers and a mail server that goes away, under a clock that is given: what every reader gets in the end."""

import asyncio
import email
import email.policy
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from digestif import Digests, Policy, Worker
from tests.channels.gate import Gate, gate_to
from tests.channels.mailserver import MailServer, running_mail_server

T = 1_700_000_000.0
MINUTE = 60.0
READERS = tuple(f"mail:reader{number}@example.org" for number in range(10))
DAY = 86_400.0


class Mail(NamedTuple):
    """What arrived."""

    to: str
    id: str
    records: tuple[str, ...]  # as far as the text shows them


class World:
    """Two workers over one store, ten readers, and a mail server behind a gate."""

    def __init__(self, workers: list[Digests], server: MailServer, gate: Gate) -> None:
        self.workers = workers
        self.server = server
        self.gate = gate
        self.now = T
        self.added = 0

    @property
    def digests(self) -> Digests:
        return self.workers[0]

    def add_events(self) -> None:
        """One event for each reader."""
        for reader in READERS:
            self.digests.add(reader, {"title": f"event-{self.added}"}, key=f"event-{self.added}", now=self.now)
        self.added += 1

    def live(self, seconds: float, *, events: bool = True) -> None:
        """Let time pass: an event a minute, and the workers look in turn whenever something is due."""
        end = self.now + seconds
        next_event = self.now
        turn = 0
        while self.now < end:
            if events and self.now >= next_event:
                self.add_events()
                next_event += MINUTE
            turn += 1
            self.work(self.workers[turn % 2])
            self.now = min(end, next_event if events else end, max(self.now + 0.5, self._next_due()))

    def work(self, digests: Digests) -> None:
        while asyncio.run(Worker(digests).run_once(self.now)):
            pass

    def _next_due(self) -> float:
        due = self.digests.backlog(now=self.now).next_due
        return self.now + DAY if due is None else due

    def mails(self) -> list[Mail]:
        return [mail_of(body) for body in self.server.mails]


@contextmanager
def living(
    store: str, *, login: str = "", policy: Callable[[], Policy] = Policy, **server_options: bool
) -> Iterator[World]:
    with ExitStack() as opened:
        server = opened.enter_context(running_mail_server(**server_options))
        gate = opened.enter_context(gate_to(server.port))
        workers = []
        for _ in range(2):
            digests = opened.enter_context(Digests(store, policy=policy()))
            digests.route("mail:*", channel=server.dsn("&timeout=2", login=login, port=gate.port), group_by=["title"])
            workers.append(digests)
        yield World(workers, server, gate)


def mail_of(body: bytes) -> Mail:
    mail = email.message_from_bytes(body, policy=email.policy.default)
    text = mail.get_body(("plain",))
    assert text is not None
    records = tuple(sorted(set(re.findall(r"event-\d+", f"{mail['Subject']} {text.get_content()}"))))
    return Mail(str(mail["To"]), str(mail["Message-ID"]), records)


def mails_by_reader(world: World) -> Counter[str]:
    return Counter(f"mail:{mail.to}" for mail in world.mails())
