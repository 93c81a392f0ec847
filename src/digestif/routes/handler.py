"""The handler of a route: it removes unwanted records, splits the digest by recipient, renders it and sends it."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from digestif.attempts.delivery import Delivery
from digestif.channels.base import Channel, Format, Message, Receipt
from digestif.compose.brand import brand_of
from digestif.compose.renderer import Rendered, TemplateFailed
from digestif.compose.summary import Summary
from digestif.core.hooks import accepted
from digestif.core.machine import Slot
from digestif.core.records import Digest, Record
from digestif.core.sightings import NONE_KEPT
from digestif.core.texts import reason_of
from digestif.core.verdicts import DeliveryFailed, Discard, Unavailable, UnexpectedFailure
from digestif.errors import StaleLease, StoreError
from digestif.routes.archive import MessageArchive
from digestif.routes.budget import Account
from digestif.routes.route import (
    RecordsOf,
    Route,
    check_links,
    check_recipient,
    check_recipients,
    kept_keys,
    prepared_records,
)
from digestif.threads import DaemonThreads

T = TypeVar("T")

SOON = 120.0  # seconds
PAUSED = 600.0  # seconds between two looks at a paused timeline of the same reader


class Resources:
    """A route's channel and threads on one event loop. Routes share no threads: a slow hook delays only its route."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.hooks = DaemonThreads(16, "digestif-hook")
        self.templates = DaemonThreads(2, "digestif-template")
        self.store = DaemonThreads(4, "digestif-route")

    async def close(self) -> None:
        await self.channel.close()
        for threads in (self.hooks, self.templates, self.store):
            threads.shutdown()


