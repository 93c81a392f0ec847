"""Roles of a storm that deliver: workers whose handlers fail, hang and end their process, and a dispatcher."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress

from digestif import (
    DeliveryFailed,
    Digest,
    Digests,
    Discard,
    InvalidState,
    RetryLater,
    StaleLease,
    Unavailable,
    Worker,
    run,
)
from digestif.clock import wall_clock
from torture._storm.actor import Actor, ids_of
from torture._storm.scene import LEASE, family_of

POLL = 0.2
CHANNEL = "post"


class Deliverer(Actor):
    """A process that delivers digests, by handlers or by `digest()`."""

    def send(self, digest: Digest) -> None:
        """Note the digest as sent, and now and then end the process just after, as a kill would."""
        if self.chance(0.03):
            raise ConnectionError("the receiver does not answer")
        if self.chance(0.0003):
            self.notes.note("gone", "before sending")
            os._exit(0)
        if digest:
            self.notes.note("sent", digest.idempotency_key, ids_of(digest))
        if self.chance(0.0003):
            self.notes.note("gone", "after sending")
            os._exit(0)

    def post(self, digest: Digest) -> None:
        """Send by the channel: it refuses messages before they go out, or never answers."""
        if self.weather.refuses(self.random):
            self.notes.note("refused")
            raise Unavailable("the post office is closed")
        if self.weather.is_silent(self.random):
            if self.chance(0.5):
                self.send(digest)
            failure = self.random.choice([Unavailable, DeliveryFailed])
            raise failure("no answer", unknown=True, after=0.5)
        self.send(digest)

    def deliver(self, digests: Digests, timeline: str) -> None:
        """Deliver by `digest()`."""
        expected = (InvalidState, StaleLease, ConnectionError, SystemExit, DeliveryFailed)
        with suppress(*expected), digests.digest(timeline) as digest:
            self.pause(0.01)
            if family_of(timeline) == CHANNEL:
                self.post(digest)
            else:
                self.send(digest)
            if self.chance(0.01):
                raise SystemExit  # it may have gone out or not
            if self.chance(0.002):
                self.wait(2 * LEASE)


class WorkerRole(Deliverer):
    """Runs a worker for each store that is served."""

    def play(self) -> None:
        with self.served() as engines:
            for digests in engines:
                self._register(digests)
            run(*[Worker(digests, threads=4, poll=POLL) for digests in engines])

    def _register(self, digests: Digests) -> None:
        digests.handler("*")(self._handle)
        digests.handler("batch:*", batch=5)(lambda several: [self._outcome(digest) for digest in several])
        digests.handler("post:*", channel=CHANNEL)(self.post)

        @digests.handler("coroutine:*")
        async def coroutine(digest: Digest) -> None:
            await asyncio.sleep(self.random.uniform(0, 0.02))
            self.send(digest)

        @digests.handler("bad:*")
        def bad(digest: Digest) -> None:
            if self.chance(0.7):
                raise DeliveryFailed("not here", retry=self.chance(0.8), after=0.05)
            self._handle(digest)

        @digests.handler("gone:*")
        def gone(digest: Digest) -> None:
            if self.chance(0.05):
                self.notes.note("discard", ids_of(digest))
                raise Discard
            self._handle(digest)

    def _handle(self, digest: Digest) -> None:
        self.pause(0.01)
        if self.chance(0.03):
            raise self.random.choice([ConnectionError, RetryLater, SystemExit])
        self.send(digest)
        if self.chance(0.002):
            self.wait(2 * LEASE)  # the lease is renewed in the background

    def _outcome(self, digest: Digest) -> Exception | None:
        try:
            self.send(digest)
        except ConnectionError as error:
            return error
        return None


class Dispatcher(Deliverer):
    """Schedules and delivers, as a program with a task queue of its own; some dispatches get lost."""

    def play(self) -> None:
        with self.served() as engines:

            def tick() -> Iterator[None]:
                while True:
                    for digests in engines:
                        self._tick(digests)
                    yield

            self.in_threads(tick, tick)

    def _tick(self, digests: Digests) -> None:
        if self.chance(0.1):
            digests.maintenance(wall_clock() - LEASE)
        for entry in digests.schedule(page=5):
            if self.chance(0.9):
                self.deliver(digests, entry.key)
            if self.chance(0.2):
                break
