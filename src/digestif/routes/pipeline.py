"""The pipeline: a digest is weeded, split among recipients, composed, rendered, and handed to the channel."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from digestif.clock import wall_clock
from digestif.compose.grouping import summarize
from digestif.compose.rendering import Rendered, TemplateFailed
from digestif.compose.summary import Summary
from digestif.core.records import Digest, Record
from digestif.core.texts import shortened
from digestif.core.times import to_seconds
from digestif.core.verdicts import DeliveryFailed, Discard
from digestif.delivery.channel import Channel, Format, Message
from digestif.errors import ConfigError, StaleLease
from digestif.reading import Errand
from digestif.routes.budget import Spending
from digestif.routes.route import Route, kept_keys
from digestif.stores.base import PAGE_RECORDS


class Pipeline:
    """Delivers the digests of one route, many at once, on any event loop."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self._renderer = route.renderer()
        self._spending = None if route.budget is None else Spending(route.budget)
        self._channels: WeakKeyDictionary[asyncio.AbstractEventLoop, Channel] = WeakKeyDictionary()

    async def __call__(self, errand: Errand) -> None:
        """Deliver a digest. Raises what the policy's rules understand: DeliveryFailed, Discard, or any other error."""
        errand = await self._weeded(errand)
        shares = await self._shares(errand)
        served = await _served(errand)
        failures = []
        for recipient, records in shares.items():
            if recipient in served:
                continue
            try:
                await self._send(errand, recipient, records)
            except DeliveryFailed as failure:
                failures.append(failure)
        if failures:
            raise _summed_up(failures, len(shares))

    async def close(self) -> None:
        """Let go of the connections of this event loop, and of the processes that render."""
        channel = self._channels.pop(asyncio.get_running_loop(), None)
        if channel is not None:
            await channel.close()
        self._renderer.close()

    # What is still wanted, and by whom

    async def _weeded(self, errand: Errand) -> Errand:
        """Without the records that the `keep` hook does not want; they count as deleted."""
        if self.route.keep is None:
            return errand
        records = errand.digest.records
        keys = kept_keys(records, await _called(self.route.keep, list(records)))
        return await _without(errand, [record.key for record in records if record.key not in keys], "keep")

    async def _shares(self, errand: Errand) -> Mapping[str, Sequence[Record]]:
        digest = errand.digest
        if self.route.split is None:
            return {self.route.recipient(digest.timeline): digest.records}
        shares = await _called(self.route.split, digest)
        if not isinstance(shares, Mapping) or not all(isinstance(name, str) and name for name in shares):
            raise ConfigError(f"split: gave {shortened(shares)}, not a mapping from recipients to records")
        wanted = {name: list(records) for name, records in shares.items() if records}
        if not wanted:
            raise Discard("split left no recipient")
        return wanted

    # One message

    async def _send(self, errand: Errand, recipient: str, records: Sequence[Record]) -> None:
        wait = self._spending.wait(recipient) if self._spending else 0.0
        if wait:
            raise DeliveryFailed(f"the budget of {recipient!r} is spent", after=wait, throttled=True)
        channel = self._channel()
        message = await self._message(errand, recipient, records, channel)
        await channel.deliver(message)
        if self.route.split is not None and errand.attempt is not None and errand.desk is not None:
            lease, desk = errand.attempt.lease, errand.desk
            await asyncio.to_thread(lambda: desk.store.serve(lease, [recipient], now=desk.now()))

    def _channel(self) -> Channel:
        loop = asyncio.get_running_loop()
        if loop not in self._channels:
            self._channels[loop] = self.route.open_channel()
        return self._channels[loop]

    async def _message(self, errand: Errand, recipient: str, records: Sequence[Record], channel: Channel) -> Message:
        route, digest = self.route, errand.digest
        part = digest if route.split is None else replace(digest, records=tuple(records))
        summary = summarize(part, group_by=route.group_by, distinct=route.distinct, top=route.top)
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
        cool_down = None if errand.attempt is None else to_seconds(errand.attempt.cool_down)

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
            return render() if self._renderer.in_process else await asyncio.to_thread(render)
        except TemplateFailed as error:
            raise DeliveryFailed(f"the template {self.route.template!r} failed: {error}") from error


async def _called(hook: Any, argument: object) -> Any:
    """Hooks that are functions run in a thread: they may ask a database."""
    if inspect.iscoroutinefunction(hook):
        return await hook(argument)
    answer = await asyncio.to_thread(hook, argument)
    return await answer if inspect.isawaitable(answer) else answer


async def _without(errand: Errand, keys: Sequence[str], word: str) -> Errand:
    """The errand without these records, which leave the store's digest, too."""
    digest = errand.digest
    if len(keys) == len(digest.records):
        raise Discard(f"{word} left no record")
    revision = await asyncio.to_thread(_withdraw, errand, keys) if keys else digest.revision
    gone = set(keys)
    rest = tuple(record for record in digest.records if record.key not in gone)
    return errand._replace(digest=replace(digest, records=rest, revision=revision))


def _withdraw(errand: Errand, keys: Sequence[str]) -> int:
    if errand.attempt is None or errand.desk is None:
        return errand.digest.revision
    lease, desk = errand.attempt.lease, errand.desk
    revision = errand.digest.revision
    for start in range(0, len(keys), PAGE_RECORDS):
        answer = desk.store.withdraw(lease, keys[start : start + PAGE_RECORDS], now=desk.now())
        if answer is None:
            raise StaleLease(f"{lease.timeline!r}: the lease lapsed or was lost; nothing was sent")
        revision = answer
    return revision


async def _served(errand: Errand) -> frozenset[str]:
    """Who has got this digest in an earlier attempt."""
    attempt, desk = errand.attempt, errand.desk
    if attempt is None or desk is None or attempt.lease.attempt == 1:
        return frozenset()
    slot = await asyncio.to_thread(desk.store.inspect, attempt.lease.timeline)
    return frozenset(slot.digest.served if slot.digest is not None else ())


def _summed_up(failures: Sequence[DeliveryFailed], recipients: int) -> DeliveryFailed:
    """What the failures of several recipients mean for the digest: it comes again if it may help one of them."""
    if recipients == 1:
        return failures[0]
    again = [failure for failure in failures if failure.retry]
    throttled = bool(again) and all(failure.throttled for failure in again)
    waits = [failure.after for failure in again if failure.after is not None]
    reason = f"{len(failures)} of {recipients} recipients: {failures[0]}"
    return DeliveryFailed(reason, retry=bool(again), after=max(waits, default=None), throttled=throttled)


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
