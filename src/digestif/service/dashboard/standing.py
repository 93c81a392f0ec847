"""How the service stands: channels, workers, the store and its ledger, changes made by people."""

from collections.abc import Sequence
from importlib.metadata import version

from msgspec import Struct
from starlette.responses import Response

from digestif.core.ledger import FATES
from digestif.core.outages import ChannelOutage
from digestif.dsn import redacted
from digestif.service.dashboard.visits import Visit
from digestif.service.security.audit import audit_entries
from digestif.service.settings import RouteSettings

CHANGES = 50  # of the audit log


class Channel(Struct, frozen=True):
    """A route, and the outage of its channel if there is one."""

    pattern: str
    name: str  # as in outages, logs and metrics
    policy: str | None
    outage: ChannelOutage | None


async def channels(visit: Visit) -> Response:
    outages = await visit.digests.outages()
    shown = channels_of(visit, outages)
    own = {channel.outage.channel for channel in shown if channel.outage is not None}
    others = [outage for outage in outages if outage.channel not in own]
    return visit.render("channels.html", channels=shown, others=others)


def channels_of(visit: Visit, outages: Sequence[ChannelOutage]) -> list[Channel]:
    """The channels of the routes, those that are down first."""
    names = {handler.pattern: handler.channel_of("") for handler in visit.digests.attempts().handlers}
    found = [_channel(route, names.get(route.pattern, ""), outages) for route in visit.service.settings.routes]
    return sorted(found, key=lambda channel: channel.outage is None)


def _channel(route: RouteSettings, name: str, outages: Sequence[ChannelOutage]) -> Channel:
    outage = next((each for each in outages if route.pattern in each.patterns), None)
    policy = route.options.get("policy")
    return Channel(route.pattern, name, None if policy is None else str(policy), outage)


async def workers(visit: Visit) -> Response:
    return visit.render("workers.html", workers=await visit.digests.workers())


async def status(visit: Visit) -> Response:
    ledger, overview = await visit.digests.ledger(), await visit.digests.overview()
    return visit.render(
        "status.html",
        version=version("digestif"),
        settings=visit.service.settings,
        store=redacted(visit.service.settings.store.reveal()),
        ledger=ledger,
        fates=[(fate, getattr(ledger, fate)) for fate in FATES],
        backlog=overview.backlog,
        at_least=overview.at_least,
        changes=[entry for _, entry in await audit_entries(visit.service, limit=CHANGES)],
    )
