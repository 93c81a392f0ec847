"""The pipeline: a digest is weeded, split among recipients, composed, rendered, and handed to the channel."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from digestif.clock import wall_clock
from digestif.compose.grouping import Grouping
from digestif.compose.rendering import Rendered, TemplateFailed
from digestif.compose.summary import Summary
from digestif.core.machine import LOST
from digestif.core.records import Digest, Record
from digestif.core.texts import reason_of
from digestif.core.times import to_seconds
from digestif.core.verdicts import DeliveryFailed, Discard
from digestif.delivery.channel import Channel, Format, Message
from digestif.errors import StaleLease, StoreError
from digestif.reading import Attempt, Errand
from digestif.routes.background import BACKGROUND
from digestif.routes.budget import Account
from digestif.routes.route import Route, check_recipients, kept_keys
from digestif.stores.base import PAGE_RECORDS
from digestif.threads import DaemonThreads


class Room:
    """What a route needs on one event loop. Threads of its own: no slow hook or template holds up another route."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.hooks = DaemonThreads(16, "digestif-hook")
        self.templates = DaemonThreads(2, "digestif-template")
        self.store = DaemonThreads(4, "digestif-route")

    async def close(self) -> None:
        await self.channel.close()
        for threads in (self.hooks, self.templates, self.store):
            threads.shutdown()


class Pipeline:
    """Delivers the digests of one route, many at once, on any event loop."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self._renderer = route.renderer()
        self._grouping = Grouping(group_by=route.group_by, distinct=route.distinct, top=route.top)
        self._account = None if route.budget is None else Account(route.budget, route.pattern)
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, Room] = WeakKeyDictionary()

    async def __call__(self, errand: Errand) -> None:
        """Deliver a digest. Raises what the policy's rules understand: DeliveryFailed, Discard, or any other error."""
        errand = await self._weeded(errand)
        if self.route.split is None:
            await self._send(errand, self.route.recipient(errand.digest.timeline), errand.digest.records)
        else:
            await self._send_shares(errand, await self._shares(errand))

    async def _send_shares(self, errand: Errand, shares: Mapping[str, Sequence[Record]]) -> None:
        """Serve those who were not served yet. Who can't be reached does not keep the others waiting."""
        served = await self._room.store.run(lambda: _served(errand))
        failures = {name: _GIVEN_UP for name in shares if LOST + name in served}
        for recipient, records in shares.items():
            if recipient in served or recipient in failures:
                continue
            try:
                await self._send(errand, recipient, records)
            except (StaleLease, StoreError):
                raise
            except Exception as error:  # noqa: BLE001  # of one recipient, whatever it is
                failure = error if isinstance(error, DeliveryFailed) else DeliveryFailed(reason_of(error))
                failures[recipient] = failure
            await self._room.store.run(partial(_note, errand, recipient, failures.get(recipient)))
        if failures:
            raise _summed_up(failures, len(shares))

    def wait(self, errand: Errand) -> None:
        """Deliver a digest for somebody who has no event loop."""
        BACKGROUND.run(self, lambda: self(errand))

    async def close(self) -> None:
        """Let go of the connections of this event loop, and of the processes that render."""
        room = self._rooms.pop(asyncio.get_running_loop(), None)
        if room is not None:
            await room.close()
        self._renderer.close()

    # What is still wanted, and by whom

    async def _weeded(self, errand: Errand) -> Errand:
        """Without the records that the `keep` hook does not want; they count as deleted."""
        if self.route.keep is None:
            return errand
        records = errand.digest.records
        keys = kept_keys(records, await self._called(self.route.keep, list(records)))
        return await self._without(errand, [record.key for record in records if record.key not in keys], "keep")

    async def _shares(self, errand: Errand) -> Mapping[str, Sequence[Record]]:
        assert self.route.split is not None
        wanted = check_recipients(await self._called(self.route.split, errand.digest))
        if not wanted:
            raise Discard("split left no recipient")
        return wanted

    async def _called(self, hook: Any, argument: object) -> Any:
        """Hooks that are functions run in a thread: they may ask a database."""
        if inspect.iscoroutinefunction(hook):
            return await hook(argument)
        answer = await self._room.hooks.run(lambda: hook(argument))
        return await answer if inspect.isawaitable(answer) else answer

    async def _without(self, errand: Errand, keys: Sequence[str], word: str) -> Errand:
        """The errand without these records, which leave the store's digest, too."""
        digest = errand.digest
        if len(keys) == len(digest.records):
            raise Discard(f"{word} left no record")
        revision = await self._room.store.run(lambda: _withdraw(errand, keys)) if keys else digest.revision
        gone = set(keys)
        rest = tuple(record for record in digest.records if record.key not in gone)
        return errand._replace(digest=replace(digest, records=rest, revision=revision))

    # One message

    async def _send(self, errand: Errand, recipient: str, records: Sequence[Record]) -> None:
        channel = self._room.channel
        message = await self._message(errand, recipient, records, channel)
        async with self._paid(errand, recipient):
            await channel.deliver(message)

    @asynccontextmanager
    async def _paid(self, errand: Errand, recipient: str) -> AsyncIterator[None]:
        """Pay for a message out of the budget, unless it is not sent."""
        account, desk, digest = self._account, errand.desk, errand.digest.id
        if account is None or desk is None:
            yield
            return
        try:
            wait = await self._room.store.run(lambda: account.spend(desk, recipient, digest))
        except StoreError as error:  # of another partition, maybe: no reason to bury anything
            raise DeliveryFailed(f"the budget of {recipient!r} can't be read: {error}", throttled=True) from error
        if wait:
            raise DeliveryFailed(f"the budget of {recipient!r} is spent", after=wait, throttled=True)
        try:
            yield
        except Exception:
            with suppress(StoreError):
                await self._room.store.run(lambda: account.give_back(desk, recipient, digest))
            raise

    @property
    def _room(self) -> Room:
        loop = asyncio.get_running_loop()
        if loop not in self._rooms:
            self._rooms[loop] = Room(self.route.open_channel())
        return self._rooms[loop]

    async def _message(self, errand: Errand, recipient: str, records: Sequence[Record], channel: Channel) -> Message:
        route, digest = self.route, errand.digest
        part = digest if route.split is None else replace(digest, records=tuple(records))
        summary = self._grouping.summarize(part)
        links = route.links_for(digest.timeline, recipient)
        rendered = await self._rendered(errand, summary, recipient, links, channel)
        key = digest.idempotency_key
        return Message(
            key=key if route.split is None else f"{key}.{recipient}",
            timeline=digest.timeline,
            recipient=recipient,
            subject=rendered.subject,
            text=rendered.text,
            html=rendered.html,
            markdown=rendered.markdown,
            blocks=rendered.blocks,
            data=_data(part, summary) if Format.DATA in channel.formats else {},
            links=links,
            attempt=digest.attempt,
            timestamp=_time(errand),
        )

    async def _rendered(
        self, errand: Errand, summary: Summary, recipient: str, links: Mapping[str, str], channel: Channel
    ) -> Rendered:
        attempt = errand.attempt
        is_known = attempt is not None and attempt.policy.max_records is None  # a crowd may come before
        cool_down = to_seconds(attempt.cool_down) if attempt is not None and is_known else None

        def render() -> Rendered:
            return self._renderer.render(
                summary,
                formats=channel.formats,
                next_delivery=None if cool_down is None else _time(errand) + cool_down,
                links=links,
                zone=self.route.zone_of(recipient),
                title=self.route.title,
            )

        try:
            return render() if self._renderer.in_process else await self._room.templates.run(render)
        except TemplateFailed as error:
            raise DeliveryFailed(f"the template {self.route.template or 'default'!r} failed: {error}") from error