class RouteHandler:
    """Delivers the digests of one route. Many deliveries may run at once, on any event loop."""

    def __init__(self, route: Route, archive: MessageArchive | None = None) -> None:
        self.route = route
        self._archive = archive
        self._renderer = route.renderer()
        self._grouping = route.grouping()
        self._sender = brand_of(route.brand).name
        self._account = None if route.budget is None else Account(route.budget, route.pattern)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Resources] = WeakKeyDictionary()

    async def __call__(self, delivery: Delivery) -> None:
        """Deliver a digest. Raises DeliveryFailed, Discard, or what a hook raised."""
        delivery.answered = False
        await self._remove_unwanted(delivery)
        prepared = await self._prepared(delivery)
        if self.route.split is not None:
            await self._send_shares(delivery, _prepared_shares(await self._shares(delivery), prepared))
        elif prepared is None or prepared:  # if there is nothing to show, nothing is sent
            recipient = await self._recipient(delivery)
            await self._send(delivery, recipient, delivery.digest.records if prepared is None else prepared)

    async def _recipient(self, delivery: Delivery) -> str:
        """The recipient in normal form, if the reader wants it.

        Raises Discard if the timeline of a normal form is switched off, and DeliveryFailed while that is paused:
        another spelling reaches the same reader.
        """
        asked = await self._asked(self.route.to, lambda: self.route.recipient(delivery.timeline))
        recipient = check_recipient(asked)
        forms = self._resources.channel.normal_forms(recipient)
        for form in forms:
            name = self.route.timeline_of(form, beside=delivery.timeline) if form != recipient else None
            if name is not None:
                _refuse_unwanted(name, await self._resources.store.run(partial(delivery.slot_of, name)))
        return recipient if recipient in forms else forms[0]

    async def _send_shares(self, delivery: Delivery, shares: Mapping[str, Sequence[Record]]) -> None:
        """Send to the recipients that were not served yet. The failure of one does not stop the others.

        A channel that is unavailable does: nothing would get through.
        """
        served = await self._resources.store.run(delivery.served)
        recipients = self._spellings(shares)
        failures = {
            recipient: _GIVEN_UP for recipient, names in recipients.items() if not served.unreachable.isdisjoint(names)
        }
        discards: list[Discard] = []
        for recipient, spellings in recipients.items():
            names = [name for name in spellings if name not in served.reached]
            if not names or recipient in failures:
                continue
            try:
                await self._send(delivery, recipient, _merged(delivery.digest, [shares[name] for name in names]))
            except (StaleLease, StoreError):
                raise
            except Discard as discard:  # by a hook, for this recipient
                discards.append(discard)
            except Exception as error:  # noqa: BLE001  # whatever it is, it concerns one recipient
                failures[recipient] = _failure_of(error)
                if isinstance(error, Unavailable):
                    break
            await self._mark(delivery, names, failures.get(recipient))
        if failures:
            raise _summed_up(failures, len(recipients)) from _first_unexpected(failures)
        if len(discards) == len(recipients) > 0:
            raise min(discards, key=lambda discard: discard.delete)  # deletes only if every recipient is gone

    def _spellings(self, shares: Iterable[str]) -> dict[str, list[str]]:
        """Return the recipients in normal form, each with the names that the shares have for that recipient."""
        channel, found = self._resources.channel, dict[str, list[str]]()
        for name in shares:
            found.setdefault(channel.normal_forms(name)[0], []).append(name)
        return found

    async def _mark(self, delivery: Delivery, names: Sequence[str], failure: DeliveryFailed | None) -> None:
        """Note a recipient that has the message or can never get it: the next attempt leaves that one out.

        It is noted by the names that `split` gave, each of which stands for a share.
        """
        if failure is None or not failure.retry:
            await self._resources.store.run(partial(delivery.mark_served, *names, reached=failure is None))

    async def close(self) -> None:
        """Close the connections of this event loop, and end the processes that render."""
        resources = self._by_loop.pop(asyncio.get_running_loop(), None)
        if resources is not None:
            await resources.close()
        self._renderer.close()

    # Hooks

    async def _remove_unwanted(self, delivery: Delivery) -> None:
        """Remove the records that the `keep` hook does not want; they count as deleted.

        What may have been sent is settled: without some of its records it would go out under another key.
        """
        if self.route.keep is None or delivery.is_frozen:
            return
        records = delivery.digest.records
        kept = kept_keys(records, await self._records_of(self.route.keep, delivery))
        unwanted = [record.key for record in records if record.key not in kept]
        if len(unwanted) == len(records):
            raise Discard(NONE_KEPT)
        if unwanted:
            await self._resources.store.run(lambda: delivery.remove(unwanted))

    async def _prepared(self, delivery: Delivery) -> list[Record] | None:
        """The records as the `prepare` hook shows them; None without a hook."""
        if self.route.prepare is None:
            return None
        return prepared_records(delivery.digest.records, await self._records_of(self.route.prepare, delivery))

    async def _shares(self, delivery: Delivery) -> Mapping[str, Sequence[Record]]:
        assert self.route.split is not None
        wanted = check_recipients(delivery.digest.records, await self._called(self.route.split, delivery.digest))
        if not wanted:
            raise Discard("split left no recipient")
        return wanted

    async def _records_of(self, hook: RecordsOf, delivery: Delivery) -> Any:
        return await self._called(hook, *accepted(hook, list(delivery.digest.records), delivery.timeline))

    async def _asked(self, option: object, ask: Callable[[], T]) -> T:
        """What an option says about a reader. If it is a function, that is called like a hook."""
        return await self._called(ask) if callable(option) else ask()

    async def _called(self, hook: Any, *arguments: object) -> Any:
        """The answer of a hook. Plain functions run in a thread: they may ask a database.

        What a hook can't reach is not the channel: then only this digest is put off.
        """
        try:
            if inspect.iscoroutinefunction(hook):
                return await hook(*arguments)
            answer = await self._resources.hooks.run(lambda: hook(*arguments))
            return await answer if inspect.isawaitable(answer) else answer
        except Unavailable as error:
            raise DeliveryFailed(f"a hook: {error}", throttled=True, after=error.after) from error

    # One message

    async def _send(self, delivery: Delivery, recipient: str, records: Sequence[Record]) -> None:
        channel = self._resources.channel
        message = await self._message(delivery, recipient, records, channel)
        async with self._paid(delivery, recipient):
            receipt = await self._deliver(delivery, channel, message)
        if isinstance(receipt, Receipt):  # a channel of another package may answer anything
            delivery.receipts += (receipt.line,)
        await self._keep_sent(delivery, message, channel)

    async def _keep_sent(self, delivery: Delivery, message: Message, channel: Channel) -> None:
        """Keep the message if people want to look at it. It was sent: nothing that fails here concerns the delivery."""
        archive = self._archive
        if archive is None or archive.bounds is None:
            return
        options: dict[str, Any] = {"channel": channel.scheme, "split": self.route.split is not None}
        with suppress(Exception):
            now = delivery.held.time()
            await self._resources.store.run(lambda: archive.keep(delivery.digest, message, now=now, **options))

    async def _deliver(self, delivery: Delivery, channel: Channel, message: Message) -> Receipt:
        try:
            receipt = await channel.deliver(message)
        except DeliveryFailed as failed:
            delivery.answered = delivery.answered or not (failed.unknown or isinstance(failed, Unavailable))
            raise
        delivery.answered = True
        return receipt

    @asynccontextmanager
    async def _paid(self, delivery: Delivery, recipient: str) -> AsyncIterator[None]:
        """Enter a message in the budget before it is sent; remove it again if sending fails."""
        account = self._account
        if account is None:
            yield
            return
        try:
            wait = await self._resources.store.run(lambda: account.spend(delivery, recipient))
        except StoreError as error:  # maybe of another partition only: throttled, so that nothing is buried
            raise DeliveryFailed(f"the budget of {recipient!r} can't be read: {error}", throttled=True) from error
        if wait:
            raise DeliveryFailed(f"the budget of {recipient!r} is spent", after=wait, throttled=True)
        try:
            yield
        except Exception:
            with suppress(StoreError):
                await self._resources.store.run(lambda: account.give_back(delivery, recipient))
            raise

    @property
    def _resources(self) -> Resources:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = Resources(self.route.open_channel())
        return self._by_loop[loop]

    async def _message(
        self, delivery: Delivery, recipient: str, records: Sequence[Record], channel: Channel
    ) -> Message:
        route, digest = self.route, delivery.digest
        part = replace(digest, records=tuple(records))
        summary = await self._summary(part)
        links = check_links(await self._asked(route.links, lambda: route.links_for(digest.timeline, recipient)))
        rendered = await self._rendered(delivery, summary, recipient, links, channel)
        key = digest.idempotency_key
        return Message(
            key=key if route.split is None else f"{key}.{recipient}",
            timeline=digest.timeline,
            recipient=recipient,
            sender=self._sender,
            subject=rendered.subject,
            text=rendered.text,
            html=rendered.html,
            markdown=rendered.markdown,
            blocks=rendered.blocks,
            data=_data(part, summary) if Format.DATA in channel.formats else {},
            links=links,
            attempt=digest.attempt,
            timestamp=delivery.held.time(),
        )

    async def _summary(self, digest: Digest) -> Summary:
        draft = self._grouping.draft(digest)
        if not callable(self.route.weight):
            return draft.summary()
        return draft.weighed(await self._called(self.route.weight, draft.subjects))

    async def _rendered(
        self, delivery: Delivery, summary: Summary, recipient: str, links: Mapping[str, str], channel: Channel
    ) -> Rendered:
        route, next_delivery = self.route, _next_delivery(delivery)
        zone = await self._zone(delivery, recipient)
        wording = await self._asked(route.wording, lambda: route.wording_for(recipient, timeline=delivery.timeline))

        def render() -> Rendered:
            return self._renderer.render(
                summary,
                formats=channel.formats,
                next_delivery=next_delivery,
                links=links,
                zone=zone,
                title=route.title_for(delivery.timeline, recipient),
                wording=wording,
                reason=route.reason_for(delivery.timeline, recipient, wording),
                policy=route.gathering(delivery.policy),
            )

        try:
            return render() if self._renderer.in_process else await self._resources.templates.run(render)
        except TemplateFailed as error:
            raise DeliveryFailed(f"the template {route.template or 'default'!r} failed: {error}") from error

    async def _zone(self, delivery: Delivery, recipient: str) -> str:
        route, policy = self.route, delivery.policy

        def zone() -> str:
            return route.zone_of(recipient, timeline=delivery.timeline, policy=policy, chosen=delivery.chosen_zone)

        asks_window = route.zone is None and policy.window is not None and policy.window.holds_callable
        return await (self._called(zone) if asks_window else self._asked(route.zone, zone))


