"""How the service stands: channels, workers, the store and its ledger, changes made by people."""

import shlex
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from digestif.core.failures import FailedAttempt
from digestif.core.ledger import FATES
from digestif.core.outages import ChannelOutage
from digestif.core.records import HistoryEntry, Outcome
from digestif.core.workers import policy_conflicts
from digestif.dsn import redacted
from digestif.service.config import DEFAULT_STORE, defaults
from digestif.service.dashboard.visits import Visit
from digestif.service.security.audit import audit_entries
from digestif.service.settings import RouteSettings

CHANGES = 50  # of the audit log
ENDED = 100  # digests by which channels are judged
UP, FAILING, NOT_TRIED, NOT_LATELY = "up", "failing", "not tried yet", "no recent delivery"
ROUTE = """\
[[routes]]
pattern = "*"
channel = "terminal://"
policy = "minimum=5m,maximum=30m\""""


class Channel(Struct, frozen=True):
    """A route, the outage of its channel if there is one, and how its latest deliveries went."""

    pattern: str
    name: str  # as in outages, logs and metrics
    policy: str | None
    outage: ChannelOutage | None
    known: str  # up, failing, not tried yet, no recent delivery

    @property
    def standing(self) -> str:
        return self.known if self.outage is None else standing_of(self.outage)


def standing_of(outage: ChannelOutage) -> str:
    return "coming back" if outage.next_probe is None else "down"


async def channels(visit: Visit) -> Response:
    outages = await visit.digests.outages()
    ended, failures = await visit.digests.history(limit=ENDED), await visit.digests.failures()
    shown = channels_of(visit, outages, ended, failures)
    own = {channel.outage.channel for channel in shown if channel.outage is not None}
    others = [(outage, standing_of(outage)) for outage in outages if outage.channel not in own]
    workers = await visit.digests.workers()
    return visit.render("channels.html", channels=shown, others=others, workers=workers, **first_route(visit))


def channels_of(
    visit: Visit,
    outages: Sequence[ChannelOutage],
    ended: Sequence[HistoryEntry],
    failures: Sequence[FailedAttempt],
) -> list[Channel]:
    """The channels of the routes, those that are down first. `ended` are the latest `ENDED` digests."""
    names = {handler.pattern: handler.channel_of("") for handler in visit.digests.engine.handlers}
    known = _deliveries(visit, ended, failures)
    unknown = NOT_TRIED if len(ended) < ENDED else NOT_LATELY
    found = [
        Channel(
            route.pattern,
            names.get(route.pattern, ""),
            _policy(route),
            next((each for each in outages if route.pattern in each.patterns), None),
            known.get(route.pattern, unknown),
        )
        for route in visit.service.settings.routes
    ]
    return sorted(found, key=lambda channel: channel.outage is None)


def _deliveries(visit: Visit, ended: Sequence[HistoryEntry], failures: Sequence[FailedAttempt]) -> dict[str, str]:
    """Say by pattern whether its channel took a digest, or all that is known are failures."""
    tried = [(entry.timeline, entry.outcome) for entry in ended if entry.outcome in (Outcome.DELIVERED, Outcome.DEAD)]
    tried += [(failure.timeline, Outcome.DEAD) for failure in failures]
    find, found = visit.digests.engine.handlers.find, dict[str, str]()
    for timeline, outcome in tried:
        handler = find(timeline)
        if handler is not None and found.get(handler.pattern) != UP:
            found[handler.pattern] = UP if outcome is Outcome.DELIVERED else FAILING
    return found


def _policy(route: RouteSettings) -> str | None:
    policy = route.options.get("policy")
    return None if policy is None else str(policy)


def first_route(visit: Visit) -> dict[str, Any]:
    """What a page needs to say that there is no route, and which lines make one."""
    settings = visit.service.settings
    has_file = settings.source is not None and Path(settings.source).is_file()
    is_default = not has_file and settings.store.reveal() == defaults({}).store.reveal()
    return {
        "has_routes": bool(visit.digests.engine.handlers),
        "has_file": has_file,
        "route_lines": f'store = "{DEFAULT_STORE}"\n\n{ROUTE}' if is_default else ROUTE,
    }


async def workers(visit: Visit) -> Response:
    command = f"digestif worker --config {shlex.quote(visit.service.settings.source or 'digestif.toml')}"
    found = await visit.digests.workers()
    conflicts = await visit.service.beside(partial(policy_conflicts, found))
    return visit.render("workers.html", workers=found, conflicts=conflicts, command=command, **first_route(visit))


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