def _withdraw(errand: Errand, keys: Sequence[str]) -> int:
    if errand.attempt is None or errand.desk is None:
        return errand.digest.revision
    lease, desk = errand.attempt.lease, errand.desk
    revision = errand.digest.revision
    for start in range(0, len(keys), PAGE_RECORDS):
        answer = desk.store.withdraw(lease, keys[start : start + PAGE_RECORDS], now=desk.now())
        if answer is None:
            raise _stale(errand.attempt)
        revision = answer
    return revision


def _served(errand: Errand) -> frozenset[str]:
    """Who has got this digest in an earlier attempt, and who never can."""
    attempt, desk = errand.attempt, errand.desk
    if attempt is None or desk is None:
        return frozenset()
    slot = desk.store.inspect(attempt.lease.timeline)
    if slot.digest is None or slot.token != attempt.lease.token:
        raise _stale(attempt)
    return frozenset(slot.digest.served)


def _note(errand: Errand, recipient: str, failure: DeliveryFailed | None) -> None:
    """Who has got it, or never will, is not asked again."""
    attempt, desk = errand.attempt, errand.desk
    if attempt is None or desk is None or (failure is not None and failure.retry):
        return
    name = recipient if failure is None else LOST + recipient
    if not desk.store.serve(attempt.lease, [name], now=desk.now()):
        raise _stale(attempt)


def _stale(attempt: Attempt) -> StaleLease:
    return StaleLease(f"{attempt.lease.timeline!r}: the lease lapsed or was lost; somebody else goes on")


_GIVEN_UP = DeliveryFailed("could not be reached in an earlier attempt", retry=False)


def _summed_up(failures: Mapping[str, DeliveryFailed], recipients: int) -> DeliveryFailed:
    """What failures of recipients mean for the digest: it comes again as long as that may help one of them."""
    again = [failure for failure in failures.values() if failure.retry]
    counted = [failure for failure in again if not failure.throttled]
    name, first = next(iter(failures.items()))
    reason = f"{len(failures)} of {recipients} recipients, such as {name!r}: {first}"
    waits = [failure.after for failure in counted or again]
    after = None if None in waits else min(waits, default=None)  # type: ignore[type-var]  # there is no None in it
    return DeliveryFailed(reason, retry=bool(again), after=after, throttled=bool(again) and not counted)


def _time(errand: Errand) -> float:
    at = None if errand.desk is None else errand.desk.now()
    return wall_clock() if at is None else to_seconds(at)


def _data(digest: Digest, summary: Summary) -> dict[str, Any]:
    """What programs are told."""
    return {
        "digest": digest.id,
        "revision": digest.revision,
        "attempt": digest.attempt,
        "count": summary.count,
        "dropped": digest.dropped,
        "records": [{"key": key, "value": value, "timestamp": timestamp} for key, value, timestamp in digest.records],
        "summary": summary.to_dict(),
    }