def _refuse_unwanted(timeline: str, slot: Slot) -> None:
    """Raise if nothing may reach the reader of a timeline who is also that of the digest."""
    if slot.override is not None and slot.override.off:
        raise Discard(f"{timeline!r} has the same reader, and is off")
    if slot.paused:
        raise DeliveryFailed(f"{timeline!r} has the same reader, and is paused", throttled=True, after=PAUSED)


def _next_delivery(delivery: Delivery) -> float | None:
    """When the next message may come; None if that is so soon that it may be past when this one is read."""
    at = delivery.next_delivery()
    return None if at is None or at - delivery.held.time() < SOON else at


def _prepared_shares(
    shares: Mapping[str, Sequence[Record]], prepared: list[Record] | None
) -> Mapping[str, Sequence[Record]]:
    """Each recipient's records as the `prepare` hook shows them. Recipients of no record get no message."""
    if prepared is None:
        return shares
    by_key = {record.key: record for record in prepared}
    shown = {
        name: [by_key[record.key] for record in records if record.key in by_key] for name, records in shares.items()
    }
    return {name: records for name, records in shown.items() if records}


def _merged(digest: Digest, shares: Sequence[Sequence[Record]]) -> Sequence[Record]:
    """Return the records of all shares, in the order of the digest and each once."""
    if len(shares) == 1:
        return shares[0]
    by_key = {record.key: record for share in shares for record in share}
    return [by_key[record.key] for record in digest.records if record.key in by_key]


