"""Claims of tests: those of a worker whose policies hold nothing back."""

from collections.abc import Callable

from digestif import Policy
from digestif.attempts.admission import Admissions
from digestif.attempts.claims import ClaimedLeases, Claims
from digestif.attempts.handlers import Handlers
from digestif.attempts.outages import Outages
from digestif.core.times import Millis
from digestif.events.base import Events
from digestif.intake.policies import Policies
from digestif.stores.base import Lease, Store

Now = Callable[[], Millis | None]


def claim(store: Store, limit: int, *, lease: Millis, now: Now, events: Events) -> ClaimedLeases:
    return _claims(store, lease=lease, now=now, events=events).claim(limit)


def claim_suspects(store: Store, *, size: int = 8, alone: bool, lease: Millis, now: Now, events: Events) -> list[Lease]:
    return _claims(store, lease=lease, now=now, events=events).claim_suspects(size, alone=alone)


def _claims(store: Store, *, lease: Millis, now: Now, events: Events) -> Claims:
    outages = Outages(store, handlers=Handlers(), events=events)
    return Claims(store, Admissions(Policies(Policy()), outages), lease=lease, now=now, events=events)