_GIVEN_UP = DeliveryFailed("could not be reached in an earlier attempt", retry=False)


def _failure_of(error: Exception) -> DeliveryFailed:
    if isinstance(error, DeliveryFailed):
        return error
    failure = UnexpectedFailure(reason_of(error))
    failure.__cause__ = error
    return failure


def _first_unexpected(failures: Mapping[str, DeliveryFailed]) -> BaseException | None:
    return next((each.__cause__ for each in failures.values() if isinstance(each, UnexpectedFailure)), None)


def _summed_up(failures: Mapping[str, DeliveryFailed], recipients: int) -> DeliveryFailed:
    """One failure for the whole digest. It is worth a retry if that may help at least one recipient."""
    again = [failure for failure in failures.values() if failure.retry]
    counted = [failure for failure in again if not failure.throttled]
    name, first = next(iter(failures.items()))
    reason = f"{len(failures)} of {recipients} recipients, such as {name!r}: {first}"
    unknown = any(failure.unknown for failure in failures.values())
    for failure in failures.values():
        if isinstance(failure, Unavailable):
            return Unavailable(str(failure), channel=failure.channel, after=failure.after, unknown=unknown)
    waits = [failure.after for failure in counted or again]
    after = None if None in waits else min(waits, default=None)  # type: ignore[type-var]  # there is no None in it
    kind = DeliveryFailed if _first_unexpected(failures) is None else UnexpectedFailure
    return kind(reason, retry=bool(again), after=after, throttled=bool(again) and not counted, unknown=unknown)


def _data(digest: Digest, summary: Summary) -> dict[str, Any]:
    """The digest as values for programs."""
    return {
        "digest": digest.id,
        "revision": digest.revision,
        "attempt": digest.attempt,
        "count": summary.count,
        "dropped": digest.dropped,
        "records": [{"key": key, "value": value, "timestamp": timestamp} for key, value, timestamp in digest.records],
        "summary": summary.to_dict(),
    }
